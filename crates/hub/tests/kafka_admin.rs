//! Topics are hubs: created, changed, described and deleted by clients of Kafka, and by asking for them.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::time::Duration;

use hub::namespace::{DEFAULT_PARTITIONS, HubConfig, NamespaceConfig, QueueConfig, RightConfig, RuleConfig};
use hub::service::Service;
use kafka::ApiKey;
use kafka_protocol::messages::alter_configs_request::{
    AlterConfigsResource as LegacyResource, AlterableConfig as LegacyConfig,
};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, BrokerId, CreateAclsRequest, CreateAclsResponse,
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteAclsRequest, DeleteAclsResponse, DeleteTopicsRequest, DeleteTopicsResponse, DescribeAclsRequest,
    DescribeAclsResponse, DescribeClientQuotasRequest, DescribeClientQuotasResponse, DescribeConfigsRequest,
    DescribeConfigsResponse, DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    MetadataRequest, MetadataResponse, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest, SaslHandshakeResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::kafka_peer::{Peer, batch, fetch, produce, service, start, topic, within};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn named(name: &str) -> TopicName {
    TopicName(text(name))
}

pub(crate) fn new_topic(name: &str, partitions: i32, replicas: i16) -> CreatableTopic {
    CreatableTopic::default()
        .with_name(named(name))
        .with_num_partitions(partitions)
        .with_replication_factor(replicas)
}

pub(crate) fn config(name: &str, value: &str) -> CreatableTopicConfig {
    CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
}

pub(crate) async fn create(
    peer: &mut Peer,
    topics: Vec<CreatableTopic>,
    validate_only: bool,
) -> Vec<CreatableTopicResult> {
    let request = CreateTopicsRequest::default().with_topics(topics).with_validate_only(validate_only);
    let answer: CreateTopicsResponse = peer.ask(ApiKey::CreateTopics, 7, &request).await;
    answer.topics
}

async fn delete(peer: &mut Peer, topics: Vec<DeleteTopicState>) -> Vec<i16> {
    let request = DeleteTopicsRequest::default().with_topics(topics);
    let answer: DeleteTopicsResponse = peer.ask(ApiKey::DeleteTopics, 6, &request).await;
    answer.responses.iter().map(|it| it.error_code).collect()
}

async fn grow(peer: &mut Peer, topic: CreatePartitionsTopic, validate_only: bool) -> i16 {
    let request =
        CreatePartitionsRequest::default().with_topics(vec![topic]).with_validate_only(validate_only);
    let answer: CreatePartitionsResponse = peer.ask(ApiKey::CreatePartitions, 3, &request).await;
    answer.results[0].error_code
}

fn to(name: &str, count: i32) -> CreatePartitionsTopic {
    CreatePartitionsTopic::default().with_name(named(name)).with_count(count).with_assignments(None)
}

/// The error of a topic that is asked for, and how many partitions it has.
async fn metadata(peer: &mut Peer, name: &str, creates: bool) -> (i16, usize) {
    let asked = MetadataRequestTopic::default().with_name(Some(named(name)));
    let request =
        MetadataRequest::default().with_topics(Some(vec![asked])).with_allow_auto_topic_creation(creates);
    let answer: MetadataResponse = peer.ask(ApiKey::Metadata, 12, &request).await;
    (answer.topics[0].error_code, answer.topics[0].partitions.len())
}

/// The error of a resource, and the values of its configuration by their names.
async fn configs(peer: &mut Peer, kind: i8, name: &str) -> (i16, Vec<(String, String, i8, bool)>) {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let answer: DescribeConfigsResponse = peer.ask(ApiKey::DescribeConfigs, 4, &request).await;
    let result = &answer.results[0];
    let entries = result.configs.iter().map(|it| {
        let value = it.value.as_ref().map(|value| value.to_string()).unwrap_or_default();
        (it.name.to_string(), value, it.config_source, it.read_only)
    });
    (result.error_code, entries.collect())
}

/// The value of one configuration of a topic, and where it comes from.
pub(crate) async fn config_of(peer: &mut Peer, name: &str, config: &str) -> (String, i8) {
    let (_, entries) = configs(peer, 2, name).await;
    let (_, value, source, _) = entries.into_iter().find(|(name, ..)| name == config).unwrap();
    (value, source)
}

pub(crate) async fn alter(peer: &mut Peer, name: &str, changes: &[(&str, i8, Option<&str>)]) -> i16 {
    altered(peer, name, changes).await.0
}

