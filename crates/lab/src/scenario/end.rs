//! Where a role sends or receives: an entity of the topology, and how the role gets there.
//!
//! A role that only names its entity writes its name: `load: in`, `sink: out/verify` for a subscription. In full it is a
//! mapping: `load: {to: in, tls: true}`, `sink: {from: out, subscription: verify, transport: web-socket}`. One that speaks Kafka
//! says so there, by which client, and with which properties:
//! `load: {to: in, protocol: kafka, client: librdkafka, properties: {linger.ms: 0, acks: 1}}`.
//!
//! The ends of a pipeline are names or mappings, too: `from: {entity: in, protocol: kafka}`. What such a mapping leaves out is
//! as the pipeline itself has it, for both of its ends.

use std::fmt;
use std::marker::PhantomData;

use pipeline::kafka::{KafkaClient, KafkaProperties};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{EndClient, Producer};

/// One end of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// The entity, by its name in the topology.
    pub entity: String,
    /// The subscription that is read, if the entity is a topic.
    pub subscription: Option<String>,
    /// How the role gets there.
    pub connection: Connection,
    /// How it speaks Kafka, where it does; the client of it is also that of a producer over other protocols.
    pub kafka: KafkaEnd,
    /// The producer that sends, where that is one.
    pub producer: Option<Producer>,
}

/// How an end speaks Kafka.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaEnd {
    /// Which client does.
    pub client: EndClient,
    /// What that is told besides how the service is reached.
    pub properties: KafkaProperties,
}

/// How a role connects to the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Connection {
    /// What is spoken.
    pub protocol: Protocol,
    /// Whether it is encrypted where the service offers both. Elsewhere the connection string says it.
    pub tls: bool,
    /// What carries the bytes.
    pub transport: Transport,
}

/// What is spoken with a service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// AMQP 1.0.
    #[default]
    Amqp,
    /// The protocol of Apache Kafka: an event is a record, and a hub a topic.
    Kafka,
    /// The REST interface over HTTP, which producers send through.
    Http,
}

/// What carries the bytes of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP alone.
    #[default]
    Tcp,
    /// The messages of a WebSocket.
    WebSocket,
}

/// Where a role sends. The keys of its mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sending {
    /// The entity.
    pub to: String,
    /// What is spoken.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub protocol: Protocol,
    /// Whether it is encrypted.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub tls: bool,
    /// What carries the bytes.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub transport: Transport,
    /// Which client speaks Kafka, or is the producer.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub client: EndClient,
    /// The properties of that client.
    #[serde(default, skip_serializing_if = "KafkaProperties::is_empty")]
    pub properties: KafkaProperties,
    /// A producer that sends event by event, instead of the lab's own sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub producer: Option<Producer>,
}

/// Where a role receives. The keys of its mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receiving {
    /// The entity; of a topic with `/` and a subscription, unless that is the next key.
    pub from: String,
    /// The subscription, if the entity is a topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// What is spoken.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub protocol: Protocol,
    /// Whether it is encrypted.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub tls: bool,
    /// What carries the bytes.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub transport: Transport,
    /// Which client speaks Kafka.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub client: EndClient,
    /// The properties of that client.
    #[serde(default, skip_serializing_if = "KafkaProperties::is_empty")]
    pub properties: KafkaProperties,
}

/// An end of a pipeline. The keys of its mapping; what is left out is as the pipeline has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineEnd {
    /// The entity; of a topic that is read, with `/` and a subscription.
    pub entity: String,
    /// What is spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Whether it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<bool>,
    /// What carries the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Which client speaks Kafka.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<KafkaClient>,
    /// The properties of that client.
    #[serde(default, skip_serializing_if = "KafkaProperties::is_empty")]
    pub properties: KafkaProperties,
}

impl PipelineEnd {
    /// How it is reached where the pipeline as a whole has this connection and this client.
    pub(super) fn reached(&self, usual: Connection, client: KafkaClient) -> (Connection, KafkaEnd) {
        let connection = Connection {
            protocol: self.protocol.unwrap_or(usual.protocol),
            tls: self.tls.unwrap_or(usual.tls),
            transport: self.transport.unwrap_or(usual.transport),
        };
        let client = self.client.unwrap_or(client).into();
        (connection, KafkaEnd { client, properties: self.properties.clone() })
    }
}

impl End {
    /// An end without a subscription.
    #[must_use]
    pub fn of(entity: impl Into<String>, connection: Connection) -> Self {
        Self {
            entity: entity.into(),
            subscription: None,
            connection,
            kafka: KafkaEnd::default(),
            producer: None,
        }
    }

