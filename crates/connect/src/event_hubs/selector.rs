//! Where a receiver starts, as the selector that the service understands.

use amqp::{Symbol, Value};

use crate::source::StartPosition;

/// The filter map of a receiver's source.
pub(super) fn start_filter(position: &StartPosition) -> Vec<(Symbol, Value)> {
    let described = (Value::Ulong(DESCRIPTOR), Value::String(selector(position)));
    vec![(NAME, Value::Described(Box::new(described)))]
}

fn selector(position: &StartPosition) -> String {
    const SEQUENCE_NUMBER: &str = "amqp.annotation.x-opt-sequence-number";
    const OFFSET: &str = "amqp.annotation.x-opt-offset";
    match position {
        StartPosition::Earliest => format!("{OFFSET} > '-1'"),
        StartPosition::Latest => format!("{OFFSET} > '@latest'"),
        StartPosition::AtSequenceNumber(number) => format!("{SEQUENCE_NUMBER} >= '{number}'"),
        StartPosition::AfterSequenceNumber(number) => format!("{SEQUENCE_NUMBER} > '{number}'"),
        // The text is the service's own, but it may have come by way of a checkpoint store that others write to.
        StartPosition::AfterOffset(offset) => {
            format!("{OFFSET} > '{}'", offset.replace('\'', "''"))
        }
        StartPosition::AtEnqueuedTime(time) => {
            format!("amqp.annotation.x-opt-enqueued-time >= '{}'", time.unix_ms())
        }
    }
}

/// The selector filter's name.
const NAME: Symbol = Symbol::from_static("apache.org:selector-filter:string");

/// The selector filter's descriptor, as registered by Apache.
const DESCRIPTOR: u64 = 0x0000_468c_0000_0004;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EnqueuedTime;

    #[test]
    fn every_position_has_its_selector() {
        for (position, expected) in [
            (StartPosition::Earliest, "amqp.annotation.x-opt-offset > '-1'"),
            (StartPosition::Latest, "amqp.annotation.x-opt-offset > '@latest'"),
            (StartPosition::AtSequenceNumber(7), "amqp.annotation.x-opt-sequence-number >= '7'"),
            (StartPosition::AfterSequenceNumber(-1), "amqp.annotation.x-opt-sequence-number > '-1'"),
            (StartPosition::AfterOffset("123".into()), "amqp.annotation.x-opt-offset > '123'"),
            (
                StartPosition::AtEnqueuedTime(EnqueuedTime::from_unix_ms(1_700_000_000_000)),
                "amqp.annotation.x-opt-enqueued-time >= '1700000000000'",
            ),
        ] {
            assert_eq!(selector(&position), expected);
        }
    }

    #[test]
    fn an_offset_cannot_break_out_of_its_quotes() {
        let hostile = StartPosition::AfterOffset("1' OR '1'='1".into());
        assert_eq!(selector(&hostile), "amqp.annotation.x-opt-offset > '1'' OR ''1''=''1'");
    }

    #[test]
    fn the_filter_is_a_described_string_under_its_symbol() {
        let mut encoded = Vec::new();
        amqp::codec::write::fields(&mut encoded, &start_filter(&StartPosition::Earliest));
        let expected = [
            &b"\xd1\x00\x00\x00\x56\x00\x00\x00\x02"[..], // map32 of one entry
            b"\xa3\x21apache.org:selector-filter:string", // symbol
            b"\x00\x80\x00\x00\x46\x8c\x00\x00\x00\x04",  // descriptor: ulong
            b"\xa1\x23amqp.annotation.x-opt-offset > '-1'", // string
        ]
        .concat();
        assert_eq!(encoded, expected);
    }
}
