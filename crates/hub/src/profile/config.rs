//! What the service profile is to be, as plain data. Everything that is not written is off.

use std::collections::BTreeMap;
use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use units::{ByteSize, Rate};

use super::distribution::Distribution;
use super::named::{NamedProfile, TlsVersion};

/// How the embedded service is shaped like the real one. The default shapes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileConfig {
    /// The profile whose figures are those that are not written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<NamedProfile>,
    /// The network's round trip, half of it each way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<Distribution>,
    /// How long the service thinks before its first byte on a new connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_setup: Option<Distribution>,
    /// The newest version of TLS that is spoken. Handshakes are full ones then: no session is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsVersion>,
    /// How long the service takes per operation.
    pub service_time: ServiceTimeConfig,
    /// How many operations take their time at once.
    #[serde(skip_serializing_if = "CapacityConfig::is_unbounded")]
    pub capacity: CapacityConfig,
    /// The capacity that is paid for: 1 MB or 1,000 events per second in, 2 MB or 4,096 events per second out, each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_units: Option<u32>,
    /// The capacity in figures of its own, instead of throughput units.
    pub quota: QuotaConfig,
    /// What goes wrong, and how often.
    pub failures: FailureConfig,
    /// What all randomness follows from.
    pub seed: u64,
}

/// How long the service takes for one operation, from the moment that it has it to the answer. Operations do not wait
/// for one another, unless there is a [capacity](CapacityConfig).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceTimeConfig {
    /// Taking an event or a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<Distribution>,
    /// Settling a message: complete, abandon and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<Distribution>,
    /// Answering a request: properties of hubs and partitions, tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Distribution>,
    /// Answering a request for blobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<Distribution>,
    /// The times of single hubs, queues, topics and subscriptions, in place of those for all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entities: BTreeMap<String, EntityTimeConfig>,
    /// The times of requests for blobs in single containers, in place of the one for all.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, Distribution>,
}

/// How long the service takes for operations on one entity. What is not written has the time that all have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EntityTimeConfig {
    /// Taking an event, a message or a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<Distribution>,
    /// Settling a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle: Option<Distribution>,
    /// Answering a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Distribution>,
}

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Send,
    Settle,
    Request,
}

impl ServiceTimeConfig {
    /// How long an operation takes, on this entity if it is about one; `None` for no time.
    pub(super) fn of(&self, operation: Operation, entity: Option<&str>) -> Option<&Distribution> {
        let own = entity.and_then(|entity| named(&self.entities, entity));
        let time = match operation {
            Operation::Send => own.and_then(|own| own.send.as_ref()).or(self.send.as_ref()),
            Operation::Settle => own.and_then(|own| own.settle.as_ref()).or(self.settle.as_ref()),
            Operation::Request => own.and_then(|own| own.request.as_ref()).or(self.request.as_ref()),
        };
        time.filter(|time| !time.is_zero())
    }

    /// How long a request for blobs takes, in this container if it is about one; `None` for no time.
    pub(super) fn of_container(&self, container: Option<&str>) -> Option<&Distribution> {
        let own = container.and_then(|container| named(&self.containers, container));
        own.or(self.blob.as_ref()).filter(|time| !time.is_zero())
    }
}

/// How many operations single entities and containers carry out at once. The others wait until it is their turn, in the order in
/// which they came; what is not named has no bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CapacityConfig {
    /// Sends to single hubs, queues and topics.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entities: BTreeMap<String, NonZeroU32>,
    /// Requests for blobs in single containers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, NonZeroU32>,
}

impl CapacityConfig {
    fn is_unbounded(&self) -> bool {
        self.entities.is_empty() && self.containers.is_empty()
    }
}

/// What is written under this name, in whatever letter case.
fn named<'a, T>(all: &'a BTreeMap<String, T>, name: &str) -> Option<&'a T> {
    all.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, found)| found)
}

/// Whether two names differ only in their letter case.
fn has_repeated_name<T>(all: &BTreeMap<String, T>) -> bool {
    let mut names: Vec<_> = all.keys().map(|name| name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// What the namespace takes and gives per second, each without a bound where nothing is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QuotaConfig {
    /// Bytes of messages that it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress_bytes_per_s: Option<ByteSize>,
    /// Events that it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress_events_per_s: Option<NonZeroU64>,
    /// Bytes that it delivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_bytes_per_s: Option<ByteSize>,
    /// Events that it delivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_events_per_s: Option<NonZeroU64>,
}

/// What goes wrong, and how often.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FailureConfig {
    /// The share of sends that fail: nothing is stored, and the client gets `amqp:internal-error`.
    pub send_ratio: Ratio,
    /// The share of sends that succeed without the client learning of it: stored, and answered with
    /// `com.microsoft:timeout`. A client that tries again makes a duplicate.
    pub acknowledgement_ratio: Ratio,
    /// The share of sends upon which the link is detached (`amqp:link:detach-forced`) without an outcome, nothing
    /// being stored.
    pub detach_ratio: Ratio,
    /// The share of sends upon which the connection breaks without an outcome, the send being stored.
    pub disconnect_ratio: Ratio,
    /// How often a connection breaks whatever it does, per second and connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disconnect_per_s: Option<Rate>,
    /// How often one of a connection's receivers is detached (`amqp:link:detach-forced`), per second and connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_detach_per_s: Option<Rate>,
    /// The share of requests for blobs that are answered with 503 (`ServerBusy`) and not carried out.
    pub blob_ratio: Ratio,
}

