//! Refused requests: counted by operation and code, each kind logged at most once a minute.

use hyper::StatusCode;

use super::BlobFront;
use super::http_error::HttpError;
use super::operation::Operation;
use super::request::Request;
use crate::front::http::server::Client;

impl BlobFront {
    /// Counts a refusal, and logs it if a line is due. `request` is `None` if its path can't be read.
    pub(super) fn note_refusal(&self, error: &HttpError, request: Option<&Request>, client: &Client<'_>) {
        let (status, code) = error.code();
        // Neither is news: an injected fault has a counter of its own, and an unchanged blob is what was asked for.
        if matches!(error, HttpError::OnPurpose) || status == StatusCode::NOT_MODIFIED {
            return;
        }
        let operation = request.and_then(|request| Operation::of(request).ok());
        let operation = operation.map_or(NO_OPERATION, Operation::name);
        let peer = client.peer.address;
        let Some(count) = self.refusals.note(operation, code, 1) else {
            tracing::debug!(%peer, operation, code, %error, "a blob request was refused");
            return;
        };
        // Not the query, which may have a signature.
        let path = request.map_or("", Request::path);
        let user_agent = request.and_then(|request| request.header("user-agent")).unwrap_or_default();
        // What a client finds out by asking is no trouble by itself.
        match status {
            StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::PRECONDITION_FAILED => {
                tracing::info!(operation, code, count, path, %peer, user_agent, %error, "blob requests were refused");
            }
            _ => {
                tracing::warn!(operation, code, count, path, %peer, user_agent, %error, "blob requests were refused");
            }
        }
    }
}

/// In place of the name of an operation that is not served.
const NO_OPERATION: &str = "Unknown";
