//! Attach: a link on a session (specification section 2.7.3).

use super::{Role, Source, Target};
use crate::codec::{DecodeError, Reader, Symbol, Value, write};

/// How a sender settles (specification section 2.8.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SenderSettleMode {
    /// Every delivery awaits an outcome.
    Unsettled,
    /// Every delivery is sent settled.
    Settled,
    /// Each delivery says for itself.
    #[default]
    Mixed,
}

/// How a receiver settles (specification section 2.8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReceiverSettleMode {
    /// The receiver settles as it gives the outcome.
    #[default]
    First,
    /// The receiver gives the outcome and settles after the sender has.
    Second,
}

/// Attaches a link to a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Attach {
    /// The link's name, unique per pair of containers and direction.
    pub name: String,
    /// The number by which the sender of this refers to the link on its session.
    pub handle: u32,
    /// The role of the sender of this.
    pub role: Role,
    /// How the sending end settles.
    pub sender_settle_mode: SenderSettleMode,
    /// How the receiving end settles.
    pub receiver_settle_mode: ReceiverSettleMode,
    /// Where messages come from.
    pub source: Option<Source>,
    /// Where messages go to.
    pub target: Option<Target>,
    /// Delivery count at the sending end; mandatory when that end sends this.
    pub initial_delivery_count: Option<u32>,
    /// Largest message, in bytes; `None` and zero mean no limit.
    pub max_message_size: Option<u64>,
    /// Extensions that the sender of this has.
    pub offered_capabilities: Vec<Symbol>,
    /// Extensions that the sender of this would use.
    pub desired_capabilities: Vec<Symbol>,
    /// Link properties.
    pub properties: Vec<(Symbol, Value)>,
}

impl Attach {
    /// The link property of that name.
    pub fn property(&self, name: &str) -> Option<&Value> {
        self.properties.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Reads the fields, which stand behind the descriptor.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = super::fields(reader, "attach")?;
        let name = fields.required("attach.name", Reader::string)?.to_owned();
        let handle = fields.required("attach.handle", Reader::uint)?;
        let role = Role::from_wire(fields.required("attach.role", Reader::boolean)?);
        let sender_settle_mode = match fields.field(Reader::ubyte)? {
            Some(0) => SenderSettleMode::Unsettled,
            Some(1) => SenderSettleMode::Settled,
            None | Some(2) => SenderSettleMode::Mixed,
            Some(other) => {
                return Err(DecodeError::InvalidValue { field: "snd-settle-mode", value: other.into() });
            }
        };
        let receiver_settle_mode = match fields.field(Reader::ubyte)? {
            None | Some(0) => ReceiverSettleMode::First,
            Some(1) => ReceiverSettleMode::Second,
            Some(other) => {
                return Err(DecodeError::InvalidValue { field: "rcv-settle-mode", value: other.into() });
            }
        };
        let source = fields.field(Source::decode_optional)?;
        let target = fields.field(Target::decode_optional)?;
        fields.skip()?;
        fields.skip()?;
        let initial_delivery_count = fields.field(Reader::uint)?;
        let max_message_size = fields.field(Reader::ulong)?;
        let offered_capabilities = fields.symbols()?;
        let desired_capabilities = fields.symbols()?;
        let properties = match fields.field(Reader::map)? {
            Some(map) => map.fields()?,
            None => Vec::new(),
        };
        Ok(Self {
            name,
            handle,
            role,
            sender_settle_mode,
            receiver_settle_mode,
            source,
            target,
            initial_delivery_count,
            max_message_size,
            offered_capabilities,
            desired_capabilities,
            properties,
        })
    }

    /// Appends descriptor and fields.
    pub fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, super::descriptor::ATTACH);
        write::list(out, 14, |out| {
            write::string(out, &self.name);
            write::uint(out, self.handle);
            write::boolean(out, self.role.to_wire());
            write::ubyte(
                out,
                match self.sender_settle_mode {
                    SenderSettleMode::Unsettled => 0,
                    SenderSettleMode::Settled => 1,
                    SenderSettleMode::Mixed => 2,
                },
            );
            write::ubyte(
                out,
                match self.receiver_settle_mode {
                    ReceiverSettleMode::First => 0,
                    ReceiverSettleMode::Second => 1,
                },
            );
            write::option(out, self.source.as_ref(), |out, source| source.encode(out));
            write::option(out, self.target.as_ref(), |out, target| target.encode(out));
            write::null(out);
            write::null(out);
            write::option(out, self.initial_delivery_count, write::uint);
            write::option(out, self.max_message_size, write::ulong);
            write::symbols(out, &self.offered_capabilities);
            write::symbols(out, &self.desired_capabilities);
            write::fields(out, &self.properties);
        });
    }
}
