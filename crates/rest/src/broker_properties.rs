//! The properties of a message that have a meaning for the service: a JSON object, as the header field `BrokerProperties` or as a
//! member of an element of a batch.
//!
//! Samples give times and lengths of time now as numbers, now as texts, so either is taken for each of them.

use std::borrow::Cow;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use units::date::{parse_http_date, parse_iso_date};
use units::partition_key;

/// What a client sets. Members that are not known are ignored.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct BrokerProperties<'a> {
    #[serde(borrow)]
    correlation_id: Option<Scalar<'a>>,
    #[serde(borrow)]
    session_id: Option<Scalar<'a>>,
    #[serde(borrow)]
    message_id: Option<Scalar<'a>>,
    #[serde(borrow)]
    label: Option<Scalar<'a>>,
    #[serde(borrow)]
    reply_to: Option<Scalar<'a>>,
    #[serde(borrow)]
    to: Option<Scalar<'a>>,
    #[serde(borrow)]
    reply_to_session_id: Option<Scalar<'a>>,
    #[serde(borrow)]
    partition_key: Option<Scalar<'a>>,
    #[serde(borrow)]
    via_partition_key: Option<Scalar<'a>>,
    #[serde(borrow)]
    time_to_live: Option<Scalar<'a>>,
    #[serde(borrow)]
    time_to_live_time_span: Option<Scalar<'a>>,
    #[serde(borrow)]
    scheduled_enqueue_time_utc: Option<Scalar<'a>>,
}

/// A value of JSON that is neither an object nor an array.
#[derive(Debug, Clone, PartialEq)]
enum Scalar<'a> {
    Text(Cow<'a, str>),
    Number(f64),
    Integer(i64),
}

/// Why properties are not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PropertiesError {
    /// They are no JSON, or no object.
    #[error("BrokerProperties is no object of JSON: {0}")]
    Json(String),
    /// A member is not what it should be.
    #[error("{member} in BrokerProperties is not {expected}")]
    Member {
        /// Its name.
        member: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// Two members contradict each other.
    #[error("SessionId and PartitionKey in BrokerProperties differ")]
    SessionAndKey,
    /// A partition key that is longer than the service takes.
    #[error("{name} in BrokerProperties is longer than {} characters", partition_key::LONGEST)]
    LongPartitionKey {
        /// Its name.
        name: &'static str,
    },
}

