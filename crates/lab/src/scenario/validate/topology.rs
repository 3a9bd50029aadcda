//! Rules of what events pass through: entities and their names, and the roles between them.

use std::time::Duration;

use access::NamedEntity;
use queue_store::MAXIMUM_DELIVERY_COUNT;
use settings::{Document, SettingsError};
use units::ByteSize;

use super::Rules;
use crate::roles::protocol::CHECKPOINT_CONTAINER;
use crate::scenario::parameters::SMALLEST_LOG;
use crate::scenario::{
    Buffering, ClientTime, Connection, Connections, Container, Delay, End, Entity, Hub, Hubs, LoadMode,
    Measured, Parameters, Payload, Pipeline, Protocol, Queue, Queues, Target, Topic, Topology,
    TopologySection, Transport,
};

impl Rules<'_> {
    pub(super) fn hubs(&self, hubs: &Hubs, parameters: &Parameters) -> Result<(), SettingsError> {
        for (role, hub) in [("source", &hubs.source), ("destination", &hubs.destination)] {
            let at = format!("hubs.{role}");
            self.hub([&at, "name"], role, hub, parameters)?;
        }
        if hubs.source.name.eq_ignore_ascii_case(&hubs.destination.name) {
            let reason = "source and destination are the same hub, so events would loop";
            return Err(self.document.mistake("hubs.destination.name", reason, "give it another name"));
        }
        Ok(())
    }

    pub(super) fn queues(&self, queues: &Queues) -> Result<(), SettingsError> {
        if self.document.value("hubs").is_some() {
            let reason = "a scenario has hubs or queues, not both";
            let advice = "leave one of the two sections out";
            return Err(self.document.mistake("queues", reason, advice));
        }
        for (role, queue) in [("source", &queues.source), ("destination", &queues.destination)] {
            self.queue_name(&format!("queues.{role}.name"), &queue.name, "queue")?;
        }
        let names = [&queues.source.name, &queues.destination.name];
        if names[0].eq_ignore_ascii_case(names[1]) {
            let reason = "source and destination are the same queue, so messages would loop";
            return Err(self.document.mistake("queues.destination.name", reason, "give it another name"));
        }
        let Queues { lock_duration, maximum_delivery_count, largest_message, .. } = *queues;
        let name = queues.source.name.clone();
        self.queue("queues", &Queue { name, lock_duration, maximum_delivery_count, largest_message })
    }

    pub(super) fn topology(
        &self,
        section: &TopologySection,
        parameters: &Parameters,
    ) -> Result<(), SettingsError> {
        for other in ["hubs", "queues"] {
            if self.document.value(other).is_some() {
                let advice = "leave one of the two sections out";
                let reason = format!("a scenario has a topology or {other}, not both");
                return Err(self.document.mistake("topology", reason, advice));
            }
        }
        self.entities(section, parameters)?;
        let is_one = match (&section.sink, &section.sinks) {
            (Some(_), None) => true,
            (None, None) if parameters.sut.done.is_some() => true,
            (None, Some(sinks)) if !sinks.is_empty() => false,
            (Some(_), Some(_)) => {
                let reason = "a topology has a `sink` or `sinks`, not both";
                return Err(self.document.mistake("topology.sinks", reason, "leave one of them out"));
            }
            (None, _) => {
                let reason = "nothing receives and verifies what is sent";
                return Err(self.document.mistake("topology.sink", reason, "such as `sink: out`"));
            }
        };
        let topology = parameters.topology();
        self.end(&EndPlace::of("topology.load", "to"), &topology, &topology.load, parameters)?;
        self.producer(&topology.load, parameters)?;
        let written_sinks = if parameters.sut.done.is_some() { &[] } else { topology.sinks.as_slice() };
        for (index, sink) in written_sinks.iter().enumerate() {
            let path = if is_one { "topology.sink".to_owned() } else { format!("topology.sinks[{index}]") };
            self.end(&EndPlace::of(&path, "from"), &topology, sink, parameters)?;
            if index == 0 && topology.entity(sink).is_archive() {
                let reason =
                    "the figures of a case are those of its first sink, and an archive is read at the end";
                return Err(self.document.mistake(&path, reason, "name the sink of another entity first"));
            }
            if topology.sinks[..index].iter().any(|other| other.is_same_place(sink)) {
                let reason = format!("`{sink}` has a sink already");
                return Err(self.document.mistake(&path, reason, "name another entity or subscription"));
            }
        }
        match &topology.pipeline {
            Some(pipeline) => {
                self.pipeline(&topology, pipeline, parameters)?;
            }
            None => self.without_pipeline(&topology, parameters)?,
        }
        if topology.measure == Measured::Sink && topology.sinks.is_empty() {
            let reason = "there is no sink: the service counts what the consumer has completed";
            return Err(self.document.mistake("topology.measure", reason, "measure another role"));
        }
        if topology.measure == Measured::Service && !parameters.target.is_started() {
            let reason = "only a service that the lab starts can be measured";
            let advice = "measure another role, or choose `target: embedded` or a command";
            return Err(self.document.mistake("topology.measure", reason, advice));
        }
        Ok(())
    }

    fn entities(&self, topology: &TopologySection, parameters: &Parameters) -> Result<(), SettingsError> {
        for (name, entity) in &topology.entities {
            let at = format!("topology.entities.{name}");
            if name.contains('/') {
                let reason = "what roles call it must not contain a `/`, which comes before a subscription";
                return Err(self.document.mistake(&at, reason, "call it something else"));
            }
            match &entity.0 {
                Entity::Hub(hub) => self.hub([&at, "hub"], name, hub, parameters)?,
                Entity::Queue(queue) => {
                    self.queue_name(&format!("{at}.queue"), &queue.name, "queue")?;
                    self.queue(&at, queue)?;
                }
                Entity::Topic(topic) => self.topic(&at, topic)?,
                Entity::Container(container) => self.container(&at, container, parameters)?,
            }
            let is_same = |other: &&String| {
                *other != name && topology.entities[*other].0.name().eq_ignore_ascii_case(entity.0.name())
            };
            if let Some(other) = topology.entities.keys().find(is_same) {
                let reason = format!("`{other}` has the same name in the service");
                return Err(self.document.mistake(&at, reason, "give it another one"));
            }
        }
        Ok(())
    }

    /// An end of a role, which stands at a place: as a name, or as a mapping with its name.
    fn end(
        &self,
        place: &EndPlace<'_>,
        topology: &Topology,
        end: &End,
        parameters: &Parameters,
    ) -> Result<(), SettingsError> {
        let of_name = format!("{}.{}", place.path, place.name);
        let at = if self.document.value(&of_name).is_some() { &of_name } else { place.path };
        let Some(entity) = topology.entities.get(&end.entity) else {
            let known: Vec<&str> = topology.entities.keys().map(String::as_str).collect();
            let reason = format!("there is no entity `{}`", end.entity);
            return Err(self.document.mistake(at, reason, format!("the entities are: {}", known.join(", "))));
        };
        let writes_archive = place.is_of_pipeline() && place.sends;
        if entity.is_archive() && !writes_archive && place.name != "from" {
            let reason = format!("`{}` is an archive, which a pipeline writes and a sink reads", end.entity);
            return Err(self.document.mistake(at, reason, "name a hub, a queue or a topic"));
        }
        let subscriptions = entity.subscriptions();
        match &end.subscription {
            Some(subscription) if !subscriptions.contains(subscription) => {
                let reason = format!("`{}` has no subscription `{subscription}`", end.entity);
                let advice = match subscriptions {
                    [] => "only topics have subscriptions".to_owned(),
                    known => format!("its subscriptions are: {}", known.join(", ")),
                };
                return Err(self.document.mistake(at, reason, advice));
            }
            None if !place.sends && !subscriptions.is_empty() => {
                let reason = format!("`{}` is a topic, which is read by a subscription", end.entity);
                let advice = format!("such as `{}/{}`", end.entity, subscriptions[0]);
                return Err(self.document.mistake(at, reason, advice));
            }
            Some(_) | None => {}
        }
        self.connection(place, end.connection, parameters)?;
        self.protocol(place, end, entity, parameters)
    }

    /// Whether a producer can send what the load is to send.
    fn producer(&self, end: &End, parameters: &Parameters) -> Result<(), SettingsError> {
        let Some(producer) = &end.producer else {
            return Ok(());
        };
        let load = &parameters.load;
        self.within("topology.load.producer.pool", producer.pool, 1..=1000)?;
        self.within("topology.load.producer.max_events", producer.max_events, 1..=10_000)?;
        if let Delay::After(delay) = producer.delay {
            self.duration("topology.load.producer.delay", delay, Duration::from_millis(1))?;
        }
        let is_per_event = producer.connections == Connections::PerEvent;
        if is_per_event && producer.buffering != Buffering::None {
            let reason = "an event with a connection of its own waits for no others";
            let advice = "write `buffering: none`, or choose `single` or `pooled` connections";
            return Err(self.document.mistake("topology.load.producer.buffering", reason, advice));
        }
        if producer.one_by_one && !is_per_event {
            let reason = "over connections that are kept, `load.batch: 1` does the same";
            let advice = "leave it out, or write `connections: per-event`";
            return Err(self.document.mistake("topology.load.producer.one_by_one", reason, advice));
        }
        if let Some(most) = producer.max_pending {
            self.within("topology.load.producer.max_pending", most, 1..=1_000_000)?;
            if producer.buffering != Buffering::Unsafe {
                let reason = "only calls that wait for nothing leave events behind";
                let advice = "leave it out, or write `buffering: unsafe`";
                return Err(self.document.mistake("topology.load.producer.max_pending", reason, advice));
            }
        }
        let ClientTime { send, connection } = producer.client_time;
        for (key, time) in [("send", send), ("connection", connection)] {
            self.duration(&format!("topology.load.producer.client_time.{key}"), time, Duration::ZERO)?;
        }
        if load.batch > 1 && producer.buffering != Buffering::None {
            let reason = "the producer is given event by event here";
            return Err(self.document.mistake("load.batch", reason, "write `batch: 1`"));
        }
        if matches!(load.payload, Payload::Replay { .. }) {
            let reason = "a producer sends payloads of one size";
            return Err(self.document.mistake("load.payload", reason, "write a size, such as `200 B`"));
        }
        Ok(())
    }

    fn connection(
        &self,
        place: &EndPlace<'_>,
        connection: Connection,
        parameters: &Parameters,
    ) -> Result<(), SettingsError> {
        let tls = place.of_key(self.document, "tls");
        // What `sut.transport` asks for is not written here, and another target knows what it means.
        if self.document.value(&tls).is_some() && parameters.target != Target::Embedded {
            let reason = "only the embedded service is reached in both ways";
            let advice = "leave it out: the connection string says whether TLS is used";
            return Err(self.document.mistake(&tls, reason, advice));
        }
        if connection.transport == Transport::WebSocket && matches!(parameters.target, Target::Command(_)) {
            let reason = "a command that is the service has one port, for AMQP over TCP";
            let at = place.of_key(self.document, "transport");
            return Err(self.document.mistake(&at, reason, "leave it out"));
        }
        Ok(())
    }

    fn pipeline(
        &self,
        topology: &Topology,
        pipeline: &Pipeline,
        parameters: &Parameters,
    ) -> Result<(), SettingsError> {
        let path = "topology.pipeline";
        let mistake = |path: &str, reason: String, advice: &str| {
            Err(self.document.mistake(&format!("topology.pipeline{path}"), reason, advice))
        };
        let from = format!("{path}.from");
        self.end(&EndPlace::of_pipeline(&from), topology, &pipeline.from, parameters)?;
        for (index, to) in pipeline.to.iter().enumerate() {
            let key = if pipeline.to.len() == 1 { "to".to_owned() } else { format!("to[{index}]") };
            let at = format!("{path}.{key}");
            let place = EndPlace { sends: true, ..EndPlace::of_pipeline(&at) };
            self.end(&place, topology, to, parameters)?;
            if pipeline.to[..index].iter().any(|other| other.entity == to.entity) {
                let reason = format!("`{to}` is named twice");
                return mistake(&format!(".{key}"), reason, "name another entity");
            }
        }
        if pipeline.to.iter().any(|to| to.entity == pipeline.from.entity) {
            let reason = "the pipeline reads and writes the same entity, so events would loop";
            return mistake(".to", reason.to_owned(), "name another entity");
        }
        let is_read = |to: &End| topology.sinks.iter().any(|sink| sink.entity == to.entity);
        let is_written = |sink: &End| pipeline.to.iter().any(|to| to.entity == sink.entity);
        let is_connected = pipeline.to.is_empty()
            || pipeline.to.iter().all(is_read) && topology.sinks.iter().all(is_written);
        if topology.load.entity != pipeline.from.entity || !is_connected {
            let reason = "the pipeline does not connect the load's entity with the sink's";
            let advice = "read from the load's entity, and send to the sink's; each destination needs a sink";
            return mistake("", reason.to_owned(), advice);
        }
        let mut ends = std::iter::once(&pipeline.from).chain(&pipeline.to);
        if !parameters.sut.is_ours() && ends.any(|end| end.connection.protocol == Protocol::Kafka) {
            let reason = "a command is told how it reaches the entities over AMQP";
            return mistake(".protocol", reason.to_owned(), "leave it out; load and sinks may speak Kafka");
        }
        if !parameters.sut.is_ours() && pipeline.from.connection.transport == Transport::WebSocket {
            let reason = "a command chooses what carries its bytes";
            return mistake(".transport", reason.to_owned(), "leave it out");
        }
        let archives = pipeline.to.iter().filter(|to| topology.entity(to).is_archive()).count();
        if archives > 0 && pipeline.to.first().is_some_and(|to| topology.entity(to).is_archive()) {
            let reason = "the figures of a case are those of its first destination, and an archive has none while it is written";
            return mistake(".to", reason.to_owned(), "name a hub, a queue or a topic first");
        }
        if archives > 1 {
            let reason = "a pipeline writes one archive";
            return mistake(".to", reason.to_owned(), "leave the others out");
        }
        if !parameters.sut.is_ours() && pipeline.to.len() - archives > 1 {
            let reason = "a command sends to one entity";
            return mistake(".to", reason.to_owned(), "name one of them, or measure `sut: parshall`");
        }
        Ok(())
    }

    fn without_pipeline(&self, topology: &Topology, parameters: &Parameters) -> Result<(), SettingsError> {
        let mistake =
            |path: &str, reason: &str, advice: &str| Err(self.document.mistake(path, reason, advice));
        if topology.sinks.iter().any(|sink| sink.entity != topology.load.entity) {
            let reason = "without a pipeline, nothing that the load sends arrives there";
            let advice = "name the load's entity, or add `pipeline: {from: …, to: …}`";
            return mistake("topology.sink", reason, advice);
        }
        if topology.measure == Measured::Pipeline {
            let reason = "there is no pipeline to measure";
            let advice = "measure `load`, `sink` or `service`, or add `pipeline: {from: …, to: …}`";
            return mistake("topology.measure", reason, advice);
        }
        if self.document.value("relay").is_some() {
            let reason = "it needs a pipeline, and the topology has none";
            return mistake("relay", reason, "leave it out, or add `topology.pipeline`");
        }
        if parameters.load.mode == LoadMode::Backlog {
            let reason = "a backlog is drained by a pipeline, and there is none";
            return mistake("load.mode", reason, "choose another mode");
        }
        if !parameters.sut.is_ours() {
            let reason = "a command replaces a pipeline, and there is none";
            return mistake("sut", reason, "leave it out, or add `topology.pipeline`");
        }
        Ok(())
    }

    /// A container, which only the embedded service has for the lab, and which keeps bodies alone.
    fn container(
        &self,
        at: &str,
        container: &Container,
        parameters: &Parameters,
    ) -> Result<(), SettingsError> {
        let name = &container.name;
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_name = (3..=63).contains(&name.len())
            && name.bytes().all(is_allowed)
            && !name.starts_with('-')
            && !name.ends_with('-')
            && !name.contains("--");
        let path = format!("{at}.container");
        if !is_name {
            let advice = "3 to 63 lower-case letters, digits and single `-` between them";
            return Err(self.document.mistake(&path, "can't be the name of a container", advice));
        }
        if name == CHECKPOINT_CONTAINER {
            let reason = "checkpoints are kept in the container of this name";
            return Err(self.document.mistake(&path, reason, "give it another name"));
        }
        if parameters.target != Target::Embedded {
            let reason = "an archive is in the storage account of the embedded service";
            return Err(self.document.mistake(&path, reason, "leave it out, or write `target: embedded`"));
        }
        if parameters.load.payload.is_identified_beside() {
            let reason =
                "an archive keeps bodies alone, and these payloads are identified by a property beside them";
            return Err(self.document.mistake("load.payload", reason, "write a size, such as `100 B`"));
        }
        Ok(())
    }

    /// The name of a queue or topic.
    fn queue_name(&self, path: &str, name: &str, kind: &str) -> Result<(), SettingsError> {
        if is_name(NamedEntity::Queue, name) {
            return Ok(());
        }
        let advice = "1 to 260 letters, digits, `.`, `-`, `_`, `~`, and `/` between parts";
        Err(self.document.mistake(path, format!("can't be the name of a {kind}"), advice))
    }

    fn queue(&self, at: &str, queue: &Queue) -> Result<(), SettingsError> {
        self.duration(&format!("{at}.lock_duration"), queue.lock_duration, Duration::from_secs(1))?;
        let count = format!("{at}.maximum_delivery_count");
        self.within(&count, queue.maximum_delivery_count, 1..=MAXIMUM_DELIVERY_COUNT)?;
        self.within(
            &format!("{at}.largest_message"),
            queue.largest_message,
            ByteSize::from_kibibytes(64)..=ByteSize::from_mebibytes(100),
        )
    }

    fn topic(&self, at: &str, topic: &Topic) -> Result<(), SettingsError> {
        self.queue_name(&format!("{at}.topic"), &topic.queue.name, "topic")?;
        self.queue(at, &topic.queue)?;
        let path = format!("{at}.subscriptions");
        if topic.subscriptions.is_empty() {
            let reason = "a topic without a subscription drops what is sent to it";
            return Err(self.document.mistake(&path, reason, "such as `subscriptions: [verify]`"));
        }
        for (index, name) in topic.subscriptions.iter().enumerate() {
            if !is_name(NamedEntity::Subscription, name) {
                let advice = "1 to 50 letters, digits, `.`, `-`, `_` and `~`";
                return Err(self.document.mistake(&path, "can't be the names of subscriptions", advice));
            }
            if topic.subscriptions[..index].iter().any(|other| other.eq_ignore_ascii_case(name)) {
                let reason = format!("`{name}` is named twice");
                return Err(self.document.mistake(&path, reason, "give it another name"));
            }
        }
        Ok(())
    }

    /// A hub of the section at a path, whose name has this key there. Messages call it `called`.
    fn hub(
        &self,
        [at, key]: [&str; 2],
        called: &str,
        hub: &Hub,
        parameters: &Parameters,
    ) -> Result<(), SettingsError> {
        let advice = "1 to 256 letters, digits, `.`, `-`, `_` and `~`";
        if !is_name(NamedEntity::Hub, &hub.name) || hub.name.contains('/') {
            return Err(self.document.mistake(&format!("{at}.{key}"), "can't be the name of a hub", advice));
        }
        if !is_name(NamedEntity::ConsumerGroup, hub.consumer_group.trim_start_matches('$')) {
            let path = format!("{at}.consumer_group");
            return Err(self.document.mistake(&path, "can't be the name of a consumer group", advice));
        }
        self.within(&format!("{at}.partitions"), hub.partitions, 1..=1024)?;
        let share = hub.share_of(parameters.log_per_hub());
        if parameters.target == Target::Embedded && share < SMALLEST_LOG {
            let reason =
                format!("leaves {share} to each of the {} partitions of the {called}", hub.partitions);
            let advice = format!("at least {SMALLEST_LOG} per partition");
            return Err(self.document.mistake("embedded.log_per_hub", reason, advice));
        }
        Ok(())
    }
}

