//! Ends that speak Kafka: how they are written, what they reach, and what they can't have.

use lab::scenario::{CaseOptions, End, EndClient, Parameters, Protocol, Target};
use serde_json::{Value, json};

use super::topology::parameters;
use super::{all_sweeps, cases, names, told};

const BOTH_ENDS: &str = "topology:
  entities: {in: {hub: events, partitions: 1}}
  load: {to: in, protocol: kafka, properties: {linger.ms: 0, acks: 1}}
  sink: {from: in, protocol: kafka, properties: {fetch: {wait.max.ms: 10}}}
  measure: service
";

const CLUSTER: &str = "target={kafka: {bootstrap: \"one:9092,two:9092\", properties: {security.protocol: sasl_plaintext, \
                       sasl.mechanisms: PLAIN, sasl.username: me, sasl.password: hush}}}";

#[test]
fn an_end_has_a_client_and_its_properties() {
    let parameters = parameters(BOTH_ENDS, &[]);
    let topology = parameters.topology();
    let ends = [&topology.load, &topology.sinks[0]];
    assert!(ends.iter().all(|end| end.connection.protocol == Protocol::Kafka));
    assert!(ends.iter().all(|end| end.kafka.client == EndClient::default()));
    assert_eq!(
        topology.load.kafka.properties.iter().collect::<Vec<_>>(),
        [("acks", "1"), ("linger.ms", "0")]
    );
    assert_eq!(
        ends[1].kafka.properties.get("fetch.wait.max.ms"),
        Some("10"),
        "a name may be parted at its dots"
    );
    let json = serde_json::to_string(&parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), parameters);
}

#[test]
fn properties_are_set_and_swept_by_their_paths() {
    let linger = "topology.load.properties.linger.ms=5";
    let topology =
        parameters(BOTH_ENDS, &[linger, "topology.load.properties.compression.type=lz4"]).topology();
    let properties = &topology.load.kafka.properties;
    assert_eq!((properties.get("linger.ms"), properties.get("compression.type")), (Some("5"), Some("lz4")));

    let text = format!(
        "scenario: s\n{BOTH_ENDS}sweeps:\n  acks: {{topology.load.properties.acks: [0, 1, all], \
         topology.sink.properties.fetch.wait.max.ms: 500}}\n  \
         linger: {{topology.load.properties.linger.ms: [0, 5]}}\n"
    );
    let cases = cases(&text, &all_sweeps()).unwrap();
    assert_eq!(names(&cases), ["acks=0", "acks=1", "acks=all", "linger.ms=0", "linger.ms=5"]);
    let sink = cases[0].parameters.topology().sinks.remove(0);
    assert_eq!(sink.kafka.properties.get("fetch.wait.max.ms"), Some("500"));
}

