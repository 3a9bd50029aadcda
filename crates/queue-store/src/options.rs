//! What the owner of a queue, topic or subscription can choose.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use units::{ByteSize, duration};

/// The properties of a queue or of a subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueOptions {
    /// How long a received message is locked for its receiver, and how long a session is.
    #[serde(with = "duration")]
    pub lock_duration: Duration,
    /// After this many failed deliveries a message goes to the dead-letter queue; from 1 to [`MAXIMUM_DELIVERY_COUNT`].
    pub maximum_delivery_count: u32,
    /// The longest that a message may wait, and how long it does if its sender says nothing; for ever, if `None`.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub default_time_to_live: Option<Duration>,
    /// Messages whose time to live is over go to the dead-letter queue; otherwise they are dropped.
    pub dead_lettering_on_expiration: bool,
    /// Every message belongs to a session, and is received by whoever has locked that session.
    pub requires_session: bool,
    /// A message whose identifier was sent before within this time is dropped; none is, if `None`. Not for
    /// subscriptions: the topic does it.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub duplicate_detection: Option<Duration>,
    /// The queue or topic that all messages go on to. Nobody can receive from here then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_to: Option<String>,
    /// The queue or topic that dead letters go on to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_dead_lettered_messages_to: Option<String>,
    /// How many bytes of messages, dead letters included, may wait; see [`MESSAGE_OVERHEAD`] for how they are
    /// counted. A subscription has that of its topic.
    #[serde(skip_serializing_if = "is_usual_size")]
    pub size_limit: ByteSize,
    /// What may be done at present.
    pub status: EntityStatus,
}

/// The properties of a topic. Its subscriptions have [`QueueOptions`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopicOptions {
    /// As [`QueueOptions::default_time_to_live`]; the shorter of this and the subscription's counts.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub default_time_to_live: Option<Duration>,
    /// As [`QueueOptions::duplicate_detection`].
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub duplicate_detection: Option<Duration>,
    /// How many bytes of messages may wait in all subscriptions together.
    pub size_limit: ByteSize,
    /// What may be done at present.
    pub status: EntityStatus,
}

/// The largest number of failed deliveries that can be chosen, as in the service: the largest 32-bit integer with a sign. Users who want no
/// dead letters choose it.
pub const MAXIMUM_DELIVERY_COUNT: u32 = i32::MAX.cast_unsigned();

/// What may be done with an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntityStatus {
    /// Everything.
    #[default]
    Active,
    /// Nothing.
    Disabled,
    /// Receiving only.
    SendDisabled,
    /// Sending only.
    ReceiveDisabled,
}

impl EntityStatus {
    /// Whether messages may be sent.
    #[must_use]
    pub const fn may_send(self) -> bool {
        matches!(self, Self::Active | Self::ReceiveDisabled)
    }

    /// Whether messages may be received.
    #[must_use]
    pub const fn may_receive(self) -> bool {
        matches!(self, Self::Active | Self::SendDisabled)
    }
}

impl Default for QueueOptions {
    /// Locks of a minute, ten deliveries, messages without end, 1 GiB.
    fn default() -> Self {
        Self {
            lock_duration: Duration::from_secs(60),
            maximum_delivery_count: 10,
            default_time_to_live: None,
            dead_lettering_on_expiration: false,
            requires_session: false,
            duplicate_detection: None,
            forward_to: None,
            forward_dead_lettered_messages_to: None,
            size_limit: DEFAULT_SIZE_LIMIT,
            status: EntityStatus::Active,
        }
    }
}

/// Whether a size limit is the one of queues that say nothing of it. It is not written, since subscriptions can't say it.
fn is_usual_size(size_limit: &ByteSize) -> bool {
    *size_limit == QueueOptions::default().size_limit
}

impl Default for TopicOptions {
    /// Messages without end, 1 GiB.
    fn default() -> Self {
        Self {
            default_time_to_live: None,
            duplicate_detection: None,
            size_limit: DEFAULT_SIZE_LIMIT,
            status: EntityStatus::Active,
        }
    }
}

/// What a message counts towards a size limit besides its bytes: about what keeping it takes.
pub const MESSAGE_OVERHEAD: u64 = 64;

const DEFAULT_SIZE_LIMIT: ByteSize = ByteSize::from_mebibytes(1024);
