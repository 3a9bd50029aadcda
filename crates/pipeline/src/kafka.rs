//! How an end speaks Kafka: which client does, and with which properties. Pipeline files and scenarios write it alike.
//!
//! Properties have the names that Kafka's own clients have for them, which contain dots. So do the paths of settings, and a
//! property that was set by one (`--set topology.load.properties.linger.ms=5`) is a mapping within a mapping. Both spellings
//! mean the same property here.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use access::{ConnectionString, Credential, TransportSecurity};
use connect::kafka::{Client, KafkaOptions, Properties};
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, de};

/// Which client library speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KafkaClient {
    /// Parshall's own.
    #[default]
    Native,
    /// The C library that most other clients are made of.
    Librdkafka,
}

/// Properties of a client by their names, each as the text that the client reads.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct KafkaProperties(BTreeMap<String, String>);

impl KafkaClient {
    /// The client, if this build has it.
    #[must_use]
    pub fn available(self) -> Option<Client> {
        let name = match self {
            Self::Native => "native",
            Self::Librdkafka => "librdkafka",
        };
        name.parse().ok()
    }
}

impl KafkaProperties {
    /// Those by which the Kafka endpoint of Event Hubs, or of the embedded service, is reached.
    #[must_use]
    pub fn of_connection_string(connection_string: &ConnectionString) -> Self {
        let (port, protocol) = match connection_string.security {
            TransportSecurity::Tls => (TLS_PORT, "SASL_SSL"),
            TransportSecurity::Plain => (PLAIN_PORT, "SASL_PLAINTEXT"),
        };
        let endpoint = &connection_string.endpoint;
        let port = endpoint.port().unwrap_or(port);
        let server = match endpoint.host() {
            host if host.contains(':') => format!("[{host}]:{port}"),
            host => format!("{host}:{port}"),
        };
        let mut properties = Self::from_iter([(BOOTSTRAP, server.as_str()), ("security.protocol", protocol)]);
        match connection_string.credential {
            Credential::Identity => properties.set("sasl.mechanisms", "OAUTHBEARER"),
            Credential::Key(_) | Credential::Signature(_) => {
                properties.set("sasl.mechanisms", "PLAIN");
                properties.set("sasl.username", USER_OF_CONNECTION_STRINGS);
                properties.set("sasl.password", connection_string.reveal());
            }
        }
        properties
    }

    /// Trusts the certificates of a file (PEM) instead of those of the system.
    pub fn trust(&mut self, certificate_authority: &Path) {
        self.set("ssl.ca.location", certificate_authority.display().to_string());
    }

