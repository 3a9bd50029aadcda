//! The configuration of a command in the relay's place: the environment variables of `docs/external-systems.md`.

use std::{collections::BTreeMap, path::Path, time::Duration};

use super::{case_plan::transport_name, peers::Peers, plan::TrialPlan};
use crate::{
    roles::protocol::{CHECKPOINT_CONTAINER, ExternalConfig, Ready},
    scenario::{Done, Entity, Hub, Relay, Secret},
};

impl TrialPlan<'_> {
    /// The command that is measured, if one is; `folder` is the trial's own, and empty.
    pub(super) fn external(
        &self,
        embedded: Option<&Ready>,
        folder: &Path,
        peers: &Peers,
    ) -> Option<ExternalConfig> {
        let sut = &self.parameters.sut;
        let (program, arguments) = sut.command.as_ref()?.split_first()?;
        let command = std::iter::once(peers.program(program)).chain(arguments.iter().cloned());
        let mut environment = self.instructions(embedded, folder)?;
        environment.extend(sut.env.clone());
        Some(ExternalConfig {
            clock: self.clock,
            name: sut.name.clone(),
            command: command.collect(),
            environment,
            done_lines: (sut.done == Some(Done::Line)).then(|| self.topology.of_load().partitions()),
            ready: sut.ready.clone(),
            ready_within: sut.ready_within,
            stop_within: sut.stop_within,
        })
    }

    fn instructions(&self, embedded: Option<&Ready>, folder: &Path) -> Option<BTreeMap<String, Secret>> {
        let parameters = self.parameters;
        let pipeline = self.topology.pipeline.as_ref()?;
        let source = self.endpoint(embedded, &pipeline.from);
        // The checks of the scenario leave a command at most one, and an archive beside it.
        let destination = pipeline.to.first().map(|to| self.endpoint(embedded, to));
        let archive = pipeline.to.iter().find(|to| self.topology.entity(to).is_archive());
        let archive = archive.map(|to| self.endpoint(embedded, to));
        let mut variables = Variables::default();
        variables.secret("SOURCE_CONNECTION_STRING", source.connection_string);
        variables.text("TRANSPORT", transport_name(pipeline.from.connection));
        if let Some(authority) = source.certificate_authority {
            variables.text("TLS_CA_FILE", absolute(&authority));
        }
        variables.text("FOLDER", absolute(folder));
        variables.text("INSTANCES", parameters.relay.instances);
        variables.text("PREFETCH", parameters.relay.prefetch);
        variables.text("FAILURE_RATIO", parameters.relay.failure_ratio);
        variables.text("SEED", parameters.load.seed);
        if let Some(cores) = parameters.limits.relay.cores {
            variables.text("CORES", cores);
        }
        if let Some(memory) = parameters.limits.relay.memory {
            variables.text("MEMORY_BYTES", memory.bytes());
        }
        match &source.entity {
            Entity::Hub(hub) => {
                variables.reading_hub(hub, &parameters.relay);
                let storage = embedded.and_then(|ready| ready.storage_connection_string.clone());
                if let Some(storage) = storage {
                    variables.secret("CHECKPOINT_CONNECTION_STRING", storage);
                    variables.text("CHECKPOINT_CONTAINER", CHECKPOINT_CONTAINER);
                }
            }
            // No pipeline reads an archive.
            Entity::Container(_) => {}
            Entity::Queue(queue) => {
                variables.text("SOURCE_QUEUE", &queue.name);
                variables.settling(&parameters.relay);
            }
            Entity::Topic(topic) => {
                variables.text("SOURCE_TOPIC", &topic.queue.name);
                variables
                    .text("SOURCE_SUBSCRIPTION", pipeline.from.subscription.as_deref().unwrap_or_default());
                variables.settling(&parameters.relay);
            }
        }
        if let Some(destination) = destination {
            variables.secret("DESTINATION_CONNECTION_STRING", destination.connection_string);
            variables.sending_to(&destination.entity, &parameters.relay);
        }
        if let Some(archive) = archive {
            variables.text("ARCHIVE_CONTAINER", archive.entity.name());
            variables.secret("ARCHIVE_CONNECTION_STRING", archive.connection_string);
            variables.working(&parameters.relay);
        }
        Some(variables.0)
    }
}

/// Variables by their names.
#[derive(Debug, Default)]
struct Variables(BTreeMap<String, Secret>);

