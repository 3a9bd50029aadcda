//! A message as a queue gives it out: the service's header and annotations, then the bytes as they are kept. Hot path.
//!
//! ```text
//! 00 53 70  c0 size 05  durable priority ttl first-acquirer delivery-count
//! 00 53 71  d1 size size size size count count count count
//!   a3 10 "x-opt-lock-token"               98 …16 bytes…     while it is locked
//!   the client's own entries
//! 00 53 72  d1 size size size size count count count count
//!   a3 15 "x-opt-sequence-number"          81 …8 bytes…
//!   a3 1d "x-opt-enqueue-sequence-number"  81 …8 bytes…
//!   a3 13 "x-opt-enqueued-time"            83 …8 bytes…
//!   a3 12 "x-opt-locked-until"             83 …8 bytes…      while it is locked, and where it is only looked at
//!   a3 13 "x-opt-message-state"            54 state          if it is not active
//!   a3 17 "x-opt-deadletter-source"        a1 n name         in a dead-letter queue
//!   the client's own entries
//! properties … body … footer, as they came
//! ```
//!
//! Durability, priority and first acquirer are the sender's, and null if it gave none. A time to live too long for the header is given by
//! `creation-time` and `absolute-expiry-time` of the properties.

use std::time::Duration;

use amqp::codec::{code, write};
use amqp::message::{EncodedHeader, Header, MessageView, Properties, SectionKind, Sections};

use crate::clock::ClientClock;
use crate::front::amqp::leading::{Leading, merge_delivery_annotations};
use partition_log::UnixTime;
use queue_store::{Delivery, Lock, LockEnd, LockToken, MessageState};

/// A message on its way out.
#[derive(Debug, Clone)]
pub(super) struct Outgoing<'a> {
    message: &'a Delivery<'a>,
    /// Value of `x-opt-locked-until`; `None` leaves it out.
    locked_until: Option<UnixTime>,
    /// The header and the delivery annotations that the sender gave it.
    leading: Option<Leading<'a>>,
    /// Replacement of its properties, if its time to live is too long for the header.
    long_lived: Option<LongLived<'a>>,
}

/// Properties of a message whose time to live is too long for the header.
#[derive(Debug, Clone)]
struct LongLived<'a> {
    /// Encoded properties section with creation and expiry time.
    properties: Vec<u8>,
    /// Sections after the original properties.
    rest: &'a [u8],
}

impl<'a> Outgoing<'a> {
    #[inline]
    pub(super) fn new(message: &'a Delivery<'a>, clock: ClientClock) -> Self {
        Self::told(message, message.lock.map(|lock| clock.lock_end(lock.until)))
    }

    /// Returns a peeked message. As in the service, its lock is not reported; with `requires_session`, it counts as locked forever.
    pub(super) fn peeked(message: &'a Delivery<'a>, requires_session: bool) -> Self {
        Self::told(
            message,
            Some(match requires_session {
                true => LockEnd::WITH_ITS_SESSION.queue_time(),
                false => NEVER_LOCKED,
            }),
        )
    }

    #[inline]
    fn told(message: &'a Delivery<'a>, locked_until: Option<UnixTime>) -> Self {
        let leading = Leading::of(message.sections);
        let long_lived = match message.time_to_live {
            Some(time) if time > LONGEST_IN_HEADER => LongLived::of(message, time, leading.as_ref()),
            _ => None,
        };
        Self { message, locked_until, leading, long_lived }
    }

