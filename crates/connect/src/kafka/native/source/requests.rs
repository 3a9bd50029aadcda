//! What is asked of brokers: where partitions begin, and their records.

use std::sync::Arc;
use std::time::Duration;

use kafka::fetch::{self, FetchPartition, RequestHead, TopicRef};
use kafka::messages::list_offsets::{ListOffsetsRequest, OffsetSpec, PartitionTime};
use kafka::read::Uuid;
use kafka::write::Writer;
use kafka::{ApiKey, frame};

use super::{Asked, AskedPartition, KafkaSource, Place};
use crate::kafka::native::connection::Connection;
use crate::kafka::native::endpoint::Endpoint;
use crate::service::ServiceError;

impl KafkaSource {
    /// Asks where partitions begin that don't say so themselves.
    pub(super) fn ask_offsets(&mut self, broker: usize) -> Result<(), ServiceError> {
        let mut asked = Vec::new();
        for (partition, reader) in self.readers.iter_mut().enumerate() {
            let leader = self.cluster.leader(partition);
            if let Some(reader) = reader
                && leader.broker == Some(broker)
                && !reader.is_asked
                && !reader.seeks_leader
                && !matches!(reader.place, Place::At(_))
            {
                reader.is_asked = true;
                asked.push(AskedPartition { partition, opening: reader.opening, place: reader.place });
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let endpoint = Arc::clone(self.cluster.endpoint());
        let partitions = asked.iter().map(|asked| PartitionTime {
            topic: &endpoint.topic,
            index: asked.partition as i32,
            current_leader_epoch: -1,
            at: match asked.place {
                Place::Sought(at) => at,
                Place::Refused(_) | Place::At(_) => OffsetSpec::Earliest,
            },
        });
        let is_read_committed = endpoint.settings.fetch.is_read_committed;
        let request = ListOffsetsRequest { is_read_committed, partitions: partitions.collect() };
        if let Some(connection) = self.cluster.up(broker) {
            let version = connection.version(ApiKey::ListOffsets, 1, 9)?;
            let patience = endpoint.settings.request_timeout + endpoint.settings.fetch.max_wait;
            let write = |writer: &mut Writer| request.write(writer, version);
            connection.submit_whole(ApiKey::ListOffsets, version, patience, Asked::Offsets(asked), write);
        }
        Ok(())
    }

    /// Asks for the records of all partitions that have room, unless that is under way.
    pub(super) fn ask_records(&mut self, broker: usize) -> Result<(), ServiceError> {
        let endpoint = Arc::clone(self.cluster.endpoint());
        let topic_id = self.cluster.topic_id();
        let exchange = &mut self.exchanges[broker];
        if exchange.fetches || exchange.quiet_until.is_some() {
            return Ok(());
        }
        let mut asked = std::mem::take(&mut exchange.spare);
        asked.clear();
        let count = self.readers.len();
        let mut is_full = false;
        for partition in (0..count).map(|place| (exchange.first + place) % count) {
            let Some(reader) = &mut self.readers[partition] else {
                continue;
            };
            if self.cluster.leader(partition).broker != Some(broker) || reader.is_asked || reader.seeks_leader
            {
                continue;
            }
            match reader.place {
                Place::At(_) if reader.wants(self.window, self.window_bytes) => {
                    reader.is_asked = true;
                    asked.push(AskedPartition { partition, opening: reader.opening, place: reader.place });
                }
                _ => is_full = true,
            }
        }
        let (Some(first), Some(connection)) = (asked.first(), self.cluster.up(broker)) else {
            exchange.spare = asked;
            return Ok(());
        };
        exchange.first = first.partition + 1;
        exchange.fetches = true;
        submit_fetch(connection, asked, is_full, topic_id, &endpoint)
    }
}

fn submit_fetch(
    connection: &mut Connection<Asked>,
    asked: Vec<AskedPartition>,
    is_full: bool,
    topic_id: Option<Uuid>,
    endpoint: &Endpoint,
) -> Result<(), ServiceError> {
    let newest = if topic_id.is_some() { FETCH_BY_ID } else { FETCH_BY_NAME };
    let version = connection.version(ApiKey::Fetch, fetch::OLDEST, newest)?;
    let settings = &endpoint.settings.fetch;
    // Those that are full now may have room soon, and can't be asked for before this is answered.
    let max_wait = if is_full { settings.max_wait.min(WAIT_BESIDE_FULL) } else { settings.max_wait };
    let head = RequestHead {
        max_wait_ms: i32::try_from(max_wait.as_millis()).unwrap_or(i32::MAX),
        min_bytes: settings.min_bytes,
        max_bytes: settings.max_bytes,
        is_read_committed: settings.is_read_committed,
    };
    let topic = match topic_id.filter(|_| version == FETCH_BY_ID) {
        Some(id) => TopicRef::Id(id),
        None => TopicRef::Name(&endpoint.topic),
    };
    let mut writer = connection.begin(Vec::with_capacity(64 + 32 * asked.len()), ApiKey::Fetch, version);
    let partitions = asked.iter().map(|asked| FetchPartition {
        topic,
        index: asked.partition as i32,
        current_leader_epoch: -1,
        fetch_offset: match asked.place {
            Place::At(offset) => offset,
            Place::Sought(_) | Place::Refused(_) => 0,
        },
        max_bytes: settings.max_partition_bytes,
    });
    fetch::write_request(&mut writer, version, &head, topic, partitions);
    let mut bytes = writer.finish();
    frame::end(&mut bytes, 0, 0);
    let patience = max_wait + endpoint.settings.request_timeout;
    connection.submit(ApiKey::Fetch, version, Some(patience), Asked::Fetch(asked), [bytes.into()]);
    Ok(())
}

/// The newest version of Fetch that names topics.
const FETCH_BY_NAME: i16 = 12;

/// The version of Fetch that has ids of topics instead: a topic that was deleted and created again is told from the one before.
const FETCH_BY_ID: i16 = 13;

/// How long a Fetch waits at most that leaves out partitions because they are full.
const WAIT_BESIDE_FULL: Duration = Duration::from_millis(5);
