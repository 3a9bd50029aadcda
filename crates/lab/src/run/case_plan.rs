//! From a case of a scenario to what the results say of it before it has run.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;

use crate::{
    results::{
        ArchivingShape, CasePlan, ClientShape, KafkaShape, MeasuredSystem, OrderExpectation, PipelineShape,
        ProducerShape, Shape, SourceShape,
    },
    scenario::{
        Buffering, Case, Connection, Delay, End, Entity, LoadMode, Parameters, Protocol, Sends,
        SystemUnderTest, Target, Topic, Topology, Transport, WhenFull,
    },
};

/// What the results say of a case before it has run.
pub(super) fn case_plan(case: &Case) -> CasePlan {
    let relay = &case.parameters.relay;
    let sut = &case.parameters.sut;
    let topology = case.parameters.topology();
    // Events that go from sink to sink by themselves overtake one another wherever a send is made again or a service works on several.
    // Several batches of a partition under way, one of which fails or is killed, and is sent again, may overtake one another. So may
    // single messages to a queue or topic, of which a batch sends many without waiting, and messages of a queue that are worked on at
    // once, even where none fails.
    let keeps_order = match topology.of_pipeline() {
        None => true,
        Some(source) if source.is_log() => {
            let is_queue = |entity: &Entity| matches!(entity, Entity::Queue(_) | Entity::Topic(_));
            let sends_ahead =
                relay.in_flight > 1 || relay.send == Sends::Single && topology.destinations().any(is_queue);
            let sends_again = relay.failure_ratio > 0.0 || relay.restart.is_some();
            !(sends_ahead && sends_again) && relay.dispatch.keeps_order()
        }
        Some(_) => false,
    };
    // Nobody knows what a command promises.
    // Callers of a producer do not wait for one another.
    let keeps_order = keeps_order && sut.is_ours() && topology.load.producer.is_none();
    let mut params = BTreeMap::new();
    flatten("", Value::Object(case.params()), &mut params);
    CasePlan {
        name: case.name.clone(),
        sweep: case.sweep.clone(),
        params,
        shape: shape(&case.parameters, &topology),
        system: system(sut, &topology),
        measured_role: topology.measured_role(),
        trials: case.parameters.trials,
        published: case.published.clone(),
        order: if keeps_order { OrderExpectation::Kept } else { OrderExpectation::NotPromised },
    }
}

/// What findings need to know of the settings.
fn shape(parameters: &Parameters, topology: &Topology) -> Shape {
    let relay = &parameters.relay;
    let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let of_all_instances = |count: u32| u64::from(count) * u64::from(relay.instances.max(1));
    let pipeline = topology.of_pipeline().map(|source| PipelineShape {
        source: match source {
            Entity::Hub(hub) => SourceShape::Log {
                partitions: hub.partitions.into(),
                batch_events: relay.batch.events.into(),
                batch_wait_us: microseconds(relay.batch.wait),
                in_flight: relay.in_flight.into(),
            },
            // No pipeline reads an archive, which the checks of the scenario have seen.
            Entity::Container(_) => SourceShape::default(),
            Entity::Queue(queue) | Entity::Topic(Topic { queue, .. }) => SourceShape::Queue {
                messages_at_once: of_all_instances(relay.messages_at_once()),
                threads: relay.threads.map(of_all_instances),
                maximum_delivery_count: queue.maximum_delivery_count.into(),
                largest_message_bytes: queue.largest_message.bytes(),
            },
        },
        prefetch: relay.prefetch.events().map(u64::from),
        try_timeout_us: Some(microseconds(relay.try_timeout)),
        fails_on_purpose: relay.failure_ratio > 0.0,
        exactly_once: relay.is_exactly_once() || relay.is_transactional(),
        archiving: archiving_shape(parameters, topology),
    });
    Shape {
        noun: topology.noun(),
        load: parameters.load.mode,
        full_log_throttles: parameters.embedded.when_full == WhenFull::Throttle,
        burst_events: match parameters.load.mode {
            LoadMode::Burst => Some(parameters.load.burst_events().into()),
            _ => None,
        },
        kafka: kafka_shape(topology),
        producer: producer_shape(parameters, topology),
        pipeline,
    }
}

/// How events go to an archive and another destination, where they do.
fn archiving_shape(parameters: &Parameters, topology: &Topology) -> Option<ArchivingShape> {
    let forwarded = topology.destinations().find(|destination| !destination.is_archive())?;
    topology.destinations().find(|destination| destination.is_archive())?;
    let relay = &parameters.relay;
    let events = u64::try_from(relay.dispatch.events_at_once()).ok();
    let profile = parameters.target == Target::Embedded;
    let profile = profile.then_some(&parameters.embedded.profile);
    Some(ArchivingShape {
        one_by_one: relay.dispatch.sinks_at_once() == 1,
        events: events.filter(|events| *events < u64::from(u32::MAX)),
        awaits_checkpoint: relay.checkpoint_wait,
        forward_capacity: profile
            .and_then(|profile| profile.capacity_of(forwarded.name()))
            .map(|capacity| u64::from(capacity.get())),
        forward_us: profile
            .and_then(|profile| profile.send_time(forwarded.name()))
            .map(|time| time.mean().as_secs_f64() * 1e6),
    })
}

