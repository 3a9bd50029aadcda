//! A message as a client sent it: what a queue must know of it, and the bytes that it keeps. Hot path.
//!
//! ```text
//! [header] [delivery annotations] [message annotations] [properties … body … footer]
//!     │        │                       │                     kept as they came
//!     │        └ the client's entries  └ the client's entries kept, the service's own dropped
//!     └ time to live; durability, priority and first acquirer kept if they are there
//! ```
//!
//! A message without an identifier is given one, since clients cannot work without: that rewrites the front of the
//! properties. A message with delivery annotations, or whose sections are not in their order, is put together anew, as
//! [`leading`](crate::front::amqp::leading) describes it. A message may be without a body, or without any section at all.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use amqp::DecodeError;
use amqp::codec::{List, Reader, code};
use amqp::message::{EncodedHeader, FORMAT_BATCH, Header, Section, SectionKind, Sections, is_data_section};
use amqp::performative::descriptor;

use crate::front::amqp::leading::keep_delivery_annotations;
use partition_log::UnixTime;
use queue_store::NewMessage;
use units::partition_key;

/// One message, in pieces of the buffer that it came in.
#[derive(Debug, Clone)]
pub(super) struct IncomingMessage<'a> {
    /// How long it may wait.
    pub(super) time_to_live: Option<Duration>,
    /// When it is to become visible, if not at once.
    pub(super) scheduled_enqueue_time: Option<UnixTime>,
    /// Its identifier as the client encoded it, if it has one.
    pub(super) message_id: Option<&'a [u8]>,
    /// The session that it belongs to.
    pub(super) session_id: Option<&'a str>,
    /// The client's annotations: keys and values, one after the other.
    pub(super) annotations: Cow<'a, [u8]>,
    /// How many entries these are.
    pub(super) annotation_count: u16,
    /// What is kept of the header, and a new front of the properties, where these had to be written.
    front: Front,
    /// What follows the front.
    tail: Cow<'a, [u8]>,
}

/// Why a message is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum MessageError {
    /// Its bytes are no message.
    #[error("The message is malformed: {0}")]
    Malformed(#[from] DecodeError),
    /// A section of which there can be one is there twice.
    #[error("The message has a duplicate section")]
    Repeated,
    /// A batch without messages.
    #[error("The batch holds no message")]
    EmptyBatch,
    /// More annotations than are kept.
    #[error("The message annotations are longer than {ANNOTATIONS_MAX} bytes")]
    LargeAnnotations,
    /// A session of too long a name.
    #[error("The session id is longer than {SESSION_ID_MAX} characters")]
    LongSessionId,
    /// A partition key that is longer than the service takes.
    #[error("The partition key is longer than {} characters", partition_key::LONGEST)]
    LongPartitionKey,
    /// An identifier that is too long to be remembered.
    #[error("The message id is longer than {MESSAGE_ID_MAX} bytes")]
    LongMessageId,
}

/// Gives identifiers to messages that have none: 32 hexadecimal digits, different for each message of all services.
#[derive(Debug)]
pub(super) struct MessageIds {
    digits: [u8; ID_LENGTH],
    next: u64,
}

/// An encoded header, and the encoded front of a properties section, in place.
#[derive(Debug, Clone, Copy)]
struct Front {
    bytes: [u8; FRONT_LENGTH],
    length: u8,
}

impl<'a> IncomingMessage<'a> {
    const EMPTY: Self = Self {
        time_to_live: None,
        scheduled_enqueue_time: None,
        message_id: None,
        session_id: None,
        annotations: Cow::Borrowed(&[]),
        annotation_count: 0,
        front: Front::EMPTY,
        tail: Cow::Borrowed(&[]),
    };

    /// Reads a message.
    ///
    /// # Errors
    /// It is none that can be delivered.
    #[inline]
    pub(super) fn parse(message: &'a [u8], ids: &mut MessageIds) -> Result<Self, MessageError> {
        match Self::parse_usual(message, ids) {
            Some(usual) => Ok(usual),
            None => Self::parse_any(message, ids),
        }
    }

