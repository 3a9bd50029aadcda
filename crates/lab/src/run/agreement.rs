//! The service's counters against the clients': over a whole trial, the two must tell the same story.
//!
//! Exact where it can be, an interval where it cannot: a send that was given up may or may not have been appended. A
//! command in the relay's place tells no counters. Of it can be known that the service handed out every event that
//! arrived, or that it says it has done, and accepted as many as arrived: more of both is what *at least once* allows.

use std::collections::BTreeMap;

use crate::{
    results::{EntityCounters, Finding, FindingKind, Severity},
    roles::protocol::{LoadCounters, RelayCounters, SinkCounters},
    scenario::{Entity, Topology},
};

/// What the clients counted from the first event to the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientCounters {
    pub(super) load: LoadCounters,
    pub(super) pipeline: PipelineCounters,
    /// Whether the pipeline writes in transactions: the service counts their markers, and what was aborted, among its events.
    pub(super) in_transactions: bool,
    /// In the order of the topology.
    pub(super) sinks: Vec<SinkCounters>,
}

/// What is known of the pipeline's own counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipelineCounters {
    /// Our relay told them.
    Own(RelayCounters),
    /// A command has none that we know of.
    Unknown,
    /// There is no pipeline.
    Absent,
}

/// Between which figures a counter has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    least: u64,
    most: u64,
}

/// Every disagreement, as a finding that fails the case: each entity is held against those that send to it, and those
/// that receive from it.
pub(super) fn disagreements(
    topology: &Topology,
    service: &BTreeMap<String, EntityCounters>,
    clients: &ClientCounters,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut compare = |what: String, counted: u64, clients: Option<Range>| {
        let Some(Range { least, most }) = clients.filter(|range| !range.contains(counted)) else {
            return;
        };
        let clients = if least == most {
            least.to_string()
        } else if most == u64::MAX {
            format!("at least {least}")
        } else {
            format!("{least} to {most}")
        };
        let counted = topology.noun().counted(counted);
        found.push(Finding::new(
            Severity::Failure,
            FindingKind::CountersDisagree,
            format!("{what}: the service counted {counted}, the clients {clients}"),
        ));
    };
    let to = topology.pipeline.as_ref().map(|pipeline| pipeline.to.as_slice()).unwrap_or_default();
    let counted = |address: &str| service.get(address).copied().unwrap_or_default();
    // Of an archive the service counts requests; the sink lists what is in it.
    let entities = topology.in_order().into_iter().filter(|(_, entity)| !entity.is_archive());
    for (name, entity) in entities {
        for place in topology.places_of(name) {
            let address = topology.address(place);
            let mut sinks = topology.sinks.iter().zip(&clients.sinks);
            let sink = sinks.find(|(sink, _)| sink.is_same_place(place)).map(|(_, counters)| counters);
            let is_source =
                topology.pipeline.as_ref().is_some_and(|pipeline| pipeline.from.is_same_place(place));
            let written_by_pipeline = match (to, sink) {
                _ if !to.iter().any(|to| to.entity == name) => None,
                ([_only], Some(sink)) => clients.sent_by_pipeline(sink, entity),
                // Of several destinations the pipeline counts the sends together.
                (_, Some(sink)) => Some(Range { least: sink.seen(), most: u64::MAX }),
                (_, None) => None,
            };
            let written =
                [written_by_pipeline, (topology.load.entity == name).then(|| clients.sent_by_load())];
            let read = [
                is_source.then(|| clients.received_by_pipeline(entity)).flatten(),
                sink.map(|sink| clients.received_by_sink(sink, entity)),
            ];
            let service = counted(&address);
            compare(format!("appended to the {place}"), service.incoming_events, Range::sum(written));
            compare(format!("read from the {place}"), service.outgoing_events, Range::sum(read));
        }
    }
    let has_archive = to.iter().any(|to| topology.entity(to).is_archive());
    if let (PipelineCounters::Own(relay), [_, _, ..], false) = (clients.pipeline, to, has_archive) {
        let names: Vec<String> = to.iter().map(ToString::to_string).collect();
        let appended = to.iter().map(|to| counted(&topology.written_at(to)).incoming_events).sum();
        compare(format!("appended to {} together", names.join(" and ")), appended, Some(relay.sent()));
    }
    found
}

impl RelayCounters {
    /// What it sent, as far as it knows.
    fn sent(self) -> Range {
        Range { least: self.forwarded, most: self.forwarded.saturating_add(self.doubtful) }
    }
}

impl SinkCounters {
    const fn seen(&self) -> u64 {
        self.events.received + self.events.corrupted + self.events.foreign + self.undone
    }
}

impl ClientCounters {
    fn sent_by_load(&self) -> Range {
        Range { least: self.load.events.acknowledged, most: self.load.events.sent }
    }