impl Variables {
    fn reading_hub(&mut self, hub: &Hub, relay: &Relay) {
        self.text("SOURCE_HUB", &hub.name);
        self.text("SOURCE_PARTITIONS", hub.partitions);
        self.text("CONSUMER_GROUP", &hub.consumer_group);
        self.text("BATCH", relay.batch.events);
        self.text("MAX_WAIT_MS", milliseconds(relay.batch.wait));
        self.text("RESTART_AFTER_MS", milliseconds(relay.restart_after));
    }

    fn settling(&mut self, relay: &Relay) {
        self.text("CONCURRENCY", relay.messages_at_once());
        if let Some(threads) = relay.threads {
            self.text("THREADS", threads);
        }
    }

    fn sending_to(&mut self, entity: &Entity, relay: &Relay) {
        match entity {
            Entity::Hub(hub) => {
                self.text("DESTINATION_HUB", &hub.name);
                self.text("DESTINATION_PARTITIONS", hub.partitions);
                self.text("FAN_OUT", relay.fan_out);
                self.text("ROUTE", relay.route);
            }
            Entity::Queue(queue) => self.text("DESTINATION_QUEUE", &queue.name),
            Entity::Topic(topic) => self.text("DESTINATION_TOPIC", &topic.queue.name),
            // It has variables of its own.
            Entity::Container(_) => {}
        }
    }

    /// How much of its work on events with several destinations goes on at once.
    fn working(&mut self, relay: &Relay) {
        let at_once = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        self.text("EVENTS_AT_ONCE", at_once(relay.dispatch.events_at_once()));
        self.text("DESTINATIONS_AT_ONCE", at_once(relay.dispatch.sinks_at_once()).min(2));
    }

    fn text(&mut self, name: &str, value: impl ToString) {
        self.secret(name, Secret::new(value.to_string()));
    }

    fn secret(&mut self, name: &str, value: Secret) {
        self.0.insert(format!("PARSHALL_{name}"), value);
    }
}

/// A command may change its working directory.
fn absolute(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.display().to_string()
}