/// A share of a whole: from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Ratio(f64);

/// What in a profile contradicts itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}; {advice}")]
pub struct ProfileError {
    /// The key, dotted, from `profile` on.
    pub path: &'static str,
    /// What is wrong with it.
    pub reason: &'static str,
    /// What to write instead.
    pub advice: &'static str,
}

impl ProfileConfig {
    /// Whether it shapes nothing, so that no cost is due.
    #[must_use]
    pub fn is_off(&self) -> bool {
        *self == Self { seed: self.seed, ..Self::default() }
    }

    /// How long a send to an entity takes, if it takes any time.
    #[must_use]
    pub fn send_time(&self, entity: &str) -> Option<Distribution> {
        self.resolved().service_time.of(Operation::Send, Some(entity)).copied()
    }

    /// How many sends to an entity are carried out at once, if that is bounded.
    #[must_use]
    pub fn capacity_of(&self, entity: &str) -> Option<NonZeroU32> {
        named(&self.capacity.entities, entity).copied()
    }

    /// The same without a name: what it stands for is written, unless something else was.
    #[must_use]
    pub fn resolved(&self) -> Self {
        let Some(named) = self.name.map(NamedProfile::config) else {
            return self.clone();
        };
        let (times, usual) = (&self.service_time, &named.service_time);
        let has_quota = self.throughput_units.is_some() || self.quota != QuotaConfig::default();
        Self {
            name: None,
            round_trip: self.round_trip.or(named.round_trip),
            connection_setup: self.connection_setup.or(named.connection_setup),
            tls: self.tls.or(named.tls),
            service_time: ServiceTimeConfig {
                send: times.send.or(usual.send),
                settle: times.settle.or(usual.settle),
                request: times.request.or(usual.request),
                blob: times.blob.or(usual.blob),
                ..times.clone()
            },
            throughput_units: if has_quota { self.throughput_units } else { named.throughput_units },
            ..self.clone()
        }
    }

    /// The quota that applies: throughput units in figures, or the figures that are written.
    ///
    /// # Errors
    /// There are both, or a figure that lets nothing through.
    pub fn effective_quota(&self) -> Result<QuotaConfig, ProfileError> {
        let Some(units) = self.resolved().throughput_units else {
            for (path, bytes) in [
                ("profile.quota.ingress_bytes_per_s", self.quota.ingress_bytes_per_s),
                ("profile.quota.egress_bytes_per_s", self.quota.egress_bytes_per_s),
            ] {
                if bytes.is_some_and(|bytes| bytes.bytes() == 0) {
                    return Err(ProfileError {
                        path,
                        reason: "no event would ever pass",
                        advice: "leave it out for no limit",
                    });
                }
            }
            return Ok(self.quota);
        };
        if self.quota != QuotaConfig::default() {
            return Err(ProfileError {
                path: "profile.quota",
                reason: "`throughput_units` is given as well, and defines a quota, too",
                advice: "write one of the two",
            });
        }
        let Some(units) = NonZeroU64::new(u64::from(units)) else {
            return Err(ProfileError {
                path: "profile.throughput_units",
                reason: "no event would ever pass",
                advice: "write at least 1, or leave it out for no limit",
            });
        };
        let events = |per_unit: NonZeroU64| Some(units.saturating_mul(per_unit));
        let bytes = |per_unit| Some(ByteSize::from_bytes(units.get().saturating_mul(per_unit)));
        Ok(QuotaConfig {
            ingress_bytes_per_s: bytes(UNIT_INGRESS_BYTES),
            ingress_events_per_s: events(UNIT_INGRESS_EVENTS),
            egress_bytes_per_s: bytes(UNIT_EGRESS_BYTES),
            egress_events_per_s: events(UNIT_EGRESS_EVENTS),
        })
    }

