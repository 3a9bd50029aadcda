//! A received message, looked at in place.

use super::{Header, Properties, Section, SectionKind, Sections};
use crate::codec::{DecodeError, Map, Reader, Symbol, Value};

/// Where the sections of an encoded message are. Nothing is copied or decoded until asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessageView<'a> {
    header: Option<&'a [u8]>,
    message_annotations: Option<&'a [u8]>,
    delivery_annotations: Option<&'a [u8]>,
    properties: Option<&'a [u8]>,
    application_properties: Option<&'a [u8]>,
    body: Option<Section<'a>>,
}

impl<'a> MessageView<'a> {
    /// Finds the sections of `message`. Of several body sections the first is kept; [`Sections`] has them all.
    pub fn parse(message: &'a [u8]) -> Result<Self, DecodeError> {
        let mut view = Self::default();
        for section in Sections::new(message) {
            let section = section?;
            match section.kind {
                SectionKind::MessageAnnotations => view.message_annotations = Some(section.value),
                SectionKind::DeliveryAnnotations => view.delivery_annotations = Some(section.value),
                SectionKind::Properties => view.properties = Some(section.value),
                SectionKind::ApplicationProperties => view.application_properties = Some(section.value),
                SectionKind::Data | SectionKind::Sequence | SectionKind::Value => {
                    view.body.get_or_insert(section);
                }
                SectionKind::Header => view.header = Some(section.value),
                SectionKind::Footer => {}
            }
        }
        Ok(view)
    }

    /// The header, if the section is there.
    pub fn header(&self) -> Result<Option<Header>, DecodeError> {
        self.header.map(Header::decode).transpose()
    }

    /// The message annotations; empty if there are none.
    pub fn message_annotations(&self) -> Result<Annotations<'a>, DecodeError> {
        Annotations::of(self.message_annotations)
    }

    /// The delivery annotations; empty if there are none.
    pub fn delivery_annotations(&self) -> Result<Annotations<'a>, DecodeError> {
        Annotations::of(self.delivery_annotations)
    }

    /// The application properties; empty if there are none.
    pub fn application_properties(&self) -> Result<Annotations<'a>, DecodeError> {
        Annotations::of(self.application_properties)
    }

    /// The properties, if the section is there.
    pub fn properties(&self) -> Result<Option<Properties>, DecodeError> {
        self.properties.map(|value| Properties::decode(&mut Reader::new(value))).transpose()
    }

    /// The payload of the first Data section.
    pub fn data(&self) -> Result<Option<&'a [u8]>, DecodeError> {
        match &self.body {
            Some(section) if section.kind == SectionKind::Data => section.data().map(Some),
            _ => Ok(None),
        }
    }

    /// The value of an amqp-value body.
    pub fn value(&self) -> Result<Option<Value>, DecodeError> {
        match &self.body {
            Some(section) if section.kind == SectionKind::Value => {
                Reader::new(section.value).value().map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// The entries of an annotations or application-properties section, decoded as they are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Annotations<'a> {
    map: Option<Map<'a>>,
}

impl<'a> Annotations<'a> {
    fn of(section: Option<&'a [u8]>) -> Result<Self, DecodeError> {
        let map = match section {
            Some(value) => Reader::new(value).map()?,
            None => None,
        };
        Ok(Self { map })
    }

    /// The value under `key`.
    pub fn find(&self, key: &str) -> Result<Option<Value>, DecodeError> {
        let Some(mut map) = self.map else {
            return Ok(None);
        };
        while let Some(reader) = map.entry() {
            if reader.text()? == Some(key) {
                return reader.value().map(Some);
            }
            reader.skip()?;
        }
        Ok(None)
    }

    /// All entries.
    pub fn entries(&self) -> Result<Vec<(Symbol, Value)>, DecodeError> {
        self.map.map_or_else(|| Ok(Vec::new()), Map::fields)
    }
}
