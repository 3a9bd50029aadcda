//! The names of blobs and files.
//!
//! What is written between braces stands for what is known of an event. A value is one part of a segment whatever is in it: slashes and the
//! like are escaped, and so are dots at its ends, so that no value leads to another folder or is taken for one.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use units::date::CivilTime;

use super::options::ArchiveSource;
use crate::event::{EnqueuedTime, PartitionId};

/// A name with placeholders: `{namespace}`, `{hub}`, `{partition}`, `{sequence_number}`, `{partition_key}`, and of the time when the
/// service took the event `{year}`, `{month}`, `{day}`, `{hour}`, `{minute}` and `{second}`. `{sequence_number:10}` has at least ten digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTemplate {
    text: String,
    parts: Vec<Part>,
}

/// Why a text can't be the name of files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A brace is not closed, or not opened.
    #[error("a brace has no counterpart")]
    Brace,
    /// Nothing of the kind is known of an event.
    #[error("`{{{name}}}` stands for nothing; there are {placeholders}", placeholders = PLACEHOLDERS)]
    Unknown {
        /// What stands between the braces.
        name: String,
    },
    /// It would leave the folder, or name none.
    #[error("the segment `{segment}` can't be part of a name")]
    Segment {
        /// Between two slashes.
        segment: String,
    },
    /// A backslash or a control character.
    #[error("backslashes and control characters can't be in a name")]
    Character,
    /// Several events would have the same name.
    #[error("without `{{{missing}}}` events would have the same name")]
    Ambiguous {
        /// The placeholder.
        missing: &'static str,
    },
}

/// What is known of an event, or of the first one of several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named<'a> {
    pub(super) partition: PartitionId,
    pub(super) sequence_number: i64,
    pub(super) enqueued_time: EnqueuedTime,
    pub(super) partition_key: Option<&'a [u8]>,
}

/// The names of events of one source.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    parts: Vec<Part>,
    has_times: bool,
    /// The source, as contents tell it.
    pub(super) hub: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Namespace,
    Hub,
    Partition,
    SequenceNumber { digits: usize },
    PartitionKey,
    Time(TimePart),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimePart {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

impl FromStr for NameTemplate {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.contains(|character: char| character == '\\' || character.is_control()) {
            return Err(NameError::Character);
        }
        let impossible = |segment: &&str| matches!(*segment, "" | "." | "..") || segment.ends_with('.');
        if let Some(segment) = text.split('/').find(impossible) {
            return Err(NameError::Segment { segment: segment.to_owned() });
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(place) = rest.find(['{', '}']) {
            let (before, placeholder) = rest.split_at(place);
            let (name, after) = placeholder
                .strip_prefix('{')
                .and_then(|rest| rest.split_once('}'))
                .ok_or(NameError::Brace)?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::named(name).ok_or_else(|| NameError::Unknown { name: name.to_owned() })?);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        let has = |wanted: fn(&Part) -> bool| parts.iter().any(wanted);
        if !has(|part| matches!(part, Part::Partition)) {
            return Err(NameError::Ambiguous { missing: "partition" });
        }
        if !has(|part| matches!(part, Part::SequenceNumber { .. })) {
            return Err(NameError::Ambiguous { missing: "sequence_number" });
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

impl NameTemplate {
    /// Whether names tell which hub or topic an event comes from.
    #[must_use]
    pub fn has_hub(&self) -> bool {
        self.parts.contains(&Part::Hub)
    }

    /// Names of events of one source.
    pub(super) fn of_source(&self, source: &ArchiveSource) -> Naming {
        let mut parts: Vec<Part> = Vec::new();
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(more) => text.push_str(more),
                Part::Namespace => put_value(&mut text, &source.namespace),
                Part::Hub => put_value(&mut text, &source.hub),
                other => {
                    if !text.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut text)));
                    }
                    parts.push(other.clone());
                }
            }
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        let has_times = parts.iter().any(|part| matches!(part, Part::Time(_)));
        Naming { parts, has_times, hub: source.hub.clone() }
    }
}

impl Naming {
    /// Writes the name of an event in the place of what was there.
    pub(super) fn write(&self, out: &mut String, event: &Named<'_>) {
        out.clear();
        let time = self.has_times.then(|| CivilTime::of_unix_ms(event.enqueued_time.unix_ms()));
        for part in &self.parts {
            // A string takes everything.
            let _ = match part {
                Part::Text(text) => out.write_str(text),
                Part::Partition => write!(out, "{}", event.partition),
                Part::SequenceNumber { digits } => write!(out, "{:0digits$}", event.sequence_number),
                Part::PartitionKey => {
                    let key = event.partition_key.unwrap_or_default();
                    put_value(out, &String::from_utf8_lossy(&key[..key.len().min(KEY_BYTES_MAX)]));
                    Ok(())
                }
                Part::Time(part) => part.write(out, time),
                // These are texts by now.
                Part::Namespace | Part::Hub => Ok(()),
            };
        }
    }
}

