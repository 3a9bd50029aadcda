//! Pipeline files, right and wrong.

use std::time::Duration;

use connect::checkpoint::ConsumerGroup;
use connect::checkpoint::blobs::{MissingContainer, Spelling};
use connect::event::EnqueuedTime;
use connect::source::StartPosition;

use super::*;
use crate::vocabulary::CheckpointPolicy;
use relay::ownership::{OwnershipMode, OwnershipOptions};
use relay::{DispatchUnit, Order};

const NAMESPACE: &str =
    "Endpoint=sb://example.servicebus.windows.net/;SharedAccessKeyName=relay;SharedAccessKey=c2VjcmV0";

const ENDS: &str = "source:\n  event_hubs: {connection_string: '${NAMESPACE}', hub: orders}\n\
                    sink:\n  event_hubs: {connection_string: '${NAMESPACE}', hub: copies}\n";

/// The least that a pipeline must say, and `more`.
fn read(more: &str) -> Result<PipelineConfig, SettingsError> {
    read_text(&format!("{ENDS}checkpoint: {{store: {{files: ./checkpoints}}}}\n{more}"))
}

/// The least that a pipeline must say, with this store.
fn read_with_store(store: &str) -> Result<PipelineConfig, SettingsError> {
    read_text(&format!("{ENDS}checkpoint: {{store: {store}}}\n"))
}

fn read_text(text: &str) -> Result<PipelineConfig, SettingsError> {
    let mut document = Document::parse("pipeline.yaml", text)?;
    document.fill_in(|name| (name == "NAMESPACE").then(|| NAMESPACE.to_owned()))?;
    PipelineConfig::from_document(&document)
}

fn hub_source(config: &PipelineConfig) -> &EventHubsSourceConfig {
    match &config.source {
        SourceConfig::EventHubs(source) => source,
        source => panic!("a hub, not {source:?}"),
    }
}

fn reading(config: &PipelineConfig) -> &ReadingConfig {
    config.source.reading().expect("a log, not a queue")
}

fn mistake(more: &str) -> String {
    read(more).expect_err("there is a mistake").to_string()
}

#[test]
fn what_is_left_out_has_its_default() {
    let config = read("").expect("a whole pipeline");
    let EventHubsSourceConfig { hub, consumer_group, reading: ReadingConfig { partitions, .. }, .. } =
        hub_source(&config);
    assert_eq!((hub.as_str(), consumer_group.as_str(), partitions), ("orders", "$Default", &Partitions::All));
    assert_eq!(reading(&config).options, SourceOptions::default());
    assert_eq!(reading(&config).checkpoint_store, CheckpointStoreConfig::Files("./checkpoints".into()));
    assert_eq!(config.metrics, None);
    let options = config.relay_options(32, "me");
    assert_eq!(options.fan_out, 32, "all destinations");
    assert_eq!(options.group, ConsumerGroup::new("example.servicebus.windows.net", "orders", "$Default"));
    assert_eq!((options.route, options.in_flight), (Route::Random, 1));
    let defaults = RelayOptions::new(options.group.clone());
    assert_eq!(options.retry, defaults.retry);
    assert_eq!(options.max_held_bytes, defaults.max_held_bytes);
    assert_eq!(
        (options.restart_after, options.stop_timeout),
        (defaults.restart_after, defaults.stop_timeout)
    );
    assert_eq!(options.start_position, defaults.start_position);
    assert_eq!(options.ownership, None);
}

