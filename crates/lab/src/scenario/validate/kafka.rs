//! Ends that speak Kafka, and clusters as targets.

use std::time::Duration;

use connect::kafka::PropertyError;
use settings::SettingsError;

use super::Rules;
use super::topology::EndPlace;
use pipeline::kafka::BOOTSTRAP;

use crate::results::Role;
use crate::scenario::kafka;
use crate::scenario::{
    Buffering, ClientProgram, End, EndClient, Entities, Entity, KafkaClient, KafkaCluster, KafkaProperties,
    Parameters, Protocol, ServiceCommand, Target, Transport,
};

impl Rules<'_> {
    pub(super) fn cluster(&self, cluster: &KafkaCluster) -> Result<(), SettingsError> {
        if cluster.bootstrap.trim().is_empty() {
            let reason = "names no broker";
            let advice = "such as `localhost:9092`, or several with commas between them";
            return Err(self.document.mistake("target.kafka.bootstrap", reason, advice));
        }
        self.names_no_brokers("target.kafka", &cluster.properties)
    }

    /// Whether the target speaks what the ends of a short form do.
    pub(super) fn short_form(&self, parameters: &Parameters) -> Result<(), SettingsError> {
        let target = &parameters.target;
        let protocol = match &parameters.entities {
            Entities::Hubs(hubs) => hubs.protocol,
            Entities::Queues(_) => Protocol::Amqp,
            Entities::Topology(_) => return Ok(()),
        };
        if protocol == Protocol::Http {
            return Err(self.document.mistake("hubs.protocol", ONLY_PRODUCERS, HOW_TO_PRODUCE));
        }
        let speaks_amqp = *target == Target::Embedded || target.namespace().is_some();
        if protocol == Protocol::Amqp && !speaks_amqp {
            let reason = "it is a cluster of Kafka, and the ends of `hubs` and `queues` speak AMQP";
            let advice =
                "set `hubs.protocol` to `kafka`, or write a `topology` whose ends have `protocol: kafka`";
            return Err(self.document.mistake("target", reason, advice));
        }
        if protocol == Protocol::Kafka && matches!(target, Target::Command(_)) && target.kafka().is_none() {
            return Err(self.document.mistake("target", SILENT_COMMAND, HOW_IT_SPEAKS));
        }
        if protocol == Protocol::Kafka && !parameters.sut.is_ours() {
            let reason = "a command is told how it reaches the hubs over AMQP";
            return Err(self.document.mistake(
                "hubs.protocol",
                reason,
                "leave it out, or measure `sut: parshall`",
            ));
        }
        Ok(())
    }

    /// Whether what is spoken at an end, which stands at a place, fits the entity and the service.
    pub(super) fn protocol(
        &self,
        place: &EndPlace<'_>,
        end: &End,
        entity: &Entity,
        parameters: &Parameters,
    ) -> Result<(), SettingsError> {
        let path = place.path;
        let mistake = |key: &str, reason: &str, advice: &str| {
            Err(self.document.mistake(&place.of_key(self.document, key), reason, advice))
        };
        let target = &parameters.target;
        if end.connection.protocol == Protocol::Http {
            if end.producer.is_none() {
                return mistake("protocol", ONLY_PRODUCERS, HOW_TO_PRODUCE);
            }
            if end.connection.transport != Transport::Tcp {
                return mistake("transport", "HTTP is spoken over TCP", "leave it out");
            }
        }
        if end.connection.protocol != Protocol::Kafka {
            if self.document.value(&format!("{path}.properties")).is_some() {
                return mistake("properties", OF_KAFKA, "add `protocol: kafka`");
            }
            match (&end.kafka.client, &end.producer) {
                (EndClient::Program(program), Some(_)) => {
                    self.client_program(place, program, end, parameters)?
                }
                (EndClient::Ours(KafkaClient::Native), Some(_)) => {}
                _ if self.document.value(&format!("{path}.client")).is_none() => {}
                _ => {
                    return mistake(
                        "client",
                        OF_KAFKA,
                        "add `protocol: kafka`, or a `producer` that it is to be",
                    );
                }
            }
            if *target != Target::Embedded && target.namespace().is_none() {
                let reason = "the target is a cluster of Kafka, which speaks nothing else";
                return mistake("protocol", reason, "write `protocol: kafka` at every end");
            }
            return Ok(());
        }
        if !entity.is_log() {
            let reason = "only hubs are topics of Kafka";
            return mistake("protocol", reason, "name a hub, or leave `protocol` out");
        }
        if end.connection.transport != Transport::Tcp {
            return mistake("transport", "Kafka is spoken over TCP", "leave it out");
        }
        if matches!(target, Target::Command(_)) && target.kafka().is_none() {
            return mistake("protocol", SILENT_COMMAND, HOW_IT_SPEAKS);
        }
        self.names_no_brokers(path, &end.kafka.properties)?;
        self.properties(place, end, entity, parameters)
    }

    /// Whether the client of an end takes its properties.
    fn properties(
        &self,
        place: &EndPlace<'_>,
        end: &End,
        entity: &Entity,
        parameters: &Parameters,
    ) -> Result<(), SettingsError> {
        let path = place.path;
        let client = match &end.kafka.client {
            EndClient::Ours(client) => client.available(),
            // What it takes, only it knows.
            EndClient::Program(program) => return self.client_program(place, program, end, parameters),
        };
        let Some(client) = client else {
            let reason = "this build has no librdkafka";
            let advice = "choose `native`, or build with the feature `librdkafka`";
            return Err(self.document.mistake(&place.of_key(self.document, "client"), reason, advice));
        };
        let reached = reached(end, &parameters.target);
        let options = reached.overlaid(&end.kafka.properties).options(entity.name(), client);
        let has_transactions = parameters.relay.is_exactly_once() && place.is_of_pipeline();
        let checked = match (place.sends, has_transactions) {
            (false, _) => options.check_source(),
            (true, false) => options.check_sink(),
            (true, true) => options.check_transactional_sink(),
        };
        let Err(PropertyError { name, reason, advice }) = checked else {
            return Ok(());
        };
        let at = match &name {
            name if end.kafka.properties.get(name).is_some() => format!("{path}.properties.{name}"),
            name if parameters
                .target
                .kafka()
                .is_some_and(|cluster| cluster.properties.get(name).is_some()) =>
            {
                format!("target.kafka.properties.{name}")
            }
            name if name == BOOTSTRAP && parameters.target.kafka().is_some() => {
                "target.kafka.bootstrap".to_owned()
            }
            name if name == "security.protocol" && end.connection.tls => place.of_key(self.document, "tls"),
            name => format!("{path}.properties.{name}"),
        };
        Err(self.document.mistake(&at, reason, advice))
    }

    /// Whether a program can be the client of an end.
    fn client_program(
        &self,
        place: &EndPlace<'_>,
        program: &ClientProgram,
        end: &End,
        parameters: &Parameters,
    ) -> Result<(), SettingsError> {
        let path = format!("{}.client", place.path);
        if end.connection.transport != Transport::Tcp {
            let reason = "a client that is a program is told how it reaches the service over TCP";
            let at = place.of_key(self.document, "transport");
            return Err(self.document.mistake(&at, reason, "leave it out"));
        }
        let buffering = end.producer.as_ref().map(|producer| producer.buffering);
        if buffering == Some(Buffering::Unsafe) {
            let reason = "a program says of each call whether its events are stored";
            let at = format!("{}.producer.buffering", place.path);
            return Err(self.document.mistake(&at, reason, "write `safe`, or choose a client of ours"));
        }
        if program.command.first().is_none_or(String::is_empty)
            || program.command.iter().any(|word| word.contains('\0'))
        {
            let reason = "must be a program and its arguments";
            return Err(self.document.mistake(&path, reason, "such as `command: [./client, --fast]`"));
        }
        for (name, value) in &program.env {
            if name.is_empty() || name.contains(['=', '\0']) || value.reveal().contains('\0') {
                let reason = format!("`{name}` can't be in an environment");
                return Err(self.document.mistake(&path, reason, "such as `env: {LEVEL: warn}`"));
            }
            if name.starts_with("PARSHALL_") {
                let reason = "variables with this prefix tell the client what to do";
                return Err(self.document.mistake(&path, reason, "change the parameter behind it"));
            }
        }
        if parameters.load.payload.is_identified_beside() {
            let reason =
                "a client that is a program sends and receives values alone, and these payloads have headers";
            return Err(self.document.mistake(
                &path,
                reason,
                "choose a payload of a size, or a client of ours",
            ));
        }
        let role = if place.sends { Role::Load } else { Role::Sink };
        if parameters.roles.of(role).is_some() {
            let reason = "the program is on the lab's machine, and the role on another";
            return Err(self.document.mistake(&path, reason, "choose a client of ours"));
        }
        self.duration(&format!("{path}.ready_within"), program.ready_within, Duration::from_millis(100))
    }

    /// Where brokers are, the target says.
    fn names_no_brokers(&self, path: &str, properties: &KafkaProperties) -> Result<(), SettingsError> {
        let aliases = [BOOTSTRAP, "metadata.broker.list"];
        match aliases.into_iter().find(|name| properties.get(name).is_some()) {
            Some(name) => {
                let at = format!("{path}.properties.{name}");
                let advice = "leave it out; another cluster is `target: {kafka: {bootstrap: …}}`";
                Err(self.document.mistake(&at, "the target says where brokers are", advice))
            }
            None => Ok(()),
        }
    }
}

