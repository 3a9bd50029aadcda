//! A message as a queue gives it out: the service's header and annotations, then the bytes as they are kept. Hot path.
//!
//! ```text
//! 00 53 70  c0 size 05  durable priority ttl first-acquirer delivery-count
//! 00 53 71  …            a lock token, only where a payload of `$management` has it
//! 00 53 72  d1 size size size size count count count count
//!   a3 15 "x-opt-sequence-number"          81 …8 bytes…
//!   a3 1d "x-opt-enqueue-sequence-number"  81 …8 bytes…
//!   a3 13 "x-opt-enqueued-time"            83 …8 bytes…
//!   a3 13 "x-opt-message-state"            54 state
//!   a3 12 "x-opt-locked-until"             83 …8 bytes…      while it is locked
//!   a3 17 "x-opt-deadletter-source"        a1 n name         in a dead-letter queue
//!   the client's own entries
//! properties … body … footer, as they came
//! ```

use amqp::codec::{Symbol, Value, code, write};
use amqp::message::encode;

use crate::queue::{Delivery, LockToken};

/// Appends everything that precedes the kept bytes of a message.
#[inline]
pub(super) fn head(message: &Delivery<'_>, out: &mut Vec<u8>) {
    header(message, out);
    message_annotations(message, out);
}

/// More bytes than [`head`] ever appends, or as many.
#[inline]
pub(super) fn head_length_max(message: &Delivery<'_>) -> usize {
    let source = message.dead_letter_source.map_or(0, str::len);
    HEADER_LENGTH_MAX + TEMPLATE_LENGTH + SOURCE_OVERHEAD + source + message.annotations.len()
}

/// The same, with the token of its lock for clients that look for it in the message.
pub(super) fn head_with_lock_token(message: &Delivery<'_>, out: &mut Vec<u8>) {
    header(message, out);
    if let Some(lock) = &message.lock {
        let token = Value::Uuid(lock.token.to_bytes());
        let entry = (Symbol::from_static("x-opt-lock-token"), token);
        encode::delivery_annotations(out, &[entry]);
    }
    message_annotations(message, out);
}

/// A lock token as the tag of a delivery: the first three fields of the UUID in the other byte order.
#[inline]
pub(super) fn delivery_tag(token: LockToken) -> [u8; 16] {
    let bytes = token.to_bytes();
    [
        bytes[3], bytes[2], bytes[1], bytes[0], bytes[5], bytes[4], bytes[7], bytes[6], bytes[8],
        bytes[9], bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15],
    ]
}

#[inline]
fn header(message: &Delivery<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    // Neither durable nor of any priority: that makes no difference here.
    out.extend_from_slice(&[
        0x00,
        0x53,
        0x70,
        code::LIST_8,
        0,
        5,
        code::FALSE,
        code::NULL,
    ]);
    let milliseconds = message
        .time_to_live
        .map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
    write::option(out, milliseconds, write::uint);
    write::boolean(out, message.delivery_count == 0);
    write::uint(out, message.delivery_count);
    // The size counts what follows it.
    out[start + 4] = (out.len() - start - 5) as u8;
}

#[inline]
fn message_annotations(message: &Delivery<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&TEMPLATE);
    let mut patch = |at: usize, number: u64| {
        out[start + at..start + at + 8].copy_from_slice(&number.to_be_bytes());
    };
    patch(SEQUENCE_AT, message.sequence_number);
    patch(ENQUEUE_SEQUENCE_AT, message.enqueue_sequence_number);
    patch(
        ENQUEUED_AT,
        message.enqueued_time.milliseconds().cast_unsigned(),
    );
    out[start + STATE_AT] = message.state.code() as u8;
    let mut entries = 5;
    match &message.lock {
        Some(lock) => {
            let at = start + LOCKED_AT;
            out[at..at + 8].copy_from_slice(&lock.until.milliseconds().to_be_bytes());
        }
        None => {
            out.truncate(start + UNLOCKED_LENGTH);
            entries -= 1;
        }
    }
    if let Some(source) = message.dead_letter_source {
        write::symbol(out, "x-opt-deadletter-source");
        write::string(out, source);
        entries += 1;
    }
    out.extend_from_slice(message.annotations);
    entries += u32::from(message.annotation_count);
    let size = (out.len() - start - SIZE_AT - 4) as u32;
    out[start + SIZE_AT..start + SIZE_AT + 4].copy_from_slice(&size.to_be_bytes());
    out[start + SIZE_AT + 4..start + SIZE_AT + 8].copy_from_slice(&(entries * 2).to_be_bytes());
}

/// The section for a locked message without annotations of the client, with zeros for all numbers.
const TEMPLATE: [u8; TEMPLATE_LENGTH] = {
    let mut bytes = [0; TEMPLATE_LENGTH];
    let pieces: [(&[u8], usize); 6] = [
        (&[0x00, 0x53, 0x72, code::MAP_32], 8),
        (b"\xa3\x15x-opt-sequence-number\x81", 8),
        (b"\xa3\x1dx-opt-enqueue-sequence-number\x81", 8),
        (b"\xa3\x13x-opt-enqueued-time\x83", 8),
        (b"\xa3\x13x-opt-message-state\x54", 1),
        (b"\xa3\x12x-opt-locked-until\x83", 8),
    ];
    let mut at = 0;
    let mut piece = 0;
    while piece < pieces.len() {
        let (text, gap) = pieces[piece];
        let mut byte = 0;
        while byte < text.len() {
            bytes[at + byte] = text[byte];
            byte += 1;
        }
        at += text.len() + gap;
        piece += 1;
    }
    assert!(at == TEMPLATE_LENGTH, "the pieces fill the template");
    bytes
};

