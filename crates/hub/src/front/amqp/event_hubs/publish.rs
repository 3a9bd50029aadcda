//! Links through which clients publish: which partition a message goes to, and the outcome of one that is not stored.

use std::sync::Arc;

use amqp::DecodeError;
use amqp::codec::{Reader, Symbol, Value, write};
use amqp::message::{FORMAT_BATCH, SectionKind, Sections};
use amqp::performative::{DeliveryState, ErrorCondition};

use super::idempotent::Numbering;
use super::incoming::{MessageError, PUBLISHER};
use crate::front::amqp::conditions::{rejected, server_busy};
use crate::namespace::{Hub, Partition, Watch};
use partition_log::{AppendError, Subscriber};
use units::partition_key::is_too_long;

/// A link through which a client publishes.
#[derive(Debug)]
pub(crate) struct PublishLink {
    target: PublishTarget,
    hub_name: String,
    /// The annotation with the publisher's name, encoded; empty where the address names none.
    publisher: Vec<u8>,
    /// What the numbers of its events mean.
    pub(super) numbering: Numbering,
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

impl PublishLink {
    /// To the hub as a whole: by key, or to each partition in turn. What has to be looked at is reported to
    /// `subscriber` under `key`.
    pub(crate) fn to_hub(hub: Arc<Hub>, subscriber: &Arc<Subscriber>, key: u64) -> Self {
        // The partitions of a hub are deleted together, so any of them shows the hub's end.
        let watch = hub.partitions()[0].publishers().watch(subscriber, key);
        let hub_name = hub.name().to_owned();
        Self {
            target: PublishTarget::Hub(hub),
            hub_name,
            publisher: Vec::new(),
            numbering: Numbering::Unused,
            _watch: watch,
        }
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

    /// To one partition of a hub.
    pub(crate) fn to_partition(
        hub: &Hub,
        partition: Arc<Partition>,
        subscriber: &Arc<Subscriber>,
        key: u64,
    ) -> Self {
        let watch = partition.publishers().watch(subscriber, key);
        let (target, hub_name) = (PublishTarget::Partition(partition), hub.name().to_owned());
        Self { target, hub_name, publisher: Vec::new(), numbering: Numbering::Unused, _watch: watch }
    }

    /// The name of the hub.
    pub(crate) fn hub_name(&self) -> &str {
        &self.hub_name
    }

    /// To the partition of a publisher, whose name every event is given.
    pub(crate) fn of_publisher(hub: &Hub, publisher: &str, subscriber: &Arc<Subscriber>, key: u64) -> Self {
        let partition = Arc::clone(hub.partition_for_key(publisher));
        let mut annotation = Vec::new();
        write::value(&mut annotation, &Value::Symbol(Symbol::from_static(PUBLISHER)));
        write::value(&mut annotation, &Value::from(publisher));
        Self { publisher: annotation, ..Self::to_partition(hub, partition, subscriber, key) }
    }

    /// Whether the hub was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        match &self.target {
            PublishTarget::Hub(hub) => hub.partitions()[0].is_deleted(),
            PublishTarget::Partition(partition) => partition.is_deleted(),
        }
    }

    /// The annotation that every event gets, encoded; empty if there is none.
    #[inline]
    pub(super) fn publisher(&self) -> &[u8] {
        &self.publisher
    }

    /// Where a message goes.
    #[inline]
    pub(super) fn partition_for(&self, format: u32, message: &[u8]) -> Result<&Partition, MessageError> {
        match &self.target {
            PublishTarget::Partition(partition) => Ok(partition),
            // It may have got more partitions since the link was made.
            PublishTarget::Hub(hub) => partition_of(hub.latest(), format, message),
        }
    }
}

/// The outcome of a message that its log refuses.
#[cold]
pub(super) fn refused(error: AppendError) -> DeliveryState {
    match error {
        AppendError::Encoding(never) => match never {},
        AppendError::TooLong => rejected(
            ErrorCondition::MESSAGE_SIZE_EXCEEDED,
            "The batch is larger than a batch of the log can be.",
        ),
        AppendError::Full { held, bound, .. } => server_busy(&format!(
            "The partition holds {held} of at most {bound} and accepts no more until consumers have caught up."
        )),
        AppendError::TotalReached { total, .. } => server_busy(&format!(
            "All partitions together hold {total}, their limit. The partition accepts no more until retention has made room."
        )),
        AppendError::Unavailable(reason) => {
            server_busy(&format!("The partition accepts no events at present: {reason}."))
        }
    }
}

/// The partition for a message sent to the hub: by the key of the envelope, else of the first event in it, else in
/// turn.
#[cold]
fn partition_of<'a>(hub: &'a Hub, format: u32, message: &[u8]) -> Result<&'a Partition, MessageError> {
    let mut first_event = None;
    for section in Sections::new(message) {
        let section = section?;
        match section.kind {
            SectionKind::MessageAnnotations => match partition_key(section.value)? {
                // That of the envelope is kept nowhere, and looked at here alone.
                Some(key) if is_too_long(key) => return Err(MessageError::LongPartitionKey),
                Some(key) => return Ok(hub.partition_for_key(key)),
                None => {}
            },
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

/// The outcome of a message that can't be taken as it is.
#[cold]
pub(super) fn malformed(error: &MessageError) -> DeliveryState {
    let condition = match error {
        MessageError::LongPartitionKey => ErrorCondition::ARGUMENT_OUT_OF_RANGE,
        MessageError::Malformed(_) | MessageError::TooManyParts | MessageError::Empty => {
            ErrorCondition::DECODE_ERROR
        }
    };
    rejected(condition, error.to_string())
}

/// Annotation by which a client picks the partition.
pub(super) const PARTITION_KEY: &str = "x-opt-partition-key";