/// The same, with the message.
pub(crate) async fn altered(
    peer: &mut Peer,
    name: &str,
    changes: &[(&str, i8, Option<&str>)],
) -> (i16, String) {
    let change = |(name, operation, value): &(&str, i8, Option<&str>)| {
        AlterableConfig::default()
            .with_name(text(name))
            .with_config_operation(*operation)
            .with_value(value.map(text))
    };
    let resource = AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text(name))
        .with_configs(changes.iter().map(change).collect());
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    let answer: IncrementalAlterConfigsResponse =
        peer.ask(ApiKey::IncrementalAlterConfigs, 1, &request).await;
    let response = &answer.responses[0];
    (response.error_code, response.error_message.as_deref().map(str::to_owned).unwrap_or_default())
}

async fn log_in(service: &Service, message: &'static str) -> Peer {
    let mut peer = Peer::new(service).await;
    let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str("PLAIN"));
    let _: SaslHandshakeResponse = peer.ask(ApiKey::SaslHandshake, 1, &request).await;
    let request = SaslAuthenticateRequest::default().with_auth_bytes(message.into());
    let answer: SaslAuthenticateResponse = peer.ask(ApiKey::SaslAuthenticate, 2, &request).await;
    assert_eq!(answer.error_code, 0);
    peer
}

#[tokio::test]
async fn a_topic_that_is_created_is_a_hub_at_once() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let orders = new_topic("orders", 3, 1).with_configs(vec![config("retention.ms", "60000")]);
    let default = new_topic("default", -1, -1);
    let assigned = (0..2).map(|index| {
        CreatableReplicaAssignment::default().with_partition_index(index).with_broker_ids(vec![BrokerId(0)])
    });
    let assigned = new_topic("assigned", -1, -1).with_assignments(assigned.collect());
    let topics = || vec![orders.clone(), default.clone(), assigned.clone()];
    let results = create(&mut peer, topics(), true).await;
    assert!(results.iter().all(|it| it.error_code == 0), "{results:?}");
    assert!(service.namespace().hub("orders").is_none(), "they were only looked at");
    let results = create(&mut peer, topics(), false).await;
    let shapes: Vec<_> =
        results.iter().map(|it| (it.error_code, it.num_partitions, it.replication_factor)).collect();
    assert_eq!(shapes, [(0, 3, 1), (0, DEFAULT_PARTITIONS.into(), 1), (0, 2, 1)]);
    let hub = service.namespace().hub("orders").unwrap();
    assert_eq!(hub.id(), results[0].topic_id.into_bytes());
    assert_eq!(hub.limits().retention, Some(Duration::from_secs(60)));
    assert_eq!(peer.produce(&produce("orders", 2, batch(&[b"x"]))).await, (0, 0));
    assert_eq!(metadata(&mut peer, "orders", false).await, (0, 3));
    service.stop().await;
}

#[tokio::test]
async fn a_topic_that_can_not_be_is_refused_by_what_is_wrong_with_it() {
    let mut namespace = NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 2)]);
    namespace.queues = vec![QueueConfig::new("jobs")];
    let service = start(namespace).await;
    let mut peer = Peer::new(&service).await;
    let assigned = |partitions, brokers: &[i32]| {
        let brokers = brokers.iter().copied().map(BrokerId).collect();
        let assignment =
            CreatableReplicaAssignment::default().with_partition_index(0).with_broker_ids(brokers);
        new_topic("new", partitions, partitions as i16).with_assignments(vec![assignment])
    };
    let configured = |name, value| new_topic("new", 1, 1).with_configs(vec![config(name, value)]);
    for (topic, error) in [
        (new_topic("Events", 1, 1), 36),
        (new_topic("events", 1, 1), 36),
        (new_topic("jobs", 1, 1), 36),
        (new_topic("", 1, 1), 17),
        (new_topic("a/b", 1, 1), 17),
        (new_topic(&"x".repeat(250), 1, 1), 17),
        (new_topic("é", 1, 1), 17),
        (new_topic("..", 1, 1), 17),
        (new_topic("a~b", 1, 1), 17),
        (new_topic("new", 0, 1), 37),
        (new_topic("new", -2, 1), 37),
        (new_topic("new", 32_769, 1), 37),
        (new_topic("new", i32::MAX, 1), 37),
        (new_topic("new", 1, -2), 38),
        (new_topic("new", 1, 0), 38),
        (assigned(-1, &[1]), 39),
        (assigned(-1, &[0, 1]), 39),
        (assigned(-1, &[]), 39),
        (assigned(1, &[0]), 42),
        (configured("retention.hours", "1"), 40),
        (configured("retention.bytes", "1"), 40),
        (configured("cleanup.policy", "burn"), 40),
    ] {
        for validate_only in [true, false] {
            let results = create(&mut peer, vec![topic.clone()], validate_only).await;
            let [result] = &results[..] else { panic!("one topic") };
            assert_eq!((result.error_code, result.name.clone()), (error, topic.name.clone()), "{result:?}");
            assert!(result.error_message.is_some());
        }
    }
    let twice = create(&mut peer, vec![new_topic("new", 1, 1), new_topic("new", 1, 1)], false).await;
    assert_eq!(twice.iter().map(|it| it.error_code).collect::<Vec<_>>(), [42, 42]);
    assert_eq!(service.namespace().hubs().len(), 1);
    service.stop().await;
}

