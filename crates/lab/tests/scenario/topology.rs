//! The section `topology`: what it means, what the short forms mean, and what it can't mean.

use lab::results::{Noun, Role};
use lab::scenario::{
    CaseOptions, Connection, Dispatch, End, Entity, Events, Measured, Parameters, Pipeline, Target, Transport,
};
use serde_json::json;

use super::{cases, set, told};

const WITHOUT_PIPELINE: &str = "topology:
  entities: {in: {hub: events, partitions: 4}}
  load: in
  sink: in
  measure: load
";

pub(crate) fn parameters(text: &str, arguments: &[&str]) -> Parameters {
    let cases = cases(&format!("scenario: s\n{text}"), &set(arguments)).unwrap();
    cases.into_iter().next().unwrap().parameters
}

#[test]
fn the_short_forms_are_a_pipeline_between_a_source_and_a_destination() {
    for text in ["hubs: {}\n", "queues: {}\nrelay: {prefetch: 0}\n"] {
        let topology = parameters(text, &[]).topology();
        assert_eq!(topology.entities.keys().collect::<Vec<_>>(), ["destination", "source"]);
        let end = |name: &str| End::of(name, Connection::default());
        assert_eq!((&topology.load, &topology.sinks), (&end("source"), &vec![end("destination")]));
        let pipeline = Pipeline { from: end("source"), to: vec![end("destination")] };
        assert_eq!(topology.pipeline, Some(pipeline));
        assert_eq!((topology.measure, topology.measured_role()), (Measured::Pipeline, Role::Relay));
    }
}

#[test]
fn a_topology_without_a_pipeline_has_no_relay_anywhere() {
    let case = &cases(&format!("scenario: s\n{WITHOUT_PIPELINE}"), &CaseOptions::default()).unwrap()[0];
    let topology = case.parameters.topology();
    assert_eq!(topology.of_pipeline(), None);
    assert_eq!((topology.measured_role(), topology.noun()), (Role::Load, Noun::Events));
    let Entity::Hub(hub) = topology.of_sink() else { panic!("it is a hub") };
    assert_eq!((hub.name.as_str(), hub.partitions, hub.consumer_group.as_str()), ("events", 4, "$Default"));
    let params = case.params();
    assert!(!params.contains_key("relay") && !params.contains_key("hubs"));
    assert_eq!(
        params["topology"],
        json!({
            "entities": {"in": {"hub": "events", "partitions": 4, "consumer_group": "$Default"}},
            "load": "in",
            "sink": "in",
            "measure": "load",
        })
    );
    let json = serde_json::to_string(&case.parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), case.parameters);
}

#[test]
fn a_topology_can_say_what_a_short_form_says() {
    let long = parameters(
        "topology:\n  entities: {source: {queue: a, lock_duration: 5 s}, destination: {queue: b, lock_duration: 5 s}}\n  \
         load: source\n  pipeline: {from: source, to: destination}\n  sink: destination\nrelay: {prefetch: 0}\n",
        &[],
    );
    let short = parameters(
        "queues: {source: {name: a}, destination: {name: b}, lock_duration: 5 s}\nrelay: {prefetch: 0}\n",
        &[],
    );
    assert_eq!(long.topology(), short.topology());
}

#[test]
fn its_parts_can_be_set() {
    let arguments = ["topology.entities.in.partitions=8", "topology.measure=service"];
    let topology = parameters(WITHOUT_PIPELINE, &arguments).topology();
    assert_eq!((topology.of_load().partitions(), topology.measure), (8, Measured::Service));
}

