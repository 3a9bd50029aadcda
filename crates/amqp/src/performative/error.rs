//! Errors as the wire carries them (specification section 2.8.14).

use crate::codec::{DecodeError, List, Reader, Symbol, Value, write};

/// An error condition: an open set, of which the constants are those that we give or look for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ErrorCondition(Symbol);

macro_rules! conditions {
    ($($name:ident = $text:literal;)*) => {
        #[expect(missing_docs, reason = "each constant is the symbol it holds")]
        impl ErrorCondition {
            $(pub const $name: Self = Self(Symbol::from_static($text));)*
        }
    };
}

conditions! {
    INTERNAL_ERROR = "amqp:internal-error";
    NOT_FOUND = "amqp:not-found";
    UNAUTHORIZED_ACCESS = "amqp:unauthorized-access";
    DECODE_ERROR = "amqp:decode-error";
    RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded";
    NOT_ALLOWED = "amqp:not-allowed";
    INVALID_FIELD = "amqp:invalid-field";
    NOT_IMPLEMENTED = "amqp:not-implemented";
    RESOURCE_LOCKED = "amqp:resource-locked";
    PRECONDITION_FAILED = "amqp:precondition-failed";
    ILLEGAL_STATE = "amqp:illegal-state";
    FRAME_SIZE_TOO_SMALL = "amqp:frame-size-too-small";
    CONNECTION_FORCED = "amqp:connection:forced";
    FRAMING_ERROR = "amqp:connection:framing-error";
    WINDOW_VIOLATION = "amqp:session:window-violation";
    ERRANT_LINK = "amqp:session:errant-link";
    HANDLE_IN_USE = "amqp:session:handle-in-use";
    UNATTACHED_HANDLE = "amqp:session:unattached-handle";
    DETACH_FORCED = "amqp:link:detach-forced";
    TRANSFER_LIMIT_EXCEEDED = "amqp:link:transfer-limit-exceeded";
    MESSAGE_SIZE_EXCEEDED = "amqp:link:message-size-exceeded";
    STOLEN = "amqp:link:stolen";
    TRANSACTION_UNKNOWN_ID = "amqp:transaction:unknown-id";
    TRANSACTION_ROLLBACK = "amqp:transaction:rollback";
    TRANSACTION_TIMEOUT = "amqp:transaction:timeout";
    SERVER_BUSY = "com.microsoft:server-busy";
    TIMEOUT = "com.microsoft:timeout";
    OPERATION_CANCELLED = "com.microsoft:operation-cancelled";
    ARGUMENT_ERROR = "com.microsoft:argument-error";
    ARGUMENT_OUT_OF_RANGE = "com.microsoft:argument-out-of-range";
    ENTITY_DISABLED = "com.microsoft:entity-disabled";
    ENTITY_ALREADY_EXISTS = "com.microsoft:entity-already-exists";
    MESSAGE_LOCK_LOST = "com.microsoft:message-lock-lost";
    MESSAGE_NOT_FOUND = "com.microsoft:message-not-found";
    SESSION_LOCK_LOST = "com.microsoft:session-lock-lost";
    SESSION_CANNOT_BE_LOCKED = "com.microsoft:session-cannot-be-locked";
    DEAD_LETTER = "com.microsoft:dead-letter";
    OUT_OF_ORDER_SEQUENCE = "com.microsoft:out-of-order-sequence";
    PRODUCER_EPOCH_STOLEN = "com.microsoft:producer-epoch-stolen";
}

impl ErrorCondition {
    /// The condition as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl From<Symbol> for ErrorCondition {
    fn from(symbol: Symbol) -> Self {
        Self(symbol)
    }
}

impl std::fmt::Display for ErrorCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error sent with close, end, detach or a rejection.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{condition}{}{}", if description.is_empty() { "" } else { ": " }, description)]
pub struct Error {
    /// What kind of error.
    pub condition: ErrorCondition,
    /// For people; may be empty.
    pub description: String,
    /// Further facts, by symbol.
    pub info: Vec<(Symbol, Value)>,
}

impl Error {
    /// An error without further facts.
    pub fn new(condition: ErrorCondition, description: impl Into<String>) -> Self {
        Self { condition, description: description.into(), info: Vec::new() }
    }

    /// Reads an optional error: null or a described list.
    pub(crate) fn decode_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.peek()? == crate::codec::code::NULL {
            reader.skip()?;
            return Ok(None);
        }
        match reader.descriptor()? {
            super::descriptor::ERROR => {}
            other => return Err(DecodeError::UnexpectedDescriptor(other)),
        }
        let mut fields = super::fields(reader, "error")?;
        Self::decode_fields(&mut fields).map(Some)
    }

    fn decode_fields(fields: &mut List<'_>) -> Result<Self, DecodeError> {
        let condition = fields.required("error.condition", Reader::symbol)?;
        let description = fields.field(Reader::string)?.unwrap_or_default().to_owned();
        let info = match fields.field(Reader::map)? {
            Some(map) => map.fields()?,
            None => Vec::new(),
        };
        Ok(Self { condition: ErrorCondition(condition.into()), description, info })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        write::descriptor(out, super::descriptor::ERROR);
        write::list(out, 3, |out| {
            write::symbol(out, self.condition.as_str());
            write::string(out, &self.description);
            write::fields(out, &self.info);
        });
    }

    pub(crate) fn encode_optional(error: Option<&Self>, out: &mut Vec<u8>) {
        write::option(out, error, |out, error| error.encode(out));
    }
}
