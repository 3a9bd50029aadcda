//! The words that pipeline files and scenarios have in common, with one meaning and one way of writing each.
//!
//! [`Route`], [`CheckpointPolicy`] and the policies for missed and poison events are the engine's own types. What stands
//! here is written otherwise than the engine takes it.

use std::fmt;
use std::time::Duration;

use connect::retry::{RetryMode, RetryPolicy};
use connect::source::BatchOptions;
use relay::ownership::{self, EXPIRE_DEFAULT, OwnershipOptions, RENEW_DEFAULT};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use super::dispatch::{Conflict, Dispatch, Events, Strategy};
pub use relay::route::Route;
pub use relay::{CheckpointPolicy, Order};
pub use transform::Step as TransformStep;

/// When a batch is complete: by count or by time, whichever comes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Batch {
    /// Events of a full batch.
    pub events: u32,
    /// How long the first event of a batch waits for the others.
    #[serde(with = "units::duration")]
    pub wait: Duration,
}

/// Tries of a send: exponential delays between them, bounded in number and length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "RetryKeys")]
pub struct Retry {
    /// Tries in all, the first one included.
    pub attempts: u32,
    /// The delay before the second try; it doubles with each further one.
    #[serde(with = "units::duration")]
    pub delay: Duration,
    /// The longest delay between two tries.
    #[serde(with = "units::duration")]
    pub max_delay: Duration,
}

/// The keys of [`Retry`] that were written, for documents with defaults of their own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryKeys {
    attempts: Option<u32>,
    #[serde(default, with = "units::duration::optional")]
    delay: Option<Duration>,
    #[serde(default, with = "units::duration::optional")]
    max_delay: Option<Duration>,
}

/// How often an event may arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// Once, and again after a crash.
    #[default]
    AtLeastOnce,
    /// Once, for who reads what is committed: events and progress are one transaction. From topic to topic.
    ExactlyOnce,
}

/// How a message of Service Bus is settled that the sinks have accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settlement {
    /// After that, so that a crash in between has it carried again.
    #[default]
    Separate,
    /// In one transaction with that, so that it arrives exactly once. Between entities of one namespace.
    Transactional,
}

/// How several relays divide the partitions of a source among them. Written as `greedy`, or as
/// `{mode: greedy, renew: 1 s, expire: 6 s}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// How partitions are divided.
    pub mode: OwnershipMode,
    /// From one cycle of renewing and balancing claims to the next.
    pub renew: Duration,
    /// A claim that was not renewed for so long is free for others.
    pub expire: Duration,
    /// The relay's name among the others; made up if left out.
    pub identity: Option<String>,
}

/// How partitions are divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnershipMode {
    /// Without claims: each relay has its share from the start.
    #[default]
    Static,
    /// By claims in the checkpoint store, one per cycle.
    Balanced,
    /// By claims in the checkpoint store, all that are missing to an equal share at once.
    Greedy,
    /// As the coordinator of the source's consumer group says, on Kafka.
    Group,
}

impl From<&Batch> for BatchOptions {
    fn from(batch: &Batch) -> Self {
        Self { max_events: batch.events as usize, max_wait: batch.wait }
    }
}

impl Default for Batch {
    fn default() -> Self {
        let BatchOptions { max_events, max_wait } = BatchOptions::default();
        Self { events: u32::try_from(max_events).unwrap_or(u32::MAX), wait: max_wait }
    }
}

impl Retry {
    /// The policy of an engine: `seed` is what its jitter is drawn from.
    #[must_use]
    pub fn policy(&self, try_timeout: Duration, seed: u64) -> RetryPolicy {
        RetryPolicy {
            attempts: self.attempts,
            mode: RetryMode::Exponential,
            delay: self.delay,
            max_delay: self.max_delay,
            try_timeout,
            seed,
            ..RetryPolicy::default()
        }
    }
}

impl RetryKeys {
    /// What was written, and `defaults` for the rest.
    #[must_use]
    pub fn or(self, defaults: Retry) -> Retry {
        Retry {
            attempts: self.attempts.unwrap_or(defaults.attempts),
            delay: self.delay.unwrap_or(defaults.delay),
            max_delay: self.max_delay.unwrap_or(defaults.max_delay),
        }
    }
}

impl From<RetryKeys> for Retry {
    fn from(keys: RetryKeys) -> Self {
        keys.or(Self::default())
    }
}

impl Default for Retry {
    fn default() -> Self {
        let RetryPolicy { attempts, delay, max_delay, .. } = RetryPolicy::default();
        Self { attempts, delay, max_delay }
    }
}

