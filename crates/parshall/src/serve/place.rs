//! Where a file says what a path such as `topics[1].subscriptions[0].name` means.

use settings::{Document, Node, SettingsError};

use super::emulator;

/// Something in a file that is wrong.
#[derive(Debug)]
pub(super) struct Place<'a> {
    document: &'a Document,
    /// What messages call it.
    key: String,
    /// The value, or the nearest one around it that is there; `None` where it is not in a list, so that the document
    /// knows best.
    node: Option<&'a Node>,
}

impl<'a> Place<'a> {
    /// In a file of ours, whose words are those of the path.
    pub(super) fn in_ours(document: &'a Document, path: &str) -> Self {
        Self::find(document, path.to_owned(), |node, key| node.value(key))
    }

    /// In a file of an emulator, which has words of its own.
    pub(super) fn in_emulators(document: &'a Document, path: &str) -> Self {
        let mut words = Vec::new();
        for step in path.split('.') {
            let (name, index) = split_index(step);
            let before = words.len();
            words.extend(emulator::words(name).iter().map(ToString::to_string));
            if let (Some(index), Some(last)) = (index, words[before..].last_mut()) {
                last.push_str(&format!("[{index}]"));
            }
        }
        // Keys that the emulator does not have go by our names.
        let key = match words.is_empty() {
            true => path.to_owned(),
            false => words.join("."),
        };
        Self::find(document, key, emulator::find)
    }

    /// A mistake there. `reason` says what is wrong, `advice` what to do.
    pub(super) fn mistake(&self, reason: &str, advice: String) -> SettingsError {
        match self.node {
            Some(node) => node.mistake(&self.key, reason, advice),
            None => self.document.mistake(&self.key, reason, advice),
        }
    }

    fn find(document: &'a Document, key: String, value: fn(&'a Node, &str) -> Option<&'a Node>) -> Self {
        let mut nearest = document.root();
        let mut is_in_list = false;
        for step in key.split('.') {
            let (name, index) = split_index(step);
            let Some(found) = value(nearest, name) else {
                break;
            };
            nearest = found;
            let Some(index) = index else { continue };
            let Some(element) = found.elements().and_then(|elements| elements.get(index)) else {
                break;
            };
            nearest = element;
            is_in_list = true;
        }
        Self { document, key, node: is_in_list.then_some(nearest) }
    }
}

/// Splits `name[3]`.
fn split_index(step: &str) -> (&str, Option<usize>) {
    let split = step
        .strip_suffix(']')
        .and_then(|step| step.split_once('['))
        .and_then(|(name, index)| Some((name, index.parse().ok()?)));
    match split {
        Some((name, index)) => (name, Some(index)),
        None => (step, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(place: &Place<'_>) -> String {
        place.mistake("is wrong", String::new()).to_string()
    }

    #[test]
    fn elements_of_lists_are_found_in_a_file_of_ours() {
        let text = "topics:\n  - name: a\n    subscriptions:\n      - {name: b, lock_duration: 1 s}\n";
        let document = Document::parse("mine.yaml", text).unwrap();
        let at = |path: &str| message(&Place::in_ours(&document, path));
        assert_eq!(
            at("topics[0].subscriptions[0].lock_duration"),
            "mine.yaml:4:34: `topics[0].subscriptions[0].lock_duration`: is wrong"
        );
        // A missing value is reported where its parent is.
        assert_eq!(
            at("topics[0].subscriptions[0].rules[1].name"),
            "mine.yaml:4:9: `topics[0].subscriptions[0].rules[1].name`: is wrong"
        );
        assert_eq!(at("host"), "mine.yaml:1:1: `host`: is wrong");
    }

    #[test]
    fn elements_of_lists_are_found_in_a_file_of_an_emulator() {
        let text = "{\"UserConfig\": {\"namespaces\": [{\"Queues\": [\n\
                    {\"Name\": \"q\", \"Properties\": {\"LockDuration\": \"PT0S\"}}]}]}}";
        let document = Document::parse("Config.json", text).unwrap();
        let place = Place::in_emulators(&document, "queues[0].lock_duration");
        assert_eq!(
            message(&place),
            "Config.json:2:46: `UserConfig.Namespaces[0].Queues[0].Properties.LockDuration`: is wrong"
        );
        let place = Place::in_emulators(&document, "idle_timeout");
        assert_eq!(message(&place), "Config.json:1:1: `idle_timeout`: is wrong");
    }
}