#[test]
fn partitions_can_be_shared() {
    let pipeline = |ownership: &str| {
        let text = format!(
            "source: {{event_hubs: {{connection_string: '${{NAMESPACE}};EntityPath=orders'}}}}
sink: {{event_hubs: {{connection_string: '${{NAMESPACE}}', hub: copies}}}}
checkpoint: {{store: {{files: ./checkpoints}}}}
ownership: {ownership}
"
        );
        read_text(&text)
    };
    let options = |ownership: &str| {
        let config = pipeline(ownership).expect("a whole pipeline");
        config.relay_options(32, "me").ownership
    };
    assert_eq!(options("{}"), None);
    assert_eq!(options("{mode: static, renew: 1 s}"), None);
    let greedy = OwnershipOptions::new("me");
    assert_eq!(options("{mode: greedy}"), Some(greedy.clone()));
    assert_eq!(options("greedy"), Some(greedy.clone()));
    let chosen = OwnershipOptions {
        mode: OwnershipMode::Balanced,
        identity: "relay-7".to_owned(),
        renew: Duration::from_millis(200),
        expire: Duration::from_secs(1),
    };
    let text = "{mode: balanced, renew: 200 ms, expire: 1 s, identity: relay-7}";
    assert_eq!(options(text), Some(chosen));
    let mistake = |ownership: &str| {
        let error = pipeline(ownership).expect_err("a mistake");
        error.to_string()
    };
    let short = mistake("{mode: greedy, renew: 10 s, expire: 20 s}");
    assert!(short.contains("ownership.expire"), "{short}");
    let often = mistake("{mode: greedy, renew: 9 ms}");
    assert!(often.contains("ownership.renew"), "{often}");
    let nameless = mistake("{mode: greedy, identity: ''}");
    assert!(nameless.contains("ownership.identity"), "{nameless}");
    let unknown = mistake("{mode: greedy, stel: true}");
    assert!(unknown.contains("stel"), "{unknown}");
}

#[test]
fn everything_can_be_chosen() {
    let config = read_text(
        "source:
  event_hubs:
    connection_string: ${NAMESPACE};EntityPath=orders
    consumer_group: audit
    partitions: [0, 2]
    transport: web-socket
    certificate_authority: source-ca.pem
sink:
  event_hubs: {connection_string: '${NAMESPACE}', hub: copies, certificate_authority: sink-ca.pem}
checkpoint: {store: {files: /var/lib/relay}, write: {every: 2 s}}
start: {sequence_number: 41}
route: round-robin
fan_out: 7
seed: 99
batch: {events: 64, wait: 5 ms}
prefetch: 500
in_flight: 3
held: 8 MiB
try_timeout: 3 s
retry: {attempts: 9, delay: 50 ms, max_delay: 1 s}
restart_after: 250 ms
stop_timeout: 30 s
failure_ratio: 0.25
metrics: 127.0.0.1:9464
",
    )
    .expect("a whole pipeline");
    let EventHubsSourceConfig {
        hub,
        consumer_group,
        transport: transport_of_source,
        certificate_authority: trusted_of_source,
        ..
    } = hub_source(&config);
    assert_eq!(
        (hub.as_str(), consumer_group.as_str(), &reading(&config).partitions),
        ("orders", "audit", &Partitions::Listed(vec![0, 2]))
    );
    let [SinkConfig::EventHubs(sink)] = &config.sinks[..] else { panic!("a hub: {:?}", config.sinks) };
    let EventHubsSinkConfig { transport: transport_of_sink, certificate_authority: trusted_of_sink, .. } =
        &**sink;
    assert_eq!((transport_of_source, transport_of_sink), (&Transport::WebSocket, &Transport::Tcp));
    assert_eq!(trusted_of_source, &Some("source-ca.pem".into()));
    assert_eq!(trusted_of_sink, &Some("sink-ca.pem".into()));
    assert_eq!(reading(&config).options.batch.max_events, 64);
    assert_eq!(reading(&config).options.batch.max_wait, Duration::from_millis(5));
    assert_eq!(
        (reading(&config).options.prefetch, reading(&config).adapt_prefetch, config.fan_out),
        (500, None, Some(7))
    );
    assert_eq!(config.metrics.map(|address| address.port()), Some(9464));
    let options = config.relay_options(32, "me");
    assert_eq!((options.fan_out, options.seed, options.in_flight), (7, 99, 3));
    assert_eq!((options.route, options.max_held_bytes), (Route::RoundRobin, 8 << 20));
    assert_eq!(options.checkpoint, CheckpointPolicy::Every(Duration::from_secs(2)));
    assert_eq!(options.start_position, StartPosition::AtSequenceNumber(41));
    assert_eq!((options.retry.attempts, options.retry.delay), (9, Duration::from_millis(50)));
    assert_eq!(
        (options.retry.max_delay, options.retry.try_timeout),
        (Duration::from_secs(1), Duration::from_secs(3))
    );
    assert_eq!(
        (options.restart_after, options.stop_timeout),
        (Duration::from_millis(250), Duration::from_secs(30))
    );
    assert_eq!(options.failure_ratio.to_bits(), 0.25_f64.to_bits());
}

