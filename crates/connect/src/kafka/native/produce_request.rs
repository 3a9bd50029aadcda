//! A request to Produce: heads and short batches in one piece of memory, long batches from where they are.

use bytes::Bytes;
use kafka::ApiKey;
use kafka::produce::{self, RequestHead};
use kafka::write::Writer;

use super::connection::Connection;
use super::endpoint::Endpoint;
use super::sent::Sent;
use crate::service::ServiceError;

/// Submits a request with these batches, one of each partition at the most, which belong to the transaction of this id if there is
/// one.
///
/// # Errors
/// The broker takes none.
pub(super) fn submit(
    connection: &mut Connection<Vec<Sent>>,
    endpoint: &Endpoint,
    transactional_id: Option<&str>,
    batches: Vec<Sent>,
) -> Result<(), ServiceError> {
    let version = connection.version(ApiKey::Produce, produce::OLDEST, PRODUCE_NEWEST)?;
    let settings = &endpoint.settings;
    let head = RequestHead {
        transactional_id,
        acks: settings.produce.acks,
        timeout_ms: i32::try_from(settings.request_timeout.as_millis()).unwrap_or(i32::MAX),
        topic: &endpoint.topic,
    };
    let small: usize =
        batches.iter().map(|sent| sent.bytes.len()).filter(|length| *length < SHARED_MIN).sum();
    let memory = Vec::with_capacity(small + 128 + 16 * batches.len());
    let mut writer = connection.begin(memory, ApiKey::Produce, version);
    head.write(&mut writer, batches.len());
    let is_flexible = ApiKey::Produce.is_flexible(version);
    // Where long batches stand between what is written here.
    let mut shared = Vec::new();
    for sent in &batches {
        produce::begin_partition(&mut writer, sent.partition as i32, sent.bytes.len());
        let mut out = writer.finish();
        match sent.bytes.len() < SHARED_MIN {
            true => out.extend_from_slice(&sent.bytes),
            false => shared.push((out.len(), sent.bytes.clone())),
        }
        writer = Writer::new(out, is_flexible);
        produce::end_partition(&mut writer);
    }
    produce::end_request(&mut writer);
    let mut out = writer.finish();
    let elsewhere = shared.iter().map(|(_, bytes)| bytes.len()).sum();
    kafka::frame::end(&mut out, 0, elsewhere);
    let mut rest = Bytes::from(out);
    let mut taken = 0;
    let mut pieces = Vec::with_capacity(2 * shared.len() + 1);
    for (at, bytes) in shared {
        pieces.push(rest.split_to(at - taken));
        pieces.push(bytes);
        taken = at;
    }
    pieces.push(rest);
    let patience = (settings.produce.acks != 0).then_some(settings.request_timeout);
    connection.submit(ApiKey::Produce, version, patience, batches, pieces);
    Ok(())
}

/// The newest version of Produce that names topics, and in which partitions are added to a transaction by asking for it.
const PRODUCE_NEWEST: i16 = 11;

/// A batch that is at least so long is sent from where it is; a shorter one is copied into its request.
const SHARED_MIN: usize = 4 * 1024;