impl Part {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "namespace" => Self::Namespace,
            "hub" => Self::Hub,
            "partition" => Self::Partition,
            "sequence_number" => Self::SequenceNumber { digits: 1 },
            "partition_key" => Self::PartitionKey,
            "year" => Self::Time(TimePart::Year),
            "month" => Self::Time(TimePart::Month),
            "day" => Self::Time(TimePart::Day),
            "hour" => Self::Time(TimePart::Hour),
            "minute" => Self::Time(TimePart::Minute),
            "second" => Self::Time(TimePart::Second),
            other => {
                let digits = other.strip_prefix("sequence_number:")?.parse().ok()?;
                (1..=DIGITS_MAX).contains(&digits).then_some(Self::SequenceNumber { digits })?
            }
        })
    }
}

impl TimePart {
    fn write(self, out: &mut String, time: Option<CivilTime>) -> fmt::Result {
        let Some(time) = time else { return Ok(()) };
        match self {
            Self::Year => write!(out, "{:04}", time.year),
            Self::Month => write!(out, "{:02}", time.month),
            Self::Day => write!(out, "{:02}", time.day),
            Self::Hour => write!(out, "{:02}", time.hour),
            Self::Minute => write!(out, "{:02}", time.minute),
            Self::Second => write!(out, "{:02}", time.second),
        }
    }
}

impl fmt::Display for NameTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Appends a value that may be anything.
fn put_value(out: &mut String, value: &str) {
    if value.is_empty() {
        out.push('%');
        return;
    }
    let last = value.len() - 1;
    for (place, character) in value.char_indices() {
        let is_at_an_end = place == 0 || place == last;
        match character {
            '/' | '\\' | '%' => {
                let _ = write!(out, "%{:02x}", u32::from(character));
            }
            '.' if is_at_an_end => out.push_str("%2e"),
            character if character.is_control() => {
                let _ = write!(out, "%{:02x}", u32::from(character));
            }
            character => out.push(character),
        }
    }
}

/// So many digits has the largest number.
const DIGITS_MAX: usize = 19;

/// What a name has of a key at most, in bytes; services refuse keys of more than 128 characters.
const KEY_BYTES_MAX: usize = 128;

const PLACEHOLDERS: &str = "{namespace}, {hub}, {partition}, {sequence_number}, {partition_key}, {year}, {month}, {day}, {hour}, \
                            {minute} and {second}";

#[cfg(test)]
mod tests {
    use super::*;

    fn name(template: &str, hub: &str, key: Option<&[u8]>) -> String {
        let source = ArchiveSource { namespace: "ns.example.com".to_owned(), hub: hub.to_owned() };
        let template: NameTemplate = template.parse().unwrap();
        let mut out = "what was there".to_owned();
        template.of_source(&source).write(
            &mut out,
            &Named {
                partition: PartitionId(3),
                sequence_number: 41,
                enqueued_time: EnqueuedTime::from_unix_ms(1_709_210_096_007),
                partition_key: key,
            },
        );
        out
    }

    #[test]
    fn placeholders_are_what_is_known_of_an_event() {
        assert_eq!(name("{hub}/{partition}/{sequence_number}", "orders", None), "orders/3/41");
        assert_eq!(
            name(
                "{namespace}/{hub}/p{partition}/{year}-{month}-{day}/{hour}{minute}{second}/{sequence_number:10}.json",
                "orders",
                None
            ),
            "ns.example.com/orders/p3/2024-02-29/123456/0000000041.json"
        );
    }

    #[test]
    fn no_value_leads_out_of_its_segment() {
        let template = "{hub}/{partition}/{partition_key}/{sequence_number}";
        for (key, segment) in [
            (&b"../../etc/passwd"[..], "%2e.%2f..%2fetc%2fpasswd"),
            (b"..", "%2e%2e"),
            (b".", "%2e"),
            (b"", "%"),
            (b"a\\b", "a%5cb"),
            (b"a\0b\n", "a%00b%0a"),
            (b"100%", "100%25"),
            (b"v1.2.", "v1.2%2e"),
            (b"\xff", "\u{fffd}"),
        ] {
            assert_eq!(name(template, "h", Some(key)), format!("h/3/{segment}/41"));
        }
        assert_eq!(name(template, "a/b", Some(&[b'x'; 1_000])).len(), "a%2fb/3//41".len() + KEY_BYTES_MAX);
        assert_eq!(name("{hub}/{partition}/{sequence_number}", "..", None), "%2e%2e/3/41");
    }

    #[test]
    fn what_can_be_no_name_is_refused() {
        let error = |text: &str| text.parse::<NameTemplate>().unwrap_err();
        let segment = |segment: &str| NameError::Segment { segment: segment.to_owned() };
        assert_eq!(error("/{partition}/{sequence_number}"), segment(""));
        assert_eq!(error("a/../{partition}/{sequence_number}"), segment(".."));
        assert_eq!(error("{partition}/{sequence_number}."), segment("{sequence_number}."));
        assert_eq!(error("{partition}\\{sequence_number}"), NameError::Character);
        assert_eq!(error("{partition}/{sequence_number"), NameError::Brace);
        assert_eq!(error("{partition}/sequence_number}"), NameError::Brace);
        assert_eq!(error("{partition}/{body}"), NameError::Unknown { name: "body".to_owned() });
        assert_eq!(
            error("{partition}/{sequence_number:0}"),
            NameError::Unknown { name: "sequence_number:0".to_owned() }
        );
        assert_eq!(error("{sequence_number}"), NameError::Ambiguous { missing: "partition" });
        assert_eq!(error("{partition}"), NameError::Ambiguous { missing: "sequence_number" });
    }
}