    /// Checks what the types of the single values cannot.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self) -> Result<(), ProfileError> {
        self.effective_quota()?;
        for (path, is_ambiguous) in [
            ("profile.service_time.entities", has_repeated_name(&self.service_time.entities)),
            ("profile.service_time.containers", has_repeated_name(&self.service_time.containers)),
            ("profile.capacity.entities", has_repeated_name(&self.capacity.entities)),
            ("profile.capacity.containers", has_repeated_name(&self.capacity.containers)),
        ] {
            if is_ambiguous {
                return Err(ProfileError {
                    path,
                    reason: "two names differ only in their letter case",
                    advice: "leave one of them out",
                });
            }
        }
        // A time of zero that is written is one that was switched off.
        let times = self.resolved().service_time;
        let has_time = |entity: &String| {
            times.send.is_some() || named(&times.entities, entity).is_some_and(|own| own.send.is_some())
        };
        let container_has_time =
            |container: &String| times.blob.is_some() || named(&times.containers, container).is_some();
        for (path, is_effective) in [
            ("profile.capacity.entities", self.capacity.entities.keys().all(has_time)),
            ("profile.capacity.containers", self.capacity.containers.keys().all(container_has_time)),
        ] {
            if !is_effective {
                return Err(ProfileError {
                    path,
                    reason: "operations that take no time never wait for one another",
                    advice: "write their time in `profile.service_time`, or leave the capacity out",
                });
            }
        }
        let failures = &self.failures;
        if failures.per_send().into_iter().sum::<f64>() > 1.0 {
            return Err(ProfileError {
                path: "profile.failures",
                reason: "the ratios of the failures of a send add up to more than 1",
                advice: "each send can fail in one way only: lower some of them",
            });
        }
        Ok(())
    }
}

impl FailureConfig {
    /// The ratios of what can happen to a send, which exclude one another.
    pub(super) fn per_send(&self) -> [f64; 4] {
        [self.send_ratio.0, self.acknowledgement_ratio.0, self.detach_ratio.0, self.disconnect_ratio.0]
    }
}

/// No field can be "not a number".
impl Eq for FailureConfig {}

impl Ratio {
    /// A share.
    ///
    /// # Errors
    /// It is below 0, above 1 or not a number.
    pub fn new(ratio: f64) -> Result<Self, RatioError> {
        if (0.0..=1.0).contains(&ratio) { Ok(Self(ratio)) } else { Err(RatioError) }
    }

    /// The share as a number.
    #[must_use]
    pub const fn value(self) -> f64 {
        self.0
    }
}

/// A number that is no share of a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ratio is a number from 0 to 1, such as 0.001")]
pub struct RatioError;

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = Ratio;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number from 0 to 1, such as 0.001")
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Ratio, E> {
                Ratio::new(number).map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Ratio, E> {
                self.visit_f64(number as f64)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Ratio, E> {
                self.visit_f64(number as f64)
            }
        }

        deserializer.deserialize_f64(Number)
    }
}