#[tokio::test]
async fn a_topic_that_is_deleted_is_gone_for_those_who_read_it() {
    let service = service().await;
    let (mut peer, mut reader) = (Peer::new(&service).await, Peer::new(&service).await);
    let hub = service.namespace().hub("Events").unwrap();
    let (id, log) = (hub.id(), hub.partitions()[1].log());
    peer.produce(&produce("Events", 1, batch(&[b"x"]))).await;
    assert!(log.stats().bytes > 0);
    reader.send(ApiKey::Fetch, 12, &fetch(0, 0, 600_000)).await;
    let by_name = |name: &str| DeleteTopicState::default().with_name(Some(named(name)));
    let by_id = |id: [u8; 16]| DeleteTopicState::default().with_topic_id(id_text(&id).parse().unwrap());
    assert_eq!(
        delete(&mut peer, vec![by_name("events"), by_name("none"), by_id([1; 16])]).await,
        [3, 3, 100]
    );
    assert_eq!(delete(&mut peer, vec![by_id(id), by_id(id), by_name("Events")]).await, [0, 100, 3]);
    assert_eq!(reader.fetched().await, (3, vec![]));
    assert_eq!(log.stats().bytes, 0, "whoever still holds it holds no events");
    create(&mut peer, vec![new_topic("Events", 1, 1)], false).await;
    assert_ne!(service.namespace().hub("Events").unwrap().id(), id, "it is another one");
    assert_eq!(delete(&mut peer, vec![by_name("Events")]).await, [0]);
    assert!(service.namespace().hubs().is_empty());
    service.stop().await;
}