#[test]
fn each_start_is_read() {
    for (text, position) in [
        ("earliest", StartPosition::Earliest),
        ("latest", StartPosition::Latest),
        (
            "{enqueued_unix_ms: 1700000000000}",
            StartPosition::AtEnqueuedTime(EnqueuedTime::from_unix_ms(1_700_000_000_000)),
        ),
    ] {
        let config = read(&format!("start: {text}\n")).expect("a whole pipeline");
        assert_eq!(config.relay_options(1, "me").start_position, position);
    }
}

#[test]
fn the_example_in_the_documentation_is_a_pipeline() {
    let yaml = include_str!("lib.rs").split("```yaml").nth(1).and_then(|rest| rest.split("//! ```").next());
    let yaml: String = yaml
        .expect("an example")
        .lines()
        .skip(1)
        .map(|line| line.trim_start_matches("//!").strip_prefix(' ').unwrap_or_default().to_owned() + "\n")
        .collect();
    let mut document = Document::parse("example", &yaml).expect("YAML");
    document.fill_in(|_| Some(NAMESPACE.to_owned())).expect("variables with values");
    let config = PipelineConfig::from_document(&document).expect("a whole pipeline");
    assert_eq!(config.relay_options(4, "me").route, Route::Key);
}

#[test]
fn mistakes_are_reported_with_their_place() {
    for (more, told) in [
        ("fanout: 3\n", "pipeline.yaml:6:1: `fanout` is not a known key"),
        ("fan_out: many\n", "pipeline.yaml:6:10: "),
        ("fan_out: 0\n", "pipeline.yaml:6:10: `fan_out`: 0 is out of range"),
        ("route: alphabetic\n", "pipeline.yaml:6:8: "),
        ("batch: {events: 0}\n", "pipeline.yaml:6:17: `batch.events`: 0 is out of range"),
        ("batch: {events: 10001}\n", "pipeline.yaml:6:17: `batch.events`: 10001 is out of range"),
        ("failure_ratio: 1.5\n", "pipeline.yaml:6:16: `failure_ratio`: 1.5 is out of range"),
        ("retry: {delay: 2 s, max_delay: 1 s}\n", "pipeline.yaml:6:32: `retry.max_delay`: 1 s is too short"),
        ("try_timeout: 10\n", "pipeline.yaml:6:14: "),
        ("metrics: everywhere\n", "pipeline.yaml:6:10: "),
        ("metrics: ${METRICS:?an address}\n", "pipeline.yaml:6:10: "),
    ] {
        let message = mistake(more);
        assert!(message.starts_with(told), "{more} gave: {message}");
    }
}

#[test]
fn checkpoints_may_be_kept_in_blobs() {
    let config = read_with_store(
        "{blob: {connection_string: UseDevelopmentStorage=true, container: checkpoints, create: true, \
         names: lower-case, namespace: 'localhost:5672'}}",
    )
    .expect("a whole pipeline");
    let CheckpointStoreConfig::Blob(options) = &reading(&config).checkpoint_store else {
        panic!("blobs: {:?}", reading(&config).checkpoint_store);
    };
    assert_eq!(options.container, "checkpoints");
    assert_eq!(options.missing_container, MissingContainer::Create);
    assert_eq!(options.spelling, Spelling::LowerCase);
    let group = config.relay_options(1, "me").group;
    assert_eq!(&*group.namespace, "localhost:5672");
    assert!(!format!("{config:?}").contains("Eby8vdM0"), "the key is shown");
}

#[test]
fn mistakes_about_blobs_are_reported_with_their_place() {
    for (blob, told) in [
        ("{container: checkpoints}", "pipeline.yaml:5:22: "),
        ("{connection_string: 'AccountName=hush', container: a}", "pipeline.yaml:5:28: "),
        (
            "{connection_string: UseDevelopmentStorage=true, container: No}",
            "pipeline.yaml:5:87: `checkpoint.store.blob.container`: `No` can't be the name of a container",
        ),
        (
            "{connection_string: UseDevelopmentStorage=true, container: abc, namespace: ''}",
            "pipeline.yaml:5:103: `checkpoint.store.blob.namespace`: the name is empty",
        ),
        (
            "{connection_string: UseDevelopmentStorage=true, container: abc, kontainer: a}",
            "pipeline.yaml:5:92: ",
        ),
        (
            "{connection_string: UseDevelopmentStorage=true, container: abc, names: upper}",
            "pipeline.yaml:5:99: ",
        ),
    ] {
        let mistake = read_with_store(&format!("{{blob: {blob}}}"));
        let message = mistake.expect_err("there is a mistake").to_string();
        assert!(message.starts_with(told), "{blob} gave: {message}");
        assert!(!message.contains("hush"), "{message}");
    }
}

