//! Source and target: the two ends of a link (specification sections 3.5.3 and 3.5.4).

use super::descriptor;
use crate::codec::{DecodeError, Reader, Symbol, Value, code, write};

/// Where a link's messages come from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Source {
    /// The node.
    pub address: Option<String>,
    /// Terminus durability: 0 none, 1 configuration, 2 unsettled state.
    pub durable: u32,
    /// When the terminus expires.
    pub expiry_policy: Option<Symbol>,
    /// Seconds until it expires.
    pub timeout: u32,
    /// Whether the peer is to create a node.
    pub dynamic: bool,
    /// Whether messages are moved or copied.
    pub distribution_mode: Option<Symbol>,
    /// Filters by name; values are usually described.
    pub filter: Vec<(Symbol, Value)>,
    /// The outcome of messages that get none.
    pub default_outcome: Option<Value>,
    /// Outcomes that may be chosen.
    pub outcomes: Vec<Symbol>,
    /// Extensions of the terminus.
    pub capabilities: Vec<Symbol>,
}

impl Source {
    /// A source with an address and defaults for the rest.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: Some(address.into()), ..Self::default() }
    }

    pub(crate) fn decode_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.peek()? == code::NULL {
            reader.skip()?;
            return Ok(None);
        }
        match reader.descriptor()? {
            descriptor::SOURCE => {}
            other => return Err(DecodeError::UnexpectedDescriptor(other)),
        }
        let mut fields = super::fields(reader, "source")?;
        let address = fields.field(Reader::string)?.map(str::to_owned);
        let durable = fields.field(Reader::uint)?.unwrap_or(0);
        let expiry_policy = fields.field(Reader::symbol)?.map(Symbol::from);
        let timeout = fields.field(Reader::uint)?.unwrap_or(0);
        let dynamic = fields.field(Reader::boolean)?.unwrap_or(false);
        fields.skip()?;
        let distribution_mode = fields.field(Reader::symbol)?.map(Symbol::from);
        let filter = match fields.field(Reader::map)? {
            Some(map) => map.fields()?,
            None => Vec::new(),
        };
        let default_outcome = Some(fields.value()?).filter(|outcome| *outcome != Value::Null);
        let outcomes = fields.symbols()?;
        let capabilities = fields.symbols()?;
        Ok(Some(Self {
            address,
            durable,
            expiry_policy,
            timeout,
            dynamic,
            distribution_mode,
            filter,
            default_outcome,
            outcomes,
            capabilities,
        }))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, descriptor::SOURCE);
        write::list(out, 11, |out| {
            write::option(out, self.address.as_deref(), write::string);
            write::uint(out, self.durable);
            write::option(out, self.expiry_policy.as_ref(), |out, policy| {
                write::symbol(out, policy.as_str())
            });
            write::uint(out, self.timeout);
            write::boolean(out, self.dynamic);
            write::null(out);
            write::option(out, self.distribution_mode.as_ref(), |out, mode| {
                write::symbol(out, mode.as_str())
            });
            write::fields(out, &self.filter);
            write::option(out, self.default_outcome.as_ref(), write::value);
            write::symbols(out, &self.outcomes);
            write::symbols(out, &self.capabilities);
        });
    }
}

/// Where a link's messages go to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Target {
    /// The node.
    pub address: Option<String>,
    /// Terminus durability: 0 none, 1 configuration, 2 unsettled state.
    pub durable: u32,
    /// When the terminus expires.
    pub expiry_policy: Option<Symbol>,
    /// Seconds until it expires.
    pub timeout: u32,
    /// Whether the peer is to create a node.
    pub dynamic: bool,
    /// Extensions of the terminus.
    pub capabilities: Vec<Symbol>,
    /// Whether it is no node but a coordinator of transactions, which has capabilities and nothing else of the above.
    pub is_coordinator: bool,
}

impl Target {
    /// A target with an address and defaults for the rest.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: Some(address.into()), ..Self::default() }
    }

    /// A coordinator of transactions (specification section 4.5.1), with what it is to be capable of.
    pub fn coordinator(capabilities: Vec<Symbol>) -> Self {
        Self { is_coordinator: true, capabilities, ..Self::default() }
    }

    /// Reads a target: a node or a coordinator.
    pub(crate) fn decode_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.peek()? == code::NULL {
            reader.skip()?;
            return Ok(None);
        }
        match reader.descriptor()? {
            descriptor::TARGET => {}
            descriptor::COORDINATOR => {
                let capabilities = super::fields(reader, "coordinator")?.symbols()?;
                return Ok(Some(Self::coordinator(capabilities)));
            }
            other => return Err(DecodeError::UnexpectedDescriptor(other)),
        }
        let mut fields = super::fields(reader, "target")?;
        let address = fields.field(Reader::string)?.map(str::to_owned);
        let durable = fields.field(Reader::uint)?.unwrap_or(0);
        let expiry_policy = fields.field(Reader::symbol)?.map(Symbol::from);
        let timeout = fields.field(Reader::uint)?.unwrap_or(0);
        let dynamic = fields.field(Reader::boolean)?.unwrap_or(false);
        fields.skip()?;
        let capabilities = fields.symbols()?;
        Ok(Some(Self {
            address,
            durable,
            expiry_policy,
            timeout,
            dynamic,
            capabilities,
            is_coordinator: false,
        }))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if self.is_coordinator {
            write::descriptor(out, descriptor::COORDINATOR);
            return write::list(out, 1, |out| write::symbols(out, &self.capabilities));
        }
        write::descriptor(out, descriptor::TARGET);
        write::list(out, 7, |out| {
            write::option(out, self.address.as_deref(), write::string);
            write::uint(out, self.durable);
            write::option(out, self.expiry_policy.as_ref(), |out, policy| {
                write::symbol(out, policy.as_str())
            });
            write::uint(out, self.timeout);
            write::boolean(out, self.dynamic);
            write::null(out);
            write::symbols(out, &self.capabilities);
        });
    }
}