    fn received_by_pipeline(&self, entity: &Entity) -> Option<Range> {
        Some(match self.pipeline {
            PipelineCounters::Own(relay) => {
                let most = self.handed_out(relay.received, relay.opened, entity);
                Range { least: relay.received, most }
            }
            PipelineCounters::Unknown => {
                let distinct = self.sinks.iter().map(|sink| sink.distinct).max();
                Range { least: distinct.unwrap_or(0), most: u64::MAX }
            }
            PipelineCounters::Absent => return None,
        })
    }

    /// What the pipeline sent to its only destination, which `sink` reads.
    fn sent_by_pipeline(&self, sink: &SinkCounters, destination: &Entity) -> Option<Range> {
        Some(match self.pipeline {
            PipelineCounters::Own(relay) => relay.sent(),
            // A partition that the sink opened again was read again.
            PipelineCounters::Unknown if sink.opened > u64::from(destination.partitions()) => {
                Range { least: sink.distinct, most: u64::MAX }
            }
            PipelineCounters::Unknown => Range { least: sink.seen(), most: u64::MAX },
            PipelineCounters::Absent => return None,
        })
    }

    fn received_by_sink(&self, sink: &SinkCounters, entity: &Entity) -> Range {
        let seen = sink.seen();
        Range { least: seen, most: self.handed_out(seen, sink.opened, entity) }
    }

    /// What the service may have handed out at most. Where everything that was sent was seen, and no partition was closed
    /// under its reader, nothing can have been on the way: then it is exactly what was received.
    fn handed_out(&self, received: u64, opened: u64, entity: &Entity) -> u64 {
        let load = &self.load.events;
        let is_drained =
            load.sent == load.acknowledged && self.sinks.iter().all(|sink| sink.missing == Some(0));
        match is_drained && opened <= u64::from(entity.partitions()) && !self.in_transactions {
            true => received,
            false => u64::MAX,
        }
    }
}

impl Range {
    const fn contains(self, value: u64) -> bool {
        self.least <= value && value <= self.most
    }