    /// A message that is one Data section, alone or behind properties of which there is an identifier alone, and that a text.
    /// `None` for any other, and for those that are malformed.
    #[inline]
    fn parse_usual(message: &'a [u8], ids: &mut MessageIds) -> Option<Self> {
        let mut parsed = Self { tail: Cow::Borrowed(message), ..Self::EMPTY };
        match message {
            [code::DESCRIBED, code::SMALL_ULONG, PROPERTIES, code::LIST_8, size, 1, id @ ..] => {
                // The size counts what follows it: the count, and the identifier.
                let (id, body) = id.split_at_checked(usize::from(*size).checked_sub(1)?)?;
                let [code::STRING_8, length, text @ ..] = id else {
                    return None;
                };
                if usize::from(*length) != text.len() || !text.is_ascii() || !is_data_section(body) {
                    return None;
                }
                parsed.message_id = Some(id);
            }
            _ if is_data_section(message) => parsed.front = Front::of_identifier(&ids.assign()),
            _ => return None,
        }
        Some(parsed)
    }

    fn parse_any(message: &'a [u8], ids: &mut MessageIds) -> Result<Self, MessageError> {
        let mut parsed = Self::EMPTY;
        let (mut rank, mut seen, mut is_in_order) = (0, 0_u8, true);
        let mut is_long_lived = false;
        let mut delivery_annotations = None;
        let mut properties: Option<Section<'a>> = None;
        let mut tail = &[][..];
        let mut rest = message;
        for section in Sections::new(message) {
            let section = section?;
            section.validate()?;
            let next = rank_of(section.kind);
            let may_repeat = matches!(section.kind, SectionKind::Data | SectionKind::Sequence);
            if seen & 1 << next != 0 && !may_repeat {
                return Err(MessageError::Repeated);
            }
            seen |= 1 << next;
            is_in_order &= next >= rank;
            rank = next;
            match section.kind {
                SectionKind::Header => is_long_lived = parsed.read_header(section.value)?,
                SectionKind::DeliveryAnnotations => delivery_annotations = Some(section.value),
                SectionKind::MessageAnnotations => parsed.read_annotations(section.value)?,
                kind => {
                    if tail.is_empty() {
                        tail = rest;
                    }
                    if kind == SectionKind::Properties {
                        properties = Some(section);
                    }
                }
            }
            rest = &rest[section.encoded.len()..];
        }
        let after_id = match &properties {
            Some(section) => parsed.read_properties(section, is_long_lived)?,
            None => Some(List::EMPTY),
        };
        if !is_in_order || delivery_annotations.is_some() {
            let id = after_id.map(|after_id| (ids.assign(), after_id));
            parsed.tail = Cow::Owned(put_together(message, delivery_annotations, id)?);
            return Ok(parsed);
        }
        if let Some(after_id) = after_id {
            parsed.front.put_properties(&ids.assign(), after_id);
            if let Some(section) = &properties {
                tail = &tail[section.encoded.len() - after_id.rest().len()..];
            }
        }
        parsed.tail = Cow::Borrowed(tail);
        Ok(parsed)
    }

