//! Errors in answers, and connections that are closed: counted by the name of the request and the error, each kind logged at most
//! once a minute.

use std::net::SocketAddr;

use kafka::frame::RequestHeader;
use kafka::write::WrittenError;
use kafka::{ApiKey, ErrorCode};

use super::KafkaFront;

/// The client of a connection, for the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) peer: SocketAddr,
    /// The name that it gives itself.
    pub(super) client_id: &'a str,
}

impl KafkaFront {
    /// Counts an error of an answer, and logs it if a line is due.
    pub(super) fn note_error(&self, key: ApiKey, written: &WrittenError, asker: Asker<'_>) {
        let WrittenError { error, count, about } = written;
        if is_agreement(*error) {
            return;
        }
        let (request, error_name) = (key.name(), error.name());
        let Asker { peer, client_id } = asker;
        let Some(count) = self.refusals.note(&request, &error_name, *count) else {
            tracing::debug!(%peer, client_id, request, error = error_name, about, "a Kafka request was refused");
            return;
        };
        match is_finding(*error) {
            true => {
                tracing::info!(request, error = error_name, count, about, client_id, %peer, "Kafka requests were refused");
            }
            false => {
                tracing::warn!(request, error = error_name, count, about, client_id, %peer, "Kafka requests were refused");
            }
        }
    }

    /// Counts a request of a version that is not served, and logs it if a line is due.
    pub(super) fn note_version(&self, header: &RequestHeader<'_>, asker: Asker<'_>) {
        let request = ApiKey::of(header.api_key).map_or_else(|| UNKNOWN_REQUEST.to_owned(), ApiKey::name);
        let Some(count) = self.refusals.note(&request, &ErrorCode::UnsupportedVersion.name(), 1) else {
            return;
        };
        let RequestHeader { api_key, version, .. } = *header;
        let Asker { peer, client_id } = asker;
        tracing::warn!(
            request, api_key, version, count, client_id, %peer,
            "Kafka requests have a version that is not served; clients that ask which are served first work"
        );
    }

    /// Counts a connection that is closed without an answer, and logs it if a line is due.
    pub(super) fn note_closed(&self, kind: &'static str, reason: &dyn std::fmt::Display, asker: Asker<'_>) {
        let Asker { peer, client_id } = asker;
        match self.refusals.note(CONNECTION, kind, 1) {
            Some(count) => {
                tracing::warn!(count, client_id, %peer, "Kafka connections were closed: {reason}");
            }
            None => tracing::debug!(client_id, %peer, "a Kafka connection was closed: {reason}"),
        }
    }
}

/// Whether clients and brokers agree by this error on what comes next, in the course of all that is well.
const fn is_agreement(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::MemberIdRequired
            | ErrorCode::RebalanceInProgress
            | ErrorCode::ConcurrentTransactions
            | ErrorCode::UnstableOffsetCommit
            | ErrorCode::FetchSessionIdNotFound
            | ErrorCode::InvalidFetchSessionEpoch
            | ErrorCode::OperationNotAttempted
    )
}

/// Whether clients find out by this error whether something is there.
const fn is_finding(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::TopicAlreadyExists
            | ErrorCode::GroupIdNotFound
            | ErrorCode::TransactionalIdNotFound
            | ErrorCode::ResourceNotFound
            | ErrorCode::SecurityDisabled
    )
}

/// In place of the name of a request that is not known.
const UNKNOWN_REQUEST: &str = "Unknown";

/// In place of the name of a request, where a connection ends without an answer.
const CONNECTION: &str = "Connection";