pub(crate) fn id_text(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_topic_gets_more_partitions_while_it_is_read() {
    let service = service().await;
    let (mut peer, mut reader) = (Peer::new(&service).await, Peer::new(&service).await);
    reader.send(ApiKey::Fetch, 12, &fetch(0, 0, 600_000)).await;
    let held = service.namespace().hub("Events").unwrap();
    assert_eq!(grow(&mut peer, to("Events", 5), true).await, 0);
    assert_eq!(metadata(&mut peer, "Events", false).await, (0, 2), "it was only looked at");
    assert_eq!(grow(&mut peer, to("Events", 5), false).await, 0);
    assert_eq!(metadata(&mut peer, "Events", false).await, (0, 5));
    let one = |broker| CreatePartitionsAssignment::default().with_broker_ids(vec![BrokerId(broker)]);
    for (topic, error) in [
        (to("Events", 5), 37),
        (to("Events", 1), 37),
        (to("Events", -1), 37),
        (to("Events", 40_000), 37),
        (to("Events", 70_000), 37),
        (to("none", 5), 3),
        (to("Events", 6).with_assignments(Some(vec![one(1)])), 39),
        (to("Events", 7).with_assignments(Some(vec![one(0)])), 39),
        (to("Events", 6).with_assignments(Some(vec![one(0)])), 0),
    ] {
        assert_eq!(grow(&mut peer, topic.clone(), false).await, error, "{topic:?}");
    }
    assert_eq!(peer.produce(&produce("Events", 5, batch(&[b"new"]))).await, (0, 0));
    assert_eq!(peer.fetch(&fetch(5, 0, 0)).await.0, 0);
    // Who waits at a partition that was there before gets what comes, and who holds the hub sees the others.
    assert_eq!(peer.produce(&produce("Events", 0, batch(&[b"old"]))).await, (0, 0));
    assert_eq!(reader.fetched().await.0, 0);
    assert_eq!((held.partitions().len(), held.latest().partitions().len()), (2, 6));
    assert_eq!(service.namespace().counters().events_in, 2);
    service.namespace().delete_hub("Events").unwrap();
    assert!(held.is_deleted());
    service.stop().await;
}

#[tokio::test]
async fn what_a_topic_is_like_can_be_asked_and_changed() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    let (error, entries) = configs(&mut peer, 2, "Events").await;
    assert_eq!(error, 0);
    assert!(entries.iter().all(|(.., read_only)| !read_only), "{entries:?}");
    assert!(entries.iter().all(|(_, _, source, _)| *source == 5), "{entries:?}");
    let changes = [("retention.ms", 0, Some("1000")), ("retention.bytes", 0, Some("4194304"))];
    assert_eq!(alter(&mut peer, "Events", &changes).await, 0);
    assert_eq!(config_of(&mut peer, "Events", "retention.ms").await, ("1000".to_owned(), 1));
    assert_eq!(config_of(&mut peer, "Events", "retention.bytes").await, ("4194304".to_owned(), 1));
    for (name, changes, error) in [
        ("Events", [("retention.ms", 0, Some("forever"))], 40),
        ("Events", [("retention.ms", 0, None)], 42),
        ("Events", [("retention.ms", 7, Some("1"))], 42),
        ("Events", [("retention.ms", 2, Some("1"))], 40),
        ("Events", [("segment.bytes", 0, Some("1"))], 40),
        ("Events", [("no.such.thing", 0, Some("1"))], 40),
        ("none", [("retention.ms", 0, Some("1"))], 3),
        ("Events", [("retention.ms", 1, None)], 0),
    ] {
        assert_eq!(alter(&mut peer, name, &changes).await, error, "{changes:?}");
    }
    assert_eq!(config_of(&mut peer, "Events", "retention.ms").await, ("-1".to_owned(), 5));
    assert_eq!(config_of(&mut peer, "Events", "retention.bytes").await.0, "4194304");
    // The older request says what there is to be: what it does not name has its default.
    let compact = LegacyConfig::default().with_name(text("cleanup.policy")).with_value(Some(text("compact")));
    let resource = LegacyResource::default().with_resource_type(2).with_resource_name(text("Events"));
    let request = AlterConfigsRequest::default().with_resources(vec![resource.with_configs(vec![compact])]);
    let answer: AlterConfigsResponse = peer.ask(ApiKey::AlterConfigs, 2, &request).await;
    assert_eq!(answer.responses[0].error_code, 0);
    assert_eq!(config_of(&mut peer, "Events", "cleanup.policy").await.0, "compact");
    assert_eq!(config_of(&mut peer, "Events", "retention.bytes").await, ("67108864".to_owned(), 5));
    for (kind, name, expected) in [(4, "0", 0), (4, "", 0), (4, "1", 42), (8, "0", 42), (2, "none", 3)] {
        assert_eq!(configs(&mut peer, kind, name).await.0, expected, "{kind} {name}");
    }
    service.stop().await;
}

#[tokio::test]
async fn topics_are_created_by_asking_where_that_is_done() {
    let hubs = || vec![HubConfig::new("Events", 1)];
    let service = start(NamespaceConfig::with_hubs(hubs())).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!(metadata(&mut peer, "asked", true).await, (3, 0), "it is not done");
    service.stop().await;

    let rule = |name: &str, right| RuleConfig { name: name.into(), key: "value".into(), rights: vec![right] };
    let namespace = NamespaceConfig {
        creates_topics: true,
        authorization_rules: vec![
            rule("all", RightConfig::Manage),
            rule("sender", RightConfig::Send),
            rule("reader", RightConfig::Listen),
        ],
        ..NamespaceConfig::with_hubs(hubs())
    };
    let service = start(namespace).await;
    let mut reader = log_in(&service, "\0reader\0value").await;
    let mut sender = log_in(&service, "\0sender\0value").await;
    assert_eq!(metadata(&mut reader, "asked", true).await, (3, 0));
    assert_eq!(metadata(&mut sender, "asked", false).await, (3, 0), "it was not asked for");
    assert_eq!(metadata(&mut sender, "asked", true).await, (0, DEFAULT_PARTITIONS.into()));
    assert_eq!(metadata(&mut reader, "asked", true).await, (0, DEFAULT_PARTITIONS.into()));
    assert_eq!(sender.produce(&produce("asked", 0, batch(&[b"x"]))).await, (0, 0));
    for name in ["events", "a/b", ".", ""] {
        assert_eq!(metadata(&mut sender, name, true).await, (17, 0), "{name}");
    }
    let mut all = log_in(&service, "\0all\0value").await;
    // Tools of Kafka name topics like these.
    for name in ["_schemas", "-retry.5m-"] {
        assert_eq!(metadata(&mut sender, name, true).await, (0, DEFAULT_PARTITIONS.into()), "{name}");
    }
    while service.namespace().hubs().len() < 1_000 {
        let name = format!("topic{}", service.namespace().hubs().len());
        assert_eq!(metadata(&mut all, &name, true).await.0, 0);
    }
    assert_eq!(metadata(&mut all, "beyond", true).await, (44, 0));
    service.stop().await;
}

