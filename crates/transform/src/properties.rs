//! The properties of an event that a program names: where they lie, and what the steps have made of them.

use std::ops::Range;

use amqp::codec::write;
use connect::event::Encoding;

use crate::scalar::{Scalar, write_field};
use crate::{amqp_message, kafka_record};

/// A property that a program names, as an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u16);

/// The names, each with its encodings.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: Vec<Name>,
}

#[derive(Debug)]
struct Name {
    text: String,
    /// As a string of AMQP.
    amqp: Vec<u8>,
    /// As the name of a header, behind its length.
    kafka: Vec<u8>,
}

/// One property of an event, as places in its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) slot: Slot,
    /// Where its name begins.
    pub(crate) start: u32,
    /// Where its value begins, with whatever says how long it is.
    pub(crate) value: u32,
    pub(crate) end: u32,
}

/// Where the properties of an event lie: application properties of AMQP, headers of Kafka.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    /// Where all that holds them begins: section or count. If there is none, where it would be.
    pub(crate) start: u32,
    /// From the first to behind the last.
    pub(crate) entries_start: u32,
    pub(crate) entries_end: u32,
    /// Behind all that holds them.
    pub(crate) end: u32,
    /// How many there are.
    pub(crate) count: u32,
    /// Whether size and count of a map have four bytes each.
    pub(crate) is_long: bool,
}

/// What a property of an event is by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// It is not there.
    Absent,
    /// What the event had under this name.
    From(Slot),
    /// A value that was written, as a place among those.
    Written(u32, u32),
}

/// The properties of one event at a time, in memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct Properties {
    encoding: Encoding,
    pub(crate) layout: Layout,
    /// Those that are named, in the order of the event. A name may be there more than once.
    pub(crate) entries: Vec<Entry>,
    contents: Vec<Content>,
    /// Values that were written, encoded.
    written: Vec<u8>,
    changed: bool,
    /// Scratch of renames.
    moved: Vec<Content>,
}

