//! The tree of a document.

use std::fmt;

use crate::place::Place;

/// A value with its place.
#[derive(Clone)]
pub struct Node {
    /// Where the value stands; for lists and mappings, their first line.
    pub place: Place,
    /// The value.
    pub content: Content,
    /// True where a variable was filled in, whose value no message may show.
    pub(crate) filled_in: bool,
}

/// What a [`Node`] can be.
#[derive(Clone, Debug)]
pub enum Content {
    /// Nothing, or `null`.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys with their values, in the order of the file.
    Mapping(Vec<Entry>),
}

/// A key of a mapping with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_place: Place,
    /// The value.
    pub value: Node,
}

impl Node {
    pub(crate) fn new(place: Place, content: Content) -> Self {
        Self { place, content, filled_in: false }
    }

    /// The entries of a mapping; none for everything else.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match &self.content {
            Content::Mapping(entries) => entries,
            _ => &[],
        }
    }

    /// The elements of a list, or `None` for everything else.
    #[must_use]
    pub fn elements(&self) -> Option<&[Self]> {
        match &self.content {
            Content::List(elements) => Some(elements),
            _ => None,
        }
    }

    /// True unless the value is a list or a mapping.
    #[must_use]
    pub fn is_scalar(&self) -> bool {
        !matches!(self.content, Content::List(_) | Content::Mapping(_))
    }

    /// A scalar as it is written in the document, without its quotes; a list or mapping on one line.
    #[must_use]
    pub fn written(&self) -> String {
        match &self.content {
            Content::Text(text) => text.clone(),
            _ => self.place.text().to_owned(),
        }
    }

    /// The value of `key`.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Puts `value` at `path`, making mappings on the way where there are none. `key_places` belong to the elements of
    /// the path and are used for keys that are new. A key that is there and contains dots takes as many elements.
    pub(crate) fn put(&mut self, path: &[(&str, Place)], value: Self) {
        let Some(((key, key_place), _)) = path.split_first() else {
            *self = value;
            return;
        };
        if !matches!(self.content, Content::Mapping(_)) {
            *self = Self::new(key_place.clone(), Content::Mapping(Vec::new()));
        }
        let Content::Mapping(entries) = &mut self.content else {
            return;
        };
        let known = (1..=path.len()).find_map(|length| {
            let names: Vec<&str> = path[..length].iter().map(|(name, _)| *name).collect();
            let name = names.join(".");
            entries.iter().position(|entry| entry.key == name).map(|position| (position, length))
        });
        let (position, length) = known.unwrap_or_else(|| {
            let value = Self::new(key_place.clone(), Content::Null);
            entries.push(Entry { key: (*key).to_owned(), key_place: key_place.clone(), value });
            (entries.len() - 1, 1)
        });
        let (entry, rest) = (&mut entries[position], &path[length..]);
        if rest.is_empty() {
            entry.key_place = key_place.clone();
        }
        entry.value.put(rest, value);
    }

    /// Lays `over` on top: mappings are merged key by key, everything else is replaced.
    pub(crate) fn overlay(&mut self, over: &Self) {
        let (Content::Mapping(entries), Content::Mapping(overlaid)) = (&mut self.content, &over.content)
        else {
            *self = over.clone();
            return;
        };
        for over in overlaid {
            match entries.iter_mut().find(|entry| entry.key == over.key) {
                Some(entry) => {
                    entry.key_place = over.key_place.clone();
                    entry.value.overlay(&over.value);
                }
                None => entries.push(over.clone()),
            }
        }
    }

    /// The value as a message tells it.
    pub(crate) fn description(&self) -> String {
        if self.filled_in {
            return "the value of a variable".to_owned();
        }
        match &self.content {
            Content::Null => "nothing".to_owned(),
            Content::Boolean(value) => format!("`{value}`"),
            Content::Integer(number) => format!("the number {number}"),
            Content::Float(number) => format!("the number {number}"),
            Content::Text(text) => format!("the string `{}`", shortened(text)),
            Content::List(_) => "a list".to_owned(),
            Content::Mapping(_) => "a mapping".to_owned(),
        }
    }
}

impl fmt::Debug for Node {
    /// Without the values of variables, which may be secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.filled_in {
            return formatter.write_str("***");
        }
        formatter.debug_struct("Node").field("place", &self.place).field("content", &self.content).finish()
    }
}

/// Text of any length as it fits into a message.
pub(crate) fn shortened(text: &str) -> String {
    let mut characters = text.chars();
    let start: String = characters.by_ref().take(LONGEST_QUOTE).collect();
    if characters.next().is_some() { format!("{start}…") } else { start }
}

/// As much of a value as a message quotes, in characters.
const LONGEST_QUOTE: usize = 60;
