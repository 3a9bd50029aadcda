//! Why a request is not carried out, in the words that clients know.
//!
//! ```xml
//! <Error><Code>401</Code><Detail>text TrackingId:<id>_G0, SystemTracker:<host>:<path>, Timestamp:<time></Detail></Error>
//! ```

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use access::Right;
use access::token::TokenError;
use partition_log::AppendError;
use queue_store::QueueError;
use units::date::http_date;

use super::reply::Reply;
use crate::front::amqp::{bearer_refusal, queue_error_sentence, queue_error_status};
use crate::front::pending::OUTCOME_UNKNOWN;
use crate::namespace::AuthorizationError;

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) detail: String,
    /// The methods that are served here, where another one was asked for.
    pub(super) allow: Option<&'static str>,
    /// Whether the line of the status says it as well, where there is one.
    pub(super) is_reason: bool,
}

impl Refusal {
    pub(super) fn new(status: u16, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), allow: None, is_reason: false }
    }

    /// There is no token.
    pub(super) fn without_token() -> Self {
        Self::new(
            401,
            "MissingToken: The request has no Authorization header with a shared access signature.",
        )
    }

    /// The token is for something else, or none.
    pub(super) fn unauthorized(error: &AuthorizationError) -> Self {
        let kind = match error {
            AuthorizationError::Bearer(error) => {
                let status = if *error == TokenError::KeysPending { 503 } else { 401 };
                return Self::new(status, bearer_refusal(error));
            }
            AuthorizationError::Malformed(_) => "MalformedToken",
            AuthorizationError::Refused(access::VerificationError::Expired { .. }) => "ExpiredToken",
            AuthorizationError::Refused(_) => "InvalidSignature",
            _ => "Unauthorized",
        };
        Self::new(401, format!("{kind}: {error}."))
    }

    /// The token is good, but its key lacks a right.
    pub(super) fn claim(right: Right, path: &str) -> Self {
        let name = right.name();
        Self::new(
            401,
            format!(
                "Unauthorized access. '{name}' claim(s) are required to perform this operation. Resource: '{path}'."
            ),
        )
    }

    /// There is nothing at this path.
    pub(super) fn not_found(path: &str) -> Self {
        Self::new(404, format!("The messaging entity '{path}' could not be found."))
    }

    /// Another method is wanted here.
    pub(super) fn method(allow: &'static str) -> Self {
        let detail = format!("The method is not served here. Use {allow}.");
        Self { allow: Some(allow), ..Self::new(405, detail) }
    }

    /// The body is too long.
    pub(super) fn too_large(most: usize) -> Self {
        Self::new(413, format!("The request is larger than the {most} bytes that are allowed."))
    }

    /// It may be carried out another time.
    pub(super) fn busy(reason: &str) -> Self {
        Self::new(503, format!("{reason} Please wait 4 seconds and try again. Error code : 50002."))
    }

    /// It may or may not have been done, since the disk does not take it at present.
    pub(super) fn unknown_outcome() -> Self {
        Self::new(504, OUTCOME_UNKNOWN)
    }

    /// The quota of the namespace `host` is used up.
    pub(super) fn throttled(host: &str) -> Self {
        Self::busy(&format!("The request was terminated because the namespace {host} is being throttled."))
    }

    /// A service profile lets it fail.
    pub(super) fn on_purpose(text: &str) -> Self {
        Self::new(500, format!("{text} (Injected by the service profile.)"))
    }

    /// A log does not take what was sent.
    #[cold]
    pub(super) fn append(error: &AppendError) -> Self {
        match error {
            AppendError::Encoding(never) => match *never {},
            AppendError::TooLong => Self::new(413, "The batch is larger than a batch of the log can be."),
            AppendError::Full { held, bound, .. } => Self::busy(&format!(
                "The partition holds {held} of at most {bound} and accepts no more until consumers have caught up."
            )),
            AppendError::TotalReached { total, .. } => Self::busy(&format!(
                "All partitions together hold {total}, their limit. The partition accepts no more until retention has made room."
            )),
            AppendError::Unavailable(reason) => {
                Self::busy(&format!("The partition accepts no events at present: {reason}."))
            }
        }
    }

    /// A queue does not do what was asked.
    #[cold]
    pub(super) fn queue(error: &QueueError) -> Self {
        let status = match queue_error_status(error) {
            // Too large a message is answered like a full queue.
            413 => 403,
            status => status,
        };
        Self::new(u16::try_from(status).unwrap_or(500), queue_error_sentence(error))
    }

    /// The reply, to a request for `path` in the namespace `host`.
    pub(super) fn reply(self, host: &str, path: &str) -> Reply {
        let Self { status, mut detail, allow, is_reason } = self;
        if !detail.ends_with('.') {
            detail.push('.');
        }
        let now = http_date(SystemTime::now());
        let _ = write!(
            detail,
            " TrackingId:{}_G0, SystemTracker:{host}:{path}, Timestamp:{now}",
            next_tracking_id()
        );
        let reason = is_reason.then(|| detail.clone());
        if is_reason {
            // HTTP/2 has no line of the status: there the detail is all of it.
            detail = format!("{status} {detail}");
        }
        let mut reply = Reply { reason, ..Reply::from(Self::new(status, detail)) };
        reply.fields.extend(allow.map(|allow| ("Allow".into(), allow.to_owned())));
        match status {
            401 => reply.fields.push(("WWW-Authenticate".into(), "SharedAccessSignature".to_owned())),
            503 => reply.fields.push(("Retry-After".into(), "4".to_owned())),
            _ => {}
        }
        reply
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        let code = refusal.status;
        let detail = quick_xml::escape::partial_escape(&refusal.detail);
        let body = format!("<Error><Code>{code}</Code><Detail>{detail}</Detail></Error>");
        Self {
            content_type: Some("application/xml; charset=utf-8".into()),
            body: body.into_bytes().into(),
            ..Self::empty(code)
        }
    }
}

/// An id that no other refusal of this service has.
fn next_tracking_id() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    format!("{:08x}-0000-4000-8000-{number:012x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_shape_that_clients_know_and_no_markup_of_theirs() {
        let reply = Refusal::not_found("<a>&").reply("localhost", "<a>&");
        let text = String::from_utf8(reply.body.to_vec()).unwrap();
        let start = "<Error><Code>404</Code><Detail>The messaging entity '&lt;a&gt;&amp;' could not be found. TrackingId:";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("_G0, SystemTracker:localhost:&lt;a&gt;&amp;, Timestamp:"), "{text}");
        assert!(text.ends_with("GMT</Detail></Error>"), "{text}");
        let busy = Refusal::busy("Full.").reply("localhost", "hub");
        assert!(busy.fields.iter().any(|(name, value)| name == "Retry-After" && value == "4"));
    }
}