#[tokio::test]
async fn topics_whose_partitions_no_one_counts_get_as_many_as_are_configured() {
    let namespace = NamespaceConfig {
        creates_topics: true,
        topic_partitions: 1,
        ..NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 2)])
    };
    let service = start(namespace).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!(metadata(&mut peer, "asked", true).await, (0, 1));
    let created = create(&mut peer, vec![new_topic("created", -1, -1)], false).await;
    assert_eq!(created[0].num_partitions, 1);
    let broker = configs(&mut peer, 4, "0").await;
    assert!(broker.1.iter().any(|(name, value, ..)| name == "num.partitions" && value == "1"), "{broker:?}");
    service.stop().await;
    for topic_partitions in [0, 32_769] {
        let config = NamespaceConfig { topic_partitions, ..NamespaceConfig::with_hubs(Vec::new()) };
        let error = hub::namespace::Namespace::new(&config, std::time::SystemTime::now().into()).unwrap_err();
        let message = format!("topic_partitions: {topic_partitions} is not from 1 to 32768");
        assert_eq!(error.to_string(), message);
    }
}

#[tokio::test]
async fn only_who_may_manage_a_topic_changes_it_and_only_who_knows_it_learns_of_it() {
    let mut namespace =
        NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 1), HubConfig::new("other", 1)]);
    namespace.authorization_rules =
        vec![RuleConfig { name: "reader".into(), key: "value".into(), rights: vec![RightConfig::Listen] }];
    let service = start(namespace).await;
    let mut reader = log_in(&service, "\0reader\0value").await;
    assert_eq!(create(&mut reader, vec![new_topic("new", 1, 1)], false).await[0].error_code, 29);
    let events = DeleteTopicState::default().with_name(Some(topic("Events")));
    assert_eq!(delete(&mut reader, vec![events]).await, [29]);
    assert_eq!(grow(&mut reader, to("Events", 5), false).await, 29);
    assert_eq!(alter(&mut reader, "Events", &[("retention.ms", 0, Some("1"))]).await, 29);
    assert_eq!(configs(&mut reader, 2, "Events").await.0, 0);
    let creations = CreateAclsRequest::default().with_creations(vec![AclCreation::default()]);
    let answer: CreateAclsResponse = reader.ask(ApiKey::CreateAcls, 2, &creations).await;
    assert_eq!(answer.results[0].error_code, 31);
    // A connection string may be of one hub alone.
    let string = "\0$ConnectionString\0Endpoint=sb://localhost/;SharedAccessKeyName=reader;\
                  SharedAccessKey=value;EntityPath=Events";
    let mut narrow = log_in(&service, string).await;
    assert_eq!(configs(&mut narrow, 2, "other").await.0, 29);
    let all = DescribeLogDirsRequest::default().with_topics(None);
    let answer: DescribeLogDirsResponse = narrow.ask(ApiKey::DescribeLogDirs, 4, &all).await;
    assert_eq!(answer.results[0].topics.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["Events"]);
    service.stop().await;
}

