//! How several instances of the relay divide the partitions of the source: each a fixed share, or by claims that run out
//! unless they are renewed.

use std::time::Duration;

use relay::ownership::{EXPIRE_DEFAULT, RENEW_DEFAULT};
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Who takes which partition. Written as `greedy`, or as `{mode: greedy, renew: 1 s, expire: 6 s}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// How partitions are divided.
    pub mode: OwnershipMode,
    /// From one cycle of renewing and balancing claims to the next.
    pub renew: Duration,
    /// A claim that was not renewed for so long is free for others.
    pub expire: Duration,
}

/// How partitions are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OwnershipMode {
    /// Each instance takes every n-th, as the scenario starts them.
    Static,
    /// By claims in the checkpoint store, one per cycle.
    Balanced,
    /// By claims in the checkpoint store, all that are missing to an equal share at once.
    Greedy,
}

impl Ownership {
    /// Divided so, with the times of the official SDKs' stores.
    #[must_use]
    pub const fn new(mode: OwnershipMode) -> Self {
        Self { mode, renew: RENEW_DEFAULT, expire: EXPIRE_DEFAULT }
    }

    /// Whether instances claim partitions.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.mode != OwnershipMode::Static
    }
}

/// The mapping form.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    mode: OwnershipMode,
    #[serde(with = "units::duration", default = "renew")]
    renew: Duration,
    #[serde(with = "units::duration", default = "expire")]
    expire: Duration,
}

impl Serialize for Ownership {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let &Self { mode, renew, expire } = self;
        if *self == Self::new(mode) {
            return mode.serialize(serializer);
        }
        let written = Written { mode, renew, expire };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ownership {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Ownership;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(
                    "`static`, `balanced`, `greedy` or `{mode: greedy, renew: 10 s, expire: 60 s}`",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Ownership, E> {
                OwnershipMode::deserialize(StrDeserializer::new(text)).map(Ownership::new)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Ownership, A::Error> {
                let Written { mode, renew, expire } = Written::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Ownership { mode, renew, expire })
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
    fn both_forms_survive_being_written_and_read_again() {
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
    fn the_times_are_those_of_a_relay_without_any() {
        let of_a_relay = relay::ownership::OwnershipOptions::new("me");
        let ours = Ownership::new(OwnershipMode::Greedy);
        assert_eq!((ours.renew, ours.expire), (of_a_relay.renew, of_a_relay.expire));
    }
}