#[test]
fn a_pipeline_into_its_own_source_is_refused() {
    let message = read_text(
        "source:
  event_hubs: {connection_string: '${NAMESPACE}', hub: orders}
sink:
  event_hubs: {connection_string: '${NAMESPACE}', hub: Orders}
checkpoint: {store: {files: .}}
",
    )
    .expect_err("a loop")
    .to_string();
    assert!(message.contains("loop forever"), "{message}");
}

#[test]
fn a_hub_must_be_named_and_agree_with_the_connection_string() {
    for (section, told) in [
        ("{connection_string: '${NAMESPACE}'}", "no hub is given"),
        ("{connection_string: '${NAMESPACE};EntityPath=one', hub: two}", "is not the hub `one`"),
        ("{connection_string: '${NAMESPACE}', hub: a, partitions: []}", "the list is empty"),
        ("{connection_string: '${NAMESPACE}', hub: a, partitions: [3, 1, 3]}", "partition 3 is listed twice"),
        ("{connection_string: 'Endpoint=sb://host/', hub: a}", "the connection string has no"),
        ("{connection_string: '${NAMESPACE}', hub: a, consumer_group: ''}", "the name is empty"),
    ] {
        let message = read_text(&format!(
            "source:\n  event_hubs: {section}\nsink:\n  event_hubs: {{connection_string: '${{NAMESPACE}}', hub: b}}\n\
             checkpoint: {{store: {{files: .}}}}\n"
        ))
        .expect_err("there is a mistake")
        .to_string();
        assert!(message.contains(told), "{section} gave: {message}");
    }
}

#[test]
fn the_secret_is_neither_in_a_mistake_nor_in_debug_output() {
    let config = read("").expect("a whole pipeline");
    assert!(!format!("{config:?}").contains("c2VjcmV0"));
    let broken = read_text("source:\n  event_hubs: {connection_string: '${NAMESPACE};c2VjcmV0', hub: a}\n");
    assert!(!broken.expect_err("a wrong part").to_string().contains("c2VjcmV0"));
}

/// A pipeline between queues, with `source` and `sink` beside the connection strings, and `more`.
fn read_queues(source: &str, sink: &str, more: &str) -> Result<PipelineConfig, SettingsError> {
    read_text(&format!(
        "source:\n  service_bus: {{connection_string: '${{NAMESPACE}}', {source}}}\n\
         sink:\n  service_bus: {{connection_string: '${{NAMESPACE}}', {sink}}}\n{more}"
    ))
}

#[test]
fn a_pipeline_between_queues_needs_no_checkpoints() {
    let config = read_queues("queue: orders", "queue: forwarded", "").expect("a whole pipeline");
    let SourceConfig::ServiceBus(source) = &config.source else { panic!("a queue: {:?}", config.source) };
    assert_eq!(source.entity, Entity::Queue("orders".to_owned()));
    assert_eq!(source.receive, ReceiveOptions::default());
    let [SinkConfig::ServiceBus(sink)] = &config.sinks[..] else { panic!("a queue: {:?}", config.sinks) };
    assert_eq!((sink.entity.address().as_str(), sink.unit), ("forwarded", SendUnit::Event));
    assert_eq!(config.settling_options(1).fan_out, 1);

    let config = read_queues(
        "topic: prices, subscription: all, concurrency: 8, prefetch: 20, lock_renewal: 0 s",
        "topic: copies, send: batch",
        "retry: {attempts: 6, delay: 2 s}\nstop_timeout: 3 s\nfailure_ratio: 0.5\n",
    )
    .expect("a whole pipeline");
    let SourceConfig::ServiceBus(source) = &config.source else {
        panic!("a subscription: {:?}", config.source)
    };
    assert_eq!(source.entity.address(), "prices/Subscriptions/all");
    let receive = ReceiveOptions { concurrency: 8, prefetch: 20, lock_renewal: Duration::ZERO };
    assert_eq!(source.receive, receive);
    let [SinkConfig::ServiceBus(sink)] = &config.sinks[..] else { panic!("a topic: {:?}", config.sinks) };
    assert_eq!((sink.entity.address().as_str(), sink.unit), ("copies", SendUnit::Batch));
    let options = config.settling_options(1);
    assert_eq!((options.retry.attempts, options.failure_ratio), (6, 0.5));
    assert_eq!(options.stop_timeout, Duration::from_secs(3));
}