#[test]
fn what_does_not_fit_together_is_refused_at_its_place() {
    for (arguments, message) in [
        (&["topology.sink=out"][..], "`topology.sink`: there is no entity `out`"),
        (&["topology.measure=pipeline"], "`topology.measure`: there is no pipeline to measure"),
        (&["topology.entities.in.queue=q"], "an entity is a `hub`, a `queue`, a `topic` or a `container`"),
        (&["topology.entities.in.lock_duration=1 s"], "a hub has `partitions` and `consumer_group`"),
        (&["topology.entities.in.partitions=0"], "`topology.entities.in.partitions`: 0 is out of range"),
        (&["topology.entities.out={hub: EVENTS}"], "`out` has the same name in the service"),
        (
            &["topology.entities.out={hub: out}", "topology.sink=out"],
            "`topology.sink`: without a pipeline, nothing that the load sends arrives there",
        ),
        (&["topology.pipeline={from: in, to: in}"], "events would loop"),
        (&["relay.fan_out=3"], "`relay`: it needs a pipeline, and the topology has none"),
        (&["load.mode=backlog"], "`load.mode`: a backlog is drained by a pipeline"),
        (&["sut={command: [x]}"], "`sut`: a command replaces a pipeline"),
        (&["hubs.source.partitions=1"], "a topology or hubs, not both"),
    ] {
        let error = told(WITHOUT_PIPELINE, arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}

#[test]
fn a_pipeline_can_lead_from_a_hub_to_a_queue() {
    let text = "topology:
  entities: {in: {hub: events, partitions: 2}, out: {queue: orders}}
  load: in
  pipeline: {from: in, to: out}
  sink: out
";
    let case = &cases(&format!("scenario: s\n{text}"), &CaseOptions::default()).unwrap()[0];
    let params = case.params();
    let relay = params["relay"].as_object().unwrap();
    assert!(relay.contains_key("checkpoint") && relay.contains_key("in_flight"), "{relay:#?}");
    assert!(!relay.contains_key("fan_out") && !relay.contains_key("route"), "one place needs no route");
    let error = told(text, &["relay.prefetch=0"]);
    assert!(error.contains("`relay.prefetch`: 0 is out of range"), "{error}");
}

const SEVERAL: &str = "topology:
  entities:
    in: {hub: events, partitions: 4}
    out: {hub: out, partitions: 32}
    audit: {topic: audit, subscriptions: [first, second]}
  load: in
  pipeline: {from: in, to: [out, audit]}
  sinks: [out, audit/first, {from: audit/second, tls: true}]
relay: {dispatch: {events: 100, sinks: 1}}
";

#[test]
fn every_destination_has_sinks_of_its_own() {
    let parameters = parameters(SEVERAL, &[]);
    let topology = parameters.topology();
    assert_eq!(topology.destinations().map(Entity::name).collect::<Vec<_>>(), ["out", "audit"]);
    let sinks = topology.sinks.iter().map(End::to_string);
    assert_eq!(sinks.collect::<Vec<_>>(), ["out", "audit/first", "audit/second"]);
    assert_eq!(topology.of_sink().name(), "out", "its figures are those of the case");
    let bounds = Dispatch { events: Some(Events::Count(100)), sinks: Some(1), ..Dispatch::default() };
    assert_eq!(parameters.relay.dispatch, bounds);
    let json = serde_json::to_string(&parameters).unwrap();
    assert!(json.contains(r#""to":["out","audit"]"#), "{json}");
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), parameters);
    for (arguments, message) in [
        (&["topology.sinks=[out]"][..], "`topology.pipeline`: the pipeline does not connect"),
        (&["topology.pipeline.to=out"], "`topology.pipeline`: the pipeline does not connect"),
        (&["topology.pipeline.to=[out, out]"], "`topology.pipeline.to[1]`: `out` is named twice"),
        (&["topology.pipeline.to=[out, nowhere]"], "`topology.pipeline.to[1]`: there is no entity `nowhere`"),
        (&["topology.pipeline.to=[]"], "`topology.pipeline.to`: the pipeline sends to nothing"),
        (&["topology.sinks=[out, audit/first, out]"], "`topology.sinks[2]`: `out` has a sink already"),
        (&["topology.sinks=[out, audit]"], "`topology.sinks[1]`: `audit` is a topic"),
        (&["topology.sinks=[]"], "`topology.sink`: nothing receives and verifies"),
        (&["topology.sink=out"], "`topology.sinks`: a topology has a `sink` or `sinks`, not both"),
        (&["relay.dispatch.sinks=3"], "`relay.dispatch.sinks`: 3 is out of range"),
        (&["relay.dispatch.strategy=serial"], "`relay.dispatch.events`: this strategy works on one event"),
        (
            &["relay.dispatch.strategy=parallel-events", "relay.dispatch.sinks=2"],
            "`relay.dispatch.sinks`: with this",
        ),
        (
            &["relay.checkpoint_wait=true", "relay.checkpoint={every: 1 s}"],
            "`relay.checkpoint_wait`: events would",
        ),
        (&["relay.fan_out=33"], "a fan-out of 33 needs more partitions"),
        (&["sut={command: [x]}"], "`topology.pipeline.to`: a command sends to one entity"),
    ] {
        let error = told(SEVERAL, arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
    let error = told("queues: {}\nrelay: {prefetch: 0, dispatch: {events: 1}}\n", &[]);
    assert!(error.contains("`relay.dispatch.events`: messages of a queue are bounded"), "{error}");
    let error = told("queues: {}\nrelay: {prefetch: 0, dispatch: {strategy: parallel}}\n", &[]);
    assert!(error.contains("`relay.dispatch`: messages of a queue are independent"), "{error}");
}

const TOPICS: &str = "topology:
  entities:
    in: {topic: orders, subscriptions: [work, spare], lock_duration: 5 s}
    out: {topic: done, subscriptions: [verify]}
  load: {to: in, transport: web-socket}
  pipeline: {from: in/work, to: out, tls: true}
  sink: {from: out, subscription: verify, tls: true, transport: web-socket}
relay: {prefetch: 0}
";

#[test]
fn a_topic_is_sent_to_and_its_subscriptions_are_read() {
    let parameters = parameters(TOPICS, &[]);
    let topology = parameters.topology();
    let Entity::Topic(topic) = topology.of_load() else { panic!("it is a topic") };
    assert_eq!((topic.queue.name.as_str(), topic.subscriptions.len()), ("orders", 2));
    assert_eq!(topic.queue.lock_duration, std::time::Duration::from_secs(5));
    let pipeline = topology.pipeline.as_ref().unwrap();
    assert_eq!(topology.address(&pipeline.from), "orders/Subscriptions/work");
    assert_eq!(topology.written_at(&pipeline.to[0]), "done/Subscriptions/verify");
    assert_eq!(topology.places_of("in").into_iter().map(End::to_string).collect::<Vec<_>>(), ["in/work"]);
    assert_eq!((topology.noun(), topology.of_load().partitions()), (Noun::Messages, 1));
    // What it says in full is the same as in short.
    let short = ["topology.sink=out/verify", "topology.load=in"];
    let short = self::parameters(TOPICS, &short).topology();
    assert_eq!((short.sinks[0].to_string(), short.load.to_string()), ("out/verify".into(), "in".into()));
    let json = serde_json::to_string(&parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), parameters);
}

#[test]
fn each_role_has_its_own_way_to_the_service() {
    let topology = parameters(TOPICS, &[]).topology();
    let way = |end: &End| (end.connection.tls, end.connection.transport);
    assert_eq!(way(&topology.load), (false, Transport::WebSocket));
    assert_eq!(way(&topology.sinks[0]), (true, Transport::WebSocket));
    let pipeline = topology.pipeline.unwrap();
    assert_eq!([way(&pipeline.from), way(&pipeline.to[0])], [(true, Transport::Tcp); 2]);
    // In a short form it is the system under test alone that can have another one.
    let topology = parameters("sut: {transport: tls}\n", &[]).topology();
    let pipeline = topology.pipeline.unwrap();
    assert_eq!([way(&topology.load), way(&topology.sinks[0])], [(false, Transport::Tcp); 2]);
    assert_eq!([way(&pipeline.from), way(&pipeline.to[0])], [(true, Transport::Tcp); 2]);
}

#[test]
fn an_end_that_cannot_be_reached_is_refused_at_its_place() {
    const NAMESPACE: &str = "target={connection_string: \
                             Endpoint=sb://n.example;SharedAccessKeyName=a;SharedAccessKey=YmI=}";
    for (arguments, message) in [
        (&["topology.sink=out"][..], "`topology.sink`: `out` is a topic, which is read by a subscription"),
        (&["topology.sink.subscription=audit"], "`topology.sink.from`: `out` has no subscription `audit`"),
        (&["topology.pipeline.from=in"], "`topology.pipeline.from`: `in` is a topic"),
        (&["topology.pipeline.to=audit"], "`topology.pipeline.to`: there is no entity `audit`"),
        (&["topology.load.to=in/work"], "`topology.load.to`: there is no entity `in/work`"),
        (&["topology.load.transport=udp"], "`topology.load.transport`"),
        (&["topology.load.protocol=kafka"], "`topology.load.protocol`"),
        (&["topology.load.from=in"], "`topology.load"),
        (&["topology.entities.in.subscriptions=[]"], "a topic without a subscription drops"),
        (&["topology.entities.in.subscriptions=[work, WORK]"], "`WORK` is named twice"),
        (&["topology.entities.in.subscriptions=[\"a b\"]"], "can't be the names of subscriptions"),
        (&["topology.entities.in.partitions=4"], "a topic has neither `partitions` nor"),
        (&["topology.entities.a/b={queue: q}"], "must not contain a `/`"),
        (&[NAMESPACE], "`topology.sink.tls`: only the embedded service is reached in both ways"),
        (
            &["sut={command: [x]}", "topology.pipeline.transport=web-socket"],
            "`topology.pipeline.transport`: a command chooses",
        ),
    ] {
        let error = told(TOPICS, arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
    let error = told(WITHOUT_PIPELINE, &["topology.sink=in/verify"]);
    assert!(error.contains("`topology.sink`: `in` has no subscription `verify`"), "{error}");
}

const COMMAND: &str = "target:
  command: [./service, --port, \"{port}\"]
  connection_string: Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=a;SharedAccessKey=b
  env: {KEY: secret}
  ready: {line: listening}
";

#[test]
fn a_command_can_be_the_service_and_its_secrets_stay_out_of_the_results() {
    let case = &cases(&format!("scenario: s\n{COMMAND}"), &CaseOptions::default()).unwrap()[0];
    let Target::Command(service) = &case.parameters.target else { panic!("it is a command") };
    assert_eq!((service.name(), service.command.len()), ("service", 3));
    let params = serde_json::to_string(&case.params()).unwrap();
    assert!(params.contains("command: ./service --port {port}") && !params.contains("secret"), "{params}");
    let json = serde_json::to_string(&case.parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), case.parameters);
    for (argument, message) in [
        ("target.command=[]", "`target.command`: must be a program and its arguments"),
        ("target.ready=first-event", "`target.ready`: nothing shows when clients may connect"),
        ("target.connection_string=x", "`target.connection_string`"),
    ] {
        let error = told(COMMAND, &[argument]);
        assert!(error.contains(message), "{error}");
    }
    let misplaced = told("target: {connection_string: x, ready: {line: a}}\n", &[]);
    assert!(misplaced.contains("are for a `command`"), "{misplaced}");
}

const ARCHIVED: &str = "topology:
  entities:
    in: {hub: events, partitions: 1}
    out: {topic: done, subscriptions: [verify]}
    kept: {container: archive}
  load: in
  pipeline: {from: in, to: [out, kept]}
  sinks: [out/verify, kept]
relay: {checkpoint_wait: true, send: batch, archive_requests: 8}
";

#[test]
fn an_archive_is_written_by_a_pipeline_and_read_by_a_sink() {
    let parameters = parameters(ARCHIVED, &[]);
    let topology = parameters.topology();
    let archives = topology.destinations().filter(|destination| destination.is_archive());
    assert_eq!(archives.map(Entity::name).collect::<Vec<_>>(), ["archive"]);
    let json = serde_json::to_string(&parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), parameters);
    assert_eq!(self::parameters(ARCHIVED, &["sut={command: [x]}"]).topology().sinks.len(), 2);
    for (arguments, message) in [
        (&["topology.entities.kept={container: Archive}"][..], "can't be the name of a container"),
        (&["topology.entities.kept={container: checkpoints}"], "checkpoints are kept in the container"),
        (&["topology.entities.kept={container: archive, partitions: 2}"], "nothing but its name"),
        (&["topology.load=kept"], "`topology.load`: `kept` is an archive"),
        (&["topology.pipeline.from=kept"], "`topology.pipeline.from`: `kept` is an archive"),
        (&["topology.pipeline.to=[kept, out]"], "an archive has none while it is written"),
        (&["topology.sinks=[kept, out/verify]"], "an archive is read at the end"),
        (&["topology.sinks=[out/verify]"], "`topology.pipeline`: the pipeline does not connect"),
        (&["load.payload=person"], "`load.payload`: an archive keeps bodies alone"),
        (&["relay.archive_requests=0"], "`relay.archive_requests`: 0 is out of range"),
        (
            &[
                "target={connection_string: Endpoint=sb://n.example;SharedAccessKeyName=a;SharedAccessKey=YmI=}",
            ],
            "an archive is in the storage account of the embedded service",
        ),
    ] {
        let error = told(ARCHIVED, arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}
