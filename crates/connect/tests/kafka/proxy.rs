//! What stands between a client and the service, and changes answers: a broker that leads no longer, or wants to be left alone. An
//! implementation that is not ours reads and writes them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use connect::kafka::KafkaOptions;
use hub::service::{Protocol, Service};
use kafka::ApiKey;
use kafka_protocol::messages::{
    FetchResponse, FindCoordinatorResponse, InitProducerIdResponse, MetadataResponse, ProduceResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use crate::kafka::service::options;

/// A broker, to its clients.
pub(crate) struct Proxy {
    address: SocketAddr,
    changes: Arc<Mutex<Changes>>,
}

/// What is said in the next answers instead.
#[derive(Default)]
pub(crate) struct Changes {
    /// The error of the partitions of each answer to Produce. What was sent is stored all the same.
    pub(crate) produce_errors: VecDeque<i16>,
    /// The same of answers to Fetch, which have no records then.
    pub(crate) fetch_errors: VecDeque<i16>,
    /// The same of answers to InitProducerId, which give no producer then.
    pub(crate) producer_errors: VecDeque<i16>,
    /// The time that each answer to Produce or Fetch asks to be left alone for.
    pub(crate) throttle_ms: VecDeque<i32>,
    /// Requests whose next answer has another correlation id.
    pub(crate) wrong_ids: Vec<ApiKey>,
    /// Whether answers are swallowed.
    pub(crate) is_silent: bool,
}

impl Proxy {
    /// A proxy for as long as the runtime of the test lives.
    pub(crate) async fn start(service: &Service) -> Self {
        let upstream = service.address(Protocol::Kafka).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let changes = Arc::<Mutex<Changes>>::default();
        let shared = Arc::clone(&changes);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let service = TcpStream::connect(upstream).await.unwrap();
                let [client, service] = [client, service].map(TcpStream::into_split);
                let asked = Arc::<Mutex<VecDeque<(ApiKey, i16)>>>::default();
                tokio::spawn(ask(client.0, service.1, Arc::clone(&asked)));
                tokio::spawn(answer(service.0, client.1, asked, Arc::clone(&shared), address));
            }
        });
        Self { address, changes }
    }

    /// How a client reaches the topic through it.
    pub(crate) fn options(&self, service: &Service, properties: &[(&str, &str)]) -> KafkaOptions {
        let mut options = options(service, properties);
        options.properties.set("bootstrap.servers", self.address.to_string());
        options
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Changes)) {
        change(&mut self.changes.lock().unwrap());
    }

    /// Whether all changes have been made.
    pub(crate) fn is_done(&self) -> bool {
        let changes = self.changes.lock().unwrap();
        let errors = [&changes.produce_errors, &changes.fetch_errors, &changes.producer_errors];
        errors.iter().all(|errors| errors.is_empty())
            && changes.throttle_ms.is_empty()
            && changes.wrong_ids.is_empty()
    }
}

/// Passes requests on, and remembers what they are.
async fn ask(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, asked: Arc<Mutex<VecDeque<(ApiKey, i16)>>>) {
    while let Some(frame) = frame(&mut from).await {
        let number = |at: usize| i16::from_be_bytes([frame[at], frame[at + 1]]);
        let key = ApiKey::of(number(0)).unwrap();
        asked.lock().unwrap().push_back((key, number(2)));
        if write(&mut to, &frame).await.is_none() {
            return;
        }
    }
}

/// Passes answers on, some of them changed.
async fn answer(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    asked: Arc<Mutex<VecDeque<(ApiKey, i16)>>>,
    changes: Arc<Mutex<Changes>>,
    address: SocketAddr,
) {
    while let Some(mut frame) = frame(&mut from).await {
        let (key, version) = asked.lock().unwrap().pop_front().unwrap();
        if changes.lock().unwrap().is_silent {
            continue;
        }
        let header = if key.has_flexible_response_header(version) { 5 } else { 4 };
        let body = Bytes::from(frame.split_off(header));
        let body = {
            let mut changes = changes.lock().unwrap();
            if let Some(at) = changes.wrong_ids.iter().position(|of| *of == key) {
                changes.wrong_ids.swap_remove(at);
                frame[0] ^= 0x40;
            }
            change(key, version, body, &mut changes, address)
        };
        frame.extend_from_slice(&body);
        if write(&mut to, &frame).await.is_none() {
            return;
        }
    }
}

fn change(key: ApiKey, version: i16, mut body: Bytes, changes: &mut Changes, address: SocketAddr) -> Bytes {
    let mut changed = BytesMut::new();
    match key {
        ApiKey::Metadata => {
            let mut answer = MetadataResponse::decode(&mut body, version).unwrap();
            for broker in &mut answer.brokers {
                broker.host = StrBytes::from_string(address.ip().to_string());
                broker.port = address.port().into();
            }
            answer.encode(&mut changed, version).unwrap();
        }
        // A coordinator is a broker: who heard of it elsewhere would take that for the broker's address.
        ApiKey::FindCoordinator => {
            let mut answer = FindCoordinatorResponse::decode(&mut body, version).unwrap();
            let (host, port) = (StrBytes::from_string(address.ip().to_string()), address.port().into());
            if version >= 4 {
                for found in &mut answer.coordinators {
                    (found.host, found.port) = (host.clone(), port);
                }
            } else {
                (answer.host, answer.port) = (host, port);
            }
            answer.encode(&mut changed, version).unwrap();
        }
        ApiKey::InitProducerId => {
            let mut answer = InitProducerIdResponse::decode(&mut body, version).unwrap();
            if let Some(error) = changes.producer_errors.pop_front() {
                (answer.error_code, answer.producer_id, answer.producer_epoch) = (error, (-1).into(), -1);
            }
            answer.encode(&mut changed, version).unwrap();
        }
        ApiKey::Produce => {
            let mut answer = ProduceResponse::decode(&mut body, version).unwrap();
            if let Some(error) = changes.produce_errors.pop_front() {
                let partitions = answer.responses.iter_mut().flat_map(|topic| &mut topic.partition_responses);
                partitions.for_each(|partition| (partition.error_code, partition.base_offset) = (error, -1));
            } else if let Some(time) = changes.throttle_ms.pop_front() {
                answer.throttle_time_ms = time;
            }
            answer.encode(&mut changed, version).unwrap();
        }
        ApiKey::Fetch => {
            let mut answer = FetchResponse::decode(&mut body, version).unwrap();
            let has_records = answer.responses.iter().any(|topic| !topic.partitions.is_empty());
            if let Some(error) = has_records.then(|| changes.fetch_errors.pop_front()).flatten() {
                for partition in answer.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
                    partition.error_code = error;
                    partition.records = None;
                }
            } else if let Some(time) = changes.throttle_ms.pop_front() {
                answer.throttle_time_ms = time;
            }
            answer.encode(&mut changed, version).unwrap();
        }
        _ => return body,
    }
    changed.freeze()
}

async fn frame(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let length = from.read_u32().await.ok()?;
    let mut frame = vec![0; length as usize];
    from.read_exact(&mut frame).await.ok()?;
    Some(frame)
}

async fn write(to: &mut OwnedWriteHalf, frame: &[u8]) -> Option<()> {
    let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
    to.write_all(&[&length[..], frame].concat()).await.ok()
}
