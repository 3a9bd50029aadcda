//! Tags of blobs, and the expressions that choose blobs by them.
//!
//! ```text
//! "project" = 'parshall' AND "year" >= '2026'
//! @container = 'archive' AND "state" = 'done'
//! ```
//!
//! Keys stand in double quotation marks or bare, values in single ones. Values are compared as text. `OR`, `NOT` and parentheses are
//! for conditions; the service takes `AND` alone in searches, and everything here takes all of them.

/// Keys and values, in the order of the keys.
pub type Tags = Vec<(String, String)>;

/// A condition on the tags of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagExpression(Node);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Compare { key: String, operator: Operator, value: String },
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A violation of the rules for tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TagsError {
    /// A key is empty.
    #[error("a tag has an empty key")]
    EmptyKey,
    /// A key is there twice.
    #[error("two tags have the same key")]
    DuplicateKey,
    /// There are too many tags, or one is too long.
    #[error(
        "a blob has at most {TAGS_MAX} tags, with keys of {KEY_MAX} and values of {VALUE_MAX} characters"
    )]
    TooLarge,
    /// A key or value has a character that is not allowed.
    #[error("tags have letters, digits, spaces and `+ - . / : = _`")]
    Character,
}

/// Checks tags in the order of their keys against the rules of the service.
///
/// # Errors
/// The first rule that is violated.
pub fn check_tags(tags: &[(String, String)]) -> Result<(), TagsError> {
    let is_text = |text: &str| text.chars().all(|it| it.is_ascii_alphanumeric() || " +-./:=_".contains(it));
    if tags.iter().any(|(key, _)| key.is_empty()) {
        return Err(TagsError::EmptyKey);
    }
    if tags.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err(TagsError::DuplicateKey);
    }
    if !tags.iter().all(|(key, value)| is_text(key) && is_text(value)) {
        return Err(TagsError::Character);
    }
    let is_long = |(key, value): &(String, String)| key.len() > KEY_MAX || value.len() > VALUE_MAX;
    match tags.len() > TAGS_MAX || tags.iter().any(is_long) {
        true => Err(TagsError::TooLarge),
        false => Ok(()),
    }
}

impl TagExpression {
    /// Parses an expression; `None` if it is malformed or nested too deeply.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text.trim(), depth: 0 };
        let node = parser.any()?;
        parser.rest.is_empty().then_some(Self(node))
    }

    /// Whether a blob of `container` with these tags is chosen.
    #[must_use]
    pub fn matches(&self, container: &str, tags: &[(String, String)]) -> bool {
        self.0.matches(container, tags)
    }

    /// Returns the tags that the expression names.
    #[must_use]
    pub fn named(&self, tags: &Tags) -> Tags {
        tags.iter().filter(|(key, _)| self.0.names(key)).cloned().collect()
    }
}

impl Node {
    fn names(&self, tag: &str) -> bool {
        match self {
            Self::All(nodes) | Self::Any(nodes) => nodes.iter().any(|node| node.names(tag)),
            Self::Not(node) => node.names(tag),
            Self::Compare { key, .. } => key == tag,
        }
    }

    fn matches(&self, container: &str, tags: &[(String, String)]) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(|node| node.matches(container, tags)),
            Self::Any(nodes) => nodes.iter().any(|node| node.matches(container, tags)),
            Self::Not(node) => !node.matches(container, tags),
            Self::Compare { key, operator, value } => {
                let found = match key == CONTAINER {
                    true => Some(container),
                    false => tags.iter().find(|(other, _)| other == key).map(|(_, found)| found.as_str()),
                };
                match (found, operator) {
                    (None, operator) => *operator == Operator::NotEqual,
                    (Some(found), Operator::Equal) => found == value,
                    (Some(found), Operator::NotEqual) => found != value,
                    (Some(found), Operator::Less) => found < value.as_str(),
                    (Some(found), Operator::LessOrEqual) => found <= value.as_str(),
                    (Some(found), Operator::Greater) => found > value.as_str(),
                    (Some(found), Operator::GreaterOrEqual) => found >= value.as_str(),
                }
            }
        }
    }
}

