//! From transfers to the log. Hot path.
//!
//! A message of the batch format holds a complete message per Data section; any other is one event. Either way an
//! event is stored as it came, less the annotations that are the service's to set. Header and delivery annotations, which
//! few events have, are stored in front of all other sections. The bytes go straight from the input buffer into the log.

use std::sync::Arc;

use amqp::DecodeError;
use amqp::codec::{Reader, Symbol, Value, write};
use amqp::message::{EncodedHeader, FORMAT_BATCH, Header, Section, SectionKind, Sections};
use amqp::performative::{DeliveryState, ErrorCondition};

use crate::front::amqp::connection::conditions::{rejected, server_busy};
use crate::front::amqp::leading::keep_delivery_annotations;
use crate::namespace::{Hub, Partition, Watch};
use partition_log::UnixTime;
use partition_log::disk::CommitNumber;
use partition_log::{AppendError, BatchEncoder, NewRecord, Subscriber};

/// A link through which a client publishes.
#[derive(Debug)]
pub(crate) struct PublishLink {
    target: PublishTarget,
    /// The annotation with the publisher's name, encoded; empty where the address names none.
    publisher: Vec<u8>,
    /// Tells the connection to look whether the hub is still there.
    _watch: Watch,
}

/// Where the messages of a link go.
#[derive(Debug)]
enum PublishTarget {
    /// To the partition of their key, or to each in turn.
    Hub(Arc<Hub>),
    /// To this one.
    Partition(Arc<Partition>),
}

/// Why a message was not stored.
#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error("The message is malformed: {0}")]
    Malformed(#[from] DecodeError),
    #[error("The message has more separate parts than can be stored")]
    TooManyParts,
    #[error("The batch holds no event")]
    Empty,
}

impl PublishLink {
    /// To the hub as a whole: by key, or to each partition in turn. What has to be looked at is reported to
    /// `subscriber` under `key`.
    pub(crate) fn to_hub(hub: Arc<Hub>, subscriber: &Arc<Subscriber>, key: u64) -> Self {
        // Partitions go together, so any of them tells of the hub's end.
        let watch = hub.partitions()[0].publishers().watch(subscriber, key);
        Self { target: PublishTarget::Hub(hub), publisher: Vec::new(), _watch: watch }
    }

    /// Counts a message that the quota refused.
    #[cold]
    pub(crate) fn count_throttled(&self) {
        let partition = match &self.target {
            PublishTarget::Partition(partition) => partition,
            // It never got as far as one of its own.
            PublishTarget::Hub(hub) => &hub.partitions()[0],
        };
        partition.counters().throttled();
    }

    /// To one partition.
    pub(crate) fn to_partition(partition: Arc<Partition>, subscriber: &Arc<Subscriber>, key: u64) -> Self {
        let watch = partition.publishers().watch(subscriber, key);
        Self { target: PublishTarget::Partition(partition), publisher: Vec::new(), _watch: watch }
    }

    /// To the partition of a publisher, whose name every event is given.
    pub(crate) fn of_publisher(hub: &Hub, publisher: &str, subscriber: &Arc<Subscriber>, key: u64) -> Self {
        let partition = Arc::clone(hub.partition_for_key(publisher));
        let mut annotation = Vec::new();
        write::value(&mut annotation, &Value::Symbol(Symbol::from_static(PUBLISHER)));
        write::value(&mut annotation, &Value::from(publisher));
        Self { publisher: annotation, ..Self::to_partition(partition, subscriber, key) }
    }

