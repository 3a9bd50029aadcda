//! Where a receiver wants to start: the selector filter of its source.

use amqp::Value;
use amqp::performative::Source;

use partition_log::UnixTime;
use partition_log::{Edge, Start};

/// Why a filter is not understood: the text for the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "The filter '{0}' is not one of 'amqp.annotation.x-opt-offset', '-sequence-number' or '-enqueued-time' \
         compared by '>' or '>=' with a quoted value."
)]
pub(crate) struct FilterError(String);

/// The start that `source` asks for; the oldest event without a filter.
pub(crate) fn start_of(source: &Source) -> Result<Start, FilterError> {
    let selector = source.filter.iter().find(|(name, _)| *name == SELECTOR).map(|(_, value)| value);
    let text = match selector {
        None => return Ok(Start::Earliest),
        // The descriptor is a number or a name, depending on the client; both mean this.
        Some(Value::Described(described)) => described.1.as_text(),
        Some(value) => value.as_text(),
    };
    let text = text.ok_or_else(|| FilterError(String::new()))?;
    parse(text).ok_or_else(|| FilterError(text.to_owned()))
}

fn parse(selector: &str) -> Option<Start> {
    let (field, rest) = selector.trim().strip_prefix("amqp.annotation.")?.split_once('>')?;
    let (edge, rest) = match rest.strip_prefix('=') {
        Some(rest) => (Edge::Inclusive, rest),
        None => (Edge::Exclusive, rest),
    };
    let value = rest.trim();
    let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
    match (field.trim(), value) {
        ("x-opt-offset", "@latest") => Some(Start::Latest(edge)),
        // Before the first event, whichever the operator.
        ("x-opt-offset" | "x-opt-sequence-number", "-1") => Some(Start::Earliest),
        ("x-opt-offset" | "x-opt-sequence-number", number) => {
            Some(Start::SequenceNumber(number.parse().ok()?, edge))
        }
        ("x-opt-enqueued-time" | "x-opt-enqueuedtimeutc", milliseconds) => {
            Some(Start::AppendTime(UnixTime::from_milliseconds(milliseconds.parse().ok()?), edge))
        }
        _ => None,
    }
}

const SELECTOR: &str = "apache.org:selector-filter:string";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_form_of_a_selector_is_read() {
        let time = UnixTime::from_milliseconds(1_700_000_000_123);
        for (selector, expected) in [
            ("amqp.annotation.x-opt-offset > '-1'", Some(Start::Earliest)),
            ("amqp.annotation.x-opt-offset >= '-1'", Some(Start::Earliest)),
            ("amqp.annotation.x-opt-offset > '@latest'", Some(Start::Latest(Edge::Exclusive))),
            ("amqp.annotation.x-opt-offset >= '@latest'", Some(Start::Latest(Edge::Inclusive))),
            ("amqp.annotation.x-opt-offset >'17'", Some(Start::SequenceNumber(17, Edge::Exclusive))),
            ("amqp.annotation.x-opt-sequence-number >= 5", Some(Start::SequenceNumber(5, Edge::Inclusive))),
            (
                "amqp.annotation.x-opt-enqueued-time > '1700000000123'",
                Some(Start::AppendTime(time, Edge::Exclusive)),
            ),
            (
                "amqp.annotation.x-opt-enqueuedtimeutc >= '1700000000123'",
                Some(Start::AppendTime(time, Edge::Inclusive)),
            ),
            ("amqp.annotation.x-opt-offset < '1'", None),
            ("amqp.annotation.x-opt-offset > 'a'", None),
            ("amqp.annotation.x-opt-other > '1'", None),
            ("", None),
        ] {
            assert_eq!(parse(selector), expected, "{selector:?}");
        }
    }

    #[test]
    fn no_filter_means_the_oldest_event() {
        assert_eq!(start_of(&Source::new("hub")), Ok(Start::Earliest));
    }
}