/// The producer that sends, where one does.
fn producer_shape(parameters: &Parameters, topology: &Topology) -> Option<ProducerShape> {
    let (producer, load) = (topology.load.producer.as_ref()?, &parameters.load);
    let at_once = if load.mode == LoadMode::Closed { load.callers } else { load.in_flight };
    Some(ProducerShape {
        callers: u64::from(load.workers) * u64::from(at_once),
        batch: load.batch.into(),
        client: topology.load.kafka.client.program().map(|program| program.name.clone()),
        connections: producer.connections,
        buffering: producer.buffering,
        max_events: (producer.buffering != Buffering::None).then(|| producer.max_events.into()),
        delay_us: match producer.delay {
            Delay::After(delay) if producer.buffering != Buffering::None => {
                u64::try_from(delay.as_micros()).ok()
            }
            Delay::After(_) | Delay::Adaptive => None,
        },
    })
}

/// How load and sink speak Kafka, where both do and nothing is between them.
fn kafka_shape(topology: &Topology) -> Option<KafkaShape> {
    let client = |end: &End| {
        let properties = end.kafka.properties.masked();
        let properties = properties.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let shape =
            ClientShape { client: end.kafka.client.name().to_owned(), properties: properties.collect() };
        (end.connection.protocol == Protocol::Kafka).then_some(shape)
    };
    let sink = topology.sinks.first().filter(|_| topology.pipeline.is_none())?;
    Some(KafkaShape { producer: client(&topology.load)?, consumer: client(sink)? })
}

/// What is measured in the pipeline's place, unless it is our relay over plain TCP.
pub(super) fn system(sut: &SystemUnderTest, topology: &Topology) -> Option<MeasuredSystem> {
    let pipeline = topology.pipeline.iter();
    let ends = pipeline.flat_map(|pipeline| std::iter::once(&pipeline.from).chain(&pipeline.to));
    let mut ways: Vec<&str> = ends.map(|end| transport_name(end.connection)).collect();
    ways.dedup();
    let transport = match ways.as_slice() {
        [] => transport_name(Connection::default()).to_owned(),
        ways => ways.join(" to "),
    };
    let is_usual = sut.is_ours() && transport == transport_name(Connection::default());
    (!is_usual).then(|| MeasuredSystem { name: sut.name.clone(), ours: sut.is_ours(), transport })
}

/// What results call the way of a pipeline to the service.
pub(super) const fn transport_name(connection: Connection) -> &'static str {
    match (connection.protocol, connection.transport, connection.tls) {
        (Protocol::Amqp, Transport::Tcp, false) => "tcp",
        (Protocol::Amqp, Transport::Tcp, true) => "tls",
        (Protocol::Amqp, Transport::WebSocket, false) => "web-socket",
        (Protocol::Amqp, Transport::WebSocket, true) => "web-socket-tls",
        (Protocol::Kafka, _, false) => "kafka",
        (Protocol::Kafka, _, true) => "kafka-tls",
        (Protocol::Http, _, false) => "http",
        (Protocol::Http, _, true) => "https",
    }
}

/// Nested settings by their dotted path.
fn flatten(path: &str, value: Value, flat: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name } else { format!("{path}.{name}") };
                flatten(&path, value, flat);
            }
        }
        value => {
            flat.insert(path.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{CaseOptions, Scenario};

    #[test]
    fn order_is_expected_unless_something_that_was_sent_ahead_is_sent_again() {
        let order = |destination: &str, relay: &str| {
            let scenario = format!(
                "scenario: order
topology:
  entities: {{in: {{hub: in, partitions: 2}}, out: {{{destination}: out}}}}
  load: in
  pipeline: {{from: in, to: out}}
  sink: out
relay: {{{relay}}}
"
            );
            let scenario = Scenario::parse("order.yaml", &scenario).expect("a scenario");
            case_plan(&scenario.cases(&CaseOptions::default()).expect("cases")[0]).order
        };
        use OrderExpectation::{Kept, NotPromised};
        for (destination, relay, expected) in [
            ("hub", "failure_ratio: 0.03", Kept),
            ("hub", "failure_ratio: 0.03, in_flight: 2", NotPromised),
            ("hub", "in_flight: 2", Kept),
            ("queue", "send: single", Kept),
            ("queue", "failure_ratio: 0.03, send: single", NotPromised),
            ("queue", "failure_ratio: 0.03, send: batch", Kept),
        ] {
            assert_eq!(order(destination, relay), expected, "{destination}, {relay}");
        }
    }
}
