//! A broker that only answers: the least that any broker has to do between a producer and a consumer.
//!
//! One thread, no log, no check, no rights: what is produced is numbered, acknowledged, and handed to whoever waits for it. The
//! last batches of a partition stay until there are too many. Whatever a broker needs more than this, is its own.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use kafka::fetch::{self, FetchRequest, PartitionHead, TopicRef};
use kafka::frame::{self, RequestHeader, SIZE_LENGTH};
use kafka::messages::authorized_operations::AuthorizedOperations;
use kafka::messages::list_offsets::{FoundOffset, ListOffsetsRequest, OffsetSpec};
use kafka::messages::metadata::{Broker, MetadataRequest, TopicMetadata};
use kafka::messages::{api_versions, list_offsets, metadata};
use kafka::produce::{self, ProduceRequest, ProduceResult};
use kafka::read::Reader;
use kafka::{ApiKey, ErrorCode, record_batch};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

/// Answers for ever, on a free port, which it prints as `parshall serve` does.
pub(crate) fn run(partitions: u32) -> Result<String, String> {
    serve(partitions).map_err(|error| error.to_string())
}

fn serve(partitions: u32) -> io::Result<String> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(([127, 0, 0, 1], 0).into())?;
    let port = listener.local_addr()?.port();
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    println!("Kafka              127.0.0.1:{port}\nReady.");
    let mut floor = Floor { port, partitions, topics: HashMap::new() };
    let mut connections: HashMap<Token, Connection> = HashMap::new();
    let mut events = Events::with_capacity(1024);
    let mut next = LISTENER.0 + 1;
    loop {
        let wait = connections.values().filter_map(|it| it.fetch.as_ref()).map(|it| it.until).min();
        poll.poll(&mut events, wait.map(|until| until.saturating_duration_since(Instant::now())))?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    let token = Token(next);
                    next += 1;
                    poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
                    connections.insert(token, Connection::new(stream));
                }
                continue;
            }
            let Some(connection) = connections.get_mut(&event.token()) else { continue };
            if !connection.turn(&mut floor) {
                connections.remove(&event.token());
            }
        }
        // What was produced is for those who wait; their time may be over as well.
        connections.retain(|_, connection| connection.fetch.is_none() || connection.turn(&mut floor));
    }
}

/// What there is to know of all topics.
struct Floor {
    port: u16,
    partitions: u32,
    topics: HashMap<String, Vec<Partition>>,
}

#[derive(Clone, Default)]
struct Partition {
    end: i64,
    batches: VecDeque<(i64, Vec<u8>)>,
}

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    fetch: Option<Parked>,
}

