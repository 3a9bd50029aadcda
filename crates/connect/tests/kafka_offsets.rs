//! Checkpoints as committed offsets: against the embedded service, and against a broker that says what it is told to.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use connect::checkpoint::{Checkpoint, CheckpointStore, ConsumerGroup, StoreError, StoreFuture};
use connect::event::PartitionId;
use connect::kafka::{GroupOffsetStore, KafkaOptions, Properties};
use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use kafka::frame::{self, RequestHeader};
use kafka::messages::api_versions;
use kafka::messages::find_coordinator::FindCoordinatorRequest;
use kafka::messages::metadata::Broker;
use kafka::messages::offset_commit::OffsetCommitRequest;
use kafka::messages::offset_fetch::{FetchedOffset, OffsetFetchRequest};
use kafka::read::Reader;
use kafka::write::Writer;
use kafka::{ApiKey, ErrorCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

fn group() -> ConsumerGroup {
    ConsumerGroup::new("cluster", "orders", "relay")
}

fn checkpoint(partition: u32, sequence_number: i64) -> Checkpoint {
    Checkpoint {
        group: group(),
        partition: PartitionId(partition),
        sequence_number: Some(sequence_number),
        offset: None,
        log_id: None,
        etag: None,
    }
}

/// Partitions and sequence numbers of what is listed.
async fn list(store: &GroupOffsetStore) -> Vec<(u32, Option<i64>)> {
    let listed = store.list_checkpoints(&group()).await.unwrap();
    listed.iter().map(|checkpoint| (checkpoint.partition.0, checkpoint.sequence_number)).collect()
}

mod embedded {
    use super::*;

    async fn serve() -> (Service, KafkaOptions) {
        let hubs = vec![HubConfig::new("orders", 4), HubConfig::new("payments", 1)];
        let config = ServiceConfig::loopback(NamespaceConfig::with_hubs(hubs)).and(Protocol::Kafka);
        let service = Service::start(config).await.unwrap();
        let properties = Properties::default()
            .with("bootstrap.servers", service.address(Protocol::Kafka).unwrap().to_string())
            .with("security.protocol", "SASL_PLAINTEXT")
            .with("sasl.mechanism", "PLAIN")
            .with("sasl.username", "$ConnectionString")
            .with("sasl.password", service.connection_string(None).reveal());
        (service, KafkaOptions::new("orders", properties))
    }

    #[tokio::test]
    async fn what_was_done_is_remembered_for_the_group_and_the_topic() {
        let (service, options) = serve().await;
        let store = GroupOffsetStore::open(&options, "relay").await.unwrap();
        assert_eq!(list(&store).await, []);
        for checkpoint in [checkpoint(2, 6), checkpoint(0, 41), checkpoint(2, 9), checkpoint(1, -1)] {
            store.update_checkpoint(checkpoint).await.unwrap();
        }
        let payments = ConsumerGroup::new("cluster", "payments", "relay");
        store.update_checkpoint(Checkpoint { group: payments, ..checkpoint(0, 3) }).await.unwrap();
        drop(store);

        let again = GroupOffsetStore::open(&options, "relay").await.unwrap();
        assert_eq!(list(&again).await, [(0, Some(41)), (1, Some(-1)), (2, Some(9))]);
        let other = GroupOffsetStore::open(&options, "other").await.unwrap();
        let group = ConsumerGroup::new("cluster", "orders", "other");
        assert_eq!(other.list_checkpoints(&group).await.unwrap(), []);
        service.stop().await;
    }

    #[tokio::test]
    async fn all_partitions_are_committed_at_once() {
        let (service, options) = serve().await;
        let store = GroupOffsetStore::open(&options, "relay").await.unwrap();
        let updates = (0..4).map(|partition| tokio::spawn(store.update_checkpoint(checkpoint(partition, 7))));
        for update in updates.collect::<Vec<_>>() {
            update.await.unwrap().unwrap();
        }
        assert_eq!(list(&store).await, [(0, Some(7)), (1, Some(7)), (2, Some(7)), (3, Some(7))]);
        service.stop().await;
    }

    #[tokio::test]
    async fn a_wrong_key_is_refused_with_its_reason() {
        let (service, mut options) = serve().await;
        let key = service.connection_string(None).reveal().replace("SharedAccessKey=", "SharedAccessKey=b");
        options.properties.set("sasl.password", key);
        let refused = GroupOffsetStore::open(&options, "relay").await.unwrap_err();
        assert!(matches!(&refused, StoreError::Refused { .. }), "{refused}");
        assert!(refused.to_string().contains("SASL_AUTHENTICATION_FAILED"), "{refused}");
        service.stop().await;
    }

    #[tokio::test]
    async fn what_offsets_can_not_do_is_refused() {
        let (service, options) = serve().await;
        let store = GroupOffsetStore::open(&options, "relay").await.unwrap();
        let refused = store.replace_checkpoint(checkpoint(0, 1)).await.unwrap_err();
        assert!(matches!(refused, StoreError::NoCondition), "{refused}");
        assert!(matches!(store.list_ownership(&group()).await, Err(StoreError::NoCondition)));
        let claimed = store.claim_ownership(Vec::new(), Duration::ZERO).await;
        assert!(matches!(claimed, Err(StoreError::NoCondition)));

        let nowhere = Checkpoint { sequence_number: None, ..checkpoint(0, 0) };
        let other =
            Checkpoint { group: ConsumerGroup::new("cluster", "orders", "other"), ..checkpoint(0, 0) };
        for checkpoint in [nowhere, checkpoint(0, -2), checkpoint(0, i64::MAX), other] {
            let refused = store.update_checkpoint(checkpoint).await.unwrap_err();
            assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
        }
        assert_eq!(list(&store).await, []);
        service.stop().await;
    }

    #[test]
    fn only_properties_of_connections_count() {
        let properties = Properties::default()
            .with("bootstrap.servers", "localhost:9092")
            .with("statistics.interval.ms", "1");
        GroupOffsetStore::check(&KafkaOptions::new("orders", properties)).unwrap();
        let missing = GroupOffsetStore::check(&KafkaOptions::new("orders", Properties::default()));
        assert_eq!(missing.unwrap_err().name, "bootstrap.servers");
    }
}

mod scripted {
    use super::*;

    /// One connection of a client, as its broker sees it.
    struct Conversation(TcpStream);

    /// What a client asks.
    struct Request {
        key: ApiKey,
        version: i16,
        correlation_id: i32,
        body: Vec<u8>,
    }

    impl Request {
        fn reader(&self) -> Reader<'_> {
            Reader::new(&self.body, self.key.is_flexible(self.version))
        }
    }

    impl Conversation {
        /// The next one, after the client has asked which versions there are.
        async fn begin(listener: &TcpListener) -> Self {
            let mut conversation = Self(listener.accept().await.unwrap().0);
            let asked = conversation.heard(ApiKey::ApiVersions).await;
            let supported = [
                (ApiKey::FindCoordinator, 0..=4),
                (ApiKey::OffsetCommit, 2..=9),
                (ApiKey::OffsetFetch, 1..=9),
            ];
            let write =
                |writer: &mut Writer| api_versions::write_response(writer, asked.version, &supported, 0);
            conversation.say(&asked, write).await;
            conversation
        }

        async fn heard(&mut self, key: ApiKey) -> Request {
            let size = self.0.read_u32().await.unwrap();
            let mut frame = vec![0; size as usize];
            self.0.read_exact(&mut frame).await.unwrap();
            let (header, body) = RequestHeader::read(&frame).unwrap();
            assert_eq!(ApiKey::of(header.api_key), Some(key));
            let RequestHeader { version, correlation_id, .. } = header;
            Request { key, version, correlation_id, body: body.rest().to_vec() }
        }

        async fn say(&mut self, request: &Request, write: impl FnOnce(&mut Writer)) {
            let Request { key, version, correlation_id, .. } = *request;
            let mut writer = frame::begin_response(Vec::new(), key, version, correlation_id);
            write(&mut writer);
            let mut bytes = writer.finish();
            frame::end(&mut bytes, 0, 0);
            self.0.write_all(&bytes).await.unwrap();
        }

        /// Tells on a connection of its own that the coordinator is here, and gives the connection to it.
        async fn as_coordinator(listener: &TcpListener) -> Self {
            Self::begin(listener).await.find(Ok(listener)).await;
            Self::begin(listener).await
        }

        async fn find(&mut self, found: Result<&TcpListener, ErrorCode>) {
            let asked = self.heard(ApiKey::FindCoordinator).await;
            let request = FindCoordinatorRequest::read(asked.reader(), asked.version).unwrap();
            assert_eq!(request.keys, ["relay"]);
            let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
            let broker = found.map(|listener| Broker {
                id: 1,
                host: "127.0.0.1",
                port: port(listener),
                cluster_id: "cluster",
            });
            let write = |writer: &mut Writer| {
                request.write_response(writer, asked.version, broker.as_ref().map_err(|code| *code), 0);
            };
            self.say(&asked, write).await;
        }

        /// Hears a commit of these partitions and offsets, and answers each with an error.
        async fn commit(&mut self, expected: &[(i32, i64)], errors: &[ErrorCode]) {
            let asked = self.heard(ApiKey::OffsetCommit).await;
            self.end_commit(&asked, expected, errors).await;
        }

        async fn end_commit(&mut self, asked: &Request, expected: &[(i32, i64)], errors: &[ErrorCode]) {
            let request = OffsetCommitRequest::read(asked.reader(), asked.version).unwrap();
            assert_eq!((request.member.group_id, request.member.generation), ("relay", -1));
            assert_eq!((request.member.member_id, request.member.instance_id), ("", None));
            let offsets: Vec<_> = request.partitions.iter().map(|it| (it.index, it.offset)).collect();
            assert_eq!(offsets, expected);
            let write = |writer: &mut Writer| request.write_response(writer, asked.version, errors, 0);
            self.say(asked, write).await;
        }

        async fn fetch(&mut self, found: Result<&[FetchedOffset], ErrorCode>) {
            let asked = self.heard(ApiKey::OffsetFetch).await;
            let request = OffsetFetchRequest::read(asked.reader(), asked.version).unwrap();
            assert!(request.require_stable);
            assert_eq!((request.groups[0].group_id, &request.groups[0].topics), ("relay", &None));
            let found = [found.map(<[_]>::to_vec)];
            let write = |writer: &mut Writer| request.write_response(writer, asked.version, &found, 0);
            self.say(&asked, write).await;
        }
    }

    async fn listen() -> (TcpListener, KafkaOptions) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (listener, KafkaOptions::new("orders", Properties::default().with("bootstrap.servers", address)))
    }

    async fn open(listener: &TcpListener, options: &KafkaOptions) -> (GroupOffsetStore, Conversation) {
        let (store, conversation) =
            tokio::join!(GroupOffsetStore::open(options, "relay"), Conversation::as_coordinator(listener));
        (store.unwrap(), conversation)
    }

    /// Lets a call begin; it does not end.
    async fn begin<T>(call: &mut StoreFuture<T>) {
        poll_fn(|context| {
            assert!(call.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    }

    fn offset(topic: &str, index: i32, offset: i64, error: ErrorCode) -> FetchedOffset {
        let topic = topic.to_owned();
        FetchedOffset { topic, index, offset, leader_epoch: -1, metadata: String::new(), error }
    }

    #[tokio::test]
    async fn commits_that_wait_for_one_go_together_in_the_next() {
        let (listener, options) = listen().await;
        let (store, mut broker) = open(&listener, &options).await;
        let update = |partition, number| store.update_checkpoint(checkpoint(partition, number));
        let mut first = update(3, 9);
        begin(&mut first).await;
        let asked = broker.heard(ApiKey::OffsetCommit).await;
        let mut others = [update(2, 5), update(0, 0), update(1, 70), update(2, 6)];
        for other in &mut others {
            begin(other).await;
        }
        broker.end_commit(&asked, &[(3, 10)], &[ErrorCode::None]).await;
        first.await.unwrap();
        let errors = [ErrorCode::None, ErrorCode::UnknownMemberId, ErrorCode::OffsetMetadataTooLarge];
        broker.commit(&[(0, 1), (1, 71), (2, 7)], &errors).await;
        let [two, zero, one, two_again] = others;
        zero.await.unwrap();
        let has_members = one.await.unwrap_err();
        assert!(has_members.to_string().contains("has members"), "{has_members}");
        for refused in [two.await, two_again.await] {
            assert!(matches!(&refused, Err(StoreError::Refused { .. })), "{refused:?}");
        }
    }

    #[tokio::test]
    async fn a_coordinator_is_looked_for_where_it_has_moved_to() {
        let (listener, options) = listen().await;
        let (store, mut broker) = open(&listener, &options).await;
        let script = async {
            broker.commit(&[(0, 5)], &[ErrorCode::NotCoordinator]).await;
            let mut bootstrap = Conversation::begin(&listener).await;
            bootstrap.find(Err(ErrorCode::CoordinatorNotAvailable)).await;
            let mut moved = Conversation::as_coordinator(&listener).await;
            moved.commit(&[(0, 5)], &[ErrorCode::CoordinatorLoadInProgress]).await;
            // It stays there.
            moved.commit(&[(0, 5)], &[ErrorCode::None]).await;
        };
        let (done, ()) = tokio::join!(store.update_checkpoint(checkpoint(0, 4)), script);
        done.unwrap();
    }

    #[tokio::test]
    async fn a_connection_that_was_lost_in_the_meantime_costs_nothing() {
        let (listener, options) = listen().await;
        let (store, broker) = open(&listener, &options).await;
        drop(broker);
        let script = async {
            let mut again = Conversation::as_coordinator(&listener).await;
            again.commit(&[(0, 5)], &[ErrorCode::None]).await;
            // And one that is lost at once is an error, which whoever asked deals with.
            again.heard(ApiKey::OffsetFetch).await;
            drop(again);
            let mut last = Conversation::as_coordinator(&listener).await;
            last.heard(ApiKey::OffsetFetch).await;
        };
        let asks = async {
            store.update_checkpoint(checkpoint(0, 4)).await.unwrap();
            store.list_checkpoints(&group()).await.unwrap_err()
        };
        let (error, ()) = tokio::join!(asks, script);
        assert!(matches!(&error, StoreError::Unavailable { .. }), "{error}");
    }

    #[tokio::test]
    async fn offsets_that_a_transaction_may_change_are_waited_for() {
        let (listener, options) = listen().await;
        let (store, mut broker) = open(&listener, &options).await;
        let script = async {
            let unstable = offset("orders", 0, -1, ErrorCode::UnstableOffsetCommit);
            broker.fetch(Ok(&[offset("orders", 2, 9, ErrorCode::None), unstable])).await;
            let found = [
                offset("orders", 2, 9, ErrorCode::None),
                offset("orders", 0, 3, ErrorCode::None),
                offset("orders", 1, -1, ErrorCode::None),
                offset("payments", 0, 70, ErrorCode::None),
            ];
            broker.fetch(Ok(&found)).await;
        };
        let (listed, ()) = tokio::join!(list(&store), script);
        assert_eq!(listed, [(0, Some(2)), (2, Some(8))]);
    }

    #[tokio::test]
    async fn offsets_need_not_all_hold_still_at_once() {
        let (listener, options) = listen().await;
        let (store, mut broker) = open(&listener, &options).await;
        let unstable = |index| offset("orders", index, -1, ErrorCode::UnstableOffsetCommit);
        let stable = |index, at| offset("orders", index, at, ErrorCode::None);
        let script = async {
            broker.fetch(Ok(&[stable(0, 3), stable(1, 5), unstable(2)])).await;
            broker.fetch(Ok(&[unstable(0), stable(1, 6), stable(2, 9)])).await;
        };
        let (listed, ()) = tokio::join!(list(&store), script);
        assert_eq!(listed, [(0, Some(2)), (1, Some(5)), (2, Some(8))]);
    }

    #[tokio::test]
    async fn a_group_that_may_not_be_read_is_refused_and_the_connection_stays() {
        let (listener, options) = listen().await;
        let (store, mut broker) = open(&listener, &options).await;
        let script = async {
            broker.fetch(Err(ErrorCode::GroupAuthorizationFailed)).await;
            broker.fetch(Ok(&[offset("orders", 0, -1, ErrorCode::TopicAuthorizationFailed)])).await;
            broker.fetch(Ok(&[])).await;
        };
        let asks = async {
            for name in ["GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"] {
                let refused = store.list_checkpoints(&group()).await.unwrap_err();
                assert!(matches!(&refused, StoreError::Refused { .. }), "{refused}");
                assert!(refused.to_string().contains(name), "{refused}");
            }
            list(&store).await
        };
        let (listed, ()) = tokio::join!(asks, script);
        assert_eq!(listed, []);
    }

    #[tokio::test]
    async fn an_answer_that_can_not_be_read_ends_the_connection() {
        let (listener, options) = listen().await;
        let (store, mut broker) = open(&listener, &options).await;
        let script = async {
            let asked = broker.heard(ApiKey::OffsetFetch).await;
            broker.say(&asked, |writer| writer.i16(0)).await;
            Conversation::as_coordinator(&listener).await.fetch(Ok(&[])).await;
        };
        let asks = async {
            let error = store.list_checkpoints(&group()).await.unwrap_err();
            assert!(matches!(&error, StoreError::Unavailable { .. }), "{error}");
            list(&store).await
        };
        let (listed, ()) = tokio::join!(asks, script);
        assert_eq!(listed, []);
    }
}