    /// The lock of a message whose head is [usual](put_usual_head), as nearly all are.
    #[inline]
    pub(super) fn usual_lock(message: &'a Delivery<'a>) -> Option<&'a Lock> {
        let is_usual = message.delivery_count == 0
            && message.time_to_live.is_none()
            && message.state == MessageState::Active
            && message.dead_letter_source.is_none()
            && message.annotation_count == 0
            && Leading::of(message.sections).is_none();
        message.lock.as_ref().filter(|_| is_usual)
    }

    /// Appends everything that precedes the kept bytes.
    #[inline]
    pub(super) fn put_head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.header().encode().as_slice());
        match &self.leading {
            None => {
                if let Some(lock) = &self.message.lock {
                    out.extend_from_slice(&LOCK_TOKEN_SECTION);
                    out.extend_from_slice(&lock.token.to_bytes());
                }
            }
            Some(leading) => self.put_delivery_annotations(leading, out),
        }
        message_annotations(self.message, self.locked_until, out);
        if let Some(long_lived) = &self.long_lived {
            out.extend_from_slice(&long_lived.properties);
        }
    }

    /// More bytes than [`put_head`](Self::put_head) ever appends, or as many.
    #[inline]
    pub(super) fn head_length_max(&self) -> usize {
        let source = self.message.dead_letter_source.map_or(0, str::len);
        let leading = self.leading.map_or(0, |leading| leading.length());
        let properties = self.long_lived.as_ref().map_or(0, |long_lived| long_lived.properties.len());
        HEAD_LENGTH_MAX + leading + source + self.message.annotations.len() + properties
    }

    /// The kept bytes.
    #[inline]
    pub(super) fn sections(&self) -> &'a [u8] {
        match (&self.long_lived, &self.leading) {
            (Some(long_lived), _) => long_lived.rest,
            (None, Some(leading)) => leading.rest,
            (None, None) => self.message.sections,
        }
    }

    /// All of it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(self.head_length_max() + self.sections().len());
        self.put_head(&mut encoded);
        encoded.extend_from_slice(self.sections());
        encoded
    }

    #[inline]
    fn header(&self) -> Header {
        let sent = match &self.leading {
            None => Header::default(),
            Some(leading) => sent_header(leading),
        };
        Header {
            time_to_live_ms: self
                .message
                .time_to_live
                .map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX)),
            delivery_count: Some(self.message.delivery_count),
            ..sent
        }
    }

    #[cold]
    fn put_delivery_annotations(&self, leading: &Leading<'_>, out: &mut Vec<u8>) {
        let mut own = Vec::new();
        if let Some(lock) = &self.message.lock {
            own.extend_from_slice(&LOCK_TOKEN_SECTION[LOCK_TOKEN_ENTRY_AT..]);
            own.extend_from_slice(&lock.token.to_bytes());
        }
        let count = u32::from(self.message.lock.is_some());
        match leading.delivery_annotations {
            Some(client) => merge_delivery_annotations((count, &own), client, &[], out),
            None if count == 0 => {}
            None => {
                out.extend_from_slice(&LOCK_TOKEN_SECTION[..LOCK_TOKEN_ENTRY_AT]);
                out.extend_from_slice(&own);
            }
        }
    }
}

impl<'a> LongLived<'a> {
    /// Returns the replaced properties, or `None` if the bytes are no valid message.
    #[cold]
    fn of(message: &Delivery<'a>, time: Duration, leading: Option<&Leading<'a>>) -> Option<Self> {
        let sections = leading.map_or(message.sections, |leading| leading.rest);
        let first = Sections::new(sections).next()?.ok()?;
        let (own, rest) = match first.kind {
            SectionKind::Properties => {
                (MessageView::parse(first.encoded).ok()?.properties().ok()?, &sections[first.encoded.len()..])
            }
            _ => (None, sections),
        };
        let enqueued = message.enqueued_time.milliseconds();
        let expires = enqueued.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
        let told = Properties {
            creation_time: Some(enqueued),
            absolute_expiry_time: Some(expires.min(LAST_MILLISECOND)),
            ..own.unwrap_or_default()
        };
        let mut properties = Vec::new();
        told.encode(&mut properties);
        Some(Self { properties, rest })
    }
}

/// Appends the head of a message that has its [usual lock](Outgoing::usual_lock): a copy of what is always the same, with the
/// token and the numbers filled in.
#[inline]
pub(super) fn put_usual_head(message: &Delivery<'_>, lock: &Lock, clock: ClientClock, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&USUAL_HEAD);
    let Some(head) = out[start..].first_chunk_mut::<USUAL_HEAD_LENGTH>() else {
        return;
    };
    head[TOKEN_AT..TOKEN_AT + 16].copy_from_slice(&lock.token.to_bytes());
    let mut patch = |at: usize, number: u64| {
        head[ANNOTATIONS_AT + at..ANNOTATIONS_AT + at + 8].copy_from_slice(&number.to_be_bytes());
    };
    patch(SEQUENCE_AT, message.sequence_number);
    patch(ENQUEUE_SEQUENCE_AT, message.enqueue_sequence_number);
    patch(ENQUEUED_AT, message.enqueued_time.milliseconds().cast_unsigned());
    patch(LOCKED_AT, clock.lock_end(lock.until).milliseconds().cast_unsigned());
}