    /// Whether the hub was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        match &self.target {
            PublishTarget::Hub(hub) => hub.partitions()[0].is_deleted(),
            PublishTarget::Partition(partition) => partition.is_deleted(),
        }
    }

    /// Stores the events of one message; gives the commit with which it is accepted.
    ///
    /// # Errors
    /// The outcome of a message that is not stored.
    // The result goes through memory: that of the usual case is two words, where a whole outcome would be ten.
    #[inline]
    pub(crate) fn publish(
        &self,
        format: u32,
        message: &[u8],
        now: UnixTime,
        scratch: &mut Vec<u8>,
    ) -> Result<CommitNumber, DeliveryState> {
        let partition = match &self.target {
            PublishTarget::Partition(partition) => partition,
            PublishTarget::Hub(hub) => match partition_of(hub, format, message) {
                Ok(partition) => partition,
                Err(error) => return Err(malformed(&error.into())),
            },
        };
        if partition.is_deleted() {
            let gone = "The messaging entity could not be found: it was deleted.";
            return Err(rejected(ErrorCondition::NOT_FOUND, gone));
        }
        let publisher = &self.publisher[..];
        let appended = partition.append(now, |encoder| {
            if format == FORMAT_BATCH {
                push_batch(encoder, message, publisher, scratch)
            } else {
                push_event(encoder, message, publisher, scratch)
            }
        });
        match appended {
            Ok(appended) => Ok(appended.commit),
            Err(error) => Err(refused(error)),
        }
    }
}

#[cold]
fn refused(error: AppendError<PublishError>) -> DeliveryState {
    match error {
        AppendError::Encoding(error) => malformed(&error),
        AppendError::TooLong => rejected(
            ErrorCondition::MESSAGE_SIZE_EXCEEDED,
            "The batch is larger than a batch of the log can be.",
        ),
        AppendError::Full { held, bound, .. } => server_busy(&format!(
            "The partition holds {held} of at most {bound} and takes no more until consumers have caught up."
        )),
        AppendError::Unavailable(reason) => {
            server_busy(&format!("The partition takes no events at present: {reason}."))
        }
    }
}