#[test]
fn mistakes_about_queues_are_reported_with_their_place() {
    for (source, sink, more, told) in [
        ("", "queue: b", "", "no queue or subscription is given"),
        ("topic: a", "queue: b", "", "messages can't be received from a topic without a subscription"),
        ("subscription: a", "queue: b", "", "`source.service_bus.subscription`"),
        ("queue: a, topic: b", "queue: c", "", "`source.service_bus.topic`: `queue` is given, too"),
        ("queue: ''", "queue: b", "", "`source.service_bus.queue`: the name is empty"),
        ("queue: a, concurrency: 0", "queue: b", "", "`source.service_bus.concurrency`: 0 is out of range"),
        ("queue: a, prefetch: 100001", "queue: b", "", "`source.service_bus.prefetch`"),
        ("queue: a, lock_renewal: 25 h", "queue: b", "", "`source.service_bus.lock_renewal`"),
        ("queue: a, hub: b", "queue: b", "", "hub"),
        ("queue: a", "", "", "no queue or topic is given"),
        ("queue: a", "queue: A", "", "`sink.service_bus.queue`: `A` is also the source"),
        ("topic: a, subscription: s", "topic: a", "", "`sink.service_bus.topic`: `a` is also the source"),
        ("queue: a", "queue: b, send: each", "", "each"),
        (
            "queue: a",
            "queue: b",
            "checkpoint: {store: {files: .}}\n",
            "pipeline.yaml:5:1: `checkpoint`: it has no effect",
        ),
        ("queue: a", "queue: b", "in_flight: 4\n", "`in_flight`: it has no effect"),
        ("queue: a", "queue: b", "ownership: {mode: greedy}\n", "`ownership`: it has no effect"),
    ] {
        let message = read_queues(source, sink, more).expect_err("there is a mistake").to_string();
        assert!(message.contains(told), "{source}, {sink}, {more} gave: {message}");
    }
}

const SEVERAL: &str = "source:\n  event_hubs: {connection_string: '${NAMESPACE}', hub: orders}\n\
                       checkpoint: {store: {files: ./checkpoints}}\nsinks:\n";

#[test]
fn events_may_go_to_several_sinks_with_bounds() {
    let config = read_text(&format!(
        "{SEVERAL}- service_bus: {{connection_string: '${{NAMESPACE}}', topic: all}}\n\
         - event_hubs: {{connection_string: '${{NAMESPACE}}', hub: copies}}\n\
         dispatch: {{events: 100, sinks: 1}}\n"
    ))
    .expect("a whole pipeline");
    assert!(matches!(config.sinks[..], [SinkConfig::ServiceBus(_), SinkConfig::EventHubs(_)]));
    let options = config.relay_options(4, "me");
    assert_eq!((options.fan_out, options.events_at_once, options.sinks_at_once), (4, 100, 1));
    assert_eq!(reading(&config).options.batch.max_events, 100, "a batch is in work as a whole");

    let own = read_text(&format!(
        "{SEVERAL}- service_bus: {{connection_string: '${{NAMESPACE}}', topic: all, retry: {{attempts: 7}}}}\n\
         - event_hubs: {{connection_string: '${{NAMESPACE}}', hub: copies}}\n\
         retry: {{attempts: 2, delay: 1 s, max_delay: 9 s}}\n"
    ));
    let options = own.expect("a whole pipeline").relay_options(4, "me");
    let [Some(own), None] = &options.sink_retries[..] else { panic!("the first sink alone has its own") };
    assert_eq!((own.attempts, own.delay, own.max_delay), (7, options.retry.delay, options.retry.max_delay));

    let adaptive = read("dispatch: {strategy: parallel, events: adaptive, order: key}\n");
    let options = adaptive.expect("a whole pipeline").relay_options(4, "me");
    assert!(options.adapt_events && options.order == Order::Key && options.events_at_once < usize::MAX);

    let by_event = read("dispatch: {strategy: parallel-events, events: 10}\n").expect("a whole pipeline");
    let options = by_event.relay_options(4, "me");
    assert_eq!(
        (options.dispatch_unit, options.events_at_once, options.sinks_at_once),
        (DispatchUnit::Event, 10, 1)
    );
    assert!(reading(&by_event).options.batch.max_events > 10, "the events of a batch are in work one by one");

    let unbounded = read("").expect("a whole pipeline").relay_options(4, "me");
    assert_eq!(unbounded.dispatch_unit, DispatchUnit::Batch);
    assert_eq!((unbounded.events_at_once, unbounded.sinks_at_once), (usize::MAX, usize::MAX));
}

