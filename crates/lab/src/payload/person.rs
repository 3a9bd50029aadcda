//! The event of the published study of ingestion: a person in JSON, with the instant of the send.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use units::date::iso_date;

/// Writes persons that differ in when they were created.
///
/// The text is kept: a second gets its date once, and an event nothing but the digits of its fraction.
#[derive(Debug, Clone)]
pub struct Person {
    text: Vec<u8>,
    /// Whose date the text has.
    second: Option<u64>,
}

impl Person {
    /// A writer of persons.
    #[must_use]
    pub fn new() -> Self {
        Self { text: [PREFIX, &[b'0'; DATE_LENGTH], SUFFIX].concat(), second: None }
    }

    /// The person who was created at an instant.
    pub fn created_at(&mut self, instant: SystemTime) -> &[u8] {
        let since = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
        let date = &mut self.text[PREFIX.len()..PREFIX.len() + DATE_LENGTH];
        if self.second != Some(since.as_secs()) {
            self.second = Some(since.as_secs());
            let seconds = iso_date(UNIX_EPOCH + Duration::from_secs(since.as_secs()));
            date[..SECONDS_LENGTH].copy_from_slice(&seconds.as_bytes()[..SECONDS_LENGTH]);
            date[SECONDS_LENGTH] = b'.';
            date[DATE_LENGTH - 1] = b'Z';
        }
        // In steps of 100 ns, as .NET counts.
        let mut fraction = since.subsec_nanos() / 100;
        for digit in date[SECONDS_LENGTH + 1..DATE_LENGTH - 1].iter_mut().rev() {
            *digit = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
        &self.text
    }
}

impl Default for Person {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes of every person.
pub const PERSON_LENGTH: usize = PREFIX.len() + DATE_LENGTH + SUFFIX.len();

const PREFIX: &[u8] = br#"{"Name":"John Smith","Age":42,"Address":{"Street":"Baker","StreetNumber":"221B"},"Skills":["Engineer","Flight","Programming","Talking"],"CreatedAt":""#;

const SUFFIX: &[u8] = br#""}"#;

/// Of `2018-06-05T10:30:10`.
const SECONDS_LENGTH: usize = 19;

/// Of `2018-06-05T10:30:10.1234567Z`.
const DATE_LENGTH: usize = SECONDS_LENGTH + 9;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_person_is_json_of_one_length_whatever_the_instant() {
        let mut person = Person::new();
        let started = UNIX_EPOCH + Duration::from_secs(1_528_194_610);
        for (since, date) in [
            (Duration::ZERO, "2018-06-05T10:30:10.0000000Z"),
            (Duration::from_nanos(123_456_789), "2018-06-05T10:30:10.1234567Z"),
            (Duration::from_nanos(59_000_000_100), "2018-06-05T10:31:09.0000001Z"),
            (Duration::from_millis(999), "2018-06-05T10:30:10.9990000Z"),
        ] {
            let written = person.created_at(started + since);
            assert_eq!(written.len(), PERSON_LENGTH);
            let read: Value = serde_json::from_slice(written).unwrap();
            let expected = json!({
                "Name": "John Smith",
                "Age": 42,
                "Address": {"Street": "Baker", "StreetNumber": "221B"},
                "Skills": ["Engineer", "Flight", "Programming", "Talking"],
                "CreatedAt": date,
            });
            assert_eq!(read, expected);
        }
    }
}
