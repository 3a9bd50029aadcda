//! Which trace an event belongs to, as its producer wrote it.
//!
//! | producer | where |
//! |---|---|
//! | OpenTelemetry, most SDKs of Azure | the application property `traceparent`, and `tracestate` |
//! | SDKs of Azure | `Diagnostic-Id`, the same or an older form of their own |
//! | clients of Kafka | headers of these names |
//!
//! Names and values are texts or, from Kafka and some SDKs, bytes. Nothing is decoded but the properties, and nothing allocated.

use amqp::codec::{Reader, code};
use amqp::message::{SectionKind, Sections, is_data_section};
use kafka::record_tail::RecordTail;

use crate::event::{Encoding, Event, EventBatch};

/// What an event says of its trace. Whether that means anything is for those to say who know traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceContext<'a> {
    /// Trace and span.
    pub parent: &'a [u8],
    /// What tracing systems say beside that.
    pub state: Option<&'a [u8]>,
}

/// What was found under each of the names.
#[derive(Clone, Copy, Debug, Default)]
struct Found<'a> {
    traceparent: Option<&'a [u8]>,
    diagnostic_id: Option<&'a [u8]>,
    state: Option<&'a [u8]>,
}

impl EventBatch {
    /// Which trace an event of this batch belongs to, if it says so.
    #[must_use]
    pub fn trace_context(&self, event: &Event) -> Option<TraceContext<'_>> {
        let message = self.message(event);
        match self.encoding() {
            // As most events are: a payload and nothing else.
            Encoding::Amqp if is_data_section(message) => None,
            Encoding::Amqp => of_sections(message),
            Encoding::Kafka => of_record(message),
            Encoding::Opaque => None,
        }
    }
}

impl<'a> Found<'a> {
    fn take(&mut self, name: &[u8], value: Option<&'a [u8]>) {
        let place = match name {
            b"traceparent" => &mut self.traceparent,
            b"Diagnostic-Id" => &mut self.diagnostic_id,
            b"tracestate" => &mut self.state,
            _ => return,
        };
        *place = value.or(*place);
    }

    /// The standard's name comes before the older one.
    fn context(self) -> Option<TraceContext<'a>> {
        let parent = self.traceparent.or(self.diagnostic_id)?;
        Some(TraceContext { parent, state: self.state })
    }
}

fn of_sections(message: &[u8]) -> Option<TraceContext<'_>> {
    for section in Sections::new(message) {
        let section = section.ok()?;
        match section.kind {
            SectionKind::ApplicationProperties => return of_properties(section.value),
            SectionKind::Data | SectionKind::Sequence | SectionKind::Value | SectionKind::Footer => {
                return None;
            }
            _ => {}
        }
    }
    None
}

fn of_properties(section: &[u8]) -> Option<TraceContext<'_>> {
    let mut entries = Reader::new(section).map().ok()??;
    let mut found = Found::default();
    while let Some(reader) = entries.entry() {
        let name = bytes_of(reader)?;
        let value = bytes_of(reader)?;
        if let Some(name) = name {
            found.take(name, value);
        }
    }
    found.context()
}

/// The bytes of a text or a binary value; nothing of any other. `None` where there is no value that can be read.
fn bytes_of<'a>(reader: &mut Reader<'a>) -> Option<Option<&'a [u8]>> {
    Some(match reader.peek().ok()? {
        code::STRING_8 | code::STRING_32 | code::SYMBOL_8 | code::SYMBOL_32 => {
            reader.text().ok()?.map(str::as_bytes)
        }
        code::BINARY_8 | code::BINARY_32 => reader.binary().ok()?,
        _ => {
            reader.skip().ok()?;
            None
        }
    })
}

