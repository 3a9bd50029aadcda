//! Events that are sent to hubs. Hot path: what a request brings is taken apart where it lies, and copied once, into the log.

use std::cell::RefCell;
use std::convert::Infallible;
use std::sync::Arc;

use ::rest::BATCH_TYPE;
use ::rest::batch::{Batch, BatchError, Element};
use ::rest::broker_properties::BrokerProperties;
use ::rest::message;
use amqp::codec::write;
use amqp::message::encode::data_prefix_bytes;
use partition_log::disk::CommitNumber;
use partition_log::{BatchEncoder, UnixTime};

use super::refusal::Refusal;
use super::route::{Destination, EventRoute};
use super::session::Session;
use super::{Request, Step};
use crate::front::amqp::{MAX_MESSAGE_SIZE, PUBLISHER};
use crate::namespace::{Hub, Partition};

/// What is needed to take in a request. One for all connections of a thread: a connection at rest is to hold little.
#[derive(Debug, Default)]
struct Scratch {
    annotations: Vec<u8>,
    head: Vec<u8>,
    batch: Batch<'static>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Session {
    /// Stores the event of a request, or its events.
    ///
    /// # Errors
    /// Nothing is stored.
    pub(super) fn send_events(
        &self,
        route: &EventRoute,
        request: &Request<'_>,
        body: &[u8],
        now: UnixTime,
    ) -> Result<Step, Refusal> {
        SCRATCH.with_borrow_mut(|scratch| match is_batch(request) {
            Ok(true) => self.send_batch(route, body, now, scratch),
            Ok(false) => self.send_one(route, request, body, now, scratch),
            Err(refusal) => Err(refusal),
        })
    }

    fn send_one(
        &self,
        route: &EventRoute,
        request: &Request<'_>,
        body: &[u8],
        now: UnixTime,
        Scratch { annotations, head, .. }: &mut Scratch,
    ) -> Result<Step, Refusal> {
        annotations.clear();
        head.clear();
        let broker = match request.field("brokerproperties") {
            Some(text) => BrokerProperties::parse(text).map_err(malformed)?,
            None => BrokerProperties::default(),
        };
        let key = broker.partition_key();
        let hub = route.hub.latest();
        let partition = match (target_of(route, key.as_deref())?, &key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => hub.partition_for_key(key),
            (None, None) => hub.next_partition(),
        };
        if key.is_none() {
            check_keyless(hub)?;
        }
        let annotation_count = annotate(annotations, route, key.as_deref());
        message::event_head(head, request.field("content-type"), request.fields, body.len());
        let bytes = annotations.len() + head.len() + body.len();
        if bytes > PUBLICATION_MAX {
            return Err(Refusal::too_large(PUBLICATION_MAX));
        }
        let count_throttled = || partition.counters().throttled();
        self.store(hub.name(), (bytes, 1), count_throttled, || {
            let pieces = [&head[..], body];
            append(partition, now, |encoder| {
                encoder.push_pieces(annotation_count, annotations, pieces.iter().copied());
            })
        })
    }

    fn send_batch(
        &self,
        route: &EventRoute,
        body: &[u8],
        now: UnixTime,
        scratch: &mut Scratch,
    ) -> Result<Step, Refusal> {
        let mut batch = std::mem::take(&mut scratch.batch).emptied();
        let sent = batch.parse(body, PUBLICATION_MAX).map_err(|error| refused(&error)).and_then(|()| {
            self.send_elements(route, &batch, now, &mut scratch.annotations, &mut scratch.head)
        });
        scratch.batch = batch.emptied();
        sent
    }

    fn send_elements(
        &self,
        route: &EventRoute,
        batch: &Batch<'_>,
        now: UnixTime,
        annotations: &mut Vec<u8>,
        head: &mut Vec<u8>,
    ) -> Result<Step, Refusal> {
        let hub = route.hub.latest();
        let targets = targets(route, hub, batch)?;
        let is_keyless =
            |element: Element<'_>| element.broker.and_then(BrokerProperties::partition_key).is_none();
        if batch.elements().any(is_keyless) {
            check_keyless(hub)?;
        }
        let first = targets.common();
        let count_throttled = || first.counters().throttled();
        self.store(hub.name(), (batch.bytes(), batch.len()), count_throttled, || {
            let mut commit = CommitNumber::DONE;
            let mut store = |partition: &Partition, places: &mut dyn Iterator<Item = usize>| {
                let stored = append(partition, now, |encoder| {
                    places.for_each(|place| push(encoder, route, &batch.element(place), annotations, head));
                })?;
                commit = commit.max(stored);
                Ok::<_, Refusal>(())
            };
            match &targets {
                Targets::One(partition) => store(partition, &mut (0..batch.len()))?,
                Targets::Each(targets) => {
                    for its in targets.chunk_by(|(one, _), (other, _)| one.id() == other.id()) {
                        store(its[0].0, &mut its.iter().map(|(_, place)| *place))?;
                    }
                }
            }
            Ok(commit)
        })
    }
}

