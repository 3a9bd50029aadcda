//! Rules of instances: where their progress is kept, how they share partitions, and of one that ends in mid-run.

use std::time::Duration;

use connect::kafka::GroupOffsetStore;
use relay::ownership::{RENEW_MIN, outlasts_a_failed_renewal};
use settings::SettingsError;

use super::Rules;
use crate::results::Role;
use crate::scenario::{
    CheckpointStore, EndClient, Entity, KafkaClient, LoadMode, Ownership, Parameters, Protocol, Relay,
    Target, Topology,
};

impl Rules<'_> {
    /// Where checkpoints and claims are kept, and for how long claims are good.
    pub(super) fn sharing(&self, parameters: &Parameters, topology: &Topology) -> Result<(), SettingsError> {
        let relay = &parameters.relay;
        self.store(relay, &parameters.target, topology)?;
        self.membership(parameters, topology)?;
        if relay.ownership.identity.is_some() {
            let path = "relay.ownership.identity";
            return Err(self.document.mistake(path, "instances are named by their numbers", "leave it out"));
        }
        if !relay.ownership.is_shared() && relay.ownership != Ownership::default() {
            let reason = "`static` has no claims to renew or expire";
            return Err(self.document.mistake(
                "relay.ownership",
                reason,
                "add `mode: greedy` or `mode: balanced`",
            ));
        }
        let (renew, expire) = (relay.ownership.renew, relay.ownership.expire);
        self.duration("relay.ownership.renew", renew, RENEW_MIN)?;
        if !outlasts_a_failed_renewal(expire, renew) {
            let reason = "one failed renewal would let a claim expire";
            let advice = "allowed is more than twice `relay.ownership.renew`";
            let path = "relay.ownership.expire";
            return Err(self.document.mistake(path, reason, advice));
        }
        Ok(())
    }

    /// Whether there is such a store, and whether it is one for instances that share partitions so.
    fn store(&self, relay: &Relay, target: &Target, topology: &Topology) -> Result<(), SettingsError> {
        let is_shared = relay.ownership.is_shared();
        let is_member = relay.ownership.is_membership();
        let impossible = match relay.checkpoint_store {
            CheckpointStore::Group if !reads_kafka(topology) => Some((
                "only a group of Kafka commits offsets, and the source is read over AMQP",
                "choose `file`, `memory` or `blob`, or read with `protocol: kafka`",
            )),
            CheckpointStore::Group if is_shared && !is_member => Some((
                "committed offsets can't be shared by claims",
                "choose `file` or `blob`, or `relay.ownership: group`",
            )),
            CheckpointStore::Memory if is_shared && !is_member => Some((
                "claims in the memory of one instance are invisible to others",
                "choose `file` or `blob`, or leave `relay.ownership` at `static`",
            )),
            CheckpointStore::Blob if *target != Target::Embedded => Some((
                "only the embedded service is known to have a storage account",
                "choose `file` for other targets",
            )),
            _ => None,
        };
        match impossible {
            Some((reason, advice)) => Err(self.document.mistake("relay.checkpoint_store", reason, advice)),
            None => Ok(()),
        }
    }

    /// Whether instances can be members of a group, if they are to be; and what is for members alone, if they are not.
    fn membership(&self, parameters: &Parameters, topology: &Topology) -> Result<(), SettingsError> {
        let relay = &parameters.relay;
        let mistake =
            |path: &str, reason: &str, advice: &str| Err(self.document.mistake(path, reason, advice));
        let from = topology.pipeline.as_ref().map(|pipeline| &pipeline.from);
        let is_native = from.is_some_and(|from| from.kafka.client == EndClient::Ours(KafkaClient::Native));
        if !relay.ownership.is_membership() {
            let properties =
                from.into_iter().filter(|_| is_native).flat_map(|from| from.kafka.properties.iter());
            let idle = properties.map(|(name, _)| name).find(|name| GroupOffsetStore::is_of_members(name));
            return match idle {
                Some(name) => mistake(
                    &format!("topology.pipeline.from.properties.{name}"),
                    "it has no effect: the instances are no members of the group",
                    "leave it out, or add `relay.ownership: group`",
                ),
                None => Ok(()),
            };
        }
        if !reads_kafka(topology) {
            let reason = "only topics of Kafka have groups with members, and the source is read over AMQP";
            return mistake(
                "relay.ownership",
                reason,
                "use `greedy` or `balanced`, or read with `protocol: kafka`",
            );
        }
        if !is_native {
            let reason = "members of a group need Parshall's own client";
            return mistake("topology.pipeline.from.client", reason, "choose `native`");
        }
        if relay.checkpoint_store != CheckpointStore::Group {
            let reason = "members of a group commit its offsets";
            return mistake("relay.checkpoint_store", reason, "choose `group`");
        }
        for key in ["renew", "expire"] {
            let path = format!("relay.ownership.{key}");
            if self.document.value(&path).is_some() {
                let reason = "it has no effect for members of a group";
                let advice = "set session.timeout.ms and heartbeat.interval.ms among the properties of \
                              `topology.pipeline.from`";
                return mistake(&path, reason, advice);
            }
        }
        Ok(())
    }

    /// Whether an instance can end in mid-run, if one is to.
    pub(super) fn restart(&self, parameters: &Parameters, source: &Entity) -> Result<(), SettingsError> {
        let relay = &parameters.relay;
        let Some(restart) = relay.restart else {
            return Ok(());
        };
        let mistake =
            |path: &str, reason: &str, advice: &str| Err(self.document.mistake(path, reason, advice));
        let path = "relay.restart";
        if !parameters.sut.is_ours() {
            let reason = "only instances of Parshall's relay are ended and started again";
            return mistake(path, reason, "leave it out, or measure `sut: parshall`");
        }
        if parameters.roles.of(Role::Relay).is_some() {
            let reason = "the instances run on another machine, where the lab can't end them";
            return mistake(path, reason, "leave it out, or run them here");
        }
        if matches!(parameters.load.mode, LoadMode::Backlog | LoadMode::Capacity) {
            let reason = "it is for a measured phase of a known length under one load";
            return mistake(path, reason, "choose another `load.mode`");
        }
        if relay.checkpoint_store == CheckpointStore::Memory && source.is_log() && !relay.is_exactly_once() {
            let reason = "an instance that ends would forget how far it was";
            return mistake("relay.checkpoint_store", reason, "choose `file`, `blob` or `group`");
        }
        self.duration("relay.restart.after", restart.after, Duration::ZERO)?;
        self.duration("relay.restart.down", restart.down, Duration::ZERO)?;
        if restart.after + restart.down >= parameters.phases.measure {
            let reason = "the measured phase would be over before the instance is started again";
            return mistake(path, reason, "shorten `after` or `down`, or raise `phases.measure`");
        }
        Ok(())
    }
}

/// Whether the pipeline reads over Kafka.
fn reads_kafka(topology: &Topology) -> bool {
    let from = topology.pipeline.as_ref().map(|pipeline| pipeline.from.connection.protocol);
    from == Some(Protocol::Kafka)
}
