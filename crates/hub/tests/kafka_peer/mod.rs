//! A client that does as it is told, and what it sends: for tests that see the service as no library would.
//!
//! Requests are written and answers read by an implementation that is not ours.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]
#![allow(dead_code, reason = "each file of tests uses a part of it")]

use std::time::Duration;

use hub::namespace::{HubConfig, NamespaceConfig};
use hub::service::{Protocol, Service, ServiceConfig};
use kafka::ApiKey;
use kafka::record;
use kafka::record_batch::{self, RecordBatch};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    FetchRequest, FetchResponse, ProduceRequest, ProduceResponse, RequestHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// A client that has sent requests and knows which answer belongs to which.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    pub(crate) sent: i32,
    pub(crate) heard: i32,
}

impl Peer {
    pub(crate) async fn new(service: &Service) -> Self {
        let address = service.address(Protocol::Kafka).unwrap();
        Self { stream: TcpStream::connect(address).await.unwrap(), sent: 0, heard: 0 }
    }

    pub(crate) async fn send(&mut self, key: ApiKey, version: i16, request: &impl Encodable) {
        let frame = self.frame_of(key, version, request);
        self.send_frame(&frame).await;
    }

    /// The next request, for whoever sends it in a way of its own.
    pub(crate) fn frame_of(
        &mut self,
        key: ApiKey,
        version: i16,
        request: &impl Encodable,
    ) -> bytes::BytesMut {
        self.sent += 1;
        let mut frame = bytes::BytesMut::new();
        let header = RequestHeader::default()
            .with_request_api_key(key.number())
            .with_request_api_version(version)
            .with_correlation_id(self.sent)
            .with_client_id(Some(StrBytes::from_static_str("test")));
        header.encode(&mut frame, if key.is_flexible(version) { 2 } else { 1 }).unwrap();
        request.encode(&mut frame, version).unwrap();
        frame
    }

    pub(crate) async fn send_frame(&mut self, frame: &[u8]) {
        let size = u32::try_from(frame.len()).unwrap().to_be_bytes();
        self.stream.write_all(&[&size[..], frame].concat()).await.unwrap();
    }

    /// The next answer, which must be the one to the next request.
    pub(crate) async fn hear<T: Decodable>(&mut self, key: ApiKey, version: i16) -> T {
        self.heard += 1;
        let mut frame = self.frame().await;
        let correlation_id = i32::from_be_bytes(*frame.first_chunk().unwrap());
        assert_eq!(correlation_id, self.heard, "in the order of the requests");
        let header = if key.has_flexible_response_header(version) { 5 } else { 4 };
        let mut body = bytes::Bytes::from(frame.split_off(header));
        let answer = T::decode(&mut body, version).unwrap();
        assert!(body.is_empty());
        answer
    }

    pub(crate) async fn frame(&mut self) -> Vec<u8> {
        let read = async {
            let size = self.stream.read_u32().await?;
            let mut frame = vec![0; size as usize];
            self.stream.read_exact(&mut frame).await.map(|_| frame)
        };
        within(read).await.unwrap()
    }

    pub(crate) async fn is_closed(&mut self) -> bool {
        // A reset is an end as well.
        let mut byte = [0];
        !matches!(within(self.stream.read(&mut byte)).await, Ok(1..))
    }

    pub(crate) async fn ask<T: Decodable>(
        &mut self,
        key: ApiKey,
        version: i16,
        request: &impl Encodable,
    ) -> T {
        self.send(key, version, request).await;
        self.hear(key, version).await
    }

    /// What becomes of one batch: the error and the offset.
    pub(crate) async fn produce(&mut self, request: &ProduceRequest) -> (i16, i64) {
        let response: ProduceResponse = self.ask(ApiKey::Produce, 9, request).await;
        let partition = &response.responses[0].partition_responses[0];
        (partition.error_code, partition.base_offset)
    }

    pub(crate) async fn fetch(&mut self, request: &FetchRequest) -> (i16, Vec<u8>) {
        self.send(ApiKey::Fetch, 12, request).await;
        self.fetched().await
    }

    pub(crate) async fn fetched(&mut self) -> (i16, Vec<u8>) {
        let response: FetchResponse = self.hear(ApiKey::Fetch, 12).await;
        let partition = &response.responses[0].partitions[0];
        (partition.error_code, partition.records.as_deref().unwrap().to_vec())
    }
}

/// What must come, under a deadline that only a failure reaches.
pub(crate) async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it comes in time")
}

pub(crate) async fn service() -> Service {
    start(NamespaceConfig::with_hubs(vec![HubConfig::new("Events", 2)])).await
}

pub(crate) async fn start(namespace: NamespaceConfig) -> Service {
    Service::start(ServiceConfig::loopback(namespace).and(Protocol::Kafka)).await.unwrap()
}

pub(crate) fn topic(name: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(name))
}

pub(crate) fn batch(values: &[&[u8]]) -> Vec<u8> {
    let mut out = vec![0; RecordBatch::HEADER_LENGTH];
    for (delta, value) in (0..).zip(values) {
        record::encode(&mut out, delta, None, Some(value), std::iter::empty());
    }
    record_batch::complete(&mut out, 0, -1, u32::try_from(values.len()).unwrap(), 1_700_000_000_000);
    out
}

pub(crate) fn produce(name: &'static str, index: i32, batch: Vec<u8>) -> ProduceRequest {
    let partition = PartitionProduceData::default().with_index(index).with_records(Some(batch.into()));
    let topic = TopicProduceData::default().with_name(topic(name)).with_partition_data(vec![partition]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic])
}

pub(crate) fn fetch(index: i32, offset: i64, wait_ms: i32) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(index)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(topic("Events")).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_max_wait_ms(wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(50 << 20)
        .with_topics(vec![topic])
}

/// A batch of a transaction, of a producer of epoch 0.
pub(crate) fn transactional(id: i64, sequence: i32, values: &[&[u8]]) -> Vec<u8> {
    let mut bytes = batch(values);
    bytes[22] = 0b1_0000;
    bytes[43..51].copy_from_slice(&id.to_be_bytes());
    bytes[51..53].copy_from_slice(&0_i16.to_be_bytes());
    bytes[53..57].copy_from_slice(&sequence.to_be_bytes());
    let checksum = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&checksum.to_be_bytes());
    bytes
}
