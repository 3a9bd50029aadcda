//! Messages of clients, taken apart into the events that are stored. Hot path.
//!
//! A message of the batch format holds a complete message per Data section; any other is one event. Either way an
//! event is stored as it came, less the annotations that are the service's to set. Header and delivery annotations, which
//! few events have, are stored in front of all other sections.
//!
//! What is stored are ranges of the input buffer, noted before the log is locked and copied once it is.

use std::ops::Range;

use amqp::DecodeError;
use amqp::codec::Reader;
use amqp::message::{FORMAT_BATCH, Header, Section, SectionKind, Sections, is_data_section};

use super::publish::PARTITION_KEY;
use crate::front::amqp::leading::keep_delivery_annotations;
use partition_log::BatchEncoder;
use units::partition_key;
use units::recycled::{bounded, emptied};

/// The events of a burst, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Incoming<'a> {
    events: Vec<Event<'a>>,
    /// The sections of all events that have more than a body, one event's after another's.
    sections: Vec<Piece<'a>>,
    /// Bytes that are stored and did not come like that.
    own: Vec<u8>,
}

/// Why a message is not stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("The message is malformed: {0}")]
    Malformed(#[from] DecodeError),
    #[error("The message has more separate parts than can be stored")]
    TooManyParts,
    #[error("The batch holds no event")]
    Empty,
    #[error("The partition key is longer than {} characters", partition_key::LONGEST)]
    LongPartitionKey,
}

#[derive(Debug)]
enum Event<'a> {
    /// Nothing but a body, as most are: stored as it came.
    Body(&'a [u8]),
    /// Any other.
    Parts {
        annotation_count: u32,
        annotations: Piece<'a>,
        /// Its sections among those of all events.
        sections: Range<u32>,
    },
}

/// Bytes to be stored.
#[derive(Clone, Copy, Debug)]
enum Piece<'a> {
    /// As they came.
    Received(&'a [u8]),
    /// Within [`Incoming::own`].
    Own { start: u32, length: u32 },
}

impl<'a> Incoming<'a> {
    /// How many events were taken in.
    #[inline]
    pub(super) fn event_count(&self) -> usize {
        self.events.len()
    }

    /// Takes in all events of a message, or none. Each gets the annotation with the name of the `publisher`, if there is one.
    #[inline]
    pub(super) fn take_in(
        &mut self,
        format: u32,
        message: &'a [u8],
        publisher: &[u8],
    ) -> Result<(), MessageError> {
        let (events, sections, own) = (self.events.len(), self.sections.len(), self.own.len());
        let taken = match format {
            FORMAT_BATCH => self.take_batch(message, publisher),
            _ => self.take_event(message, publisher),
        };
        if taken.is_err() {
            self.events.truncate(events);
            self.sections.truncate(sections);
            self.own.truncate(own);
        }
        taken
    }

    /// Gives some of the events to a log.
    #[inline]
    pub(super) fn push_to(&self, encoder: &mut BatchEncoder<'_>, events: Range<usize>) {
        for event in &self.events[events] {
            match event {
                Event::Body(body) => encoder.push_section(body),
                Event::Parts { annotation_count, annotations, sections } => {
                    let sections = &self.sections[sections.start as usize..sections.end as usize];
                    let sections = sections.iter().map(|piece| piece.bytes(&self.own));
                    encoder.push_pieces(*annotation_count, annotations.bytes(&self.own), sections);
                }
            }
        }
    }

    /// The annotations that are stored with some of the events: how many there are, and their keys and values.
    pub(super) fn annotations(&self, events: Range<usize>) -> impl Iterator<Item = (u32, &[u8])> {
        self.events[events].iter().map(|event| match event {
            Event::Body(_) => (0, &[][..]),
            Event::Parts { annotation_count, annotations, .. } => {
                (*annotation_count, annotations.bytes(&self.own))
            }
        })
    }

    /// The memory for another burst, if it is not too much of it.
    pub(super) fn emptied<'b>(mut self) -> Incoming<'b> {
        self.own.clear();
        Incoming {
            events: bounded(emptied(self.events), KEPT_EVENTS),
            sections: bounded(emptied(self.sections), KEPT_SECTIONS),
            own: bounded(self.own, KEPT_BYTES),
        }
    }

    fn take_batch(&mut self, message: &'a [u8], publisher: &[u8]) -> Result<(), MessageError> {
        let before = self.events.len();
        let mut sections = Sections::new(message);
        while !sections.is_empty() {
            if let Some(event) = sections.next_short_data() {
                self.take_event(event, publisher)?;
            } else if let Some(section) = sections.next().transpose()?
                && section.kind == SectionKind::Data
            {
                self.take_event(section.data()?, publisher)?;
            }
        }
        match self.events.len() > before {
            true => Ok(()),
            false => Err(MessageError::Empty),
        }
    }

    #[inline]
    fn take_event(&mut self, message: &'a [u8], publisher: &[u8]) -> Result<(), MessageError> {
        if publisher.is_empty() && is_data_section(message) {
            self.events.push(Event::Body(message));
            return Ok(());
        }
        self.take_parts(message, publisher)
    }