/// Reads an expression by its grammar: alternatives of conjunctions of comparisons.
struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl Parser<'_> {
    fn any(&mut self) -> Option<Node> {
        let mut nodes = vec![self.all()?];
        while self.word("or") {
            nodes.push(self.all()?);
        }
        Some(if nodes.len() == 1 { nodes.remove(0) } else { Node::Any(nodes) })
    }

    fn all(&mut self) -> Option<Node> {
        let mut nodes = vec![self.one()?];
        while self.word("and") {
            nodes.push(self.one()?);
        }
        Some(if nodes.len() == 1 { nodes.remove(0) } else { Node::All(nodes) })
    }

    fn one(&mut self) -> Option<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let node = if self.word("not") {
            Node::Not(Box::new(self.one()?))
        } else if self.symbol("(") {
            let node = self.any()?;
            self.symbol(")").then_some(node)?
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Some(node)
    }

    fn comparison(&mut self) -> Option<Node> {
        let key = self.key()?;
        let operators = [
            ("<>", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("=", Operator::Equal),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let (_, operator) = operators.into_iter().find(|(symbol, _)| self.symbol(symbol))?;
        let value = self.quoted('\'')?;
        Some(Node::Compare { key, operator, value })
    }

    fn key(&mut self) -> Option<String> {
        if self.rest.starts_with('"') {
            return self.quoted('"');
        }
        let end = self.rest.find(|it: char| !(it.is_ascii_alphanumeric() || it == '_' || it == '@'));
        let (key, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        (!key.is_empty()).then(|| key.to_owned())
    }

    fn quoted(&mut self, mark: char) -> Option<String> {
        let (text, rest) = self.rest.strip_prefix(mark)?.split_once(mark)?;
        self.rest = rest.trim_start();
        Some(text.to_owned())
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    /// Takes a keyword, which something else than a letter follows.
    fn word(&mut self, word: &str) -> bool {
        let Some((start, rest)) = self.rest.split_at_checked(word.len()) else {
            return false;
        };
        if !start.eq_ignore_ascii_case(word)
            || rest.starts_with(|it: char| it.is_ascii_alphanumeric() || it == '_')
        {
            return false;
        }
        self.rest = rest.trim_start();
        true
    }
}

/// The key that stands for the name of the container.
const CONTAINER: &str = "@container";

const TAGS_MAX: usize = 10;
const KEY_MAX: usize = 128;
const VALUE_MAX: usize = 256;

/// Parentheses and negations within one another.
const DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn expressions_choose_by_text() {
        let tags = tags(&[("project", "parshall"), ("year", "2026")]);
        for (text, expected) in [
            ("\"project\" = 'parshall'", true),
            ("project='parshall' AND \"year\" >= '2026'", true),
            ("\"year\" > '2026'", false),
            ("\"year\" < '2027' and \"year\" <> '2025'", true),
            ("\"none\" = ''", false),
            ("\"none\" <> 'x'", true),
            ("\"year\" = '1' OR \"year\" = '2026'", true),
            ("NOT (\"year\" = '2026' OR \"year\" = '2027')", false),
            ("@container = 'box' AND \"year\" = '2026'", true),
            ("@container = 'other'", false),
        ] {
            let expression = TagExpression::parse(text).unwrap();
            assert_eq!(expression.matches("box", &tags), expected, "{text}");
        }
    }

    #[test]
    fn malformed_expressions_are_refused() {
        let deep = format!("{}a='b'{}", "(".repeat(40), ")".repeat(40));
        for text in
            ["", "a", "a=", "a='b", "a=b", "a='b' AND", "a='b' c='d'", "(a='b'", "a='b')", "NOT", &deep]
        {
            assert_eq!(TagExpression::parse(text), None, "{text}");
        }
    }

    #[test]
    fn tags_have_the_bounds_of_the_service() {
        assert_eq!(check_tags(&tags(&[("a b", ""), ("c", "+-./:=_ 1")])), Ok(()));
        assert_eq!(check_tags(&tags(&[(&"k".repeat(128), &"v".repeat(256))])), Ok(()));
        for (wrong, error) in [
            (tags(&[("", "x")]), TagsError::EmptyKey),
            (tags(&[("a", "1"), ("a", "2")]), TagsError::DuplicateKey),
            (tags(&[("a", "ü")]), TagsError::Character),
            (tags(&[("a!", "x")]), TagsError::Character),
            (tags(&[(&"k".repeat(129), "")]), TagsError::TooLarge),
            (tags(&[("a", &"v".repeat(257))]), TagsError::TooLarge),
        ] {
            assert_eq!(check_tags(&wrong), Err(error), "{wrong:?}");
        }
        let many: Vec<_> = (0..11).map(|number| (format!("k{number:02}"), String::new())).collect();
        assert_eq!((check_tags(&many[..10]), check_tags(&many)), (Ok(()), Err(TagsError::TooLarge)));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(a|\"b\"|@container|'v'| |=|<|>|<>|AND|OR|NOT|\\(|\\)|\\PC){0,20}") {
            let _ = TagExpression::parse(&text);
        }
    }
}
