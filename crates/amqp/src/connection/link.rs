//! A link: names, settle modes, credit (specification section 2.6).

use super::partial::PartialDelivery;
use crate::codec::{Symbol, Value};
use crate::performative::{ReceiverSettleMode, Role, SenderSettleMode, Source, Target};

/// A link, for as long as it exists. Ids of links that are gone are never given to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl LinkId {
    /// A small number, unique among the links of the connection at one time: for tables indexed by link.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// What we ask for when we attach a link.
#[derive(Debug, Clone, Default)]
pub struct LinkOptions {
    /// Unique per session and direction.
    pub name: String,
    /// Where messages come from.
    pub source: Source,
    /// Where they go to.
    pub target: Target,
    /// How the sending end settles.
    pub sender_settle_mode: SenderSettleMode,
    /// How the receiving end settles.
    pub receiver_settle_mode: ReceiverSettleMode,
    /// Largest message that a receiving link of ours accepts, in bytes. Without it a message of many frames may take
    /// up to 2 GiB.
    pub max_message_size: Option<u64>,
    /// Extensions that we would use.
    pub desired_capabilities: Vec<Symbol>,
    /// Link properties.
    pub properties: Vec<(Symbol, Value)>,
}

/// What we answer when we accept a link. The rest is echoed from the request, as clients check: the link properties stand
/// beside ours, as in Microsoft's own AMQP library.
#[derive(Debug, Clone, Default)]
pub struct LinkAcceptance {
    /// Largest message that the link carries, in bytes. Without it a message of many frames may take up to 2 GiB.
    pub max_message_size: Option<u64>,
    /// Extensions that the link has.
    pub offered_capabilities: Vec<Symbol>,
    /// Link properties that are ours; they take the place of the peer's of the same name.
    pub properties: Vec<(Symbol, Value)>,
    /// Where messages come from, if that is to be answered otherwise than it was asked for: with the filter that the
    /// link really has, say.
    pub source: Option<Source>,
    /// Where messages go to, likewise.
    pub target: Option<Target>,
}

/// Where a link is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    /// Our attach has gone out.
    AttachSent,
    /// The peer refused; its detach must follow.
    Refused,
    /// The peer's attach waits for our decision.
    Requested,
    /// Both have attached.
    Attached,
    /// Our detach has gone out; whatever comes before the peer's is discarded.
    DetachSent,
}

impl LinkState {
    /// Whether what still comes for the link is discarded.
    #[inline]
    pub(super) const fn is_ending(self) -> bool {
        matches!(self, Self::DetachSent | Self::Refused)
    }
}

/// One end of a link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) generation: u32,
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) channel: u16,
    pub(super) handle: u32,
    pub(super) remote_handle: Option<u32>,
    pub(super) state: LinkState,
    /// Deliveries so far, as the specification counts them: at the sender's end.
    pub(super) delivery_count: u32,
    /// Deliveries that may still be sent or come.
    pub(super) credit: u32,
    /// The delivery count up to which the sender has ever had credit from us. Credit that was taken back may have
    /// been used before the sender heard of it.
    pub(super) credit_limit: u32,
    /// Whether the receiver wants the credit used up.
    pub(super) drain: bool,
    /// Whether a flow is owed.
    pub(super) flow_due: bool,
    /// Largest message that may be received, in bytes.
    pub(super) max_message_size: u64,
    /// The delivery of which not all frames have come.
    pub(super) partial: Option<Box<PartialDelivery>>,
    /// The request, until we decide.
    pub(super) request: Option<Box<crate::performative::Attach>>,
}

impl Link {
    /// Sets the credit of a receiving link.
    pub(super) fn grant(&mut self, credit: u32) {
        self.credit = credit;
        let limit = self.delivery_count.wrapping_add(credit.min(i32::MAX.cast_unsigned()));
        if is_ahead(limit, self.credit_limit) {
            self.credit_limit = limit;
        }
    }

    /// The sender's first count, before which nothing was known of it.
    pub(super) fn count_from(&mut self, delivery_count: u32) {
        self.delivery_count = delivery_count;
        self.credit_limit = delivery_count;
        self.grant(self.credit);
    }

    /// The sender gives up credit by advancing its count. It cannot go back.
    pub(super) fn skip_to(&mut self, delivery_count: u32) {
        if is_ahead(delivery_count, self.delivery_count) {
            let skipped = delivery_count.wrapping_sub(self.delivery_count);
            self.delivery_count = delivery_count;
            self.credit = self.credit.saturating_sub(skipped);
        }
    }

    /// Whether one more delivery would be more than there ever was credit for.
    #[cold]
    pub(super) fn is_overrun(&self) -> bool {
        !is_ahead(self.credit_limit, self.delivery_count)
    }
}

/// Whether `number` lies beyond `other` in the serial arithmetic of delivery counts (RFC 1982).
fn is_ahead(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() > 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::is_ahead;

    proptest! {
        #[test]
        fn serial_numbers_compare_by_their_distance(start: u32, distance in 0u32..=(1 << 31)) {
            let ahead = start.wrapping_add(distance);
            prop_assert_eq!(is_ahead(ahead, start), distance > 0 && distance < 1 << 31);
            prop_assert!(!(is_ahead(ahead, start) && is_ahead(start, ahead)));
        }
    }
}