    /// The message as a queue takes it; `sections` are the two pieces of [`kept`](Self::kept).
    #[inline]
    pub(super) fn to_new<'b>(&'b self, sections: &'b [&'b [u8]; 2]) -> NewMessage<'b> {
        NewMessage {
            sections,
            annotation_count: self.annotation_count,
            annotations: &self.annotations,
            message_id: self.message_id,
            session_id: self.session_id,
            time_to_live: self.time_to_live,
            scheduled_enqueue_time: self.scheduled_enqueue_time,
            forwarded: None,
        }
    }

    /// The bytes to keep, in two pieces of which the first may be empty.
    #[inline]
    pub(super) fn kept(&self) -> [&[u8]; 2] {
        [&self.front.bytes[..usize::from(self.front.length)], &self.tail]
    }

    /// Reads the header. Returns whether its time to live is the maximum that fits, which stands for longer ones.
    fn read_header(&mut self, value: &'a [u8]) -> Result<bool, MessageError> {
        let header = Header::decode(value)?;
        self.time_to_live = header
            .time_to_live_ms
            .filter(|milliseconds| *milliseconds < u32::MAX)
            .map(|milliseconds| Duration::from_millis(milliseconds.into()));
        let kept = Header {
            durable: header.durable,
            priority: header.priority,
            first_acquirer: header.first_acquirer,
            ..Header::default()
        };
        if kept != Header::default() {
            self.front.put(kept.encode().as_slice());
        }
        Ok(header.time_to_live_ms == Some(u32::MAX))
    }

    fn read_annotations(&mut self, value: &'a [u8]) -> Result<(), MessageError> {
        let Some(mut entries) = Reader::new(value).map()? else {
            return Ok(());
        };
        let (all, count) = (entries.rest(), entries.remaining());
        let mut is_clean = true;
        while let Some(reader) = entries.entry() {
            let key = reader.text()?.unwrap_or_default();
            if key == SCHEDULED_ENQUEUE_TIME {
                self.scheduled_enqueue_time = reader.timestamp()?.map(UnixTime::from_milliseconds);
            } else if PARTITION_KEYS.contains(&key) {
                check_partition_key(reader.raw()?)?;
            } else {
                is_clean &= !SERVICE_ANNOTATIONS.contains(&key);
                reader.skip()?;
            }
        }
        self.annotation_count = u16::try_from(count).map_err(|_| MessageError::LargeAnnotations)?;
        self.annotations = Cow::Borrowed(all);
        if !is_clean {
            self.drop_service_annotations(all)?;
        }
        if self.annotations.len() > ANNOTATIONS_MAX {
            return Err(MessageError::LargeAnnotations);
        }
        Ok(())
    }

    /// A message that was received is sent on as it is, annotations of the service and all.
    #[cold]
    fn drop_service_annotations(&mut self, annotations: &'a [u8]) -> Result<(), DecodeError> {
        let mut own = Vec::with_capacity(annotations.len());
        let mut reader = Reader::new(annotations);
        let count = std::mem::take(&mut self.annotation_count);
        for _ in 0..count {
            let entry = reader.rest();
            let key = reader.text()?.unwrap_or_default();
            let is_own = !SERVICE_ANNOTATIONS.contains(&key);
            reader.skip()?;
            if is_own {
                own.extend_from_slice(&entry[..entry.len() - reader.rest().len()]);
                self.annotation_count += 1;
            }
        }
        self.annotations = Cow::Owned(own);
        Ok(())
    }

    /// Reads the properties; their times give the time to live of a message that `is_long_lived`. Returns the fields after a missing
    /// message id, if it is missing.
    fn read_properties(
        &mut self,
        section: &Section<'a>,
        is_long_lived: bool,
    ) -> Result<Option<List<'a>>, MessageError> {
        let all = Reader::new(section.value).list()?.unwrap_or(List::EMPTY);
        let mut fields = all;
        let id = fields.field(|reader| reader.raw().map(Some))?;
        let after_id = fields;
        for _ in 0..FIELDS_BEFORE_TIMES {
            fields.skip()?;
        }
        let expires = fields.field(Reader::timestamp)?;
        let created = fields.field(Reader::timestamp)?;
        if is_long_lived && let (Some(created), Some(expires)) = (created, expires) {
            let lives = expires.checked_sub(created).and_then(|lives| u64::try_from(lives).ok());
            self.time_to_live = lives.map(Duration::from_millis);
        }
        self.session_id = fields.field(Reader::string)?;
        if self.session_id.is_some_and(|session| session.chars().count() > SESSION_ID_MAX) {
            return Err(MessageError::LongSessionId);
        }
        match id.filter(|id| *id != [code::NULL]) {
            Some(id) if id.len() > MESSAGE_ID_MAX + LENGTH_PREFIX_MAX => Err(MessageError::LongMessageId),
            Some(id) => {
                self.message_id = Some(id);
                Ok(None)
            }
            None => Ok(Some(after_id)),
        }
    }
}