#[cold]
fn sent_header(leading: &Leading<'_>) -> Header {
    let value = leading.header.and_then(|section| section.get(3..));
    // It was checked when it was stored.
    value.and_then(|value| Header::decode(value).ok()).unwrap_or_default()
}

/// A lock token as the tag of a delivery: the first three fields of the UUID in the other byte order.
#[inline]
pub(super) fn delivery_tag(token: LockToken) -> [u8; 16] {
    let bytes = token.to_bytes();
    [
        bytes[3], bytes[2], bytes[1], bytes[0], bytes[5], bytes[4], bytes[7], bytes[6], bytes[8], bytes[9],
        bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15],
    ]
}

#[inline]
fn message_annotations(message: &Delivery<'_>, locked_until: Option<UnixTime>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&TEMPLATE);
    let mut patch = |at: usize, number: u64| {
        out[start + at..start + at + 8].copy_from_slice(&number.to_be_bytes());
    };
    patch(SEQUENCE_AT, message.sequence_number);
    patch(ENQUEUE_SEQUENCE_AT, message.enqueue_sequence_number);
    patch(ENQUEUED_AT, message.enqueued_time.milliseconds().cast_unsigned());
    let mut entries = 4;
    match locked_until {
        Some(until) => patch(LOCKED_AT, until.milliseconds().cast_unsigned()),
        None => {
            out.truncate(start + UNLOCKED_LENGTH);
            entries -= 1;
        }
    }
    if message.state != MessageState::Active {
        out.extend_from_slice(MESSAGE_STATE);
        out.push(message.state.code() as u8);
        entries += 1;
    }
    if let Some(source) = message.dead_letter_source {
        write::symbol(out, DEAD_LETTER_SOURCE);
        write::string(out, source);
        entries += 1;
    }
    out.extend_from_slice(message.annotations);
    entries += u32::from(message.annotation_count);
    let size = (out.len() - start - SIZE_AT - 4) as u32;
    out[start + SIZE_AT..start + SIZE_AT + 4].copy_from_slice(&size.to_be_bytes());
    out[start + SIZE_AT + 4..start + SIZE_AT + 8].copy_from_slice(&(entries * 2).to_be_bytes());
}

/// The message annotations of a locked message without annotations of the client, with zeros for all numbers.
const TEMPLATE: [u8; TEMPLATE_LENGTH] = with_gaps([
    (&[0x00, 0x53, 0x72, code::MAP_32], 8),
    (b"\xa3\x15x-opt-sequence-number\x81", 8),
    (b"\xa3\x1dx-opt-enqueue-sequence-number\x81", 8),
    (b"\xa3\x13x-opt-enqueued-time\x83", 8),
    (b"\xa3\x12x-opt-locked-until\x83", 8),
]);

/// The whole head of a locked message of which nothing else is to be said, with zeros for token and numbers.
const USUAL_HEAD: [u8; USUAL_HEAD_LENGTH] = with_gaps([
    (b"\x00\x53\x70\xc0\x06\x05\x40\x40\x40\x40\x43", 0),
    (&LOCK_TOKEN_SECTION, 16),
    (b"\x00\x53\x72\xd1\x00\x00\x00", 0),
    (&[TEMPLATE_LENGTH as u8 - 8, 0, 0, 0, 8], 0),
    (b"\xa3\x15x-opt-sequence-number\x81", 8),
    (b"\xa3\x1dx-opt-enqueue-sequence-number\x81", 8),
    (b"\xa3\x13x-opt-enqueued-time\x83", 8),
    (b"\xa3\x12x-opt-locked-until\x83", 8),
]);

/// Some texts, each followed by so many zeros.
const fn with_gaps<const N: usize, const PIECES: usize>(pieces: [(&[u8], usize); PIECES]) -> [u8; N] {
    let mut bytes = [0; N];
    let mut at = 0;
    let mut piece = 0;
    while piece < PIECES {
        let (text, gap) = pieces[piece];
        let mut byte = 0;
        while byte < text.len() {
            bytes[at + byte] = text[byte];
            byte += 1;
        }
        at += text.len() + gap;
        piece += 1;
    }
    assert!(at == N, "the pieces fill the array");
    bytes
}