/// How an end reaches the service; the embedded one at an address of which the form alone is known.
fn reached(end: &End, target: &Target) -> KafkaProperties {
    if let Some(cluster) = target.kafka() {
        return ServiceCommand::cluster_at(cluster, 1).client_properties();
    }
    let emulator = if end.connection.tls { "" } else { ";UseDevelopmentEmulator=true" };
    let embedded =
        || format!("Endpoint=sb://localhost:1/;SharedAccessKeyName=n;SharedAccessKey=aw=={emulator}");
    let text = target.namespace().map_or_else(embedded, |it| it.connection_string.reveal().to_owned());
    text.parse().map(|parsed| kafka::of_namespace(&parsed, None)).unwrap_or_default()
}

/// Whose clients can be chosen and set up.
const OF_KAFKA: &str = "it is for ends that speak Kafka";

/// What speaks HTTP.
const ONLY_PRODUCERS: &str = "only a producer speaks HTTP: `topology.load.producer`";

/// How that is said.
const HOW_TO_PRODUCE: &str = "leave `protocol` out, or write `load: {to: in, protocol: http, producer: {…}}`";

/// What is wrong where a command is the service, and clients of Kafka can't know its port.
const SILENT_COMMAND: &str = "nothing says where the command speaks Kafka";

const HOW_IT_SPEAKS: &str = "add `target.kafka`, such as `{bootstrap: \"127.0.0.1:{port}\"}`";