    /// Of several clients together; `None` without any.
    fn sum(ranges: [Option<Self>; 2]) -> Option<Self> {
        ranges.into_iter().flatten().reduce(|sum, range| Self {
            least: sum.least.saturating_add(range.least),
            most: sum.most.saturating_add(range.most),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        load::LoadCounts,
        scenario::{Connection, End, Hub, Measured, Pipeline},
        verify::Counts,
    };

    fn hubs() -> Topology {
        let hub = |name: &str| {
            let consumer_group = "$Default".to_owned();
            Entity::Hub(Hub { name: name.to_owned(), partitions: 1, consumer_group })
        };
        let [source, destination] = ["source", "destination"].map(|name| (name.to_owned(), hub(name)));
        let end = |name: &str| End::of(name, Connection::default());
        Topology {
            load: end("source"),
            pipeline: Some(Pipeline { from: end("source"), to: vec![end("destination")] }),
            sinks: vec![end("destination")],
            entities: [source, destination].into(),
            measure: Measured::Pipeline,
        }
    }

    const RELAY: RelayCounters = RelayCounters {
        received: 95,
        forwarded: 95,
        doubtful: 5,
        completed: 0,
        opened: 0,
        owned: 0,
        missed: 0,
        throttled: 0,
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
            in_transactions: false,
            sinks: vec![SinkCounters {
                events: Counts { received: 95, ..Counts::default() },
                ..SinkCounters::default()
            }],
        }
    }

    fn service(source: (u64, u64), destination: (u64, u64)) -> BTreeMap<String, EntityCounters> {
        let counters = |(incoming_events, outgoing_events)| EntityCounters {
            incoming_events,
            outgoing_events,
            ..EntityCounters::default()
        };
        [("source".to_owned(), counters(source)), ("destination".to_owned(), counters(destination))].into()
    }

    fn found(source: (u64, u64), destination: (u64, u64)) -> usize {
        disagreements(&hubs(), &service(source, destination), &clients()).len()
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
        clients.sinks[0].missing = Some(0);
        let found = |clients: &ClientCounters, source, destination| {
            disagreements(&hubs(), &service((100, source), (100, destination)), clients).len()
        };
        assert_eq!(found(&clients, 95, 95), 0);
        assert_eq!(found(&clients, 96, 95), 1);
        assert_eq!(found(&clients, 95, 96), 1);
        // A partition that was closed and opened again explains more.
        let opened = |opened| PipelineCounters::Own(RelayCounters { opened, ..RELAY });
        (clients.pipeline, clients.sinks[0].opened) = (opened(2), 2);
        assert_eq!(found(&clients, 96, 96), 0);
        // So does an end before everything had arrived.
        (clients.pipeline, clients.sinks[0].missing) = (opened(1), Some(1));
        assert_eq!(found(&clients, 96, 96), 0);
    }

    #[test]
    fn records_of_transactions_that_are_no_events_are_no_disagreement() {
        let mut clients = clients();
        (clients.load.events.acknowledged, clients.sinks[0].missing) = (100, Some(0));
        clients.pipeline = PipelineCounters::Unknown;
        let found = |clients: &ClientCounters| {
            disagreements(&hubs(), &service((100, 120), (120, 120)), clients).len()
        };
        assert_eq!(found(&clients), 1, "more was read than arrived");
        clients.in_transactions = true;
        assert_eq!(found(&clients), 0);
    }

    #[test]
    fn a_command_may_read_and_send_an_event_twice_but_not_less_than_arrived() {
        let mut clients = clients();
        clients.pipeline = PipelineCounters::Unknown;
        clients.sinks[0].distinct = 90;
        let found = |source, destination| {
            disagreements(&hubs(), &service((90, source), (destination, 95)), &clients).len()
        };
        assert_eq!(found(90, 95), 0, "five were sent twice");
        assert_eq!(found(200, 300), 0, "and many more read and sent twice");
        assert_eq!(found(89, 95), 1, "an event arrived that was not handed out");
        assert_eq!(found(90, 94), 1, "more arrived than were accepted");
    }

    #[test]
    fn a_disagreement_names_both_figures() {
        let found = disagreements(&hubs(), &service((80, 95), (95, 95)), &clients());
        assert_eq!(
            found[0].message,
            "appended to the source: the service counted 80 events, the clients 90 to 100"
        );
        assert_eq!(found[0].kind, FindingKind::CountersDisagree);
    }

    #[test]
    fn without_a_pipeline_the_sink_reads_what_the_load_appends() {
        let mut topology = hubs();
        topology.pipeline = None;
        topology.sinks = vec![topology.load.clone()];
        let mut clients = clients();
        clients.pipeline = PipelineCounters::Absent;
        let found = |counters| disagreements(&topology, &service(counters, (0, 0)), &clients).len();
        assert_eq!(found((95, 95)), 0, "the entity that nobody uses is not looked at");
        assert_eq!(found((89, 95)), 1, "the load had more of it acknowledged");
        assert_eq!(found((95, 94)), 1, "the sink saw more");
    }

    #[test]
    fn a_consumer_has_done_no_more_than_was_handed_out_to_it_beside_the_sink() {
        let mut topology = hubs();
        topology.pipeline = Some(Pipeline { from: topology.load.clone(), to: Vec::new() });
        topology.sinks = vec![topology.load.clone()];
        let mut clients = clients();
        clients.pipeline = PipelineCounters::Unknown;
        let events = Counts { received: 60, ..Counts::default() };
        clients.sinks = vec![SinkCounters { events, distinct: 60, undone: 35, ..SinkCounters::default() }];
        let found = |outgoing| disagreements(&topology, &service((95, outgoing), (0, 0)), &clients).len();
        assert_eq!(found(95 + 60), 0, "the sink has read 95, the consumer 60");
        assert_eq!(found(95 + 95), 0);
        assert_eq!(found(95 + 59), 1);
    }

    #[test]
    fn several_destinations_are_held_together_against_the_sends_and_each_against_its_sink() {
        let mut topology = hubs();
        let audit = End::of("audit", Connection::default());
        topology.entities.insert("audit".to_owned(), topology.entities["source"].clone());
        let Some(Entity::Hub(hub)) = topology.entities.get_mut("audit") else { panic!("it is a hub") };
        hub.name = "audit".to_owned();
        topology.sinks.push(audit.clone());
        topology.pipeline.as_mut().unwrap().to.push(audit);
        let mut clients = clients();
        clients.pipeline = PipelineCounters::Own(RelayCounters { forwarded: 190, ..RELAY });
        clients.sinks.push(clients.sinks[0]);
        let found = |destination, audit| {
            let mut service = service((90, 95), (destination, 95));
            let counters =
                EntityCounters { incoming_events: audit, outgoing_events: 95, ..EntityCounters::default() };
            service.insert("audit".to_owned(), counters);
            disagreements(&topology, &service, &clients)
        };
        assert_eq!(found(95, 95), []);
        assert_eq!(found(95, 100), [], "five sends have no answer");
        let one_more = &found(96, 100)[0].message;
        assert_eq!(
            one_more,
            "appended to destination and audit together: the service counted 196 events, the clients 190 to 195"
        );
        let beyond = &found(100, 94)[0].message;
        assert_eq!(beyond, "appended to the audit: the service counted 94 events, the clients at least 95");
    }
}