/// Checks the length of a partition key, encoded. One that is no text says nothing of a partition.
fn check_partition_key(key: &[u8]) -> Result<(), MessageError> {
    match Reader::new(key).text() {
        Ok(Some(key)) if partition_key::is_too_long(key) => Err(MessageError::LongPartitionKey),
        _ => Ok(()),
    }
}

/// The sections that are kept of a message, except its header, in the order of the specification. Where the properties
/// have no identifier, they get the one of `id`, which the other fields follow.
#[cold]
fn put_together(
    message: &[u8],
    delivery_annotations: Option<&[u8]>,
    id: Option<([u8; ID_LENGTH], List<'_>)>,
) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::with_capacity(message.len() + FRONT_LENGTH);
    if let Some(value) = delivery_annotations {
        keep_delivery_annotations(value, &[LOCK_TOKEN], &mut out)?;
    }
    if let Some((id, after_id)) = id {
        let mut front = Front::EMPTY;
        front.put_properties(&id, after_id);
        out.extend_from_slice(&front.bytes[..usize::from(front.length)]);
        out.extend_from_slice(after_id.rest());
    }
    for rank in PROPERTIES_RANK..=FOOTER_RANK {
        if rank == PROPERTIES_RANK && id.is_some() {
            continue;
        }
        for section in Sections::new(message) {
            let section = section?;
            if rank_of(section.kind) == rank {
                out.extend_from_slice(section.encoded);
            }
        }
    }
    Ok(out)
}

impl MessageIds {
    /// Identifiers that nobody else gives.
    pub(super) fn new() -> Self {
        // Two draws of the standard library's generator, which the system seeds.
        let random = || RandomState::new().build_hasher().finish();
        let mut digits = [b'0'; ID_LENGTH];
        write_hex(&mut digits[..16], random());
        Self { digits, next: random() }
    }

    /// The next one.
    #[inline]
    pub(super) fn assign(&mut self) -> [u8; ID_LENGTH] {
        write_hex(&mut self.digits[16..], self.next);
        self.next = self.next.wrapping_add(1);
        self.digits
    }
}

impl Front {
    const EMPTY: Self = Self { bytes: [0; FRONT_LENGTH], length: 0 };

    /// Properties of which there is an identifier alone.
    #[inline]
    fn of_identifier(id: &[u8; ID_LENGTH]) -> Self {
        let mut front = Self { length: (ID_AT + ID_LENGTH) as u8, ..Self::EMPTY };
        front.bytes[..ID_AT].copy_from_slice(&[
            code::DESCRIBED,
            code::SMALL_ULONG,
            PROPERTIES,
            code::LIST_8,
            3 + ID_LENGTH as u8,
            1,
            code::STRING_8,
            ID_LENGTH as u8,
        ]);
        front.bytes[ID_AT..ID_AT + ID_LENGTH].copy_from_slice(id);
        front
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let start = usize::from(self.length);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len() as u8;
    }

    /// Descriptor and head of a list whose first field is `id` and whose other fields, `after_id`, are to follow.
    fn put_properties(&mut self, id: &[u8; ID_LENGTH], after_id: List<'_>) {
        let (count, rest) = (after_id.remaining() + 1, after_id.rest().len());
        self.put(&[code::DESCRIBED, code::SMALL_ULONG, PROPERTIES]);
        let value = 2 + ID_LENGTH;
        // The sizes count what follows them: the count of its own width, the identifier, the rest.
        match (u8::try_from(1 + value + rest), u8::try_from(count)) {
            (Ok(size), Ok(count)) => self.put(&[code::LIST_8, size, count]),
            _ => {
                let size = u32::try_from(4 + value + rest).expect("no frame of ours holds 4 GiB");
                self.put(&[code::LIST_32]);
                self.put(&size.to_be_bytes());
                self.put(&count.to_be_bytes());
            }
        }
        self.put(&[code::STRING_8, ID_LENGTH as u8]);
        self.put(id);
    }
}