fn of_record(tail: &[u8]) -> Option<TraceContext<'_>> {
    let headers = RecordTail::read(tail).ok()?.headers;
    let mut found = Found::default();
    for (name, value) in headers.iter() {
        found.take(name.as_bytes(), value);
    }
    found.context()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::event::{EventParts, PartitionId};

    /// The context of an event that is nothing but these bytes.
    fn of(encoding: Encoding, message: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let mut batch = EventBatch::with_capacity(PartitionId(0), 1);
        batch.set_encoding(encoding);
        let parts = EventParts {
            message: 0..message.len() as u32,
            partition_key: 0..0,
            offset: 0..0,
            sequence_number: 0,
            enqueued_time: crate::event::EnqueuedTime::default(),
        };
        batch.push(&Bytes::copy_from_slice(message), &parts);
        let context = batch.trace_context(&batch.events()[0])?;
        Some((context.parent.to_vec(), context.state.map(<[u8]>::to_vec)))
    }

    const TEXT: u8 = 0xa1;
    const BINARY: u8 = 0xa0;

    /// An AMQP message with these properties, which are of this type, and a body.
    fn message(kind: u8, properties: &[(&str, &str)]) -> Vec<u8> {
        let mut map = vec![properties.len() as u8 * 2 + 2];
        // A property of another type, which is passed over.
        map.extend_from_slice(b"\xa1\x05count\x54\x07");
        for text in properties.iter().flat_map(|&(name, value)| [name, value]) {
            map.extend_from_slice(&[kind, text.len() as u8]);
            map.extend_from_slice(text.as_bytes());
        }
        let section = [b"\x00\x53\x74\xc1", &[map.len() as u8][..], &map].concat();
        let before = b"\x00\x53\x70\x45\x00\x53\x72\xc1\x01\x00\x00\x53\x73\x45";
        [&before[..], &section, b"\x00\x53\x75\xa0\x04body"].concat()
    }

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn properties_are_found_whether_they_are_texts_or_bytes() {
        for kind in [TEXT, BINARY] {
            let both = message(kind, &[("traceparent", PARENT), ("tracestate", "a=1")]);
            let expected = (PARENT.as_bytes().to_vec(), Some(b"a=1".to_vec()));
            assert_eq!(of(Encoding::Amqp, &both), Some(expected));
        }
    }

    #[test]
    fn the_standard_name_comes_before_that_of_azure() {
        let old = message(TEXT, &[("Diagnostic-Id", PARENT)]);
        assert_eq!(of(Encoding::Amqp, &old), Some((PARENT.into(), None)));
        let both = message(TEXT, &[("Diagnostic-Id", "|old."), ("traceparent", PARENT)]);
        assert_eq!(of(Encoding::Amqp, &both), Some((PARENT.into(), None)));
    }

    #[test]
    fn an_event_without_properties_says_nothing() {
        assert_eq!(of(Encoding::Amqp, b"\x00\x53\x75\xa0\x04body"), None);
        assert_eq!(of(Encoding::Amqp, &message(TEXT, &[("other", PARENT)])), None);
        assert_eq!(of(Encoding::Opaque, &message(TEXT, &[("traceparent", PARENT)])), None);
    }

    #[test]
    fn headers_of_records_are_found() {
        let header = |name: &str, value: &str| {
            let length = |text: &str| text.len() as u8 * 2;
            [&[length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
        };
        // No key, a value of one byte, two headers.
        let tail = [b"\x01\x02v\x04".to_vec(), header("a", "b"), header("traceparent", PARENT)].concat();
        assert_eq!(of(Encoding::Kafka, &tail), Some((PARENT.into(), None)));
        assert_eq!(of(Encoding::Kafka, b"\x01\x02v\x00"), None);
    }

    #[test]
    fn a_message_that_is_cut_anywhere_says_nothing_or_the_same() {
        let whole = message(TEXT, &[("traceparent", PARENT)]);
        for length in 0..whole.len() {
            let found = of(Encoding::Amqp, &whole[..length]);
            assert!(found.is_none_or(|(parent, _)| parent == PARENT.as_bytes()), "{length}");
        }
    }
}
