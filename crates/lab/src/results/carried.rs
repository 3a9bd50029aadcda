//! What the lab's sentences call what is carried: events of hubs, messages of queues.

use std::collections::BTreeMap;

use serde_json::Value;

/// What is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carried {
    /// From one hub to another.
    #[default]
    Events,
    /// From one queue to another.
    Messages,
}

impl Carried {
    /// What a case with these parameters carries.
    #[must_use]
    pub fn of(params: &BTreeMap<String, Value>) -> Self {
        match params.contains_key("queues.source.name") {
            true => Self::Messages,
            false => Self::Events,
        }
    }

    /// One of them, and several.
    #[must_use]
    pub const fn nouns(self) -> (&'static str, &'static str) {
        match self {
            Self::Events => ("event", "events"),
            Self::Messages => ("message", "messages"),
        }
    }

    /// Several of them.
    #[must_use]
    pub const fn many(self) -> &'static str {
        self.nouns().1
    }

    /// A sentence about events, as one about these. Only whole words change, so that names stay what they are.
    #[must_use]
    pub fn reworded(self, sentence: &str) -> String {
        if self == Self::Events {
            return sentence.to_owned();
        }
        let (one, many) = self.nouns();
        let is_of_word =
            |character: char| character.is_alphanumeric() || ['-', '_', '.', '=', '$'].contains(&character);
        let mut text = String::with_capacity(sentence.len() + 16);
        let mut rest = sentence;
        while !rest.is_empty() {
            let end = rest.find(|character| !is_of_word(character)).unwrap_or(rest.len());
            text.push_str(match &rest[..end] {
                "event" => one,
                "events" => many,
                word => word,
            });
            rest = &rest[end..];
            let next = rest.find(is_of_word).unwrap_or(rest.len());
            text.push_str(&rest[..next]);
            rest = &rest[next..];
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_messages_and_names_stay() {
        let sentence = "1 event of java-event-hubs and 5 events (7 events/s) in `events.old`";
        assert_eq!(Carried::Events.reworded(sentence), sentence);
        assert_eq!(
            Carried::Messages.reworded(sentence),
            "1 message of java-event-hubs and 5 messages (7 messages/s) in `events.old`"
        );
    }
}
