//! From transfers to the log. Hot path.
//!
//! A message of the batch format holds a complete message per Data section; any other is one event. Either way an
//! event is stored as it came, less its header, its delivery annotations and the annotations that are the service's
//! to set. The bytes go straight from the input buffer into the log.

use std::sync::Arc;

use amqp::DecodeError;
use amqp::codec::Reader;
use amqp::message::{FORMAT_BATCH, SectionKind, Sections};
use amqp::performative::{DeliveryState, Error, ErrorCondition};

use crate::UnixTime;
use crate::log::disk::CommitNumber;
use crate::log::{AppendError, BatchEncoder, NewRecord};
use crate::namespace::{Hub, Partition};

/// Where the messages of a link go.
#[derive(Debug, Clone)]
pub(super) enum PublishTarget {
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

impl PublishTarget {
    /// Stores the events of one message; gives its outcome and the commit with which that becomes true.
    #[inline]
    pub(super) fn publish(
        &self,
        format: u32,
        message: &[u8],
        now: UnixTime,
        scratch: &mut Vec<u8>,
    ) -> (DeliveryState, CommitNumber) {
        let partition = match self {
            Self::Partition(partition) => partition,
            Self::Hub(hub) => match partition_of(hub, format, message) {
                Ok(partition) => partition,
                Err(error) => return (rejected(&error.into()), CommitNumber::DONE),
            },
        };
        let appended = partition.append(now, |encoder| {
            if format == FORMAT_BATCH {
                push_batch(encoder, message, scratch)
            } else {
                push_event(encoder, message, scratch)
            }
        });
        let refusal = match appended {
            Ok(appended) => return (DeliveryState::Accepted, appended.commit),
            Err(AppendError::Encoding(error)) => rejected(&error),
            Err(AppendError::TooLong) => rejected_with(
                ErrorCondition::MESSAGE_SIZE_EXCEEDED,
                "The batch is larger than a batch of the log can be.".to_owned(),
            ),
            Err(AppendError::Full { held, bound, .. }) => server_busy(&format!(
                "The partition holds {held} of at most {bound} and takes no more until consumers have caught up."
            )),
            Err(AppendError::Unavailable(reason)) => server_busy(&format!(
                "The partition takes no events at present: {reason}."
            )),
        };
        (refusal, CommitNumber::DONE)
    }
}

fn push_batch(
    encoder: &mut BatchEncoder<'_>,
    message: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<(), PublishError> {
    let mut any = false;
    for section in Sections::new(message) {
        let section = section?;
        if section.kind == SectionKind::Data {
            push_event(encoder, section.data()?, scratch)?;
            any = true;
        }
    }
    if any {
        Ok(())
    } else {
        Err(PublishError::Empty)
    }
}

#[inline]
fn push_event(
    encoder: &mut BatchEncoder<'_>,
    message: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<(), PublishError> {
    let mut parts = Parts::default();
    let mut annotations: Option<&[u8]> = None;
    let mut any = false;
    for section in Sections::new(message) {
        let section = section?;
        any = true;
        match section.kind {
            SectionKind::Header | SectionKind::DeliveryAnnotations => {}
            SectionKind::MessageAnnotations => annotations = Some(section.value),
            _ => parts.push(section.encoded)?,
        }
    }
    if !any {
        return Err(PublishError::Empty);
    }
    let (annotation_count, annotations) = match annotations {
        None => (0, &[][..]),
        Some(map) => own_annotations(map, scratch)?,
    };
    encoder.push(&NewRecord {
        annotation_count,
        annotations,
        sections: parts.as_slice(),
    });
    Ok(())
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
        let slot = self
            .pieces
            .get_mut(self.count)
            .ok_or(PublishError::TooManyParts)?;
        *slot = piece;
        self.count += 1;
        Ok(())
    }

    fn as_slice(&self) -> &[&'a [u8]] {
        &self.pieces[..self.count]
    }
}

/// The client's entries of an annotations map: as they are, or, where some are the service's to set, without those.
#[cold]
fn own_annotations<'a>(
    map: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<(u32, &'a [u8]), DecodeError> {
    let Some(mut entries) = Reader::new(map).map()? else {
        return Ok((0, &[]));
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
    Ok(if kept == count {
        (count, all)
    } else {
        (kept, scratch)
    })
}

/// The partition for a message sent to the hub: by the key of the envelope, else of the first event in it, else in
/// turn.
#[cold]
fn partition_of<'a>(
    hub: &'a Hub,
    format: u32,
    message: &[u8],
) -> Result<&'a Arc<Partition>, DecodeError> {
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
fn rejected(error: &PublishError) -> DeliveryState {
    rejected_with(ErrorCondition::DECODE_ERROR, error.to_string())
}

/// A refusal that the official clients answer by trying again a while later.
#[cold]
pub(super) fn server_busy(reason: &str) -> DeliveryState {
    rejected_with(
        ErrorCondition::SERVER_BUSY,
        format!("{reason} Please wait 4 seconds and try again. Error code : 50002."),
    )
}

#[cold]
fn rejected_with(condition: ErrorCondition, description: String) -> DeliveryState {
    DeliveryState::Rejected(Some(Error::new(condition, description)))
}

/// Annotation by which a client picks the partition.
const PARTITION_KEY: &str = "x-opt-partition-key";

/// Annotations that the service sets on what it delivers, whatever the client wrote.
const SERVICE_ANNOTATIONS: [&str; 3] = [
    "x-opt-sequence-number",
    "x-opt-offset",
    "x-opt-enqueued-time",
];

/// Sections that an event may have beside its annotations: properties, application properties, footer, and bodies.
const MAX_PIECES: usize = 32;

impl From<std::convert::Infallible> for PublishError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