impl Ownership {
    /// Divided so, with the times of the official SDKs' stores.
    #[must_use]
    pub const fn new(mode: OwnershipMode) -> Self {
        Self { mode, renew: RENEW_DEFAULT, expire: EXPIRE_DEFAULT, identity: None }
    }

    /// Whether relays are members of a consumer group of Kafka.
    #[must_use]
    pub fn is_membership(&self) -> bool {
        self.mode == OwnershipMode::Group
    }

    /// Whether partitions are shared.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.mode != OwnershipMode::Static
    }

    /// The options of an engine, whose name is `identity` unless it was given one; none where partitions are not shared.
    #[must_use]
    pub fn options(&self, identity: &str) -> Option<OwnershipOptions> {
        let mode = match self.mode {
            OwnershipMode::Static => return None,
            OwnershipMode::Balanced => ownership::OwnershipMode::Balanced,
            OwnershipMode::Greedy => ownership::OwnershipMode::Greedy,
            OwnershipMode::Group => ownership::OwnershipMode::Assigned,
        };
        let identity = self.identity.as_deref().unwrap_or(identity).to_owned();
        Some(OwnershipOptions { mode, identity, renew: self.renew, expire: self.expire })
    }
}

impl Default for Ownership {
    fn default() -> Self {
        Self::new(OwnershipMode::default())
    }
}

/// The mapping form of [`Ownership`].
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnershipKeys {
    #[serde(default)]
    mode: OwnershipMode,
    #[serde(with = "units::duration", default = "renew")]
    renew: Duration,
    #[serde(with = "units::duration", default = "expire")]
    expire: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
}

impl Serialize for Ownership {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if *self == Self::new(self.mode) {
            return self.mode.serialize(serializer);
        }
        let Self { mode, renew, expire, identity } = self.clone();
        OwnershipKeys { mode, renew, expire, identity }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ownership {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Ownership;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(
                    "`static`, `balanced`, `greedy`, `group` or `{mode: greedy, renew: 10 s, expire: 60 s}`",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Ownership, E> {
                OwnershipMode::deserialize(StrDeserializer::new(text)).map(Ownership::new)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Ownership, A::Error> {
                let OwnershipKeys { mode, renew, expire, identity } =
                    OwnershipKeys::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Ownership { mode, renew, expire, identity })
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

const fn renew() -> Duration {
    RENEW_DEFAULT
}

const fn expire() -> Duration {
    EXPIRE_DEFAULT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_ownership_survive_being_written_and_read_again() {
        for (text, written, ownership) in [
            (r#""balanced""#, r#""balanced""#, Ownership::new(OwnershipMode::Balanced)),
            (r#"{"mode":"greedy"}"#, r#""greedy""#, Ownership::new(OwnershipMode::Greedy)),
            (
                r#"{"mode":"greedy","renew":"1 s"}"#,
                r#"{"mode":"greedy","renew":"1 s","expire":"1 min"}"#,
                Ownership { renew: Duration::from_secs(1), ..Ownership::new(OwnershipMode::Greedy) },
            ),
        ] {
            let read: Ownership = serde_json::from_str(text).unwrap();
            assert_eq!(read, ownership, "{text}");
            assert_eq!(serde_json::to_string(&read).unwrap(), written);
            assert_eq!(serde_json::from_str::<Ownership>(written).unwrap(), read);
        }
    }

    #[test]
    fn ownership_has_the_times_of_a_relay_without_any() {
        let options = Ownership::new(OwnershipMode::Greedy).options("me");
        assert_eq!(options, Some(OwnershipOptions::new("me")));
        assert_eq!(Ownership::default().options("me"), None);
    }

    #[test]
    fn what_is_left_out_of_retry_is_what_the_document_says() {
        let keys: RetryKeys = serde_json::from_str(r#"{"delay":"1 s"}"#).unwrap();
        let quick = Retry { attempts: 2, delay: Duration::ZERO, max_delay: Duration::from_secs(3) };
        let expected = Retry { delay: Duration::from_secs(1), ..quick.clone() };
        assert_eq!(keys.or(quick), expected);
        let usual: Retry = serde_json::from_str("{}").unwrap();
        assert_eq!(usual, Retry::default());
        assert_eq!(usual.policy(RetryPolicy::default().try_timeout, 0), RetryPolicy::default());
    }

    #[test]
    fn checkpoint_policies_are_written_as_they_are_read() {
        let every = CheckpointPolicy::Every(Duration::from_secs(1));
        for (written, policy) in
            [(r#""each-batch""#, CheckpointPolicy::EachBatch), (r#"{"every":"1 s"}"#, every)]
        {
            assert_eq!(serde_json::from_str::<CheckpointPolicy>(written).unwrap(), policy);
            assert_eq!(serde_json::to_string(&policy).unwrap(), written);
        }
    }
}