#[tokio::test]
async fn partitions_are_described_page_by_page() {
    let hubs = [("b", 3), ("a", 2), ("c", 1)].map(|(name, partitions)| HubConfig::new(name, partitions));
    let service = start(NamespaceConfig::with_hubs(hubs.to_vec())).await;
    let mut peer = Peer::new(&service).await;
    let mut cursor = None;
    let mut seen = Vec::new();
    loop {
        let request =
            DescribeTopicPartitionsRequest::default().with_response_partition_limit(2).with_cursor(cursor);
        let answer: DescribeTopicPartitionsResponse =
            peer.ask(ApiKey::DescribeTopicPartitions, 0, &request).await;
        let mut page = 0;
        for topic in &answer.topics {
            let name = topic.name.as_ref().unwrap().to_string();
            page += topic.partitions.len();
            seen.extend(topic.partitions.iter().map(|it| (name.clone(), it.partition_index)));
        }
        assert!(page <= 2);
        let Some(next) = answer.next_cursor else { break };
        cursor = Some(
            Cursor::default().with_topic_name(next.topic_name).with_partition_index(next.partition_index),
        );
    }
    let expected = [("a", 2), ("b", 3), ("c", 1)];
    let expected = expected.iter().flat_map(|(name, count)| (0..*count).map(|it| ((*name).to_owned(), it)));
    assert_eq!(seen, expected.collect::<Vec<_>>());
    let asked = ["c", "none", "c"].map(|name| TopicRequest::default().with_name(named(name)));
    let request = DescribeTopicPartitionsRequest::default()
        .with_topics(asked.to_vec())
        .with_response_partition_limit(i32::MAX);
    let answer: DescribeTopicPartitionsResponse =
        peer.ask(ApiKey::DescribeTopicPartitions, 0, &request).await;
    assert_eq!(answer.topics.iter().map(|it| it.error_code).collect::<Vec<_>>(), [0, 3]);
    assert!(answer.next_cursor.is_none());
    service.stop().await;
}

#[tokio::test]
async fn what_is_named_again_and_again_is_answered_once_and_what_is_far_too_long_not_at_all() {
    let service = start(NamespaceConfig::with_hubs(vec![HubConfig::new("wide", 1_000)])).await;
    let mut peer = Peer::new(&service).await;
    let asked = MetadataRequestTopic::default().with_name(Some(topic("wide")));
    let request = MetadataRequest::default().with_topics(Some(vec![asked; 5_000]));
    let answer: MetadataResponse = peer.ask(ApiKey::Metadata, 12, &request).await;
    assert_eq!(answer.topics.len(), 1);
    let resource = DescribeConfigsResource::default().with_resource_type(2).with_resource_name(text("wide"));
    let request =
        DescribeConfigsRequest::default().with_resources(vec![resource.with_configuration_keys(None); 5_000]);
    let answer: DescribeConfigsResponse = peer.ask(ApiKey::DescribeConfigs, 4, &request).await;
    assert_eq!(answer.results.len(), 1);
    let topics = (0..50_000).map(|number| new_topic(&format!("{number:0100}"), 1, 1));
    let request = CreateTopicsRequest::default().with_topics(topics.collect());
    peer.send(ApiKey::CreateTopics, 7, &request).await;
    assert!(peer.is_closed().await);
    assert_eq!(service.namespace().hubs().len(), 1);
    service.stop().await;
}

#[tokio::test]
async fn tools_that_look_at_everything_get_an_answer() {
    let service = service().await;
    let mut peer = Peer::new(&service).await;
    peer.produce(&produce("Events", 1, batch(&[b"x"]))).await;
    let all = DescribeLogDirsRequest::default().with_topics(None);
    let answer: DescribeLogDirsResponse = peer.ask(ApiKey::DescribeLogDirs, 4, &all).await;
    let sizes: Vec<_> = answer.results[0].topics[0].partitions.iter().map(|it| it.partition_size).collect();
    assert!(sizes[0] == 0 && sizes[1] > 0, "{sizes:?}");
    let acls = DescribeAclsRequest::default();
    let answer: DescribeAclsResponse = peer.ask(ApiKey::DescribeAcls, 3, &acls).await;
    assert_eq!(answer.error_code, 54);
    let creations = vec![AclCreation::default(); 2];
    let creations = CreateAclsRequest::default().with_creations(creations);
    let answer: CreateAclsResponse = peer.ask(ApiKey::CreateAcls, 3, &creations).await;
    assert_eq!(answer.results.iter().map(|it| it.error_code).collect::<Vec<_>>(), [54, 54]);
    let filters = DeleteAclsRequest::default().with_filters(vec![DeleteAclsFilter::default()]);
    let answer: DeleteAclsResponse = peer.ask(ApiKey::DeleteAcls, 3, &filters).await;
    assert_eq!(answer.filter_results.iter().map(|it| it.error_code).collect::<Vec<_>>(), [54]);
    let quotas = DescribeClientQuotasRequest::default();
    let answer: DescribeClientQuotasResponse = peer.ask(ApiKey::DescribeClientQuotas, 1, &quotas).await;
    assert_eq!((answer.error_code, answer.entries), (0, Some(vec![])));
    within(service.stop()).await;
}
