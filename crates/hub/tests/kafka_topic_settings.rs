//! Settings of topics: stored as they were given, honoured or refused.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use hub::namespace::{HubConfig, NamespaceConfig, StorageConfig};
use hub::service::Service;
use kafka::ApiKey;
use kafka::compression::Compression;
use kafka::record;
use kafka::record_batch::{self, RecordBatch, TimestampType};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{ProduceRequest, ProduceResponse};
use partition_log::disk::StorageOptions;
use partition_log::{LogLimits, Start};
use units::ByteSize;

use crate::kafka_admin::{alter, altered, config, config_of, create, new_topic};
use crate::kafka_compressed::compressed;
use crate::kafka_peer::{Peer, batch, fetch, produce, start};
use crate::rest::client::Client;

const MEBIBYTE: ByteSize = ByteSize::from_mebibytes(1);

/// Creates a topic with one partition and these settings. Returns the error.
async fn create_with(peer: &mut Peer, name: &str, settings: &[(&str, &str)]) -> i16 {
    let configs = settings.iter().map(|(name, value)| config(name, value)).collect();
    create(peer, vec![new_topic(name, 1, 1).with_configs(configs)], false).await[0].error_code
}

async fn values(peer: &mut Peer, name: &str) -> [(String, i8); 3] {
    [
        config_of(peer, name, "cleanup.policy").await,
        config_of(peer, name, "retention.bytes").await,
        config_of(peer, name, "retention.ms").await,
    ]
}

fn expected(values: [(&str, i8); 3]) -> [(String, i8); 3] {
    values.map(|(value, source)| (value.to_owned(), source))
}

async fn produced(peer: &mut Peer, request: &ProduceRequest) -> PartitionProduceResponse {
    let response: ProduceResponse = peer.ask(ApiKey::Produce, 9, request).await;
    response.responses[0].partition_responses[0].clone()
}

/// A batch of records with these keys, with the timestamps of its producer.
fn keyed(keys: &[Option<&[u8]>], value: &[u8]) -> Vec<u8> {
    let mut out = vec![0; RecordBatch::HEADER_LENGTH];
    for (delta, key) in (0..).zip(keys) {
        record::encode(&mut out, delta, *key, Some(value), std::iter::empty());
    }
    record_batch::complete(&mut out, 0, -1, u32::try_from(keys.len()).unwrap(), 1_700_000_000_000);
    out[22] = 0;
    let checksum = crc32c::crc32c(&out[21..]);
    out[17..21].copy_from_slice(&checksum.to_be_bytes());
    out
}

fn begin(service: &Service, name: &str) -> u64 {
    let hub = service.namespace().hub(name).unwrap();
    hub.partitions()[0].log().stats().begin_sequence_number
}

#[tokio::test]
async fn settings_are_described_as_given_and_change_no_other() {
    let service = start(NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 1)])).await;
    let mut peer = Peer::new(&service).await;
    let compact = [("cleanup.policy", "compact"), ("retention.ms", "3000"), ("segment.ms", "600000")];
    assert_eq!(create_with(&mut peer, "compacted", &compact).await, 0);
    let given = |policy| expected([(policy, 1), ("67108864", 5), ("3000", 1)]);
    assert_eq!(values(&mut peer, "compacted").await, given("compact"));
    assert_eq!(config_of(&mut peer, "compacted", "segment.ms").await, ("600000".to_owned(), 1));
    let hub = service.namespace().hub("compacted").unwrap();
    assert_eq!((hub.limits().retention, hub.limits().bytes), (None, LogLimits::UNLIMITED));
    for (operation, value, policy) in [
        (2, "delete", "compact,delete"),
        (3, "compact", "delete"),
        (2, "compact", "delete,compact"),
        (0, "compact", "compact"),
        (0, "compact,delete", "compact,delete"),
    ] {
        assert_eq!(alter(&mut peer, "compacted", &[("cleanup.policy", operation, Some(value))]).await, 0);
        assert_eq!(values(&mut peer, "compacted").await, given(policy));
    }
    assert_eq!(hub.limits().retention.unwrap().as_millis(), 3_000);
    assert_eq!(alter(&mut peer, "compacted", &[("cleanup.policy", 1, None)]).await, 0);
    assert_eq!(values(&mut peer, "compacted").await, expected([("delete", 5), ("67108864", 5), ("3000", 1)]));
    for (name, value) in [
        ("compression.type", "zstd"),
        ("min.insync.replicas", "2"),
        ("retention.bytes", "-1"),
        ("max.message.bytes", "5000"),
        ("message.timestamp.type", "LogAppendTime"),
        ("min.cleanable.dirty.ratio", "0.1"),
        ("message.timestamp.before.max.ms", "86400000"),
        ("message.timestamp.after.max.ms", "3600000"),
    ] {
        assert_eq!(create_with(&mut peer, &format!("{name}-topic"), &[(name, value)]).await, 0);
        assert_eq!(alter(&mut peer, "Events", &[(name, 0, Some(value))]).await, 0, "{name}");
        for topic in [&format!("{name}-topic"), "Events"] {
            assert_eq!(config_of(&mut peer, topic, name).await, (value.to_owned(), 1));
        }
    }
    for (name, value) in [("no.such", "1"), ("retention.ms", "abc"), ("remote.storage.enable", "true")] {
        assert_eq!(create_with(&mut peer, "refused", &[(name, value)]).await, 40, "{name}");
        assert_eq!(alter(&mut peer, "Events", &[(name, 0, Some(value))]).await, 40, "{name}");
    }
    let twice = [("retention.ms", 0, Some("1")), ("retention.ms", 0, Some("2"))];
    assert_eq!(alter(&mut peer, "Events", &twice).await, 42);
    service.stop().await;
}