    /// A topic, as a client with these properties is asked for it.
    #[must_use]
    pub fn options(&self, topic: impl Into<String>, client: Client) -> KafkaOptions {
        KafkaOptions { topic: topic.into(), client, properties: self.iter().collect() }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of a property, if it is given.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Gives a property its value, in place of one that it has.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// All of them with their values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// These, and on top of them those of `over`.
    #[must_use]
    pub fn overlaid(mut self, over: &Self) -> Self {
        self.0.extend(over.0.clone());
        self
    }

    /// The same for eyes: passwords and keys as `***`.
    #[must_use]
    pub fn masked(&self) -> Self {
        let mask = |(name, value): (&str, &str)| {
            let shown = if Properties::is_secret(name) { "***" } else { value };
            (name.to_owned(), shown.to_owned())
        };
        self.iter().map(mask).collect()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for KafkaProperties {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(properties: I) -> Self {
        Self(properties.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for KafkaProperties {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_map().entries(self.masked().iter()).finish()
    }
}

impl<'de> Deserialize<'de> for KafkaProperties {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = KafkaProperties;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a mapping of properties, such as `{linger.ms: 5, acks: all}`")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<KafkaProperties, A::Error> {
                let mut properties = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    match map.next_value()? {
                        Written::Value(value) => insert(&mut properties, name, value)?,
                        Written::Within(KafkaProperties(within)) => {
                            for (rest, value) in within {
                                insert(&mut properties, format!("{name}.{rest}"), value)?;
                            }
                        }
                    }
                }
                Ok(KafkaProperties(properties))
            }
        }

        deserializer.deserialize_map(Visitor)
    }
}

fn insert<E: de::Error>(
    properties: &mut BTreeMap<String, String>,
    name: String,
    value: String,
) -> Result<(), E> {
    match properties.get(&name) {
        Some(_) => Err(E::custom(format!("`{name}` is given twice"))),
        None => {
            properties.insert(name, value);
            Ok(())
        }
    }
}

/// What may stand behind a name, or the first part of one.
enum Written {
    Value(String),
    Within(KafkaProperties),
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Written;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string, a number, `true` or `false`")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Written, E> {
                Ok(Written::Value(value.to_string()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Written, E> {
                Ok(Written::Value(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Written, E> {
                Ok(Written::Value(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Written, E> {
                Ok(Written::Value(value.to_string()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Written, E> {
                Ok(Written::Value(value.to_owned()))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Written, A::Error> {
                KafkaProperties::deserialize(MapAccessDeserializer::new(map)).map(Written::Within)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// Where clients begin. Files say it by a key of its own.
pub const BOOTSTRAP: &str = "bootstrap.servers";

/// Whoever logs in by this name has a connection string as the password.
const USER_OF_CONNECTION_STRINGS: &str = "$ConnectionString";

/// Where Event Hubs speaks Kafka.
const TLS_PORT: u16 = 9093;

/// Where its emulator does.
const PLAIN_PORT: u16 = 9092;

#[cfg(test)]
mod tests {
    use settings::Document;

    use super::*;

    fn read(text: &str) -> Result<KafkaProperties, String> {
        Document::parse("p.yaml", text).unwrap().typed().map_err(|error| error.to_string())
    }

    #[test]
    fn values_are_the_texts_that_clients_read() {
        let properties =
            read("{linger.ms: 0, acks: all, socket.nagle.disable: true, queue.x: 0.5, debug: 'a,b'}")
                .unwrap();
        let expected = [
            ("acks", "all"),
            ("debug", "a,b"),
            ("linger.ms", "0"),
            ("queue.x", "0.5"),
            ("socket.nagle.disable", "true"),
        ];
        assert_eq!(properties.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_name_may_be_parted_at_its_dots() {
        let properties = read("{fetch: {wait.max.ms: 10, min: {bytes: 1}}}").unwrap();
        let expected = [("fetch.min.bytes", "1"), ("fetch.wait.max.ms", "10")];
        assert_eq!(properties.iter().collect::<Vec<_>>(), expected);
        let twice = read("{linger.ms: 1, linger: {ms: 2}}").unwrap_err();
        assert!(twice.contains("`linger.ms` is given twice"), "{twice}");
    }

    #[test]
    fn what_is_no_value_is_refused_at_its_place() {
        let error = read("{linger.ms: [1]}").unwrap_err();
        assert!(error.starts_with("p.yaml:1:13: `linger.ms` must be a string, a number"), "{error}");
    }

    #[test]
    fn secrets_are_not_shown() {
        let properties = read("{sasl.username: me, sasl.password: hush, ssl.key.pem: hush}").unwrap();
        let shown = format!("{properties:?}");
        assert!(shown.contains("me") && !shown.contains("hush"), "{shown}");
        assert_eq!(properties.masked().get("sasl.password"), Some("***"));
        let json = serde_json::to_string(&properties).unwrap();
        assert_eq!(serde_json::from_str::<KafkaProperties>(&json).unwrap(), properties);
    }

    #[test]
    fn a_connection_string_says_how_kafka_is_spoken() {
        let text = "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=a2V5";
        let azure = KafkaProperties::of_connection_string(&text.parse().unwrap());
        assert_eq!(azure.get(BOOTSTRAP), Some("ns.servicebus.windows.net:9093"));
        assert_eq!(azure.get("security.protocol"), Some("SASL_SSL"));
        assert_eq!(azure.get("sasl.username"), Some("$ConnectionString"));
        assert_eq!(azure.get("sasl.password"), Some(text));
        let text = "Endpoint=sb://[::1]:1234/;SharedAccessKeyName=n;SharedAccessKey=a2V5;UseDevelopmentEmulator=true";
        let here = KafkaProperties::of_connection_string(&text.parse().unwrap());
        assert_eq!(here.get(BOOTSTRAP), Some("[::1]:1234"));
        assert_eq!(here.get("security.protocol"), Some("SASL_PLAINTEXT"));
        let identity = KafkaProperties::of_connection_string(&"ns.servicebus.windows.net".parse().unwrap());
        assert_eq!(identity.get("sasl.mechanisms"), Some("OAUTHBEARER"));
        assert_eq!((identity.get("sasl.username"), identity.get("sasl.password")), (None, None));
    }
}