/// A request to fetch that waits, in its frame.
struct Parked {
    frame: Vec<u8>,
    until: Instant,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self { stream, input: Vec::new(), output: Vec::new(), fetch: None }
    }

    /// Does what can be done. False if it is over.
    fn turn(&mut self, floor: &mut Floor) -> bool {
        let is_open = self.read();
        if let Some(parked) = self.fetch.take() {
            let is_late = parked.until <= Instant::now();
            if !floor.fetch(&parked.frame, is_late, &mut self.output) {
                self.fetch = Some(parked);
            }
        }
        let mut done = 0;
        while self.fetch.is_none() {
            let Ok(Some(length)) = frame::length(&self.input[done..], LONGEST) else { break };
            let Some(frame) = self.input.get(done + SIZE_LENGTH..done + SIZE_LENGTH + length) else { break };
            done += SIZE_LENGTH + length;
            let Ok((header, body)) = RequestHeader::read(frame) else { return false };
            if ApiKey::of(header.api_key) == Some(ApiKey::Fetch) {
                if !floor.fetch(frame, false, &mut self.output) {
                    let Ok(request) = FetchRequest::read(body, header.version) else { return false };
                    let wait = Duration::from_millis(request.max_wait_ms.try_into().unwrap_or(0));
                    self.fetch = Some(Parked { frame: frame.to_vec(), until: Instant::now() + wait });
                }
            } else if !floor.answer(&header, body, &mut self.output) {
                return false;
            }
        }
        self.input.drain(..done);
        self.write() && is_open
    }

    fn read(&mut self) -> bool {
        loop {
            let before = self.input.len();
            self.input.resize(before + READ, 0);
            let read = self.stream.read(&mut self.input[before..]);
            self.input.truncate(before + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return false,
                Ok(read) if read < READ => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    fn write(&mut self) -> bool {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(written) => drop(self.output.drain(..written)),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}

impl Floor {
    fn partition(&mut self, topic: &str, index: i32) -> Option<&mut Partition> {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.to_owned(), vec![Partition::default(); self.partitions as usize]);
        }
        self.topics.get_mut(topic)?.get_mut(usize::try_from(index).ok()?)
    }

    /// Answers anything but a request to fetch. False if there is no answer.
    fn answer(&mut self, header: &RequestHeader<'_>, body: Reader<'_>, output: &mut Vec<u8>) -> bool {
        let (version, start) = (header.version, output.len());
        let Some(key) = ApiKey::of(header.api_key) else { return false };
        let is_known = VERSIONS.iter().any(|(known, versions)| *known == key && versions.contains(&version));
        if !is_known && key != ApiKey::ApiVersions {
            return false;
        }
        let answered = if is_known { version } else { 0 };
        let mut writer = frame::begin_response(std::mem::take(output), key, answered, header.correlation_id);
        match key {
            ApiKey::ApiVersions if !is_known => api_versions::write_unsupported(&mut writer, VERSIONS),
            ApiKey::ApiVersions => api_versions::write_response(&mut writer, version, VERSIONS, 0),
            ApiKey::Metadata => {
                let Ok(request) = MetadataRequest::read(body, version) else { return false };
                let topics = request.topics.unwrap_or_default().into_iter().filter_map(|topic| match topic {
                    TopicRef::Name(name) => Some(TopicMetadata {
                        error: ErrorCode::None,
                        name: Some(name),
                        id: [1; 16],
                        partitions: self.partitions,
                        leader_epoch: 0,
                        operations: AuthorizedOperations::NOT_ASKED,
                    }),
                    TopicRef::Id(_) => None,
                });
                let broker = Broker { id: 0, host: "127.0.0.1", port: self.port, cluster_id: "floor" };
                let topics: Vec<_> = topics.collect();
                let operations = AuthorizedOperations::NOT_ASKED;
                metadata::write_response(&mut writer, version, &broker, &topics, operations, 0);
            }
            ApiKey::ListOffsets => {
                let Ok(request) = ListOffsetsRequest::read(body, version) else { return false };
                let found = request.partitions.iter().map(|at| {
                    let partition = self.partition(at.topic, at.index);
                    let offset = partition.map_or(0, |it| match at.at {
                        OffsetSpec::Earliest => it.batches.front().map_or(it.end, |(base, _)| *base),
                        _ => it.end,
                    });
                    let (topic, index) = (at.topic, at.index);
                    FoundOffset {
                        topic,
                        index,
                        error: ErrorCode::None,
                        timestamp: -1,
                        offset,
                        leader_epoch: 0,
                    }
                });
                list_offsets::write_response(&mut writer, version, &found.collect::<Vec<_>>(), 0);
            }
            ApiKey::Produce => {
                let Ok(request) = ProduceRequest::read(body, version) else { return false };
                let results: Vec<_> = request.partitions.iter().map(|it| self.append(it)).collect();
                produce::write_response(&mut writer, version, &results, 0);
            }
            _ => return false,
        }
        *output = writer.finish();
        frame::end(output, start, 0);
        true
    }

    fn append<'a>(&mut self, produced: &produce::ProducePartition<'a>) -> ProduceResult<'a> {
        let mut batch = produced.records.to_vec();
        // The last offset's delta, which is not compressed.
        let last = batch.get(23..27).and_then(|it| it.try_into().ok()).map_or(0, i32::from_be_bytes);
        let base = self.partition(produced.topic, produced.index).map_or(-1, |partition| {
            let base = partition.end;
            partition.end += i64::from(last) + 1;
            record_batch::number(&mut batch, base.unsigned_abs(), 0);
            partition.batches.push_back((base, batch));
            if partition.batches.len() > KEPT {
                partition.batches.pop_front();
            }
            base
        });
        ProduceResult {
            topic: produced.topic,
            index: produced.index,
            error_code: 0,
            base_offset: base,
            log_start_offset: 0,
            error_message: None,
            log_append_time: -1,
            record_error: None,
        }
    }

    /// Answers a request to fetch if there is something, or no time left. True if it is answered, or none.
    fn fetch(&mut self, frame: &[u8], is_late: bool, output: &mut Vec<u8>) -> bool {
        let Ok((header, body)) = RequestHeader::read(frame) else { return true };
        let version = header.version;
        let Ok(request) = FetchRequest::read(body, version) else { return true };
        let mut found = Vec::new();
        for wanted in &request.partitions {
            let TopicRef::Name(topic) = wanted.topic else { return true };
            let Some(partition) = self.partition(topic, wanted.index) else { return true };
            let after = |(base, _): &&(i64, Vec<u8>)| *base >= wanted.fetch_offset;
            let batch = partition.batches.iter().find(after).map(|(_, batch)| batch.clone());
            found.push((topic, wanted.index, partition.end, batch.unwrap_or_default()));
        }
        if !is_late && found.iter().all(|(_, _, _, batch)| batch.is_empty()) {
            return false;
        }
        let start = output.len();
        let mut writer =
            frame::begin_response(std::mem::take(output), ApiKey::Fetch, version, header.correlation_id);
        let topics = || found.chunk_by(|a, b| a.0 == b.0);
        fetch::begin_response(&mut writer, version, 0, 0, 0, topics().count());
        for partitions in topics() {
            let topic = TopicRef::Name(partitions[0].0);
            fetch::begin_topic(&mut writer, topic, partitions.len());
            for (_, index, end, batch) in partitions {
                let head = PartitionHead {
                    index: *index,
                    error_code: 0,
                    high_watermark: *end,
                    last_stable_offset: *end,
                    log_start_offset: 0,
                };
                fetch::begin_partition(&mut writer, version, topic, &head, &[], batch.len());
                let mut bytes = writer.finish();
                bytes.extend_from_slice(batch);
                writer = kafka::write::Writer::new(bytes, ApiKey::Fetch.is_flexible(version));
                fetch::end(&mut writer);
            }
            fetch::end(&mut writer);
        }
        fetch::end(&mut writer);
        *output = writer.finish();
        frame::end(output, start, 0);
        true
    }
}

/// As few versions as clients put up with; with those of Produce and Fetch that make batches of today's format.
const VERSIONS: &[(ApiKey, RangeInclusive<i16>)] = &[
    (ApiKey::Produce, 0..=8),
    (ApiKey::Fetch, 4..=11),
    (ApiKey::ListOffsets, 1..=5),
    (ApiKey::Metadata, 0..=8),
    (ApiKey::ApiVersions, 0..=3),
];

const LISTENER: Token = Token(0);

/// Longest request, in bytes.
const LONGEST: usize = 100 * 1024 * 1024;

/// Bytes that are read at a time.
const READ: usize = 64 * 1024;

/// Batches of a partition that are kept.
const KEPT: usize = 64;