fn push_batch(
    encoder: &mut BatchEncoder<'_>,
    message: &[u8],
    publisher: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<(), PublishError> {
    let mut any = false;
    for section in Sections::new(message) {
        let section = section?;
        if section.kind == SectionKind::Data {
            push_event(encoder, section.data()?, publisher, scratch)?;
            any = true;
        }
    }
    if any { Ok(()) } else { Err(PublishError::Empty) }
}

#[inline]
fn push_event(
    encoder: &mut BatchEncoder<'_>,
    message: &[u8],
    publisher: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<(), PublishError> {
    let mut front: Option<Front> = None;
    let mut parts = Parts::default();
    let mut annotations: Option<&[u8]> = None;
    let mut any = false;
    for section in Sections::new(message) {
        let section = section?;
        section.validate()?;
        any = true;
        match section.kind {
            SectionKind::Header | SectionKind::DeliveryAnnotations => {
                front.get_or_insert_default().read(&section)?;
            }
            SectionKind::MessageAnnotations => annotations = Some(section.value),
            _ => parts.push(section.encoded)?,
        }
    }
    if !any {
        return Err(PublishError::Empty);
    }
    if let Some(front) = &front {
        parts.put_in_front(front)?;
    }
    let (annotation_count, annotations) = match annotations {
        None => (u32::from(!publisher.is_empty()), publisher),
        Some(map) => own_annotations(map, publisher, scratch)?,
    };
    encoder.push(&NewRecord { annotation_count, annotations, sections: parts.as_slice() });
    Ok(())
}

/// What is stored in front of all other sections of an event.
#[derive(Default)]
struct Front {
    header: Option<EncodedHeader>,
    delivery_annotations: Vec<u8>,
}

impl Front {
    #[cold]
    fn read(&mut self, section: &Section<'_>) -> Result<(), DecodeError> {
        if section.kind == SectionKind::Header {
            self.header = Some(Header::decode(section.value)?.encode());
            return Ok(());
        }
        self.delivery_annotations.clear();
        keep_delivery_annotations(section.value, &[], &mut self.delivery_annotations)
    }
}

/// The pieces of a message that are stored, neighbours joined.
#[derive(Default)]
struct Parts<'a> {
    pieces: [&'a [u8]; MAX_PIECES],
    count: usize,
}

impl<'a> Parts<'a> {
    #[inline]
    fn push(&mut self, piece: &'a [u8]) -> Result<(), PublishError> {
        let slot = self.pieces.get_mut(self.count).ok_or(PublishError::TooManyParts)?;
        *slot = piece;
        self.count += 1;
        Ok(())
    }

    #[cold]
    fn put_in_front(&mut self, front: &'a Front) -> Result<(), PublishError> {
        let header = front.header.as_ref().map(EncodedHeader::as_slice);
        let annotations = Some(&front.delivery_annotations[..]);
        for piece in [annotations, header].into_iter().flatten() {
            self.push(piece)?;
            self.pieces[..self.count].rotate_right(1);
        }
        Ok(())
    }

    fn as_slice(&self) -> &[&'a [u8]] {
        &self.pieces[..self.count]
    }
}

/// The client's entries of an annotations map: as they are, or, where some are the service's to set, without those, and
/// with the publisher's name if there is one.
#[cold]
fn own_annotations<'a>(
    map: &'a [u8],
    publisher: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<(u32, &'a [u8]), DecodeError> {
    let Some(mut entries) = Reader::new(map).map()? else {
        return Ok((u32::from(!publisher.is_empty()), publisher));
    };
    let (all, count) = (entries.rest(), entries.remaining());
    let mut kept = 0;
    scratch.clear();
    while let Some(reader) = entries.entry() {
        let key_bytes = reader.raw()?;
        let value = reader.raw()?;
        let key = Reader::new(key_bytes).text()?.unwrap_or_default();
        if !SERVICE_ANNOTATIONS.contains(&key) {
            scratch.extend_from_slice(key_bytes);
            scratch.extend_from_slice(value);
            kept += 1;
        }
    }
    if kept == count && publisher.is_empty() {
        return Ok((count, all));
    }
    if !publisher.is_empty() {
        scratch.extend_from_slice(publisher);
        kept += 1;
    }
    Ok((kept, scratch))
}

/// The partition for a message sent to the hub: by the key of the envelope, else of the first event in it, else in
/// turn.
#[cold]
fn partition_of<'a>(hub: &'a Hub, format: u32, message: &[u8]) -> Result<&'a Arc<Partition>, DecodeError> {
    let mut first_event = None;
    for section in Sections::new(message) {
        let section = section?;
        match section.kind {
            SectionKind::MessageAnnotations => {
                if let Some(key) = partition_key(section.value)? {
                    return Ok(hub.partition_for_key(key));
                }
            }
            SectionKind::Data if format == FORMAT_BATCH && first_event.is_none() => {
                first_event = Some(section.data()?);
            }
            _ => {}
        }
    }
    for section in first_event.into_iter().flat_map(Sections::new) {
        let section = section?;
        if section.kind == SectionKind::MessageAnnotations
            && let Some(key) = partition_key(section.value)?
        {
            return Ok(hub.partition_for_key(key));
        }
    }
    Ok(hub.next_partition())
}

fn partition_key(map: &[u8]) -> Result<Option<&str>, DecodeError> {
    let Some(mut entries) = Reader::new(map).map()? else {
        return Ok(None);
    };
    while let Some(reader) = entries.entry() {
        if reader.text()? == Some(PARTITION_KEY) {
            return reader.text();
        }
        reader.skip()?;
    }
    Ok(None)
}

#[cold]
fn malformed(error: &PublishError) -> DeliveryState {
    rejected(ErrorCondition::DECODE_ERROR, error.to_string())
}

/// Annotation by which a client picks the partition.
const PARTITION_KEY: &str = "x-opt-partition-key";

/// Annotations that the service sets on what it delivers, whatever the client wrote.
const SERVICE_ANNOTATIONS: [&str; 4] =
    ["x-opt-sequence-number", "x-opt-offset", "x-opt-enqueued-time", PUBLISHER];

/// Annotation with the name of the publisher, of events that came by its address.
const PUBLISHER: &str = "x-opt-publisher";

/// Sections that an event may have beside its message annotations: properties, application properties, footer, bodies,
/// and what stands in front of them.
const MAX_PIECES: usize = 32;

impl From<std::convert::Infallible> for PublishError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