#[tokio::test]
async fn refused_settings_are_refused_in_the_words_of_kafka() {
    let service = start(NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 1)])).await;
    let mut peer = Peer::new(&service).await;
    for (name, operation, value, code, message) in [
        ("no.such", 0, Some("1"), 40, "Unknown topic config name: no.such"),
        ("retention.ms", 2, Some("1"), 40, "Can't APPEND to key retention.ms because its type is not LIST."),
        (
            "retention.ms",
            3,
            Some("1"),
            40,
            "Can't SUBTRACT to key retention.ms because its type is not LIST.",
        ),
        ("retention.ms", 0, None, 42, "Null value not supported for : retention.ms"),
        (
            "retention.ms",
            0,
            Some("a day"),
            40,
            "Invalid value a day for configuration retention.ms: Not a number of type LONG",
        ),
        (
            "retention.ms",
            0,
            Some("-2"),
            40,
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            "cleanup.policy",
            0,
            Some("burn"),
            40,
            "Invalid value burn for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "preallocate",
            0,
            Some("maybe"),
            40,
            "Invalid value maybe for configuration preallocate: Expected value to be either true or false",
        ),
    ] {
        let refused = altered(&mut peer, "Events", &[(name, operation, value)]).await;
        assert_eq!(refused, (code, message.to_owned()));
    }
    let configs = vec![config("no.such", "1")];
    let created = create(&mut peer, vec![new_topic("new", 1, 1).with_configs(configs)], false).await;
    assert_eq!(created[0].error_message.as_deref(), Some("Unknown topic config name: no.such"));
    service.stop().await;
}

#[tokio::test]
async fn settings_survive_a_restart_and_raise_the_version_of_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let storage =
        StorageConfig { directory: directory.path().to_owned(), options: StorageOptions::default() };
    let namespace = || NamespaceConfig {
        storage: Some(storage.clone()),
        ..NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 1)])
    };
    let version = || std::fs::read_to_string(directory.path().join("VERSION")).unwrap();
    let service = start(namespace()).await;
    let mut peer = Peer::new(&service).await;
    assert!(version().ends_with("version 2\n"));
    let changes = [("retention.ms", 0, Some("60000")), ("segment.ms", 0, Some("7"))];
    assert_eq!(alter(&mut peer, "Events", &changes).await, 0);
    assert!(version().ends_with("version 7\n"));
    let settings = [("cleanup.policy", "delete,compact"), ("retention.bytes", "-1")];
    assert_eq!(create_with(&mut peer, "kept", &settings).await, 0);
    service.stop().await;
    let service = start(namespace()).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!(values(&mut peer, "Events").await, expected([("delete", 5), ("67108864", 5), ("60000", 1)]));
    assert_eq!(config_of(&mut peer, "Events", "segment.ms").await, ("7".to_owned(), 1));
    assert_eq!(values(&mut peer, "kept").await, expected([("delete,compact", 1), ("-1", 1), ("-1", 5)]));
    let no_key = produced(&mut peer, &produce("kept", 0, batch(&[b"no key"]))).await;
    assert_eq!(no_key.error_code, 87);
    service.stop().await;
}

