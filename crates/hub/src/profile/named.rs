//! Profiles that have a name: a service as somebody's published figures describe it.

use std::fmt;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::config::{ProfileConfig, ServiceTimeConfig};
use super::distribution::Distribution;

/// A profile with a name. What is written beside the name takes the place of what the name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamedProfile {
    /// Event Hubs in 2018, as a study of ingestion has measured it from a container in the same region. Where each figure is from
    /// is in `docs/service-profile.md`.
    Cloud,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TlsVersion {
    /// A full handshake takes two round trips.
    #[serde(rename = "1.2")]
    Tls12,
    /// A full handshake takes one round trip.
    #[serde(rename = "1.3")]
    Tls13,
}

impl NamedProfile {
    /// What the name stands for.
    #[must_use]
    pub fn config(self) -> ProfileConfig {
        match self {
            Self::Cloud => ProfileConfig {
                round_trip: Some(Distribution::Constant(CLOUD_ROUND_TRIP)),
                tls: Some(TlsVersion::Tls12),
                service_time: ServiceTimeConfig {
                    send: Some(Distribution::Constant(CLOUD_SEND)),
                    ..ServiceTimeConfig::default()
                },
                throughput_units: Some(CLOUD_THROUGHPUT_UNITS),
                ..ProfileConfig::default()
            },
        }
    }
}

impl<'de> Deserialize<'de> for TlsVersion {
    /// From a text or, as YAML takes it, a number.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Version;

        impl Visitor<'_> for Version {
            type Value = TlsVersion;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a version of TLS: `1.2` or `1.3`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TlsVersion, E> {
                match text {
                    "1.2" => Ok(TlsVersion::Tls12),
                    "1.3" => Ok(TlsVersion::Tls13),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<TlsVersion, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Version)
    }
}

/// What an exchange costs whatever it is for: the way to the service and back, and the service's own part of it. From two cells
/// of the study: an event over a connection of its own takes 100 ms over HTTP, of which four exchanges are the connection's and
/// the event's, and 240 ms over AMQP, of which its client makes twelve.
const CLOUD_ROUND_TRIP: Duration = Duration::from_millis(20);

/// What keeping an event or a batch adds. The five cells that are nothing but sends come to 17 to 31 ms each, their middle one to
/// 24 ms.
const CLOUD_SEND: Duration = Duration::from_millis(4);

/// What the study paid for.
const CLOUD_THROUGHPUT_UNITS: u32 = 20;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::profile::ServiceProfile;

    fn read(text: &str) -> ProfileConfig {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_name_stands_for_its_figures_and_what_is_written_beside_it_wins() {
        let cloud = NamedProfile::Cloud.config();
        assert_eq!(read(r#"{"name": "cloud"}"#).resolved(), cloud);
        let changed =
            read(r#"{"name": "cloud", "round_trip": "1 ms", "service_time": {"settle": "2 ms"}, "seed": 4}"#);
        let expected = ProfileConfig {
            round_trip: Some(Distribution::Constant(Duration::from_millis(1))),
            service_time: ServiceTimeConfig {
                settle: Some(Distribution::Constant(Duration::from_millis(2))),
                ..cloud.service_time.clone()
            },
            seed: 4,
            ..cloud
        };
        assert_eq!(changed.resolved(), expected);
        assert!(ServiceProfile::new(&changed).unwrap().is_some());
        assert_eq!(read(&serde_json::to_string(&changed).unwrap()), changed, "the name is kept");
    }

    #[test]
    fn a_quota_of_its_own_takes_the_place_of_the_throughput_units_of_the_name() {
        let quota = read(r#"{"name": "cloud"}"#).effective_quota().unwrap();
        assert_eq!(quota.ingress_events_per_s, NonZeroU64::new(20_000));
        let own = read(r#"{"name": "cloud", "quota": {"ingress_events_per_s": 7}}"#);
        own.check().unwrap();
        assert_eq!(own.effective_quota().unwrap().ingress_events_per_s, NonZeroU64::new(7));
        let both = read(r#"{"name": "cloud", "throughput_units": 1, "quota": {"ingress_events_per_s": 7}}"#);
        assert_eq!(both.check().unwrap_err().path, "profile.quota");
    }

    #[test]
    fn versions_are_read_as_text_and_as_numbers() {
        for (text, version) in
            [(r#""1.2""#, TlsVersion::Tls12), ("1.2", TlsVersion::Tls12), ("1.3", TlsVersion::Tls13)]
        {
            assert_eq!(serde_json::from_str::<TlsVersion>(text).unwrap(), version, "{text}");
        }
        for text in [r#""1.1""#, "1", "true"] {
            assert!(serde_json::from_str::<TlsVersion>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<ProfileConfig>(r#"{"name": "heaven"}"#).is_err());
    }
}