#[test]
fn mistakes_about_sinks_are_reported_with_their_place() {
    let hub = |hub: &str| format!("- event_hubs: {{connection_string: '${{NAMESPACE}}', hub: {hub}}}\n");
    for (sinks, told) in [
        (" []\n".to_owned(), "pipeline.yaml:4:1: `sinks`: the list is empty"),
        (
            hub("a") + &hub("orders"),
            "pipeline.yaml:6:56: `sinks[1].event_hubs.hub`: `orders` is also the source",
        ),
        (hub("a") + &hub("A"), "pipeline.yaml:6:3: `sinks[1]`: `A` is listed twice"),
        (
            hub("a") + "- service_bus: {connection_string: '${NAMESPACE}'}\n",
            "pipeline.yaml:6:3: `sinks[1].service_bus`",
        ),
        (hub("a") + "dispatch: {sinks: 0}\n", "pipeline.yaml:6:19: `dispatch.sinks`: 0 is out of range"),
        (hub("a") + "dispatch: {events: 0}\n", "pipeline.yaml:6:20: `dispatch.events`: 0 is out of range"),
        (
            hub("a") + "dispatch: {strategy: serial, events: 2}\n",
            "pipeline.yaml:6:38: `dispatch.events`: this strategy works on one event at a time",
        ),
        (
            hub("a") + "dispatch: {strategy: parallel-events, sinks: 2}\n",
            "pipeline.yaml:6:46: `dispatch.sinks`: with this strategy",
        ),
        (
            hub("a")
                + "poison_events: {dead_letter: {event_hubs: {connection_string: '${NAMESPACE}', hub: A}}}\n",
            "pipeline.yaml:6:17: `poison_events.dead_letter`: `A` is a sink of the pipeline already",
        ),
        (
            hub("a") + "poison_events: {dead_letter: {service_bus: {connection_string: '${NAMESPACE}'}}}\n",
            "pipeline.yaml:6:31: `poison_events.dead_letter.service_bus`: no queue or topic is given",
        ),
        (hub("a") + "poison_events: {dead_letter: {file: x}}\n", "pipeline.yaml:6:"),
        (
            hub("a") + "dispatch: {strategy: serial, order: key}\n",
            "pipeline.yaml:6:37: `dispatch.order`: order is kept without it",
        ),
        (
            "- event_hubs: {connection_string: '${NAMESPACE}', hub: a, retry: {attempts: 0}}\n".to_owned(),
            "pipeline.yaml:5:77: `sinks[0].event_hubs.retry.attempts`: 0 is out of range",
        ),
        (hub("a").repeat(17), "pipeline.yaml:4:1: `sinks`: 17 sinks are too many"),
        (
            hub("a") + "sink:\n  event_hubs: {connection_string: '${NAMESPACE}', hub: b}\n",
            "pipeline.yaml:4:1: `sinks`: `sink` is given, too",
        ),
    ] {
        let message = read_text(&format!("{SEVERAL}{sinks}")).expect_err("there is a mistake").to_string();
        assert!(message.starts_with(told), "{sinks} gave: {message}");
    }
    let without = SEVERAL.trim_end_matches("sinks:\n");
    let message = read_text(without).expect_err("no sink").to_string();
    assert!(message.contains("`sink`: there is no sink"), "{message}");
    let settling = read_queues("queue: a", "queue: b", "dispatch: {events: 4}\n").expect_err("twice");
    assert!(settling.to_string().contains("`dispatch.events`: it has no effect"), "{settling}");
    let settling = read_queues("queue: a", "queue: b", "dispatch: serial\n").expect_err("no batches");
    assert!(settling.to_string().contains("`dispatch`: strategies are for hubs"), "{settling}");
    let waiting =
        read_text(&format!("{ENDS}checkpoint: {{store: {{files: c}}, write: {{every: 1 s}}, wait: true}}\n"));
    let waiting = waiting.expect_err("an interval is no time to wait").to_string();
    assert!(waiting.contains("`checkpoint.wait`: events would wait"), "{waiting}");
}