#[tokio::test]
async fn record_without_a_key_is_refused_by_a_compacted_topic_whatever_the_protocol() {
    let service = start(NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 1)])).await;
    let mut peer = Peer::new(&service).await;
    assert_eq!(alter(&mut peer, "Events", &[("cleanup.policy", 2, Some("compact"))]).await, 0);
    let mixed = keyed(&[Some(b"a"), Some(b""), None, None], b"value");
    for records in [mixed.clone(), compressed(&mixed, Compression::Zstd)] {
        let refused = produced(&mut peer, &produce("Events", 0, records)).await;
        assert_eq!((refused.error_code, refused.base_offset), (87, -1));
        assert!(refused.error_message.is_some());
        let [of_record] = &refused.record_errors[..] else { panic!("{refused:?}") };
        assert_eq!(of_record.batch_index, 2);
        assert!(of_record.batch_index_error_message.is_some());
    }
    let whole = keyed(&[Some(b"a"), Some(b"")], b"value");
    for records in [whole.clone(), compressed(&whole, Compression::Gzip)] {
        assert_eq!(produced(&mut peer, &produce("Events", 0, records)).await.error_code, 0);
    }
    let mut rest = Client::connect(service.amqp_address()).await;
    assert_eq!(rest.ask("POST", "/Events/messages", "", b"no key").await.status, 400);
    let key = "BrokerProperties: {\"PartitionKey\": \"k\"}\r\n";
    assert_eq!(rest.ask("POST", "/Events/messages", key, b"keyed").await.status, 201);
    let json = "Content-Type: application/vnd.microsoft.servicebus.json\r\n";
    let partly = br#"[{"Body": "a", "BrokerProperties": {"PartitionKey": "k"}}, {"Body": "b"}]"#;
    assert_eq!(rest.ask("POST", "/Events/messages", json, partly).await.status, 400);
    assert_eq!(service.namespace().counters().events_in, 5);
    assert_eq!(alter(&mut peer, "Events", &[("cleanup.policy", 1, None)]).await, 0);
    assert_eq!(produced(&mut peer, &produce("Events", 0, batch(&[b"no key"]))).await.error_code, 0);
    service.stop().await;
}

#[tokio::test]
async fn unlimited_topic_drops_nothing_and_the_total_refuses_what_does_not_fit() {
    let bytes = ByteSize::from_mebibytes(2);
    let namespace = NamespaceConfig {
        default_log: Some(LogLimits { bytes, ..LogLimits::default() }),
        log_total: Some(ByteSize::from_mebibytes(12)),
        ..NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 1)])
    };
    let service = start(namespace).await;
    let mut peer = Peer::new(&service).await;
    let unlimited = [("retention.bytes", "-1"), ("retention.ms", "-1")];
    assert_eq!(create_with(&mut peer, "unlimited", &unlimited).await, 0);
    assert_eq!(create_with(&mut peer, "compacted", &[("cleanup.policy", "compact")]).await, 0);
    let value = vec![7; 256 << 10];
    let records = || keyed(&[Some(b"key")], &value);
    for _ in 0..4 {
        assert_eq!(produced(&mut peer, &produce("Events", 0, records())).await.error_code, 0);
        assert_eq!(produced(&mut peer, &produce("compacted", 0, records())).await.error_code, 0);
    }
    let mut acknowledged = 0;
    while produced(&mut peer, &produce("unlimited", 0, records())).await.error_code == 0 {
        acknowledged += 1;
        // As the service does regularly.
        service.namespace().enforce_retention(service.namespace().clock().unix_time());
    }
    assert!(acknowledged > 30, "{acknowledged} of 256 KiB are far beyond the default");
    assert_eq!((begin(&service, "unlimited"), begin(&service, "compacted")), (0, 0));
    assert_eq!(produced(&mut peer, &produce("compacted", 0, records())).await.error_code, 7);
    assert!(begin(&service, "Events") > 0, "the oldest events of others have made room");
    let budget = service.namespace().log_budget().unwrap();
    assert!(budget.used() <= budget.total());
    let metrics = service.metrics().open_metrics().await;
    assert!(
        metrics.contains("parshall_hub_events_dropped_unread_total{hub=\"Events\",partition=\"0\"} 4"),
        "{metrics}"
    );
    assert!(metrics.contains("parshall_hub_log_total_limit_bytes 12582912"), "{metrics}");
    service.namespace().delete_hub("unlimited").unwrap();
    assert!(budget.used() < MEBIBYTE.checked_mul(2).unwrap(), "{}", budget.used());
    service.stop().await;
}