    fn take_parts(&mut self, message: &'a [u8], publisher: &[u8]) -> Result<(), MessageError> {
        let first = self.sections.len();
        let mut annotations = None;
        let mut leading = Leading::default();
        let mut any = false;
        for section in Sections::new(message) {
            let section = section?;
            section.validate()?;
            any = true;
            match section.kind {
                SectionKind::Header | SectionKind::DeliveryAnnotations => {
                    self.take_leading(&section, &mut leading)?;
                }
                SectionKind::MessageAnnotations => annotations = Some(section.value),
                _ => self.sections.push(Piece::Received(section.encoded)),
            }
        }
        if !any {
            return Err(MessageError::Empty);
        }
        for piece in [leading.delivery_annotations, leading.header].into_iter().flatten() {
            self.sections.insert(first, piece);
        }
        if self.sections.len() - first > SECTIONS_MAX {
            return Err(MessageError::TooManyParts);
        }
        let (annotation_count, annotations) = match annotations {
            None if publisher.is_empty() => (0, Piece::Received(&[])),
            annotations => self.take_annotations(annotations, publisher)?,
        };
        // The sections of a burst are far fewer than 32 bits can count.
        let sections = first as u32..self.sections.len() as u32;
        self.events.push(Event::Parts { annotation_count, annotations, sections });
        Ok(())
    }

    /// Takes in a section that is stored in front of all others.
    #[cold]
    fn take_leading(&mut self, section: &Section<'_>, leading: &mut Leading<'a>) -> Result<(), DecodeError> {
        let start = self.own.len();
        if section.kind == SectionKind::Header {
            self.own.extend_from_slice(Header::decode(section.value)?.encode().as_slice());
            leading.header = Some(self.own_since(start));
        } else {
            keep_delivery_annotations(section.value, &[], &mut self.own)?;
            leading.delivery_annotations = Some(self.own_since(start));
        }
        Ok(())
    }

    /// The client's entries of an annotations map: as they are, or, where some are the service's to set, without those, and
    /// with the publisher's name if there is one.
    #[cold]
    fn take_annotations(
        &mut self,
        map: Option<&'a [u8]>,
        publisher: &[u8],
    ) -> Result<(u32, Piece<'a>), MessageError> {
        let start = self.own.len();
        let mut kept = 0;
        if let Some(map) = map
            && let Some(mut entries) = Reader::new(map).map()?
        {
            let (all, count) = (entries.rest(), entries.remaining());
            while let Some(reader) = entries.entry() {
                let key_bytes = reader.raw()?;
                let value = reader.raw()?;
                let key = Reader::new(key_bytes).text()?.unwrap_or_default();
                if key == PARTITION_KEY
                    && let Ok(Some(key)) = Reader::new(value).text()
                    && partition_key::is_too_long(key)
                {
                    return Err(MessageError::LongPartitionKey);
                }
                if !SERVICE_ANNOTATIONS.contains(&key) {
                    self.own.extend_from_slice(key_bytes);
                    self.own.extend_from_slice(value);
                    kept += 1;
                }
            }
            if kept == count && publisher.is_empty() {
                self.own.truncate(start);
                return Ok((count, Piece::Received(all)));
            }
        }
        if !publisher.is_empty() {
            self.own.extend_from_slice(publisher);
            kept += 1;
        }
        Ok((kept, self.own_since(start)))
    }

    fn own_since(&self, start: usize) -> Piece<'a> {
        // The bytes of a burst are far fewer than 32 bits can count.
        Piece::Own { start: start as u32, length: (self.own.len() - start) as u32 }
    }
}

/// What is stored in front of all other sections of an event.
#[derive(Default)]
struct Leading<'a> {
    header: Option<Piece<'a>>,
    delivery_annotations: Option<Piece<'a>>,
}

impl Piece<'_> {
    #[inline]
    fn bytes<'b>(&'b self, own: &'b [u8]) -> &'b [u8] {
        match *self {
            Self::Received(bytes) => bytes,
            Self::Own { start, length } => &own[start as usize..][..length as usize],
        }
    }
}

/// Annotations that the service sets on what it delivers, whatever the client wrote.
const SERVICE_ANNOTATIONS: [&str; 4] =
    ["x-opt-sequence-number", "x-opt-offset", "x-opt-enqueued-time", PUBLISHER];

/// Annotation with the name of the publisher, of events that came by its address.
pub(in crate::front) const PUBLISHER: &str = "x-opt-publisher";

/// Sections that an event may have beside its message annotations: properties, application properties, footer, bodies,
/// and what stands in front of them.
const SECTIONS_MAX: usize = 32;

/// Events for which memory is kept between bursts: more than the usual input buffer, of 256 KiB, holds of 16 bytes each.
const KEPT_EVENTS: usize = 16 * 1024;

/// The same for the sections of those that have more than a body.
const KEPT_SECTIONS: usize = 8 * 1024;

/// Bytes of its own that are kept.
const KEPT_BYTES: usize = 64 * 1024;