#[test]
fn a_hub_is_not_read_without_a_place_for_its_checkpoints() {
    let error = read_text(ENDS).expect_err("there is a mistake");
    let message = error.to_string();
    assert!(message.contains("`checkpoint`: there is no store for checkpoints"), "{message}");
}

/// A pipeline between topics, with these keys of either end and `more`.
fn read_topics(source: &str, sink: &str, more: &str) -> Result<PipelineConfig, SettingsError> {
    read_text(&format!(
        "source:\n  kafka: {{topic: orders, {source}}}\nsink:\n  kafka: {{topic: copies, {sink}}}\n{more}"
    ))
}

#[test]
fn a_topic_is_reached_by_its_brokers_or_by_a_connection_string() {
    let config = read_topics(
        "bootstrap: 'a:1,b:2', group: mirror, partitions: [1], properties: {security.protocol: SSL, fetch.wait.max.ms: 10}",
        "connection_string: '${NAMESPACE}', certificate_authority: ca.pem, properties: {acks: 1}",
        "checkpoint: {store: group}\nroute: same-partition\n",
    )
    .expect("a whole pipeline");
    let SourceConfig::Kafka(source) = &config.source else { panic!("a topic: {:?}", config.source) };
    assert_eq!((source.options.topic.as_str(), source.group.as_str()), ("orders", "mirror"));
    assert_eq!(source.reading.partitions, Partitions::Listed(vec![1]));
    assert_eq!(source.reading.checkpoint_store, CheckpointStoreConfig::Group);
    let expected =
        [("bootstrap.servers", "a:1,b:2"), ("fetch.wait.max.ms", "10"), ("security.protocol", "SSL")];
    assert_eq!(source.options.properties.iter().collect::<Vec<_>>(), expected);
    assert_eq!(*config.group(), ConsumerGroup::new("a:1,b:2", "orders", "mirror"));
    let [SinkConfig::Kafka(sink)] = &config.sinks[..] else { panic!("a topic: {:?}", config.sinks) };
    let property = |name| sink.options.properties.get(name);
    assert_eq!(property("bootstrap.servers"), Some("example.servicebus.windows.net:9093"));
    assert_eq!((property("security.protocol"), property("acks")), (Some("SASL_SSL"), Some("1")));
    assert_eq!(
        (property("sasl.username"), property("sasl.password")),
        (Some("$ConnectionString"), Some(NAMESPACE))
    );
    assert_eq!(property("ssl.ca.location"), Some("ca.pem"));
    assert!(config.keeps_partitions());
}

#[test]
fn a_member_of_a_group_has_the_times_of_its_session() {
    let of = |properties: &str| {
        let source = format!("bootstrap: 'a:1', properties: {{{properties}}}");
        let more = "checkpoint: {store: group}\nownership: {mode: group}\n";
        let config = read_topics(&source, "bootstrap: 'b:1'", more).expect("a whole pipeline");
        config.relay_options(1, "me").ownership.expect("it shares")
    };
    let options = OwnershipOptions {
        mode: OwnershipMode::Assigned,
        renew: Duration::from_secs(3),
        expire: Duration::from_secs(45),
        ..OwnershipOptions::new("me")
    };
    assert_eq!(of(""), options);
    let quick = of("session.timeout.ms: 6000, heartbeat.interval.ms: 500");
    assert_eq!((quick.renew, quick.expire), (Duration::from_millis(500), Duration::from_secs(6)));
    assert_eq!(quick.check(), Ok(()));
}

#[test]
fn a_topic_and_a_hub_or_queue_may_be_at_either_end() {
    let topic = "kafka: {bootstrap: 'localhost:9092', topic: orders}";
    let hub = "event_hubs: {connection_string: '${NAMESPACE}', hub: orders}";
    let queue = "service_bus: {connection_string: '${NAMESPACE}', queue: orders}";
    let store = "checkpoint: {store: {files: ./checkpoints}}\n";
    for (source, sink, store) in
        [(topic, hub, store), (topic, queue, store), (hub, topic, store), (queue, topic, "")]
    {
        let text = format!("source:\n  {source}\nsink:\n  {sink}\n{store}");
        read_text(&text).unwrap_or_else(|error| panic!("{text} gave: {error}"));
    }
}