/// A header of eight bytes and three numbers of up to five, one of them a boolean.
const HEADER_LENGTH_MAX: usize = 8 + 3 * 5;

/// The key of a dead letter's source, and what precedes its name.
const SOURCE_OVERHEAD: usize = 2 + "x-opt-deadletter-source".len() + 5;

const SIZE_AT: usize = 4;
const SEQUENCE_AT: usize = SIZE_AT + 8 + 2 + 21 + 1;
const ENQUEUE_SEQUENCE_AT: usize = SEQUENCE_AT + 8 + 2 + 29 + 1;
const ENQUEUED_AT: usize = ENQUEUE_SEQUENCE_AT + 8 + 2 + 19 + 1;
const STATE_AT: usize = ENQUEUED_AT + 8 + 2 + 19 + 1;
const UNLOCKED_LENGTH: usize = STATE_AT + 1;
const LOCKED_AT: usize = UNLOCKED_LENGTH + 2 + 18 + 1;
const TEMPLATE_LENGTH: usize = LOCKED_AT + 8;

#[cfg(test)]
mod tests {
    use amqp::codec::Reader;
    use amqp::message::{MessageView, SectionKind, Sections};

    use super::*;
    use crate::UnixTime;
    use crate::queue::{Lock, MessageState};
    use std::time::Duration;

    fn message() -> Delivery<'static> {
        Delivery {
            sequence_number: i64::MAX.cast_unsigned(),
            enqueue_sequence_number: 7,
            enqueued_time: UnixTime::from_milliseconds(1_700_000_000_003),
            time_to_live: None,
            delivery_count: 0,
            state: MessageState::Active,
            lock: Some(Lock {
                token: TOKEN,
                until: UnixTime::from_milliseconds(1_700_000_060_003),
            }),
            dead_letter_source: None,
            annotation_count: 0,
            annotations: &[],
            sections: &[],
        }
    }

    const TOKEN: LockToken = LockToken {
        sequence_number: 0x0011_2233_4455_6677,
        nonce: 0x8899_aabb_ccdd_eeff,
    };

    #[test]
    fn a_delivery_tag_has_the_byte_order_that_clients_undo() {
        let expected = [
            0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd,
            0xee, 0xff,
        ];
        assert_eq!(delivery_tag(TOKEN), expected);
    }

    fn header(bytes: &[u8]) -> Value {
        let first = Sections::new(bytes).next().unwrap().unwrap();
        assert_eq!(first.kind, SectionKind::Header);
        Reader::new(first.value).value().unwrap()
    }

    fn annotations(bytes: &[u8]) -> Vec<(String, Value)> {
        let view = MessageView::parse(bytes).unwrap();
        let entries = view.message_annotations().unwrap().entries().unwrap();
        let entry = |(key, value): (Symbol, Value)| (key.as_str().to_owned(), value);
        entries.into_iter().map(entry).collect()
    }

    #[test]
    fn a_locked_message_says_what_clients_look_for_with_its_type() {
        let mut bytes = Vec::new();
        head(&message(), &mut bytes);
        assert!(bytes.len() <= head_length_max(&message()));
        let expected = [
            ("x-opt-sequence-number", Value::Long(i64::MAX)),
            ("x-opt-enqueue-sequence-number", Value::Long(7)),
            ("x-opt-enqueued-time", Value::Timestamp(1_700_000_000_003)),
            ("x-opt-message-state", Value::Int(0)),
            ("x-opt-locked-until", Value::Timestamp(1_700_000_060_003)),
        ];
        let expected: Vec<_> = expected
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        assert_eq!(annotations(&bytes), expected);
        let fields = [
            Value::Boolean(false),
            Value::Null,
            Value::Null,
            Value::Boolean(true),
            Value::Uint(0),
        ];
        assert_eq!(header(&bytes), Value::List(fields.to_vec()));
    }

    #[test]
    fn everything_that_may_be_there_is_told() {
        let mut own = Vec::new();
        write::symbol(&mut own, "mine");
        write::string(&mut own, &"long ".repeat(100));
        let full = Delivery {
            time_to_live: Some(Duration::from_secs(3_600)),
            delivery_count: 300,
            state: MessageState::Deferred,
            dead_letter_source: Some("orders"),
            annotations: &own,
            annotation_count: 1,
            ..message()
        };
        let mut bytes = Vec::new();
        head(&full, &mut bytes);
        assert!(bytes.len() <= head_length_max(&full));
        bytes.clear();
        head_with_lock_token(&full, &mut bytes);
        let told = annotations(&bytes);
        let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names[4..],
            ["x-opt-locked-until", "x-opt-deadletter-source", "mine"]
        );
        assert_eq!(told[3].1, Value::Int(1));
        assert_eq!(told[5].1, Value::from("orders"));
        let fields = [
            Value::Boolean(false),
            Value::Null,
            Value::Uint(3_600_000),
            Value::Boolean(false),
            Value::Uint(300),
        ];
        assert_eq!(header(&bytes), Value::List(fields.to_vec()));
        let view = MessageView::parse(&bytes).unwrap();
        let token = view
            .delivery_annotations()
            .unwrap()
            .find("x-opt-lock-token");
        assert_eq!(token.unwrap(), Some(Value::Uuid(TOKEN.to_bytes())));
    }
}