#[test]
fn what_a_client_refuses_is_refused_at_its_place() {
    for (arguments, message) in [
        (
            &["topology.load.properties.linger.ms=soon"][..],
            "--set:1:36: `topology.load.properties.linger.ms`: ",
        ),
        (
            &["topology.sink.properties.socket.nagle.disable=true"],
            "`topology.sink.properties.socket.nagle.disable`: the native client does not know it",
        ),
        (&["topology.load.properties.bootstrap.servers=x"], "the target says where brokers are"),
        (&["topology.load.properties.linger.ms={a: [1]}"], "must be a string, a number, `true` or `false`"),
        (&["topology.load.client=java"], "`topology.load.client` can't be `java`"),
        (&["topology.load.protocol=amqp"], "it is for ends that speak Kafka"),
        (&["topology.load.transport=web-socket"], "`topology.load.transport`: Kafka is spoken over TCP"),
        (&["topology.entities.in={queue: q}"], "`topology.load.protocol`: only hubs are topics of Kafka"),
        (&[CLUSTER, "topology.measure=load", "topology.sink=in"], "which speaks nothing else"),
        (&[CLUSTER, "topology.measure=load", "topology.load.tls=true"], "`topology.load.tls`"),
        (&[CLUSTER], "`topology.measure`: only a service that the lab starts can be measured"),
        (&["target={kafka: {bootstrap: \"\"}}"], "`target.kafka.bootstrap`: names no broker"),
        (&["target={certificate_authority: x}"], "nothing says how clients reach it"),
        (&["target=nowhere"], "`target`: no target is called `nowhere`"),
    ] {
        let error = told(BOTH_ENDS, arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
    let short = told("hubs: {}\n", &["target={kafka: {bootstrap: a}}"]);
    assert!(short.contains("the ends of `hubs` and `queues` speak AMQP"), "{short}");
}

const RELAY: &str = "topology:
  entities: {in: {hub: a, partitions: 4}, out: {hub: b, partitions: 4}, audit: {hub: c, partitions: 4}}
  load: {to: in, protocol: kafka}
  pipeline:
    from: {entity: in, properties: {fetch.wait.max.ms: 100}}
    to: [{entity: out, protocol: amqp}, {entity: audit, properties: {linger: {ms: 5}}}]
    protocol: kafka
  sinks: [out, {from: audit, protocol: kafka}]
relay: {fan_out: 4, checkpoint_store: group}
";

#[test]
fn each_end_of_a_pipeline_speaks_what_it_says_or_what_the_pipeline_does() {
    let parameters = parameters(RELAY, &[]);
    let pipeline = parameters.topology().pipeline.unwrap();
    let spoken = |end: &End| end.connection.protocol;
    assert_eq!(spoken(&pipeline.from), Protocol::Kafka);
    assert_eq!(pipeline.to.iter().map(spoken).collect::<Vec<_>>(), [Protocol::Amqp, Protocol::Kafka]);
    assert_eq!(pipeline.from.kafka.properties.get("fetch.wait.max.ms"), Some("100"));
    assert_eq!(pipeline.to[1].kafka.properties.get("linger.ms"), Some("5"));
    let json = serde_json::to_string(&parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), parameters);
    for (arguments, message) in [
        (
            &["topology.pipeline.protocol=amqp"][..],
            "`topology.pipeline.from.properties`: it is for ends that speak Kafka",
        ),
        (
            &["topology.pipeline.from.properties.linger.mss=1"],
            "`topology.pipeline.from.properties.linger.mss`: the native client does not know it",
        ),
        (
            &["topology.pipeline.to={entity: out, transport: web-socket}", "topology.sinks=[out]"],
            "`topology.pipeline.to.transport`: Kafka is spoken over TCP",
        ),
        (
            &["topology.pipeline.from={entity: in, protocol: amqp}"],
            "`relay.checkpoint_store`: only a group of Kafka commits offsets",
        ),
        (
            &["relay.ownership=greedy"],
            "`relay.checkpoint_store`: committed offsets can't be shared by claims",
        ),
        (
            &["topology.pipeline.from.properties.session.timeout.ms=60000"],
            "`topology.pipeline.from.properties.session.timeout.ms`: it has no effect: the instances are no members",
        ),
        (
            &["relay.ownership=group", "relay.checkpoint_store=file"],
            "`relay.checkpoint_store`: members of a group commit its offsets",
        ),
        (
            &["relay.ownership={mode: group, renew: 1 s}"],
            "`relay.ownership.renew`: it has no effect for members of a group",
        ),
        (
            &["relay.ownership=group", "topology.pipeline.from={entity: in, client: librdkafka}"],
            "`topology.pipeline.from.client`: members of a group need Parshall's own client",
        ),
        (
            &["relay.delivery=exactly-once"],
            "`topology.pipeline.to`: with exactly-once delivery there is one destination",
        ),
        (
            &["topology.pipeline.to=out", "topology.sinks=[out]", "sut={command: [x]}"],
            "`topology.pipeline.protocol`: a command is told how it reaches the entities over AMQP",
        ),
    ] {
        let error = told(RELAY, arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}

const ONCE: &str = "topology:
  entities: {in: {hub: a, partitions: 4}, out: {hub: b, partitions: 4}}
  load: {to: in, protocol: kafka}
  pipeline: {from: in, to: {entity: out, properties: {transactional.id: mine}}, protocol: kafka}
  sink: {from: out, protocol: kafka}
relay: {fan_out: 4, delivery: exactly-once, route: same-partition}
";

#[test]
fn exactly_once_is_between_topics_and_for_sinks_that_read_what_is_committed() {
    let parameters = parameters(ONCE, &["relay.checkpoint_store=group", "relay.instances=4"]);
    assert!(parameters.relay.is_exactly_once() && parameters.relay.commits_offsets());
    for (arguments, message) in [
        (
            &["relay.route=random"][..],
            "`relay.route`: with exactly-once delivery events stay in their partition",
        ),
        (&["relay.fan_out=3"], "`relay.fan_out`: with exactly-once delivery each of the 4 partitions"),
        (&["relay.in_flight=2"], "`relay.in_flight`: with exactly-once delivery a partition has one send"),
        (&["relay.failure_ratio=0.1"], "`relay.failure_ratio`: with exactly-once delivery no failures"),
        (&["relay.checkpoint_store=file"], "`relay.checkpoint_store`: it has no effect"),
        (&["relay.checkpoint={every: 1 s}"], "`relay.checkpoint`: it has no effect"),
        (
            &["relay.ownership=group", "relay.checkpoint_store=group"],
            "`relay.ownership`: with exactly-once delivery partitions can't be shared",
        ),
        (
            &["topology.sink.properties.isolation.level=read_uncommitted"],
            "`topology.sink.properties.isolation.level`: with exactly-once delivery records of aborted",
        ),
        (&["topology.sink=out"], "`relay.delivery`: exactly once is from a topic of Kafka to another"),
        (
            &["topology.pipeline.from={entity: in, client: librdkafka}"],
            "`topology.pipeline.client`: only the native client delivers exactly once",
        ),
        (&["relay.delivery=at-least-once"], "transactions are for exactly-once delivery"),
        (&["topology.pipeline.to.properties.acks=1"], "does not go with exactly-once delivery"),
    ] {
        let error = told(ONCE, arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}

#[test]
fn an_instance_ends_within_the_measured_phase_and_has_something_to_go_on_with() {
    let restart = "relay.restart={after: 1 s, down: 1 s}";
    let parameters = parameters(RELAY, &[restart, "relay.ownership=group"]);
    let json = serde_json::to_string(&parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), parameters);
    for (argument, message) in [
        ("phases.measure=2 s", "`relay.restart`: the measured phase would be over"),
        ("load.mode=backlog", "`relay.restart`: it is for a measured phase of a known length"),
        ("relay.checkpoint_store=memory", "`relay.checkpoint_store`: an instance that ends would forget"),
        ("roles.relay.launch=[ssh, there]", "`relay.restart`: the instances run on another machine"),
        ("relay.restart.by=shove", "`relay.restart.by`"),
    ] {
        let error = told(RELAY, &[restart, argument]);
        assert!(error.contains(message), "{argument}: {error}");
    }
}

#[test]
fn secrets_of_a_pipeline_stay_out_of_the_results() {
    let set = ["topology.pipeline.from.properties.sasl.password=hush".to_owned()];
    let options = CaseOptions { set: set.to_vec(), ..CaseOptions::default() };
    let case = cases(&format!("scenario: s\n{RELAY}"), &options).unwrap().remove(0);
    let shown = format!("{case:?} {}", Value::Object(case.params()));
    assert!(!shown.contains("hush") && shown.contains("***"), "{shown}");
}

#[test]
fn hubs_are_topics_of_kafka_at_every_end() {
    let topology = parameters("hubs: {protocol: kafka}\n", &[]).topology();
    assert!(topology.ends().all(|end| end.connection.protocol == Protocol::Kafka));
    let tls = parameters("hubs: {protocol: kafka}\nsut: {transport: tls}\n", &[]).topology();
    let encrypted: Vec<bool> = tls.ends().map(|end| end.connection.tls).collect();
    assert_eq!(encrypted, [false, true, true, false]);
    let cluster = parameters("hubs: {protocol: kafka}\n", &["target={kafka: {bootstrap: a}}"]);
    assert!(cluster.target.kafka().is_some());
    let command = told("hubs: {protocol: kafka}\n", &["sut={command: [x]}"]);
    assert!(command.contains("`hubs.protocol`: a command is told"), "{command}");
}

const CLIENTS: &str = "clients:
  mine: {command: [./client, --fast], env: {TOKEN: hush}, requires: [java], build: make client}
";

#[test]
fn a_program_is_the_client_that_its_name_chooses() {
    let text = format!(
        "scenario: s\n{BOTH_ENDS}{CLIENTS}sweeps:\n  client: {{topology.load.client: [native, {{value: mine, \
         topology.sink.client: mine}}]}}\n"
    );
    let cases = cases(&text, &CaseOptions::default()).unwrap();
    assert_eq!(names(&cases), ["client=native", "client=mine"]);
    let topology = cases[1].parameters.topology();
    let programs = [&topology.load, &topology.sinks[0]].map(|end| end.kafka.client.program().unwrap());
    for program in programs {
        assert_eq!((program.name.as_str(), program.build.as_deref()), ("mine", Some("make client")));
        assert_eq!(program.command, ["./client", "--fast"]);
    }
    assert_eq!(topology.load.kafka.properties.get("acks"), Some("1"), "a program takes the same");
    let params = cases[1].params();
    assert_eq!(params["topology"]["load"]["client"], json!("mine"));
    assert!(!format!("{:?} {}", cases[1], Value::Object(params)).contains("hush"));
    let json = serde_json::to_string(&cases[1].parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), cases[1].parameters);
    let text = format!("{BOTH_ENDS}{CLIENTS}");
    for (arguments, message) in [
        (&["topology.load.client=yours"][..], "`topology.load.client`: no client is called `yours`"),
        (
            &["topology.load.client=mine", "load.payload={replay: lines}"],
            "`topology.load.client`: a client that is a program sends and receives values alone",
        ),
        (
            &["topology.load.client=mine", "roles.load.launch=[ssh, there]"],
            "`topology.load.client`: the program is on the lab's machine",
        ),
    ] {
        let error = told(&text, arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
    for (clients, message) in [
        ("clients: {native: {command: [x]}}\n", "`clients.native`: a name consists of"),
        ("clients: {a: b}\n", "`clients.a`: must be a mapping"),
    ] {
        let error = told(&format!("{BOTH_ENDS}{clients}"), &[]);
        assert!(error.contains(message), "{clients}: {error}");
    }
}

#[test]
fn a_cluster_is_a_target_whose_secrets_stay_out_of_the_results() {
    let set = [CLUSTER, "topology.measure=load", "topology.load.properties.sasl.password=hush"];
    let options = CaseOptions { set: set.map(str::to_owned).to_vec(), ..CaseOptions::default() };
    let case = cases(&format!("scenario: s\n{BOTH_ENDS}"), &options).unwrap().remove(0);
    let Target::Kafka(cluster) = &case.parameters.target else { panic!("it is a cluster") };
    assert_eq!(cluster.bootstrap, "one:9092,two:9092");
    let params = case.params();
    assert_eq!(params["target"], json!("kafka"));
    assert_eq!(params["topology"]["load"]["properties"]["acks"], json!("1"));
    let shown = format!("{case:?} {}", Value::Object(params));
    assert!(!shown.contains("hush"), "{shown}");
    let json = serde_json::to_string(&case.parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), case.parameters);
}

const TARGETS: &str = "targets:
  apache-kafka:
    command: [apache-kafka/run]
    env: {PORT: \"{port}\", TOPICS: \"events:1\"}
    kafka: {bootstrap: \"127.0.0.1:{port}\"}
    ready: {line: Ready.}
sweeps: {service: {target: {name: service, values: [embedded, apache-kafka]}}}
";

#[test]
fn a_sweep_goes_through_services_by_their_names() {
    let text = format!("scenario: s\n{BOTH_ENDS}{TARGETS}");
    let cases = cases(&text, &CaseOptions::default()).unwrap();
    assert_eq!(names(&cases), ["service=embedded", "service=apache-kafka"]);
    assert_eq!(cases[0].parameters.target, Target::Embedded);
    let target = &cases[1].parameters.target;
    assert!(target.is_started() && target.namespace().is_none());
    let Target::Command(service) = target else { panic!("it is a command") };
    assert_eq!(service.name(), "apache-kafka");
    assert_eq!(target.kafka().unwrap().bootstrap, "127.0.0.1:{port}");
    let json = serde_json::to_string(&cases[1].parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), cases[1].parameters);
    for (text, message) in [
        ("targets: {a: embedded}\n", "`targets.a`: must be a mapping"),
        ("targets: {embedded: {kafka: {bootstrap: a}}}\n", "`targets.embedded`: a name consists of"),
        ("targets: {a: {kafka: {bootstrap: a}}}\ntarget: b\n", "no target is called `b`"),
    ] {
        let error = told(text, &[]);
        assert!(error.contains(message), "{text}: {error}");
    }
}

#[cfg(feature = "librdkafka")]
#[test]
fn librdkafka_reads_its_own_properties() {
    let client = "topology.load.client=librdkafka";
    let topology =
        parameters(BOTH_ENDS, &[client, "topology.load.properties.socket.nagle.disable=true"]).topology();
    assert_eq!(topology.load.kafka.client, EndClient::Ours(lab::scenario::KafkaClient::Librdkafka));
    for (argument, message) in [
        (
            "topology.load.properties.linger.mss=1",
            "`topology.load.properties.linger.mss`: No such configuration property",
        ),
        ("topology.load.properties.acks=2000", "`topology.load.properties.acks`: "),
        ("topology.load.tls=true", "`topology.load.tls`: librdkafka is built without OpenSSL here"),
    ] {
        let error = told(BOTH_ENDS, &[client, argument]);
        assert!(error.contains(message), "{argument}: {error}");
    }
}
