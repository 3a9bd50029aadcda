//! `${NAME}`, `${NAME:-default}` and `${NAME:?message}` in the values of a document.
//!
//! What is filled in stays a text. Where a number or a truth value is wanted, the text is read as one when the document
//! is typed; it never becomes a list or a mapping, so a variable cannot smuggle in settings.

use crate::error::{MistakeKind, SettingsError};
use crate::node::{Content, Node};

/// Fills in the variables of all texts under `node`. `key` is the dotted key of `node`.
pub(crate) fn fill_in(
    node: &mut Node,
    key: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<(), SettingsError> {
    match &mut node.content {
        Content::List(elements) => {
            for (index, element) in elements.iter_mut().enumerate() {
                fill_in(element, &format!("{key}[{index}]"), lookup)?;
            }
        }
        Content::Mapping(entries) => {
            for entry in entries {
                let key = if key.is_empty() { entry.key.clone() } else { format!("{key}.{}", entry.key) };
                fill_in(&mut entry.value, &key, lookup)?;
            }
        }
        Content::Text(text) => {
            let Some(filled) = expand(text, lookup)
                .map_err(|(part, kind)| SettingsError::at(node.place.find(part), key, kind))?
            else {
                return Ok(());
            };
            *text = filled;
            node.filled_in = true;
        }
        Content::Null | Content::Boolean(_) | Content::Integer(_) | Content::Float(_) => {}
    }
    Ok(())
}

/// `text` with its variables filled in, or `None` where it has none. The error names the part that is wrong.
fn expand<'a>(
    text: &'a str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, (&'a str, MistakeKind)> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut filled = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, reference) = rest.split_at(start);
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = &reference[2..];
            continue;
        }
        filled.push_str(before);
        let end = reference.find('}').ok_or((reference, MistakeKind::MalformedVariable))?;
        let whole = &reference[..=end];
        let (name, otherwise) = match whole[2..end].split_once(':') {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (&whole[2..end], None),
        };
        if !is_name(name) || otherwise.is_some_and(|otherwise| !otherwise.starts_with(['-', '?'])) {
            return Err((whole, MistakeKind::MalformedVariable));
        }
        // With `:-` and `:?`, as in a shell, an empty variable counts as missing.
        let value = lookup(name).filter(|value| otherwise.is_none() || !value.is_empty());
        let default = otherwise.and_then(|otherwise| otherwise.strip_prefix('-'));
        let message = otherwise.and_then(|otherwise| otherwise.strip_prefix('?'));
        match value.as_deref().or(default) {
            Some(value) => filled.push_str(value),
            None => {
                let message = message.filter(|message| !message.is_empty()).map(str::to_owned);
                return Err((whole, MistakeKind::MissingVariable { variable: name.to_owned(), message }));
            }
        }
        rest = &reference[end + 1..];
    }
    filled.push_str(rest);
    Ok(Some(filled))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("example.net".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn expanded(text: &str) -> Option<String> {
        expand(text, &lookup).unwrap()
    }

    #[test]
    fn variables_defaults_and_escapes_are_filled_in() {
        assert_eq!(expanded("no variable, $HOST"), None);
        assert_eq!(expanded("sb://${HOST}/").unwrap(), "sb://example.net/");
        assert_eq!(expanded("${HOST}${HOST}").unwrap(), "example.netexample.net");
        assert_eq!(expanded("${PORT:-5671}").unwrap(), "5671");
        assert_eq!(expanded("${HOST:-other}").unwrap(), "example.net");
        assert_eq!(expanded("[${EMPTY}] [${EMPTY:-x}]").unwrap(), "[] [x]");
        assert_eq!(expanded("$${HOST} ${HOST}").unwrap(), "${HOST} example.net");
    }

    #[test]
    fn a_missing_variable_is_named_with_the_message_of_the_file() {
        let missing = |text| match expand(text, &lookup) {
            Err((part, MistakeKind::MissingVariable { variable, message })) => (part, variable, message),
            other => panic!("{other:?}"),
        };
        assert_eq!(missing("a ${PORT} b"), ("${PORT}", "PORT".to_owned(), None));
        let told = Some("say which".to_owned());
        assert_eq!(missing("${PORT:?say which}"), ("${PORT:?say which}", "PORT".to_owned(), told));
        assert_eq!(missing("${EMPTY:?}").2, None);
    }

    #[test]
    fn what_is_no_variable_is_refused() {
        for text in ["${", "${}", "${HOST", "${1}", "${A B}", "${HOST:x}", "${HOST:}"] {
            let error = expand(text, &lookup).unwrap_err();
            assert_eq!(error.1, MistakeKind::MalformedVariable, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[${}:?\\-A-Z]{0,20}") {
            let _ = expand(&text, &lookup);
        }
    }
}