/// Whole ones, rounded up: not everyone reads fractions.
fn milliseconds(duration: Duration) -> u128 {
    duration.as_nanos().div_ceil(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::RunClock,
        roles::protocol::EntryPoint,
        scenario::{CaseOptions, Connection, KafkaProperties, Scenario},
    };

    /// The variables that a command of the scenario gets, `relay` and `limits` being of the text.
    fn variables_of(text: &str) -> BTreeMap<String, String> {
        let scenario = format!("scenario: s\n{text}");
        let scenario = Scenario::parse("s.yaml", &scenario).expect("a scenario");
        let cases = scenario.cases(&CaseOptions::default()).expect("cases");
        let plan = TrialPlan::new(&cases[0].parameters, RunClock::starting_now(), 1);
        let entry_point = |tls, text, certificate_authority| EntryPoint {
            connection: Connection { tls, ..Connection::default() },
            connection_string: Secret::new(text),
            kafka: KafkaProperties::default(),
            certificate_authority,
        };
        let ready = Ready {
            entry_points: vec![
                entry_point(false, "plain", None),
                entry_point(true, "encrypted", Some("/ca.pem".into())),
            ],
            storage_connection_string: Some(Secret::new("storage")),
        };
        let config = plan.external(Some(&ready), Path::new("/folder"), &Peers::default()).expect("a command");
        let environment = config.environment.into_iter();
        environment.map(|(name, value)| (name, value.reveal().to_owned())).collect()
    }

    const BETWEEN_TOPICS: &str = "topology:
  entities: {in: {topic: orders, subscriptions: [work]}, out: {topic: done, subscriptions: [verify]}}
  load: in
  pipeline: {from: in/work, to: out}
  sink: out/verify
";

    const WITH_ARCHIVE: &str = "topology:
  entities: {in: {hub: events, partitions: 1}, out: {topic: done, subscriptions: [verify]}, kept: {container: archive}}
  load: in
  pipeline: {from: in, to: [out, kept]}
  sinks: [out/verify, kept]
";

    #[test]
    fn a_command_that_archives_is_told_where_and_how_much_at_once() {
        let variables = variables_of(&format!(
            "sut: {{command: [x]}}\n{WITH_ARCHIVE}relay: {{dispatch: {{events: 10, sinks: 1}}}}"
        ));
        for (name, value) in [
            ("PARSHALL_DESTINATION_TOPIC", "done"),
            ("PARSHALL_ARCHIVE_CONTAINER", "archive"),
            ("PARSHALL_ARCHIVE_CONNECTION_STRING", "storage"),
            ("PARSHALL_EVENTS_AT_ONCE", "10"),
            ("PARSHALL_DESTINATIONS_AT_ONCE", "1"),
        ] {
            assert_eq!(variables.get(name).map(String::as_str), Some(value), "{name}");
        }
    }

    #[test]
    fn every_variable_is_in_the_document_and_every_one_of_the_document_is_set() {
        let document = include_str!("../../../../docs/external-systems.md");
        let documented: Vec<&str> = document
            .lines()
            .filter_map(|line| line.strip_prefix("| `PARSHALL_")?.split('`').next())
            .collect();
        let both = "sut: {command: [x], transport: tls}\nlimits: {relay: {cores: 1, memory: 1 GiB}}\n";
        let of_hubs = variables_of(both);
        let of_queues = variables_of(&format!("{both}queues: {{}}\nrelay: {{threads: 20}}"));
        let of_topics = variables_of(&format!("{both}{BETWEEN_TOPICS}"));
        let with_archive = variables_of(&format!("{both}{WITH_ARCHIVE}"));
        let variables: Vec<&str> = of_hubs
            .keys()
            .chain(of_queues.keys())
            .chain(of_topics.keys())
            .chain(with_archive.keys())
            .map(|name| name.strip_prefix("PARSHALL_").expect("ours"))
            .collect();
        for name in &variables {
            assert!(documented.contains(name), "{name} is not documented");
        }
        for name in documented {
            assert!(variables.contains(&name), "{name} is documented and not set");
        }
    }

    #[test]
    fn values_are_plain_numbers_in_the_unit_of_their_names() {
        let variables = variables_of(
            "sut: {command: [x], env: {LEVEL: warn}}\n\
             relay: {batch: {wait: 1.5 ms}, restart_after: 2 s, failure_ratio: 3.125e-6}\n\
             limits: {relay: {cores: 0.5, memory: 1 GiB}}",
        );
        for (name, value) in [
            ("PARSHALL_MAX_WAIT_MS", "2"),
            ("PARSHALL_RESTART_AFTER_MS", "2000"),
            ("PARSHALL_FAILURE_RATIO", "0.000003125"),
            ("PARSHALL_CORES", "0.5"),
            ("PARSHALL_MEMORY_BYTES", "1073741824"),
            ("PARSHALL_SOURCE_CONNECTION_STRING", "plain"),
            ("PARSHALL_FOLDER", "/folder"),
            ("LEVEL", "warn"),
        ] {
            assert_eq!(variables.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!variables.contains_key("PARSHALL_TLS_CA_FILE"));
    }

    #[test]
    fn a_command_between_queues_gets_the_queues_and_no_partitions() {
        let variables = variables_of(
            "sut: {command: [x]}\nqueues: {source: {name: orders}}\n\
             relay: {concurrency: 96, threads: 100, prefetch: 0}",
        );
        for (name, value) in [
            ("PARSHALL_SOURCE_QUEUE", "orders"),
            ("PARSHALL_DESTINATION_QUEUE", "destination"),
            ("PARSHALL_CONCURRENCY", "96"),
            ("PARSHALL_THREADS", "100"),
            ("PARSHALL_PREFETCH", "0"),
        ] {
            assert_eq!(variables.get(name).map(String::as_str), Some(value), "{name}");
        }
        let of_hubs = ["HUB", "PARTITIONS", "FAN_OUT", "BATCH", "CHECKPOINT"];
        for name in variables.keys() {
            assert!(!of_hubs.iter().any(|part| name.contains(part)), "{name}");
        }
    }

    #[test]
    fn over_tls_a_command_gets_the_other_address_and_whom_to_trust() {
        let variables = variables_of("sut: {command: [x], transport: tls}");
        assert_eq!(variables["PARSHALL_DESTINATION_CONNECTION_STRING"], "encrypted");
        assert_eq!(variables["PARSHALL_TLS_CA_FILE"], "/ca.pem");
        assert_eq!(variables["PARSHALL_TRANSPORT"], "tls");
        assert!(!variables.contains_key("PARSHALL_CORES"));
    }
}
