//! What ends a connection or a session, and the condition that the peer is told.

use crate::codec::DecodeError;
use crate::frame::FramingError;
use crate::performative::{Error, ErrorCondition, SaslCode};

/// Why a connection ended. The first error sticks.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConnectionError {
    /// The peer speaks another protocol.
    #[error("the peer does not speak AMQP: its first bytes are {0:02x?}")]
    NotAmqp([u8; 4]),
    /// The peer speaks AMQP, but not version 1.0, or not at this point.
    #[error("the peer's protocol header is {0:02x?}, not AMQP 1.0")]
    ProtocolHeader([u8; 8]),
    /// The server offers no mechanism that we have.
    #[error("the server offers no supported SASL mechanism, only {0}")]
    NoSaslMechanism(String),
    /// Authentication failed.
    #[error("SASL authentication failed: {0:?}")]
    SaslRefused(SaslCode),
    /// A frame header that cannot be.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// A frame body that cannot be read.
    #[error("malformed frame: {0}")]
    Decode(#[from] DecodeError),
    /// A frame of a type that does not belong here.
    #[error("unexpected frame type {0}")]
    FrameType(u8),
    /// A performative that does not belong here.
    #[error("unexpected performative {descriptor:#x} {place}")]
    UnexpectedPerformative {
        /// Its descriptor.
        descriptor: u64,
        /// Where we were.
        place: &'static str,
    },
    /// A frame on a channel without a session.
    #[error("channel {0} has no session")]
    UnknownChannel(u16),
    /// A begin on a channel that has a session, or that answers none of ours.
    #[error("begin on channel {0} does not fit any session")]
    InvalidBegin(u16),
    /// More sessions, or links of a session, than we said that we allow.
    #[error("{what} {number} exceeds the maximum of {maximum}")]
    NumberTooLarge {
        /// Channel or handle.
        what: &'static str,
        /// What the peer used.
        number: u64,
        /// What we allow.
        maximum: u64,
    },
    /// More links in all than we hold for one connection.
    #[error("the connection has the maximum of {0} links")]
    TooManyLinks(usize),
    /// Messages of which not all frames have come hold more memory than we allow.
    #[error("incomplete messages exceed the limit of {0} bytes")]
    PartialMessages(usize),
    /// A link whose name is longer than we keep.
    #[error("the name of a link has {length} bytes, more than the {maximum} allowed")]
    LongLinkName {
        /// The length of the name.
        length: usize,
        /// What we allow.
        maximum: usize,
    },
    /// Nothing came for too long.
    #[error("the peer was silent for longer than the idle time-out")]
    IdleTimeout,
    /// The peer took nothing of what waited for it for too long.
    #[error("the peer did not read for longer than the idle time-out")]
    OutputTimeout,
    /// The peer did not finish the handshake in time.
    #[error("the handshake took too long")]
    HandshakeTimeout,
    /// The peer closed with an error.
    #[error("the peer closed the connection: {0}")]
    ClosedByPeer(Error),
}

impl ConnectionError {
    /// The condition for our close frame; `None` where no close frame can or need be sent.
    pub fn condition(&self) -> Option<ErrorCondition> {
        match self {
            Self::NotAmqp(_)
            | Self::ProtocolHeader(_)
            | Self::NoSaslMechanism(_)
            | Self::SaslRefused(_)
            | Self::ClosedByPeer(_) => None,
            Self::Framing(_) | Self::FrameType(_) | Self::NumberTooLarge { .. } | Self::UnknownChannel(_) => {
                Some(ErrorCondition::FRAMING_ERROR)
            }
            Self::Decode(_) => Some(ErrorCondition::DECODE_ERROR),
            Self::UnexpectedPerformative { .. } | Self::InvalidBegin(_) => Some(ErrorCondition::NOT_ALLOWED),
            Self::TooManyLinks(_)
            | Self::PartialMessages(_)
            | Self::LongLinkName { .. }
            | Self::IdleTimeout
            | Self::OutputTimeout
            | Self::HandshakeTimeout => Some(ErrorCondition::RESOURCE_LIMIT_EXCEEDED),
        }
    }

    pub(crate) fn to_wire(&self) -> Option<Error> {
        self.condition().map(|condition| Error::new(condition, self.to_string()))
    }
}

/// What a peer did that ends a session and leaves the connection alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SessionViolation {
    #[error("a transfer exceeds the session window")]
    Window,
    #[error("handle {0} has no link")]
    UnattachedHandle(u32),
    #[error("handle {0} is in use")]
    HandleInUse(u32),
    #[error("the first frame of a delivery has no delivery id")]
    NoDeliveryId,
    #[error("a link sends what it should receive")]
    WrongRole,
}

impl SessionViolation {
    pub(crate) fn to_wire(self) -> Error {
        let condition = match self {
            Self::Window => ErrorCondition::WINDOW_VIOLATION,
            Self::UnattachedHandle(_) => ErrorCondition::UNATTACHED_HANDLE,
            Self::HandleInUse(_) => ErrorCondition::HANDLE_IN_USE,
            Self::NoDeliveryId => ErrorCondition::INVALID_FIELD,
            Self::WrongRole => ErrorCondition::NOT_ALLOWED,
        };
        Error::new(condition, self.to_string())
    }
}

/// Why a delivery cannot be sent now. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The link is not attached (yet, or any more).
    #[error("the link is not attached")]
    NotAttached,
    /// The receiver has given no credit; wait for [`Event::Credit`](super::Event::Credit).
    #[error("the link has no credit")]
    NoCredit,
    /// The session window is closed, or an earlier message still waits for it;
    /// wait for [`Event::Credit`](super::Event::Credit) or [`Event::WindowOpen`](super::Event::WindowOpen).
    #[error("the session window is closed")]
    WindowClosed,
    /// A delivery tag is at most 32 bytes long.
    #[error("the delivery tag is longer than 32 bytes")]
    TagTooLong,
}
