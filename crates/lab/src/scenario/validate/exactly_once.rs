//! What `relay.delivery: exactly-once` and `relay.settlement: transactional` ask of a scenario, beyond what they ask of a pipeline.

use settings::SettingsError;

use super::Rules;
use crate::scenario::{
    CheckpointStore, End, EndClient, Entity, KafkaClient, Parameters, Protocol, Relay, Route, Sends, Topology,
};

impl Rules<'_> {
    /// Whether events can be delivered so, and a sink sees what is committed alone, if it is asked for.
    pub(super) fn exactly_once(&self, relay: &Relay, topology: &Topology) -> Result<(), SettingsError> {
        let Some(pipeline) = topology.pipeline.as_ref().filter(|_| relay.is_exactly_once()) else {
            return Ok(());
        };
        let mistake =
            |path: &str, reason: &str, advice: &str| Err(self.document.mistake(path, reason, advice));
        let speaks_kafka = |end: &&End| end.connection.protocol == Protocol::Kafka;
        let ends = || std::iter::once(&pipeline.from).chain(&pipeline.to);
        let [to] = pipeline.to.as_slice() else {
            let reason = "with exactly-once delivery there is one destination";
            return mistake("topology.pipeline.to", reason, "name one, or leave out `relay.delivery`");
        };
        if ends().chain(&topology.sinks).any(|end| !speaks_kafka(&end)) {
            let reason =
                "exactly once is from a topic of Kafka to another, for sinks that read what is committed";
            return mistake(
                "relay.delivery",
                reason,
                "write `protocol: kafka` at pipeline and sink, or leave it out",
            );
        }
        if ends().any(|end| end.kafka.client != EndClient::Ours(KafkaClient::Native)) {
            let reason = "only the native client delivers exactly once";
            return mistake("topology.pipeline.client", reason, "leave it out");
        }
        self.reads_what_is_committed(topology)?;
        if relay.route != Route::SamePartition {
            let reason = "with exactly-once delivery events stay in their partition";
            return mistake("relay.route", reason, "choose `same-partition`, or leave out `relay.delivery`");
        }
        let [partitions, destinations] =
            [&pipeline.from, to].map(|end| topology.entities.get(&end.entity).map_or(0, Entity::partitions));
        if relay.fan_out < partitions || destinations < partitions {
            let reason = format!(
                "with exactly-once delivery each of the {partitions} partitions of the source has one of its own"
            );
            let advice = "raise it, and the partitions of the destination, to as many as the source has";
            return Err(self.document.mistake("relay.fan_out", reason, advice));
        }
        let is_written = |path: &str| self.document.value(path).is_some();
        let has_store =
            is_written("relay.checkpoint_store") && relay.checkpoint_store != CheckpointStore::Group;
        for (path, is_idle) in
            [("relay.checkpoint_store", has_store), ("relay.checkpoint", is_written("relay.checkpoint"))]
        {
            if is_idle {
                let reason = "it has no effect: progress is committed with the events";
                return mistake(path, reason, "leave it out");
            }
        }
        if relay.ownership.is_shared() {
            let reason = "with exactly-once delivery partitions can't be shared";
            return mistake("relay.ownership", reason, "leave it out: each instance has its part of them");
        }
        if relay.in_flight != 1 {
            let reason = "with exactly-once delivery a partition has one send at a time";
            return mistake(
                "relay.in_flight",
                reason,
                "leave it out: a transaction has those of all partitions",
            );
        }
        if relay.failure_ratio > 0.0 {
            let reason = "with exactly-once delivery no failures are injected";
            return mistake("relay.failure_ratio", reason, "set it to 0, or use `relay.restart`");
        }
        Ok(())
    }

    /// Whether messages can be completed in the transactions that they are sent in, if it is asked for.
    pub(super) fn transactional(
        &self,
        parameters: &Parameters,
        topology: &Topology,
    ) -> Result<(), SettingsError> {
        let relay = &parameters.relay;
        let Some(pipeline) = topology.pipeline.as_ref().filter(|_| relay.is_transactional()) else {
            return Ok(());
        };
        let mistake =
            |path: &str, reason: &str, advice: &str| Err(self.document.mistake(path, reason, advice));
        let is_of_service_bus = |end: &End| {
            let entity = topology.entities.get(&end.entity);
            end.connection.protocol == Protocol::Amqp
                && matches!(entity, Some(Entity::Queue(_) | Entity::Topic(_)))
        };
        let [to] = pipeline.to.as_slice() else {
            let reason = "with transactional settlement there is one destination";
            return mistake("topology.pipeline.to", reason, "name one, or leave out `relay.settlement`");
        };
        if !is_of_service_bus(&pipeline.from) || !is_of_service_bus(to) {
            let reason = "a transaction is between queues or topics of one namespace, over AMQP";
            return mistake("relay.settlement", reason, "leave it out");
        }
        if !parameters.sut.is_ours() {
            let reason = "only our relay settles so";
            return mistake("relay.settlement", reason, "leave it out, or choose `sut: parshall`");
        }
        if pipeline.from.connection != to.connection {
            let reason = "with transactional settlement source and destination share a connection";
            return mistake("topology.pipeline", reason, "say the same of `from` and `to`");
        }
        if relay.send != Sends::Single {
            let reason = "with transactional settlement a transaction has many messages, each sent by itself";
            return mistake("relay.send", reason, "leave it out");
        }
        Ok(())
    }

    /// Records of aborted transactions are no events: the sink may not see them.
    fn reads_what_is_committed(&self, topology: &Topology) -> Result<(), SettingsError> {
        let is_committed = |sink: &End| match sink.kafka.properties.get(ISOLATION) {
            Some(level) => level.eq_ignore_ascii_case(READ_COMMITTED),
            // Clients of others may read everything.
            None => sink.kafka.client.program().is_none(),
        };
        if topology.sinks.iter().all(is_committed) {
            return Ok(());
        }
        let sink = if self.document.value("topology.sinks").is_some() {
            "topology.sinks[0]"
        } else {
            "topology.sink"
        };
        let reason = "with exactly-once delivery records of aborted transactions are no events";
        let advice = format!("set it to `{READ_COMMITTED}`");
        Err(self.document.mistake(&format!("{sink}.properties.{ISOLATION}"), reason, advice))
    }
}

const ISOLATION: &str = "isolation.level";
const READ_COMMITTED: &str = "read_committed";