    /// An end that is read: `out`, or `out/verify`.
    #[must_use]
    pub fn read(text: &str, connection: Connection) -> Self {
        match text.split_once('/') {
            Some((entity, subscription)) => {
                Self { subscription: Some(subscription.to_owned()), ..Self::of(entity, connection) }
            }
            None => Self::of(text, connection),
        }
    }

    /// Whether both are the same entity, and of a topic the same subscription, however they are reached.
    #[must_use]
    pub fn is_same_place(&self, other: &Self) -> bool {
        (&self.entity, &self.subscription) == (&other.entity, &other.subscription)
    }
}

/// As a scenario writes it: `out`, `out/verify`.
impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.entity)?;
        match &self.subscription {
            Some(subscription) => write!(formatter, "/{subscription}"),
            None => Ok(()),
        }
    }
}

impl From<&Sending> for End {
    fn from(sending: &Sending) -> Self {
        let Sending { to, protocol, tls, transport, client, properties, producer } = sending;
        let connection = Connection { protocol: *protocol, tls: *tls, transport: *transport };
        let kafka = KafkaEnd { client: client.clone(), properties: properties.clone() };
        Self { kafka, producer: *producer, ..Self::of(to, connection) }
    }
}

impl From<&Receiving> for End {
    fn from(receiving: &Receiving) -> Self {
        let Receiving { from, subscription, protocol, tls, transport, client, properties } = receiving;
        let connection = Connection { protocol: *protocol, tls: *tls, transport: *transport };
        let end = match subscription {
            // A subscription that is named twice makes no entity.
            Some(_) => Self { subscription: subscription.clone(), ..Self::of(from, connection) },
            None => Self::read(from, connection),
        };
        Self { kafka: KafkaEnd { client: client.clone(), properties: properties.clone() }, ..end }
    }
}

/// A mapping that is written as the name of its entity where that says all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByName<T>(pub T);

/// What [`ByName`] is for.
pub trait Named: Sized {
    /// What a scenario may say.
    const EXPECTED: &'static str;

    /// What the name of an entity means.
    fn named(name: String) -> Self;

    /// The name, if it says all.
    fn name(&self) -> Option<&str>;
}

impl Named for Sending {
    const EXPECTED: &'static str = "the name of an entity, or `{to: in, tls: true}`";

    fn named(to: String) -> Self {
        Self {
            to,
            protocol: Protocol::default(),
            tls: false,
            transport: Transport::default(),
            client: EndClient::default(),
            properties: KafkaProperties::default(),
            producer: None,
        }
    }

    fn name(&self) -> Option<&str> {
        (*self == Self::named(self.to.clone())).then_some(&self.to)
    }
}

impl Named for Receiving {
    const EXPECTED: &'static str = "the name of an entity, or `{from: out, tls: true}`";

    fn named(from: String) -> Self {
        Self {
            from,
            subscription: None,
            protocol: Protocol::default(),
            tls: false,
            transport: Transport::default(),
            client: EndClient::default(),
            properties: KafkaProperties::default(),
        }
    }

    fn name(&self) -> Option<&str> {
        (*self == Self::named(self.from.clone())).then_some(&self.from)
    }
}

impl Named for PipelineEnd {
    const EXPECTED: &'static str = "the name of an entity, or `{entity: in, protocol: kafka}`";

    fn named(entity: String) -> Self {
        Self {
            entity,
            protocol: None,
            tls: None,
            transport: None,
            client: None,
            properties: KafkaProperties::default(),
        }
    }

    fn name(&self) -> Option<&str> {
        (*self == Self::named(self.entity.clone())).then_some(&self.entity)
    }
}

impl<T: Named + Serialize> Serialize for ByName<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.name() {
            Some(name) => serializer.serialize_str(name),
            None => self.0.serialize(serializer),
        }
    }
}

impl<'de, T: Named + Deserialize<'de>> Deserialize<'de> for ByName<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(PhantomData<T>);

        impl<'de, T: Named + Deserialize<'de>> de::Visitor<'de> for Visitor<T> {
            type Value = T;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(T::EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
                Ok(T::named(text.to_owned()))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_any(Visitor(PhantomData)).map(Self)
    }
}

/// Ends of a pipeline: one, or a list of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OneOrMore(pub Vec<ByName<PipelineEnd>>);

impl Serialize for OneOrMore {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [only] => only.serialize(serializer),
            ends => ends.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = OneOrMore;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "{}, or a list of such", PipelineEnd::EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<OneOrMore, E> {
                Ok(OneOrMore(vec![ByName(PipelineEnd::named(text.to_owned()))]))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<OneOrMore, A::Error> {
                let end = PipelineEnd::deserialize(MapAccessDeserializer::new(map))?;
                Ok(OneOrMore(vec![ByName(end)]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<OneOrMore, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMore)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// Whether a key need not be written.
pub(super) fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