/// The delivery annotations of a locked message without annotations of the client; the 16 bytes of the token follow.
const LOCK_TOKEN_SECTION: [u8; 31] =
    *b"\x00\x53\x71\xd1\x00\x00\x00\x27\x00\x00\x00\x02\xa3\x10x-opt-lock-token\x98";

/// Where the only entry of that begins.
const LOCK_TOKEN_ENTRY_AT: usize = 12;

const MESSAGE_STATE: &[u8] = b"\xa3\x13x-opt-message-state\x54";
const DEAD_LETTER_SOURCE: &str = "x-opt-deadletter-source";

/// All of a head but the name of a dead letter's source, and what the client gave it.
const HEAD_LENGTH_MAX: usize = EncodedHeader::LENGTH_MAX
    + LOCK_TOKEN_SECTION.len()
    + 16
    + TEMPLATE_LENGTH
    + MESSAGE_STATE.len()
    + 1
    + 2
    + DEAD_LETTER_SOURCE.len()
    + 5;

/// `x-opt-locked-until` of peeked messages: the first instant of the year 1.
const NEVER_LOCKED: UnixTime = UnixTime::from_milliseconds(-62_135_596_800_000);

/// The last millisecond of the year 9999, the latest instant that clients can represent.
const LAST_MILLISECOND: i64 = LockEnd::WITH_ITS_SESSION.queue_time().milliseconds();

/// Maximum time to live that fits into the header.
const LONGEST_IN_HEADER: Duration = Duration::from_millis(u32::MAX as u64);

const SIZE_AT: usize = 4;
const SEQUENCE_AT: usize = SIZE_AT + 8 + 2 + 21 + 1;
const ENQUEUE_SEQUENCE_AT: usize = SEQUENCE_AT + 8 + 2 + 29 + 1;
const ENQUEUED_AT: usize = ENQUEUE_SEQUENCE_AT + 8 + 2 + 19 + 1;
const UNLOCKED_LENGTH: usize = ENQUEUED_AT + 8;
const LOCKED_AT: usize = UNLOCKED_LENGTH + 2 + 18 + 1;
const TEMPLATE_LENGTH: usize = LOCKED_AT + 8;

const TOKEN_AT: usize = 11 + LOCK_TOKEN_SECTION.len();
const ANNOTATIONS_AT: usize = TOKEN_AT + 16;

/// The length of the head of a message that has its [usual lock](Outgoing::usual_lock).
pub(super) const USUAL_HEAD_LENGTH: usize = ANNOTATIONS_AT + TEMPLATE_LENGTH;

#[cfg(test)]
mod tests {
    use amqp::Value;
    use amqp::codec::Symbol;
    use amqp::message::encode;

    use super::*;