impl<'a> BrokerProperties<'a> {
    /// Reads the value of the header field.
    ///
    /// # Errors
    /// It is no object, or has members that make no sense.
    pub fn parse(text: &'a [u8]) -> Result<Self, PropertiesError> {
        // Reading takes an array for the members in their order.
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err(PropertiesError::Json("it does not begin with {".into()));
        }
        let properties: Self =
            serde_json::from_slice(text).map_err(|error| PropertiesError::Json(error.to_string()))?;
        properties.check()?;
        Ok(properties)
    }

    /// Whether all members make sense.
    ///
    /// # Errors
    /// One does not.
    pub fn check(&self) -> Result<(), PropertiesError> {
        self.time_to_live_ms()?;
        self.scheduled_enqueue_time()?;
        for (name, key) in
            [("PartitionKey", self.partition_key()), ("ViaPartitionKey", self.via_partition_key())]
        {
            if key.is_some_and(|key| partition_key::is_too_long(&key)) {
                return Err(PropertiesError::LongPartitionKey { name });
            }
        }
        match (self.session_id(), self.partition_key()) {
            (Some(session), Some(key)) if session != key => Err(PropertiesError::SessionAndKey),
            _ => Ok(()),
        }
    }

    /// What tells the message from others.
    #[must_use]
    pub fn message_id(&self) -> Option<Cow<'_, str>> {
        text(&self.message_id)
    }

    /// The message that it answers, or whatever else it belongs to.
    #[must_use]
    pub fn correlation_id(&self) -> Option<Cow<'_, str>> {
        text(&self.correlation_id)
    }

    /// Its session.
    #[must_use]
    pub fn session_id(&self) -> Option<Cow<'_, str>> {
        text(&self.session_id)
    }

    /// Its subject.
    #[must_use]
    pub fn label(&self) -> Option<Cow<'_, str>> {
        text(&self.label)
    }

    /// Where answers go.
    #[must_use]
    pub fn reply_to(&self) -> Option<Cow<'_, str>> {
        text(&self.reply_to)
    }

    /// Whom it is for.
    #[must_use]
    pub fn to(&self) -> Option<Cow<'_, str>> {
        text(&self.to)
    }

    /// The session of answers.
    #[must_use]
    pub fn reply_to_session_id(&self) -> Option<Cow<'_, str>> {
        text(&self.reply_to_session_id)
    }

    /// What decides about its partition.
    #[must_use]
    pub fn partition_key(&self) -> Option<Cow<'_, str>> {
        text(&self.partition_key)
    }

    /// The same on its way there.
    #[must_use]
    pub fn via_partition_key(&self) -> Option<Cow<'_, str>> {
        text(&self.via_partition_key)
    }

    /// How long it may wait, in milliseconds; the longest that a header can say stands for all that is longer.
    ///
    /// # Errors
    /// It is no length of time.
    pub fn time_to_live_ms(&self) -> Result<Option<u32>, PropertiesError> {
        let seconds = match (&self.time_to_live, &self.time_to_live_time_span) {
            (Some(Scalar::Number(seconds)), _) => Some(*seconds),
            (Some(Scalar::Integer(seconds)), _) => Some(*seconds as f64),
            (Some(Scalar::Text(text)), _) => {
                Some(text.trim().parse().ok().or_else(|| time_span(text)).ok_or(NO_TIME_TO_LIVE)?)
            }
            (None, Some(Scalar::Text(text))) => Some(time_span(text).ok_or(NO_TIME_TO_LIVE)?),
            (None, Some(_)) => return Err(NO_TIME_TO_LIVE),
            (None, None) => None,
        };
        match seconds {
            // A cast keeps to the bounds of its target.
            Some(seconds) if seconds > 0.0 => Ok(Some((seconds * 1000.0).round().max(1.0) as u32)),
            Some(_) => Err(NO_TIME_TO_LIVE),
            None => Ok(None),
        }
    }

    /// When it is to become available, in milliseconds since 1970.
    ///
    /// # Errors
    /// It is no instant.
    pub fn scheduled_enqueue_time(&self) -> Result<Option<i64>, PropertiesError> {
        let Some(time) = &self.scheduled_enqueue_time_utc else {
            return Ok(None);
        };
        let Scalar::Text(text) = time else {
            return Err(NO_INSTANT);
        };
        let text = text.trim();
        let time = parse_http_date(text).or_else(|| parse_iso_date(text)).ok_or(NO_INSTANT)?;
        Ok(Some(milliseconds_of(time)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a number")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Integer(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar<'de>, E> {
        Ok(i64::try_from(number).map_or(Scalar::Number(number as f64), Scalar::Integer))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Number(number))
    }
}

fn text<'a>(scalar: &'a Option<Scalar<'_>>) -> Option<Cow<'a, str>> {
    match scalar.as_ref()? {
        Scalar::Text(text) => Some(Cow::Borrowed(text)),
        Scalar::Number(number) => Some(Cow::Owned(number.to_string())),
        Scalar::Integer(number) => Some(Cow::Owned(number.to_string())),
    }
}

/// Seconds of `[days.]hours:minutes:seconds[.fraction]`.
fn time_span(text: &str) -> Option<f64> {
    let mut parts = text.trim().splitn(3, ':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let (days, hours) = hours.split_once('.').unwrap_or(("0", hours));
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number >= 0.0);
    Some(number(days)? * 86_400.0 + number(hours)? * 3_600.0 + number(minutes)? * 60.0 + number(seconds)?)
}

