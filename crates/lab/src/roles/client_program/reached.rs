//! What a program is to reach, and the variables that tell it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::{Half, ProgramError};
use crate::clock::{RunClock, RunTime};
use crate::roles::protocol::{Endpoint, KafkaAccess, ProducerProgram};
use crate::scenario::{
    Buffering, ClientProgram, Connections, Delay, EndClient, KafkaProperties, Producer, Protocol,
};

/// An entity, and the program that is to reach it.
#[derive(Debug)]
pub(in crate::roles) struct Reached<'a> {
    pub(super) program: &'a ClientProgram,
    pub(super) protocol: Protocol,
    pub(super) name: &'a str,
    pub(super) partitions: u32,
    pub(super) clock: RunClock,
    pub(super) by: By<'a>,
    /// How it is to send, where it is a producer that is called.
    pub(super) producer: Option<&'a Producer>,
}

/// What a client is told of the service.
#[derive(Debug)]
pub(super) enum By<'a> {
    /// Properties of a client of Kafka.
    Properties(&'a KafkaProperties),
    /// A namespace.
    ConnectionString {
        text: &'a str,
        /// A file of certificates to trust.
        authority: Option<&'a Path>,
    },
}

impl<'a> Reached<'a> {
    /// What an endpoint says of it, if a program is its client.
    pub(in crate::roles) fn of(endpoint: &'a Endpoint) -> Option<Self> {
        let (program, clock, by) = match (&endpoint.kafka, &endpoint.program) {
            (Some(KafkaAccess { client: EndClient::Program(program), clock, properties, .. }), _) => {
                (program, *clock, By::Properties(properties))
            }
            (None, Some(ProducerProgram { client, clock })) => {
                let authority = endpoint.certificate_authority.as_deref();
                (
                    client,
                    *clock,
                    By::ConnectionString { text: endpoint.connection_string.reveal(), authority },
                )
            }
            _ => return None,
        };
        Some(Self {
            program,
            protocol: endpoint.protocol,
            name: endpoint.entity.name(),
            partitions: endpoint.entity.partitions(),
            clock,
            by,
            producer: endpoint.producer.as_ref(),
        })
    }

    /// The variables that tell the program what to do.
    pub(super) fn variables(&self, half: Half) -> Result<BTreeMap<&'static str, OsString>, ProgramError> {
        let protocol = match self.protocol {
            Protocol::Amqp => "amqp",
            Protocol::Kafka => "kafka",
            Protocol::Http => "http",
        };
        let mut variables: BTreeMap<&'static str, OsString> = [
            ("PARSHALL_CLIENT", half.name().into()),
            ("PARSHALL_PROTOCOL", protocol.into()),
            ("PARSHALL_TOPIC", self.name.into()),
            ("PARSHALL_PARTITIONS", self.partitions.to_string().into()),
            ("PARSHALL_EPOCH_NS", self.clock.monotonic_ns(RunTime::EPOCH).to_string().into()),
        ]
        .into();
        match self.by {
            By::Properties(properties) => {
                variables.insert("PARSHALL_PROPERTIES", self.lines(properties)?.into());
            }
            By::ConnectionString { text, authority } => {
                variables.insert("PARSHALL_CONNECTION_STRING", text.into());
                if let Some(authority) = authority {
                    variables.insert("PARSHALL_TLS_CA_FILE", authority.into());
                }
            }
        }
        if let Some(producer) = self.producer {
            variables.extend(how(producer).map(|(name, value)| (name, value.into_owned().into())));
        }
        Ok(variables)
    }

    /// All properties, each in a line of its own.
    fn lines(&self, properties: &KafkaProperties) -> Result<String, ProgramError> {
        let mut lines = String::new();
        for (property, value) in properties.iter() {
            if value.contains('\n') {
                let (name, property) = (self.program.name.clone(), property.to_owned());
                return Err(ProgramError::Lines { name, property });
            }
            lines.push_str(&format!("{property}={value}\n"));
        }
        Ok(lines)
    }
}

/// How a producer is to send.
fn how(producer: &Producer) -> impl Iterator<Item = (&'static str, Cow<'static, str>)> {
    let connections = match producer.connections {
        Connections::PerEvent => "per-event",
        Connections::Pooled => "pooled",
        Connections::Single => "single",
    };
    let buffering = match producer.buffering {
        Buffering::None => "none",
        Buffering::Safe => "safe",
        Buffering::Unsafe => "unsafe",
    };
    let pool = (producer.connections == Connections::Pooled)
        .then(|| ("PARSHALL_POOL", producer.pool.to_string().into()));
    let batches = (producer.buffering != Buffering::None).then_some(producer);
    let most = batches.map(|it| ("PARSHALL_MAX_EVENTS", it.max_events.to_string().into()));
    let delay = batches.and_then(|it| match it.delay {
        Delay::After(delay) => Some(("PARSHALL_DELAY_MS", delay.as_millis().to_string().into())),
        Delay::Adaptive => None,
    });
    let always = [
        ("PARSHALL_CONNECTIONS", Cow::Borrowed(connections)),
        ("PARSHALL_BUFFERING", Cow::Borrowed(buffering)),
    ];
    always.into_iter().chain(pool).chain(most).chain(delay)
}