/// An event whose bytes are not those of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Names {
    /// The slot of a name, which is a new one if nothing has named it before. `None` if there are too many.
    pub(crate) fn slot(&mut self, text: &str) -> Option<Slot> {
        let known = self.names.iter().position(|name| name.text == text);
        let index = known.unwrap_or_else(|| {
            let (mut amqp, mut kafka) = (Vec::new(), Vec::new());
            write::string(&mut amqp, text);
            write_field(&mut kafka, text.as_bytes());
            self.names.push(Name { text: text.to_owned(), amqp, kafka });
            self.names.len() - 1
        });
        (index < NAMES_MAX).then_some(Slot(index as u16))
    }

    #[cfg(test)]
    pub(crate) fn text(&self, slot: Slot) -> &str {
        &self.names[usize::from(slot.0)].text
    }

    /// The slot of a name that an event has. Hot path.
    #[inline]
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<Slot> {
        let index = self.names.iter().position(|name| name.text.as_bytes() == bytes)?;
        Some(Slot(index as u16))
    }

    pub(crate) fn encoded(&self, slot: Slot, encoding: Encoding) -> &[u8] {
        let name = &self.names[usize::from(slot.0)];
        match encoding {
            Encoding::Kafka => &name.kafka,
            Encoding::Amqp | Encoding::Opaque => &name.amqp,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

impl Properties {
    /// Finds those of `message` that are named. Hot path.
    pub(crate) fn read(
        &mut self,
        message: &[u8],
        encoding: Encoding,
        names: &Names,
    ) -> Result<(), Unreadable> {
        self.encoding = encoding;
        self.entries.clear();
        self.contents.clear();
        self.contents.resize(names.len(), Content::Absent);
        self.changed = false;
        self.written.clear();
        self.layout = match encoding {
            Encoding::Kafka => kafka_record::find(message, names, &mut self.entries)?,
            Encoding::Amqp | Encoding::Opaque => amqp_message::find(message, names, &mut self.entries)?,
        };
        for entry in &self.entries {
            self.contents[usize::from(entry.slot.0)] = Content::From(entry.slot);
        }
        Ok(())
    }

    /// Whether a step has changed any.
    pub(crate) const fn changed(&self) -> bool {
        self.changed
    }

    pub(crate) fn content(&self, slot: Slot) -> Content {
        self.contents[usize::from(slot.0)]
    }

    /// The value of a property. Of several with one name, the last one.
    pub(crate) fn value<'a>(&'a self, slot: Slot, message: &'a [u8]) -> Scalar<'a> {
        let encoded = match self.content(slot) {
            Content::Absent => return Scalar::Null,
            Content::Written(start, end) => &self.written[start as usize..end as usize],
            Content::From(slot) => {
                let last = self.entries.iter().rev().find(|entry| entry.slot == slot);
                last.map_or(&[][..], |entry| &message[entry.value as usize..entry.end as usize])
            }
        };
        match self.encoding {
            Encoding::Kafka => kafka_record::header_value(encoded),
            Encoding::Amqp | Encoding::Opaque => Scalar::of_amqp(encoded),
        }
    }

    /// Gives properties that are there other names, all at once.
    pub(crate) fn rename(&mut self, pairs: &[(Slot, Slot)]) {
        self.moved.clear();
        for &(from, _) in pairs {
            let content = &mut self.contents[usize::from(from.0)];
            self.moved.push(std::mem::replace(content, Content::Absent));
        }
        for (&(_, to), &content) in pairs.iter().zip(&self.moved) {
            if content != Content::Absent {
                self.contents[usize::from(to.0)] = content;
                self.changed = true;
            }
        }
    }

    pub(crate) fn drop(&mut self, slot: Slot) {
        self.set(slot, Content::Absent);
    }

    pub(crate) fn set(&mut self, slot: Slot, content: Content) {
        let before = std::mem::replace(&mut self.contents[usize::from(slot.0)], content);
        self.changed |= before != content;
    }

    /// Encodes a value, for [`set`](Self::set).
    pub(crate) fn write(&mut self, value: Scalar<'_>) -> Content {
        let out = &mut self.written;
        let start = out.len() as u32;
        let is_there = match self.encoding {
            Encoding::Kafka => value.write_kafka(out),
            Encoding::Amqp | Encoding::Opaque => value.write_amqp(out),
        };
        // Far less than the event itself may have.
        if is_there { Content::Written(start, out.len() as u32) } else { Content::Absent }
    }

    /// The name that what the event had under `slot` has got, if it has another one.
    fn new_name(&self, slot: Slot) -> Option<Slot> {
        if self.content(slot) == Content::From(slot) {
            return None;
        }
        let index = self.contents.iter().position(|&content| content == Content::From(slot))?;
        Some(Slot(index as u16))
    }

    /// Whether what a slot has stands behind the entries of the event: a value that was written, or a copy.
    fn is_appended(&self, slot: Slot, content: Content) -> bool {
        match content {
            Content::Absent => false,
            Content::Written(..) => true,
            Content::From(of) => of != slot && self.new_name(of) != Some(slot),
        }
    }

    /// Appends `message` from a place at or before the first entry up to its end, with the entries as they are by now: one that has
    /// another name stays in its place, what is new follows the last. Returns how many entries there are, and where in `out` they end.
    pub(crate) fn splice(&self, message: &[u8], from: u32, names: &Names, out: &mut Vec<u8>) -> (u32, usize) {
        let Layout { entries_end, end, mut count, .. } = self.layout;
        let bytes = |range: Range<u32>| &message[range.start as usize..range.end as usize];
        let mut at = from;
        for entry in &self.entries {
            if self.content(entry.slot) == Content::From(entry.slot) {
                continue;
            }
            out.extend_from_slice(bytes(at..entry.start));
            at = match self.new_name(entry.slot) {
                Some(name) => {
                    out.extend_from_slice(names.encoded(name, self.encoding));
                    entry.value
                }
                None => {
                    count -= 1;
                    entry.end
                }
            };
        }
        let mut contents = (0..).map(Slot).zip(self.contents.iter().copied());
        if entries_end == end && !contents.any(|(slot, content)| self.is_appended(slot, content)) {
            // What follows goes with it.
            out.extend_from_slice(&message[at as usize..]);
            return (count, out.len() - (message.len() - end as usize));
        }
        out.extend_from_slice(bytes(at..entries_end));
        for (slot, content) in (0..).map(Slot).zip(self.contents.iter().copied()) {
            if !self.is_appended(slot, content) {
                continue;
            }
            let mut append = |value: &[u8]| {
                out.extend_from_slice(names.encoded(slot, self.encoding));
                out.extend_from_slice(value);
                count += 1;
            };
            match content {
                Content::Absent => {}
                Content::Written(start, end) => append(&self.written[start as usize..end as usize]),
                Content::From(of) => {
                    for entry in self.entries.iter().filter(|entry| entry.slot == of) {
                        append(bytes(entry.value..entry.end));
                    }
                }
            }
        }
        let entries = out.len();
        out.extend_from_slice(&message[end as usize..]);
        (count, entries)
    }

    /// Appends the message with its properties as they are by now.
    pub(crate) fn rewrite(&self, message: &[u8], names: &Names, out: &mut Vec<u8>) {
        match self.encoding {
            Encoding::Kafka => kafka_record::rewrite(self, message, names, out),
            Encoding::Amqp | Encoding::Opaque => amqp_message::rewrite(self, message, names, out),
        }
    }
}

/// So many different properties a program may name.
pub(crate) const NAMES_MAX: usize = 256;