/// Adds an element of a batch.
#[inline]
fn push(
    encoder: &mut BatchEncoder<'_>,
    route: &EventRoute,
    element: &Element<'_>,
    annotations: &mut Vec<u8>,
    head: &mut Vec<u8>,
) {
    let is_plain = element.property_count == 0 && element.broker.is_none();
    if is_plain && !matches!(route.destination, Destination::Publisher(..)) {
        let (prefix, length) = data_prefix_bytes(element.body.len() as u32);
        let pieces = [&prefix[..length], element.body];
        return encoder.push_pieces(0, &[], pieces.iter().copied());
    }
    annotations.clear();
    head.clear();
    let key = element.broker.and_then(BrokerProperties::partition_key);
    let count = annotate(annotations, route, key.as_deref());
    message::application_properties(head, element.property_count, element.properties);
    message::data_head(head, element.body.len());
    let pieces = [&head[..], element.body];
    encoder.push_pieces(count, annotations, pieces.iter().copied());
}

/// The partitions of the elements of a batch.
enum Targets<'a> {
    /// All go to this one.
    One(&'a Partition),
    /// The partition and the place of each element, sorted by partition.
    Each(Vec<(&'a Partition, usize)>),
}

impl<'a> Targets<'a> {
    /// One of them.
    fn common(&self) -> &'a Partition {
        match self {
            Self::One(partition) => partition,
            Self::Each(targets) => targets[0].0,
        }
    }
}

/// Elements with a key go to its partition; those without one to whichever's turn it is, together.
fn targets<'a>(route: &'a EventRoute, hub: &'a Hub, batch: &Batch<'_>) -> Result<Targets<'a>, Refusal> {
    if !batch.has_broker_properties() {
        return Ok(Targets::One(match target_of(route, None)? {
            Some(partition) => partition,
            None => hub.next_partition(),
        }));
    }
    let mut without_key = None;
    let targets: Result<Vec<(&Partition, usize)>, Refusal> = batch
        .elements()
        .enumerate()
        .map(|(place, element)| {
            let key = element.broker.and_then(BrokerProperties::partition_key);
            let partition = match (target_of(route, key.as_deref())?, &key) {
                (Some(partition), _) => &**partition,
                (None, Some(key)) => &**hub.partition_for_key(key),
                (None, None) => &**without_key.get_or_insert_with(|| hub.next_partition()),
            };
            Ok((partition, place))
        })
        .collect();
    let mut targets = targets?;
    // Elements of a partition stay in their order.
    targets.sort_by_key(|(partition, _)| partition.id());
    Ok(Targets::Each(targets))
}

/// Checks that a hub takes events without a key.
fn check_keyless(hub: &Hub) -> Result<(), Refusal> {
    match hub.settings().requires_keys() {
        true => Err(Refusal::new(
            400,
            "The hub is compacted (cleanup.policy), so that each event needs a PartitionKey.",
        )),
        false => Ok(()),
    }
}

/// The partition that the URL names, if it names one.
///
/// # Errors
/// The event has a key that contradicts it.
fn target_of<'a>(route: &'a EventRoute, key: Option<&str>) -> Result<Option<&'a Arc<Partition>>, Refusal> {
    match (&route.destination, key) {
        (Destination::Partition(_), Some(_)) => {
            Err(Refusal::new(400, "An event sent to a partition can't have a PartitionKey."))
        }
        (Destination::Publisher(_, name), Some(key)) if **name != *key => {
            Err(Refusal::new(400, "The PartitionKey of an event must be the name of its publisher."))
        }
        (Destination::Partition(partition) | Destination::Publisher(partition, _), _) => Ok(Some(partition)),
        (Destination::Hub, _) => Ok(None),
    }
}

/// Writes the annotations of an event, and says how many there are.
fn annotate(annotations: &mut Vec<u8>, route: &EventRoute, key: Option<&str>) -> u32 {
    let mut count = 0;
    if let Some(key) = key {
        message::partition_key_annotation(annotations, key);
        count += 1;
    }
    if let Destination::Publisher(_, name) = &route.destination {
        write::symbol(annotations, PUBLISHER);
        write::string(annotations, name);
        count += 1;
    }
    count
}

fn append(
    partition: &Partition,
    now: UnixTime,
    push: impl FnOnce(&mut BatchEncoder<'_>),
) -> Result<CommitNumber, Refusal> {
    let appended = partition.append(now, |encoder| {
        push(encoder);
        Ok::<_, Infallible>(())
    });
    appended.map(|appended| appended.commit).map_err(|error| Refusal::append(&error))
}

/// Whether a request holds several events or messages. Its type is matched exactly, as the service does: with a parameter, it is the
/// type of one.
pub(super) fn is_batch(request: &Request<'_>) -> Result<bool, Refusal> {
    let content_type = request.field("content-type").unwrap_or_default();
    let is_batch = content_type.eq_ignore_ascii_case(BATCH_TYPE.as_bytes());
    let encoding = request.field("content-encoding").filter(|_| is_batch);
    match encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case(b"identity")) {
        true => Err(Refusal::new(415, "The body of a batch can't have a Content-Encoding.")),
        false => Ok(is_batch),
    }
}

/// The refusal of a body that is no batch.
#[cold]
pub(super) fn refused(error: &BatchError) -> Refusal {
    match error {
        BatchError::TooLarge { most } => Refusal::too_large(*most),
        error => malformed(error),
    }
}

/// The refusal of what can't be read.
#[cold]
pub(super) fn malformed(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(400, format!("The request is malformed: {error}."))
}

/// Largest event or batch, in bytes, as over AMQP.
pub(super) const PUBLICATION_MAX: usize = MAX_MESSAGE_SIZE as usize;