#[tokio::test]
async fn events_that_a_reader_got_are_not_counted_as_dropped_unread() {
    let bytes = ByteSize::from_mebibytes(2);
    let namespace = NamespaceConfig {
        default_log: Some(LogLimits { bytes, ..LogLimits::default() }),
        ..NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 1)])
    };
    let service = start(namespace).await;
    let mut peer = Peer::new(&service).await;
    let value = vec![7; 256 << 10];
    for offset in 0..4 {
        assert_eq!(produced(&mut peer, &produce("Events", 0, batch(&[&value]))).await.error_code, 0);
        assert_eq!(peer.fetch(&fetch(0, offset, 0)).await.0, 0);
    }
    for _ in 0..12 {
        assert_eq!(produced(&mut peer, &produce("Events", 0, batch(&[&value]))).await.error_code, 0);
    }
    let hub = service.namespace().hub("Events").unwrap();
    let dropped = hub.partitions()[0].log().dropped();
    assert!(dropped.records > 4, "{dropped:?}");
    assert_eq!(dropped.unread, dropped.records - 4);
    assert_eq!(begin(&service, "Events"), dropped.records);
    service.stop().await;
}

#[tokio::test]
async fn size_of_batches_is_limited_per_topic() {
    let service = start(NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 1)])).await;
    let mut peer = Peer::new(&service).await;
    let large = batch(&[&vec![7; 3 << 20]]);
    assert_eq!(produced(&mut peer, &produce("Events", 0, large.clone())).await.error_code, 10);
    let exact = large.len().to_string();
    assert_eq!(alter(&mut peer, "Events", &[("max.message.bytes", 0, Some(&exact))]).await, 0);
    assert_eq!(produced(&mut peer, &produce("Events", 0, large.clone())).await.error_code, 0);
    let less = (large.len() - 1).to_string();
    assert_eq!(alter(&mut peer, "Events", &[("max.message.bytes", 0, Some(&less))]).await, 0);
    let refused = produced(&mut peer, &produce("Events", 0, large)).await;
    assert_eq!(refused.error_code, 10);
    assert!(refused.error_message.unwrap().contains(&less));
    assert_eq!(alter(&mut peer, "Events", &[("max.message.bytes", 0, Some("33554433"))]).await, 40);
    service.stop().await;
}

#[tokio::test]
async fn records_have_the_time_of_their_append_where_the_topic_says_so() {
    let service = start(NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 1)])).await;
    let mut peer = Peer::new(&service).await;
    let records = keyed(&[Some(b"key"), None], b"value");
    let stored = produced(&mut peer, &produce("Events", 0, records.clone())).await;
    assert_eq!((stored.error_code, stored.log_append_time_ms), (0, -1));
    let log_append_time = [("message.timestamp.type", 0, Some("LogAppendTime"))];
    assert_eq!(alter(&mut peer, "Events", &log_append_time).await, 0);
    let mut times = Vec::new();
    for records in [records.clone(), compressed(&records, Compression::Lz4)] {
        let stored = produced(&mut peer, &produce("Events", 0, records)).await;
        assert_eq!(stored.error_code, 0);
        assert!(stored.log_append_time_ms > 1_700_000_000_000);
        times.push(stored.log_append_time_ms);
    }
    let (_, bytes) = peer.fetch(&fetch(0, 0, 0)).await;
    let mut rest = &bytes[..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let batch = RecordBatch::read(rest).unwrap();
        assert!(batch.is_intact());
        found.push((batch.timestamp_type(), batch.max_timestamp()));
        rest = &rest[batch.bytes().len()..];
    }
    let append_time = |time| (TimestampType::LogAppendTime, time);
    let expected =
        [(TimestampType::CreateTime, 1_700_000_000_000), append_time(times[0]), append_time(times[1])];
    assert_eq!(found, expected);
    let log = service.namespace().hub("Events").unwrap().partitions()[0].log().clone();
    assert!(log.position(Start::Earliest).is_ok());
    service.stop().await;
}

#[tokio::test]
async fn more_replicas_than_there_are_brokers_are_answered_with_the_one_that_there_is() {
    let service = start(NamespaceConfig::with_hubs(Vec::new())).await;
    let mut peer = Peer::new(&service).await;
    let created = create(&mut peer, vec![new_topic("replicated", 2, 3)], false).await;
    assert_eq!((created[0].error_code, created[0].replication_factor), (0, 1));
    service.stop().await;
}