#[test]
fn mistakes_about_topics_are_reported_with_their_place() {
    let here = "bootstrap: 'localhost:9092'";
    let group = "checkpoint: {store: group}\n";
    for (source, sink, more, told) in [
        ("group: g", here, group, "pipeline.yaml:2:3: `source.kafka`: no cluster is given"),
        (
            "bootstrap: 'a:1', connection_string: '${NAMESPACE}'",
            here,
            group,
            "pipeline.yaml:2:37: `source.kafka.bootstrap`: `connection_string` is given, too",
        ),
        (
            "bootstrap: 'a:1', properties: {bootstrap.servers: 'b:1'}",
            here,
            group,
            "pipeline.yaml:2:76: `source.kafka.properties.bootstrap.servers`: the brokers have a key of their own",
        ),
        (
            here,
            "bootstrap: 'a:1', properties: {lingr.ms: 5}",
            group,
            "pipeline.yaml:4:67: `sink.kafka.properties.lingr.ms`: property lingr.ms: ",
        ),
        (
            here,
            "bootstrap: 'a:1', properties: {acks: 7}",
            group,
            "pipeline.yaml:4:63: `sink.kafka.properties.acks`: property acks: ",
        ),
        (
            "bootstrap: 'localhost:x'",
            here,
            group,
            "pipeline.yaml:2:37: `source.kafka.bootstrap`: property bootstrap.servers: ",
        ),
        (
            "bootstrap: 'a:1', group: ''",
            here,
            group,
            "pipeline.yaml:2:51: `source.kafka.group`: the name is empty",
        ),
        (here, here, "", "`checkpoint`: there is no store for checkpoints"),
        (
            here,
            here,
            "checkpoint: {store: group}\nownership: greedy\n",
            "`checkpoint.store`: committed offsets can't be shared by claims",
        ),
        (
            here,
            here,
            "checkpoint: {store: {files: ./checkpoints}}\nownership: group\n",
            "`ownership`: members of a group keep their checkpoints in it",
        ),
        (
            "bootstrap: 'a:1', partitions: [1]",
            here,
            "checkpoint: {store: group}\nownership: {mode: group}\n",
            "`source.kafka.partitions`: with `ownership: {mode: group}` the group says",
        ),
        (
            here,
            here,
            "checkpoint: {store: group}\nownership: {mode: group, expire: 20 s}\n",
            "pipeline.yaml:6:34: `ownership.expire`: it has no effect for members",
        ),
        (
            "bootstrap: 'a:1', properties: {session.timeout.ms: 6000}",
            here,
            "checkpoint: {store: group}\nownership: group\n",
            "`source.kafka.properties`: property heartbeat.interval.ms: one heartbeat that is lost",
        ),
        (
            "bootstrap: 'a:1', properties: {partition.assignment.strategy: sticky}",
            here,
            "checkpoint: {store: group}\nownership: group\n",
            "`source.kafka.properties.partition.assignment.strategy`: property partition.assignment.strategy: it can't",
        ),
        (
            "bootstrap: 'a:1', properties: {group.instance.id: one}",
            here,
            group,
            "`source.kafka.properties.group.instance.id`: it has no effect: the relay is no member",
        ),
        (here, "bootstrap: 'localhost:9092', topic: orders", group, "topic"),
    ] {
        let message = read_topics(source, sink, more).expect_err("there is a mistake").to_string();
        assert!(message.contains(told), "{source} | {sink} | {more} gave: {message}");
    }
    let loops = read_text(&format!(
        "source:\n  kafka: {{topic: orders, {here}}}\nsink:\n  kafka: {{topic: orders, {here}}}\n{group}"
    ))
    .expect_err("a loop")
    .to_string();
    assert!(loops.contains("`sink.kafka.topic`: `orders` is also the source"), "{loops}");
    let of_a_hub = read_with_store("group").expect_err("a hub").to_string();
    assert!(of_a_hub.contains("`checkpoint.store`: only a group of Kafka commits offsets"), "{of_a_hub}");
}