/// Calls `each` with every message of a transfer: those in a batch, or the one that it is. Only the size of a batch bounds their number.
///
/// # Errors
/// The batch is malformed or empty, or `each` refuses a message.
#[inline]
pub(super) fn each_message<'a, E: From<MessageError>>(
    format: u32,
    message: &'a [u8],
    mut each: impl FnMut(&'a [u8]) -> Result<(), E>,
) -> Result<(), E> {
    if format != FORMAT_BATCH {
        return each(message);
    }
    let mut count = 0;
    for section in Sections::new(message) {
        let section = section.map_err(MessageError::from)?;
        if section.kind == SectionKind::Data {
            count += 1;
            each(section.data().map_err(MessageError::from)?)?;
        }
    }
    match count {
        0 => Err(MessageError::EmptyBatch.into()),
        _ => Ok(()),
    }
}

const fn rank_of(kind: SectionKind) -> u8 {
    match kind {
        SectionKind::Header => 1,
        SectionKind::DeliveryAnnotations => 2,
        SectionKind::MessageAnnotations => 3,
        SectionKind::Properties => PROPERTIES_RANK,
        SectionKind::ApplicationProperties => 5,
        SectionKind::Data | SectionKind::Sequence | SectionKind::Value => 6,
        SectionKind::Footer => FOOTER_RANK,
    }
}

fn write_hex(out: &mut [u8], mut number: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 15) as usize];
        number >>= 4;
    }
}

/// The descriptor of the section of properties, in one byte.
const PROPERTIES: u8 = descriptor::PROPERTIES as u8;

/// Where the identifier is in properties that begin with one of [`ID_LENGTH`].
const ID_AT: usize = 8;

const PROPERTIES_RANK: u8 = 4;
const FOOTER_RANK: u8 = 7;

/// Digits of an identifier that is assigned.
pub(super) const ID_LENGTH: usize = 32;

/// A header, then a descriptor, the longest head of a list, and an identifier.
const FRONT_LENGTH: usize = EncodedHeader::LENGTH_MAX + 3 + 9 + 2 + ID_LENGTH;

/// Fields of the properties between the message id and the times of expiry and creation, which the group id follows: user id to content
/// encoding.
const FIELDS_BEFORE_TIMES: u32 = 7;

/// Longest session id, in characters, as in the service.
pub(super) const SESSION_ID_MAX: usize = 128;

/// Longest message id, in bytes: 128 characters of up to four bytes.
const MESSAGE_ID_MAX: usize = 512;

/// Longest annotations of a message, in bytes.
const ANNOTATIONS_MAX: usize = u16::MAX as usize;

/// What an encoded text or binary has before its bytes, at most.
const LENGTH_PREFIX_MAX: usize = 5;

/// Annotation with the instant at which a message becomes visible.
const SCHEDULED_ENQUEUE_TIME: &str = "x-opt-scheduled-enqueue-time";

/// Annotations with a partition key, of the entity and of the one that it is sent through.
const PARTITION_KEYS: [&str; 2] = ["x-opt-partition-key", "x-opt-via-partition-key"];

/// Annotations that the service sets on what it delivers, whatever the client wrote: a message that was received may be
/// sent on as it is.
const SERVICE_ANNOTATIONS: [&str; 8] = [
    "x-opt-sequence-number",
    "x-opt-enqueue-sequence-number",
    "x-opt-enqueued-time",
    "x-opt-locked-until",
    "x-opt-message-state",
    "x-opt-deadletter-source",
    LOCK_TOKEN,
    "x-opt-offset",
];

/// Annotation with the token of a lock, among the delivery annotations of a locked message.
const LOCK_TOKEN: &str = "x-opt-lock-token";

#[cfg(test)]
mod tests;