/// Where an end stands in the document.
pub(super) struct EndPlace<'a> {
    /// The path of its name, or of its mapping.
    pub(super) path: &'a str,
    /// The key of the name in the mapping.
    name: &'static str,
    /// The section that says what the end leaves out.
    section: Option<&'static str>,
    /// Whether it is written to.
    pub(super) sends: bool,
}

impl<'a> EndPlace<'a> {
    /// The end of a load (`to`) or a sink (`from`).
    fn of(path: &'a str, name: &'static str) -> Self {
        Self { path, name, section: None, sends: name == "to" }
    }

    /// What a pipeline reads.
    fn of_pipeline(path: &'a str) -> Self {
        Self { path, name: "entity", section: Some("topology.pipeline"), sends: false }
    }

    /// Whether it is an end of the pipeline.
    pub(super) const fn is_of_pipeline(&self) -> bool {
        self.section.is_some()
    }

    /// Where a key stands that holds for the end, or where it would.
    pub(super) fn of_key(&self, document: &Document, key: &str) -> String {
        let own = format!("{}.{key}", self.path);
        let of_section = self.section.map(|section| format!("{section}.{key}"));
        match of_section {
            Some(path) if document.value(&own).is_none() && document.value(&path).is_some() => path,
            _ => own,
        }
    }
}

fn is_name(kind: NamedEntity, name: &str) -> bool {
    kind.check_name(name).is_ok()
}