/// What one throughput unit buys per second. The service counts decimal megabytes.
const UNIT_INGRESS_BYTES: u64 = 1_000_000;
const UNIT_INGRESS_EVENTS: NonZeroU64 = NonZeroU64::new(1_000).expect("1,000 is not 0");
const UNIT_EGRESS_BYTES: u64 = 2_000_000;
const UNIT_EGRESS_EVENTS: NonZeroU64 = NonZeroU64::new(4_096).expect("4,096 is not 0");

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(text: &str) -> Result<ProfileConfig, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_written_is_off_and_a_seed_alone_changes_nothing() {
        let empty = read("{}").unwrap();
        assert_eq!(empty, ProfileConfig::default());
        assert!(empty.is_off());
        assert!(read(r#"{"seed": 9}"#).unwrap().is_off());
        assert!(!read(r#"{"round_trip": "2 ms"}"#).unwrap().is_off());
        assert!(!read(r#"{"failures": {"send_ratio": 0.1}}"#).unwrap().is_off());
    }

    #[test]
    fn every_key_survives_being_written_and_read_again() {
        let text = r#"{"round_trip":"2 ms","connection_setup":{"from":"10 ms","to":"50 ms"},
            "service_time":{"send":{"median":"1500 us","p99":"20 ms"},"request":{"mean":"5 ms"},
                            "blob":"8 ms","settle":"1 ms","entities":{"orders":{"send":"18 ms"}},
                            "containers":{"archive":{"mean":"9 ms"}}},
            "capacity":{"entities":{"orders":3},"containers":{"archive":40}},
            "quota":{"ingress_bytes_per_s":"1 MB","ingress_events_per_s":1000,
                     "egress_bytes_per_s":"2 MB","egress_events_per_s":4096},
            "failures":{"send_ratio":0.001,"acknowledgement_ratio":0.002,"detach_ratio":0,"disconnect_ratio":1e-6,
                        "disconnect_per_s":0.01,"receiver_detach_per_s":"0.5/s","blob_ratio":1},"seed":7}"#;
        let config = read(text).unwrap();
        config.check().unwrap();
        let round_trip = Distribution::Constant(Duration::from_millis(2));
        assert_eq!(config.round_trip, Some(round_trip));
        assert_eq!(read(&serde_json::to_string(&config).unwrap()), Ok(config));
    }

    #[test]
    fn throughput_units_are_a_quota() {
        let config = read(r#"{"throughput_units": 4}"#).unwrap();
        let quota = config.effective_quota().unwrap();
        assert_eq!(quota.ingress_bytes_per_s, Some(ByteSize::from_bytes(4_000_000)));
        assert_eq!(quota.ingress_events_per_s, NonZeroU64::new(4_000));
        assert_eq!(quota.egress_bytes_per_s, Some(ByteSize::from_bytes(8_000_000)));
        assert_eq!(quota.egress_events_per_s, NonZeroU64::new(16_384));
    }

    #[test]
    fn an_entity_has_its_own_times_and_the_others_where_it_has_none() {
        let config = read(
            r#"{"service_time": {"send": "1 ms", "settle": "2 ms", "blob": "3 ms",
                "entities": {"Orders": {"send": "4 ms"}, "fast": {"settle": "0 ms"}},
                "containers": {"archive": "5 ms"}}}"#,
        );
        let times = config.unwrap().service_time;
        let milliseconds = |time: Option<&Distribution>| match time {
            Some(Distribution::Constant(time)) => Some(time.as_millis()),
            _ => None,
        };
        let of = |operation, entity| milliseconds(times.of(operation, entity));
        assert_eq!(of(Operation::Send, Some("orders")), Some(4));
        assert_eq!(of(Operation::Settle, Some("orders")), Some(2));
        assert_eq!(of(Operation::Send, Some("fast")), Some(1));
        assert_eq!(of(Operation::Settle, Some("fast")), None);
        assert_eq!(of(Operation::Send, None), Some(1));
        assert_eq!(of(Operation::Request, Some("orders")), None);
        assert_eq!(milliseconds(times.of_container(Some("archive"))), Some(5));
        assert_eq!(milliseconds(times.of_container(Some("other"))), Some(3));
        assert_eq!(milliseconds(times.of_container(None)), Some(3));
    }

    #[test]
    fn contradictions_are_refused_with_their_key() {
        for (text, path) in [
            (r#"{"throughput_units": 0}"#, "profile.throughput_units"),
            (r#"{"throughput_units": 1, "quota": {"egress_events_per_s": 5}}"#, "profile.quota"),
            (r#"{"service_time": {"entities": {"a": {}, "A": {}}}}"#, "profile.service_time.entities"),
            (r#"{"capacity": {"entities": {"a": 1}}}"#, "profile.capacity.entities"),
            (
                r#"{"service_time": {"entities": {"a": {"settle": "1 ms"}}}, "capacity": {"entities": {"a": 1}}}"#,
                "profile.capacity.entities",
            ),
            (
                r#"{"service_time": {"send": "1 ms"}, "capacity": {"containers": {"a": 1}}}"#,
                "profile.capacity.containers",
            ),
            (
                r#"{"service_time": {"send": "1 ms"}, "capacity": {"entities": {"a": 1, "A": 2}}}"#,
                "profile.capacity.entities",
            ),
            (r#"{"quota": {"egress_bytes_per_s": "0 B"}}"#, "profile.quota.egress_bytes_per_s"),
            (r#"{"failures": {"send_ratio": 0.7, "detach_ratio": 0.4}}"#, "profile.failures"),
        ] {
            let error = read(text).unwrap().check().unwrap_err();
            assert_eq!(error.path, path);
            assert!(error.to_string().starts_with(&format!("{path}: ")));
        }
    }

    #[test]
    fn unknown_keys_and_impossible_values_are_not_read() {
        for text in [
            r#"{"roundtrip": "2 ms"}"#,
            r#"{"service_time": {"sends": "2 ms"}}"#,
            r#"{"service_time": {"entities": {"orders": {"blob": "2 ms"}}}}"#,
            r#"{"failures": {"send_ratio": 1.5}}"#,
            r#"{"failures": {"send_ratio": -1}}"#,
            r#"{"failures": {"disconnect_per_s": 0}}"#,
            r#"{"quota": {"ingress_events_per_s": 0}}"#,
            r#"{"throughput_units": -1}"#,
            r#"{"capacity": {"entities": {"orders": 0}}}"#,
            r#"{"capacity": {"orders": 3}}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