    fn message() -> Delivery<'static> {
        Delivery {
            sequence_number: i64::MAX.cast_unsigned(),
            enqueue_sequence_number: i64::MAX.cast_unsigned(),
            enqueued_time: UnixTime::from_milliseconds(1_700_000_000_003),
            time_to_live: None,
            delivery_count: 0,
            state: MessageState::Active,
            lock: Some(Lock {
                token: TOKEN,
                until: LockEnd::at(UnixTime::from_milliseconds(1_700_000_060_003)),
            }),
            dead_letter_source: None,
            annotation_count: 0,
            annotations: &[],
            sections: &[],
        }
    }

    const TOKEN: LockToken =
        LockToken { sequence_number: 0x0011_2233_4455_6677, nonce: 0x8899_aabb_ccdd_eeff };

    #[test]
    fn a_delivery_tag_has_the_byte_order_that_clients_undo() {
        let expected =
            [0x33, 0x22, 0x11, 0x00, 0x55, 0x44, 0x77, 0x66, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff];
        assert_eq!(delivery_tag(TOKEN), expected);
    }

    fn header(bytes: &[u8]) -> Header {
        let first = Sections::new(bytes).next().unwrap().unwrap();
        assert_eq!(first.kind, SectionKind::Header);
        Header::decode(first.value).unwrap()
    }

    fn named(entries: Vec<(Symbol, Value)>) -> Vec<(String, Value)> {
        let entry = |(key, value): (Symbol, Value)| (key.as_str().to_owned(), value);
        entries.into_iter().map(entry).collect()
    }

    fn annotations(bytes: &[u8]) -> Vec<(String, Value)> {
        let view = MessageView::parse(bytes).unwrap();
        named(view.message_annotations().unwrap().entries().unwrap())
    }

    fn delivery_annotations(bytes: &[u8]) -> Vec<(String, Value)> {
        let view = MessageView::parse(bytes).unwrap();
        named(view.delivery_annotations().unwrap().entries().unwrap())
    }

    fn head(message: &Delivery<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        let outgoing = Outgoing::new(message, ClientClock::default());
        outgoing.put_head(&mut bytes);
        assert!(bytes.len() <= outgoing.head_length_max());
        bytes
    }

    #[test]
    fn a_locked_message_says_what_clients_look_for_with_its_type() {
        let bytes = head(&message());
        let expected = [
            ("x-opt-sequence-number", Value::Long(i64::MAX)),
            ("x-opt-enqueue-sequence-number", Value::Long(i64::MAX)),
            ("x-opt-enqueued-time", Value::Timestamp(1_700_000_000_003)),
            ("x-opt-locked-until", Value::Timestamp(1_700_000_060_003)),
        ];
        let expected: Vec<_> = expected.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        assert_eq!(annotations(&bytes), expected);
        let token = [("x-opt-lock-token".to_owned(), Value::Uuid(TOKEN.to_bytes()))];
        assert_eq!(delivery_annotations(&bytes), token);
        let expected = Header { delivery_count: Some(0), ..Header::default() };
        assert_eq!(header(&bytes), expected);
    }

    #[test]
    fn a_usual_head_is_what_is_put_piece_by_piece() {
        let usual = message();
        let lock = Outgoing::usual_lock(&usual).expect("a usual message");
        let mut bytes = vec![7; 3];
        put_usual_head(&usual, lock, ClientClock::default(), &mut bytes);
        assert_eq!(bytes[3..], head(&usual));
        // Forwarded.
        let other = Delivery { enqueue_sequence_number: 7, ..usual };
        let lock = Outgoing::usual_lock(&other).expect("a usual message");
        bytes.clear();
        put_usual_head(&other, lock, ClientClock::default(), &mut bytes);
        assert_eq!(bytes, head(&other));
        let own = [0xa3, 1, b'a', 0x41];
        for unusual in [
            Delivery { delivery_count: 1, ..usual },
            Delivery { time_to_live: Some(Duration::ZERO), ..usual },
            Delivery { state: MessageState::Deferred, ..usual },
            Delivery { dead_letter_source: Some("orders"), ..usual },
            Delivery { annotation_count: 1, annotations: &own, ..usual },
            Delivery { sections: b"\x00\x53\x70\x45", ..usual },
            Delivery { lock: None, ..usual },
        ] {
            assert_eq!(Outgoing::usual_lock(&unusual), None);
        }
    }

    #[test]
    fn a_message_that_is_not_locked_has_no_delivery_annotations() {
        let bytes = head(&Delivery { lock: None, ..message() });
        let kinds: Vec<_> = Sections::new(&bytes).map(|section| section.unwrap().kind).collect();
        assert_eq!(kinds, [SectionKind::Header, SectionKind::MessageAnnotations]);
        assert_eq!(annotations(&bytes).len(), 3);
    }

    #[test]
    fn peeked_message_has_constant_lock_annotation() {
        for (requires_session, until) in [(false, -62_135_596_800_000), (true, 253_402_300_799_999)] {
            let free = Delivery { lock: None, ..message() };
            let encoded = Outgoing::peeked(&free, requires_session).encode();
            let told = annotations(&encoded);
            assert_eq!(told[3], ("x-opt-locked-until".to_owned(), Value::Timestamp(until)));
        }
    }

    #[test]
    fn long_time_to_live_is_written_to_properties() {
        let day = Duration::from_secs(24 * 3_600);
        let enqueued = 1_700_000_000_003;
        let mut body = Vec::new();
        encode::data(&mut body, b"payload");
        let mut own = Vec::new();
        let properties =
            Properties { message_id: Some(Value::Ulong(7)), to: Some("you".into()), ..Properties::default() };
        properties.encode(&mut own);
        let durable = Header { durable: Some(true), ..Header::default() }.encode();
        for (front, properties) in [(&own[..], properties.clone()), (&[], Properties::default())] {
            let sections = [durable.as_slice(), front, &body].concat();
            for (time, expires) in [
                (60 * day, Some(enqueued + 60 * 86_400_000)),
                (Duration::MAX, Some(253_402_300_799_999)),
                (LONGEST_IN_HEADER, None),
            ] {
                let message = Delivery { time_to_live: Some(time), sections: &sections, ..message() };
                let outgoing = Outgoing::new(&message, ClientClock::default());
                let bytes = outgoing.encode();
                assert!(bytes.len() <= outgoing.head_length_max() + outgoing.sections().len());
                let sent = header(&bytes);
                assert_eq!((sent.time_to_live_ms, sent.durable), (Some(u32::MAX), Some(true)));
                let view = MessageView::parse(&bytes).unwrap();
                let expected = Properties {
                    absolute_expiry_time: expires,
                    creation_time: expires.map(|_| enqueued),
                    ..properties.clone()
                };
                assert_eq!(view.properties().unwrap().unwrap_or_default(), expected);
                assert_eq!(view.data().unwrap().unwrap(), b"payload");
            }
        }
    }

    #[test]
    fn everything_that_may_be_there_is_described() {
        let mut own = Vec::new();
        write::symbol(&mut own, "mine");
        write::string(&mut own, &"long ".repeat(100));
        let full = Delivery {
            enqueue_sequence_number: 7,
            time_to_live: Some(Duration::from_secs(3_600)),
            delivery_count: 300,
            state: MessageState::Deferred,
            dead_letter_source: Some("orders"),
            annotations: &own,
            annotation_count: 1,
            ..message()
        };
        let bytes = head(&full);
        let told = annotations(&bytes);
        let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
        let expected = [
            "x-opt-sequence-number",
            "x-opt-enqueue-sequence-number",
            "x-opt-enqueued-time",
            "x-opt-locked-until",
            "x-opt-message-state",
            "x-opt-deadletter-source",
            "mine",
        ];
        assert_eq!(names, expected);
        assert_eq!(told[1].1, Value::Long(7));
        assert_eq!(told[4].1, Value::Int(1));
        assert_eq!(told[5].1, Value::from("orders"));
        let expected =
            Header { time_to_live_ms: Some(3_600_000), delivery_count: Some(300), ..Header::default() };
        assert_eq!(header(&bytes), expected);
    }

    #[test]
    fn what_the_sender_said_in_header_and_delivery_annotations_is_reported_with_what_the_service_says() {
        let sent = Header {
            durable: Some(true),
            priority: Some(9),
            first_acquirer: Some(false),
            ..Header::default()
        };
        let mut annotations = Vec::new();
        let entry = (Symbol::from_static("mine"), Value::Int(1));
        encode::delivery_annotations(&mut annotations, &[entry]);
        let mut body = Vec::new();
        encode::data(&mut body, b"payload");
        let encoded = sent.encode();
        let (encoded, annotations) = (encoded.as_slice(), &annotations[..]);
        for (front, has_header, has_annotations) in [
            (encoded.to_vec(), true, false),
            (annotations.to_vec(), false, true),
            ([encoded, annotations].concat(), true, true),
        ] {
            let sections = [&front[..], &body].concat();
            for lock in [message().lock, None] {
                let delivery = Delivery { lock, sections: &sections, ..message() };
                let bytes = head(&delivery);
                let expected =
                    Header { delivery_count: Some(0), ..if has_header { sent } else { Header::default() } };
                assert_eq!(header(&bytes), expected);
                let token = ("x-opt-lock-token".to_owned(), Value::Uuid(TOKEN.to_bytes()));
                let own = ("mine".to_owned(), Value::Int(1));
                let mut expected = Vec::new();
                expected.extend(lock.map(|_| token));
                expected.extend(has_annotations.then_some(own));
                assert_eq!(delivery_annotations(&bytes), expected);
                assert_eq!(Outgoing::new(&delivery, ClientClock::default()).sections(), body);
                assert_eq!(
                    Outgoing::new(&delivery, ClientClock::default()).encode(),
                    [&bytes[..], &body].concat()
                );
            }
        }
    }
}
