//! The service's counters against the clients': over a whole trial, the two must tell the same story.
//!
//! Exact where it can be, an interval where it cannot: a send that was given up may or may not have been appended. A
//! command in the relay's place tells no counters. Of it can be known that the service handed out every event that
//! arrived, and accepted as many as arrived: more of both is what *at least once* allows.

use std::collections::BTreeMap;

use crate::{
    results::{Finding, FindingKind, HubCounters, Noun, Severity},
    roles::protocol::{LoadCounters, RelayCounters, SinkCounters},
    scenario::Entities,
};

/// What the clients counted from the first event to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClientCounters {
    pub(super) load: LoadCounters,
    pub(super) pipeline: PipelineCounters,
    pub(super) sink: SinkCounters,
}

/// What is known of the pipeline's own counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipelineCounters {
    /// Our relay told them.
    Own(RelayCounters),
    /// A command has none that we know of.
    Unknown,
}

/// Every disagreement, as a finding that fails the case.
pub(super) fn disagreements(
    noun: Noun,
    entities: &Entities,
    service: &BTreeMap<String, HubCounters>,
    clients: &ClientCounters,
) -> Vec<Finding> {
    let of = |name: &str| service.get(name).copied().unwrap_or_default();
    let (source_entity, destination_entity) = (entities.source(), entities.destination());
    let (source, destination) = (of(source_entity.name()), of(destination_entity.name()));
    let ClientCounters { load, pipeline, sink } = clients;
    let seen = sink.events.received + sink.events.corrupted + sink.events.foreign;
    // Where everything that was sent was seen, and no partition was closed under its reader, nothing can have been on
    // the way: then the service must have handed out exactly what was received.
    let is_drained = load.events.sent == load.events.acknowledged && sink.missing == Some(0);
    let handed_out = |received: u64, opened: u64, partitions: u32| {
        if is_drained && opened <= u64::from(partitions) { received } else { u64::MAX }
    };
    let mut found = Vec::new();
    let mut compare = |what: &str, service: u64, least: u64, most: u64| {
        if service < least || service > most {
            let clients = if least == most {
                least.to_string()
            } else if most == u64::MAX {
                format!("at least {least}")
            } else {
                format!("{least} to {most}")
            };
            found.push(Finding::new(
                Severity::Failure,
                FindingKind::CountersDisagree,
                format!("{what}: the service counted {}, the clients {clients}", noun.counted(service)),
            ));
        }
    };
    compare("appended to the source", source.incoming_events, load.events.acknowledged, load.events.sent);
    let (handed_to_pipeline, appended) = match pipeline {
        PipelineCounters::Own(relay) => {
            let most = handed_out(relay.received, relay.opened, source_entity.partitions());
            let maybe = relay.forwarded.saturating_add(relay.doubtful);
            ((relay.received, most), (relay.forwarded, maybe))
        }
        // A partition that the sink opened again was read again.
        PipelineCounters::Unknown if sink.opened > u64::from(destination_entity.partitions()) => {
            ((sink.distinct, u64::MAX), (sink.distinct, u64::MAX))
        }
        PipelineCounters::Unknown => ((sink.distinct, u64::MAX), (seen, u64::MAX)),
    };
    compare("read from the source", source.outgoing_events, handed_to_pipeline.0, handed_to_pipeline.1);
    compare("appended to the destination", destination.incoming_events, appended.0, appended.1);
    compare(
        "read from the destination",
        destination.outgoing_events,
        seen,
        handed_out(seen, sink.opened, destination_entity.partitions()),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        load::LoadCounts,
        scenario::{Hub, Hubs},
        verify::Counts,
    };

    fn hubs() -> Entities {
        let hub =
            |name: &str| Hub { name: name.to_owned(), partitions: 1, consumer_group: "$Default".to_owned() };
        Entities::Hubs(Hubs { source: hub("source"), destination: hub("destination") })
    }

    const RELAY: RelayCounters = RelayCounters {
        received: 95,
        forwarded: 95,
        doubtful: 5,
        completed: 0,
        opened: 0,
        owned: 0,
        missed: 0,
        first_forwarded: None,
        last_forwarded: None,
    };

    fn clients() -> ClientCounters {
        ClientCounters {
            load: LoadCounters {
                events: LoadCounts { sent: 100, acknowledged: 90, failed: 10, ..LoadCounts::default() },
                ..LoadCounters::default()
            },
            pipeline: PipelineCounters::Own(RELAY),
            sink: SinkCounters {
                events: Counts { received: 95, ..Counts::default() },
                ..SinkCounters::default()
            },
        }
    }

    fn service(source: (u64, u64), destination: (u64, u64)) -> BTreeMap<String, HubCounters> {
        let counters = |(incoming_events, outgoing_events)| HubCounters {
            incoming_events,
            outgoing_events,
            ..HubCounters::default()
        };
        [("source".to_owned(), counters(source)), ("destination".to_owned(), counters(destination))].into()
    }

    fn found(source: (u64, u64), destination: (u64, u64)) -> usize {
        disagreements(Noun::Events, &hubs(), &service(source, destination), &clients()).len()
    }

    #[test]
    fn sends_without_an_answer_may_have_been_appended_or_not() {
        assert_eq!(found((90, 95), (95, 95)), 0);
        assert_eq!(found((100, 95), (100, 95)), 0);
    }

    #[test]
    fn one_event_beyond_either_limit_is_a_disagreement() {
        assert_eq!(found((89, 95), (95, 95)), 1);
        assert_eq!(found((101, 95), (95, 95)), 1);
        assert_eq!(found((90, 94), (95, 95)), 1);
        assert_eq!(found((90, 95), (94, 95)), 1);
        assert_eq!(found((90, 95), (101, 95)), 1);
        assert_eq!(found((90, 95), (95, 94)), 1);
    }

    #[test]
    fn what_was_handed_out_must_have_arrived_once_nothing_is_on_the_way() {
        let mut clients = clients();
        clients.load.events.acknowledged = 100;
        clients.sink.missing = Some(0);
        let found = |clients: &ClientCounters, source, destination| {
            disagreements(Noun::Events, &hubs(), &service((100, source), (100, destination)), clients).len()
        };
        assert_eq!(found(&clients, 95, 95), 0);
        assert_eq!(found(&clients, 96, 95), 1);
        assert_eq!(found(&clients, 95, 96), 1);
        // A partition that was closed and opened again explains more.
        let opened = |opened| PipelineCounters::Own(RelayCounters { opened, ..RELAY });
        (clients.pipeline, clients.sink.opened) = (opened(2), 2);
        assert_eq!(found(&clients, 96, 96), 0);
        // So does an end before everything had arrived.
        (clients.pipeline, clients.sink.missing) = (opened(1), Some(1));
        assert_eq!(found(&clients, 96, 96), 0);
    }

    #[test]
    fn a_command_may_read_and_send_an_event_twice_but_not_less_than_arrived() {
        let mut clients = clients();
        clients.pipeline = PipelineCounters::Unknown;
        clients.sink.distinct = 90;
        let found = |source, destination| {
            disagreements(Noun::Events, &hubs(), &service((90, source), (destination, 95)), &clients).len()
        };
        assert_eq!(found(90, 95), 0, "five were sent twice");
        assert_eq!(found(200, 300), 0, "and many more read and sent twice");
        assert_eq!(found(89, 95), 1, "an event arrived that was not handed out");
        assert_eq!(found(90, 94), 1, "more arrived than were accepted");
    }

    #[test]
    fn a_disagreement_names_both_figures() {
        let found = disagreements(Noun::Events, &hubs(), &service((80, 95), (95, 95)), &clients());
        assert_eq!(
            found[0].message,
            "appended to the source: the service counted 80 events, the clients 90 to 100"
        );
        assert_eq!(found[0].kind, FindingKind::CountersDisagree);
    }
}
