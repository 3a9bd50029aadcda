//! Open: connection parameters (specification section 2.7.1).

use std::time::Duration;

use crate::codec::{DecodeError, Reader, Symbol, Value, write};

/// Negotiates connection parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Open {
    /// Who sends this.
    pub container_id: String,
    /// Which virtual host is wanted; not necessarily what was dialled.
    pub hostname: Option<String>,
    /// Largest frame, in bytes, that the sender of this accepts.
    pub max_frame_size: u32,
    /// Highest channel number.
    pub channel_max: u16,
    /// After how much silence the sender of this closes.
    pub idle_timeout: Option<Duration>,
    /// Extensions that the sender has.
    pub offered_capabilities: Vec<Symbol>,
    /// Extensions that the sender would use.
    pub desired_capabilities: Vec<Symbol>,
    /// Facts about the sender, such as its product name.
    pub properties: Vec<(Symbol, Value)>,
}

impl Default for Open {
    fn default() -> Self {
        Self {
            container_id: String::new(),
            hostname: None,
            max_frame_size: u32::MAX,
            channel_max: u16::MAX,
            idle_timeout: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: Vec::new(),
        }
    }
}

impl Open {
    /// Reads the fields, which stand behind the descriptor.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "open")?;
        let container_id = fields.required("open.container-id", Reader::string)?.to_owned();
        let hostname = fields.field(Reader::string)?.map(str::to_owned);
        let max_frame_size = fields.field(Reader::uint)?.unwrap_or(u32::MAX);
        let channel_max = fields.field(Reader::ushort)?.unwrap_or(u16::MAX);
        let idle_timeout = fields
            .field(Reader::uint)?
            .filter(|milliseconds| *milliseconds > 0)
            .map(|milliseconds| Duration::from_millis(milliseconds.into()));
        fields.skip()?;
        fields.skip()?;
        let offered_capabilities = fields.symbols()?;
        let desired_capabilities = fields.symbols()?;
        let properties = match fields.field(Reader::map)? {
            Some(map) => map.fields()?,
            None => Vec::new(),
        };
        Ok(Self {
            container_id,
            hostname,
            max_frame_size,
            channel_max,
            idle_timeout,
            offered_capabilities,
            desired_capabilities,
            properties,
        })
    }

    /// Appends descriptor and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, super::descriptor::OPEN);
        write::list(out, 10, |out| {
            write::string(out, &self.container_id);
            write::option(out, self.hostname.as_deref(), write::string);
            write::uint(out, self.max_frame_size);
            write::ushort(out, self.channel_max);
            write::option(out, self.idle_timeout, |out, timeout| {
                write::uint(out, u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX));
            });
            write::null(out);
            write::null(out);
            write::symbols(out, &self.offered_capabilities);
            write::symbols(out, &self.desired_capabilities);
            write::fields(out, &self.properties);
        });
    }

    /// The text of a property.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties.iter().find(|(key, _)| *key == name).and_then(|(_, value)| value.as_text())
    }
}