fn milliseconds_of(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

const NO_TIME_TO_LIVE: PropertiesError =
    PropertiesError::Member { member: "TimeToLive", expected: "a number of seconds above 0" };

const NO_INSTANT: PropertiesError = PropertiesError::Member {
    member: "ScheduledEnqueueTimeUtc",
    expected: "an instant such as Wed, 09 Jul 2014 21:20:00 GMT",
};

/// What a receiver is told of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ReceivedProperties {
    /// As it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// As it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// How often it was delivered, this time included.
    pub delivery_count: u64,
    /// The number that it had where it was enqueued first.
    pub enqueued_sequence_number: u64,
    /// When that was.
    pub enqueued_time_utc: String,
    /// As it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What settles it, if it is locked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock_token: Option<String>,
    /// Until when it is locked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locked_until_utc: Option<String>,
    /// As it was sent, or as it was given one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// As it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<String>,
    /// As it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// As it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to_session_id: Option<String>,
    /// Its number.
    pub sequence_number: u64,
    /// How it stands.
    pub state: &'static str,
    /// Seconds that it may wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_live: Option<f64>,
    /// As it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl ReceivedProperties {
    /// The value of the header field, in ASCII whatever is in it.
    #[must_use]
    pub fn to_field(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        let mut field = String::with_capacity(json.len());
        for character in json.chars() {
            match character {
                ' '..='~' => field.push(character),
                _ => {
                    let mut units = [0; 2];
                    for unit in character.encode_utf16(&mut units) {
                        field.push_str(&format!("\\u{unit:04x}"));
                    }
                }
            }
        }
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<BrokerProperties<'_>, PropertiesError> {
        BrokerProperties::parse(text.as_bytes())
    }

    #[test]
    fn members_are_read_as_texts_and_as_numbers() {
        let text =
            r#"{"MessageId": 7, "Label": "a\"b", "Unknown": [1], "TimeToLive": 10, "PartitionKey": null}"#;
        let properties = parse(text).unwrap();
        assert_eq!(properties.message_id().as_deref(), Some("7"));
        assert_eq!(properties.label().as_deref(), Some("a\"b"));
        assert_eq!(properties.partition_key(), None);
        assert_eq!(properties.time_to_live_ms(), Ok(Some(10_000)));
        for (text, milliseconds) in [
            (r#"{"TimeToLive": "1.5"}"#, 1_500),
            (r#"{"TimeToLiveTimeSpan": "0.00:00:40"}"#, 40_000),
            (r#"{"TimeToLiveTimeSpan": "1.01:01:01.5"}"#, 90_061_500),
            (r#"{"TimeToLive": 1e300}"#, u32::MAX),
        ] {
            assert_eq!(parse(text).unwrap().time_to_live_ms(), Ok(Some(milliseconds)), "{text}");
        }
        for time in ["Wed, 09 Jul 2014 21:20:00 GMT", "2014-07-09T21:20:00Z"] {
            let scheduled = format!(r#"{{"ScheduledEnqueueTimeUtc": "{time}"}}"#);
            assert_eq!(parse(&scheduled).unwrap().scheduled_enqueue_time(), Ok(Some(1_404_940_800_000)));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["", "[]", "{", r#"{"MessageId": {}}"#, r#"{"Label": true}"#] {
            assert!(matches!(parse(text), Err(PropertiesError::Json(_))), "{text}");
        }
        for text in [
            r#"{"TimeToLive": 0}"#,
            r#"{"TimeToLive": "soon"}"#,
            r#"{"TimeToLive": "NaN"}"#,
            r#"{"TimeToLiveTimeSpan": 4}"#,
            r#"{"TimeToLiveTimeSpan": "1:-1:1"}"#,
            r#"{"ScheduledEnqueueTimeUtc": "tomorrow"}"#,
            r#"{"ScheduledEnqueueTimeUtc": 5}"#,
        ] {
            assert!(matches!(parse(text), Err(PropertiesError::Member { .. })), "{text}");
        }
        let both = r#"{"SessionId": "a", "PartitionKey": "b"}"#;
        assert_eq!(parse(both), Err(PropertiesError::SessionAndKey));
        let key = |length| format!(r#"{{"PartitionKey": "{}"}}"#, "ä".repeat(length));
        assert!(parse(&key(128)).is_ok());
        assert_eq!(parse(&key(129)), Err(PropertiesError::LongPartitionKey { name: "PartitionKey" }));
    }

    #[test]
    fn what_a_receiver_is_told_is_one_line_of_ascii() {
        let properties = ReceivedProperties {
            label: Some("é\n\u{1f600}".into()),
            state: "Active",
            delivery_count: 1,
            ..ReceivedProperties::default()
        };
        let field = properties.to_field();
        assert!(field.contains(r#""Label":"\u00e9\n\ud83d\ude00""#), "{field}");
        assert!(crate::property::is_field_value(&field));
        let back: serde_json::Value = serde_json::from_str(&field).unwrap();
        assert_eq!(back["Label"], "é\n\u{1f600}");
    }
}
