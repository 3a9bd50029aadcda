//! Which events a tail shows: words, of which each has to hold.
//!
//! ```text
//! partition:3        of this partition (several: any of them)
//! key:customer-7     with this partition key, or key of Kafka's
//! id:4711            with this message id
//! region=eu          with an application property of this value
//! anything else      with this text in the body, whatever the letter case
//! ```
//!
//! A word with spaces stands in quotation marks: `"order failed"`, `name="two words"`.

use super::message::Message;
use super::reply::Refusal;

/// What has to hold of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    /// Those of which events are shown; of all, if there is none.
    partitions: Vec<u16>,
    tests: Vec<Test>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Key(String),
    Id(String),
    Property(String, String),
    Text(Vec<u8>),
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// A word makes no sense, or there are too many.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        let mut filter = Self::default();
        for word in words(text)? {
            match word.split_once(':') {
                Some(("partition", id)) => {
                    filter.partitions.push(id.parse().map_err(|_| {
                        Refusal::bad(format!("partition: is not followed by a number: {word}"))
                    })?)
                }
                Some(("key", key)) => filter.tests.push(Test::Key(key.to_owned())),
                Some(("id", id)) => filter.tests.push(Test::Id(id.to_owned())),
                _ => filter.tests.push(match word.split_once('=') {
                    Some((name, value)) if !name.is_empty() => {
                        Test::Property(name.to_owned(), value.to_owned())
                    }
                    _ => Test::Text(word.to_ascii_lowercase().into_bytes()),
                }),
            }
            if filter.tests.len() + filter.partitions.len() > WORDS_MAX {
                return Err(Refusal::bad(format!("a filter has at most {WORDS_MAX} words")));
            }
        }
        Ok(filter)
    }

    /// Whether events of this partition are shown.
    pub(super) fn has_partition(&self, id: u16) -> bool {
        self.partitions.is_empty() || self.partitions.contains(&id)
    }

    /// Whether all events of its partitions are shown.
    pub(super) fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// Whether an event is shown.
    pub(super) fn admits(&self, message: &Message<'_>) -> bool {
        self.tests.iter().all(|test| match test {
            Test::Key(key) => message.key().as_ref() == Some(key),
            Test::Id(id) => message.id().as_ref() == Some(id),
            Test::Property(name, value) => message.property(name).as_ref() == Some(value),
            Test::Text(text) => message.has_text(text),
        })
    }
}

/// The words of a text, without their quotation marks.
fn words(text: &str) -> Result<Vec<String>, Refusal> {
    let (mut words, mut word, mut quoted, mut begun) = (Vec::new(), String::new(), false, false);
    for character in text.chars() {
        match character {
            '"' => (quoted, begun) = (!quoted, true),
            space if space.is_whitespace() && !quoted => {
                if begun {
                    words.push(std::mem::take(&mut word));
                }
                begun = false;
            }
            other => {
                word.push(other);
                begun = true;
            }
        }
    }
    if quoted {
        return Err(Refusal::bad("a quotation mark of the filter is never closed"));
    }
    if begun {
        words.push(word);
    }
    Ok(words)
}

const WORDS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use amqp::codec::Value;
    use amqp::message::{Properties, encode};

    #[test]
    fn all_words_have_to_hold() {
        let mut sections = Vec::new();
        Properties { message_id: Some("m 1".into()), ..Properties::default() }.encode(&mut sections);
        encode::application_properties(&mut sections, &[("region", "eu".into()), ("n", Value::Int(3))]);
        encode::data(&mut sections, b"Order failed");
        let mut annotations = Vec::new();
        rest::message::partition_key_annotation(&mut annotations, "k");
        let message = Message { sections: &sections, annotations: &annotations, annotation_count: 1 };
        for (filter, expected) in [
            ("", true),
            ("order", true),
            ("\"order failed\"", true),
            ("\"failed order\"", false),
            ("region=eu n=3 key:k id:\"m 1\" FAILED", true),
            ("region=us", false),
            ("missing=", false),
            ("key:other", false),
            ("=3", false),
        ] {
            assert_eq!(Filter::parse(filter).unwrap().admits(&message), expected, "{filter}");
        }
    }

    #[test]
    fn partitions_are_any_of_those_that_are_named() {
        let filter = Filter::parse("partition:1 partition:3 x").unwrap();
        assert!(filter.has_partition(1) && filter.has_partition(3) && !filter.has_partition(0));
        assert!(Filter::parse("").unwrap().has_partition(0));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["partition:x", "\"open", &"a ".repeat(WORDS_MAX + 1)] {
            assert!(Filter::parse(text).is_err(), "{text}");
        }
    }
}
