//! What a refusal of a bucket stands for. Services say it in the same form as blob storage, with other codes.
//!
//! | status, code | |
//! |---|---|
//! | 503, 429 | throttled: tried again when the service asks for it |
//! | 500 and above, 408, `ConditionalRequestConflict` and others of the moment | tried again |
//! | 412, a 409 of what is there | what is there is looked at |
//! | `EntityTooLarge` | too large |
//! | 401, 403, 404, redirections and others | no request can succeed |

use super::transport::Failure;
use crate::archive::blob::refusal as blob;
use crate::http::Refusal;
use crate::service::ServiceError;
use crate::sink::ErrorClass;

/// See the module. The condition is the service's code.
pub(super) fn judge(refusal: &Refusal<'_>) -> ServiceError {
    let error = blob::judge(refusal);
    let class = match error.condition.as_str() {
        condition if OF_THE_MOMENT.contains(&condition) => ErrorClass::Retryable,
        "EntityTooLarge" => ErrorClass::TooLarge,
        _ => error.class,
    };
    ServiceError { class, ..error }
}

/// Whether a writing was refused because of its condition: something is there, or something else than expected, or nothing.
pub(super) fn is_condition(failure: &Failure, expects_an_object: bool) -> bool {
    match failure.status {
        Some(304 | 412) => true,
        Some(409) => failure.error.class == ErrorClass::Fatal,
        Some(404) => expects_an_object && failure.error.condition != NO_BUCKET,
        _ => false,
    }
}

/// Whether a refusal is about the name of an object.
pub(in crate::archive) fn is_about_the_name(error: &ServiceError) -> bool {
    ["KeyTooLongError", "InvalidObjectName", "InvalidURI", "XMinioInvalidObjectName"]
        .contains(&error.condition.as_str())
}

/// The bucket is gone, or was never there.
pub(in crate::archive) const NO_BUCKET: &str = "NoSuchBucket";

/// Refusals with a status of mistakes that the same request does not get again.
const OF_THE_MOMENT: [&str; 6] = [
    "ConditionalRequestConflict",
    "OperationAborted",
    "RequestTimeout",
    "IncompleteBody",
    "BadDigest",
    "XAmzContentSHA256Mismatch",
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn of(status: u16, code: &str) -> Failure {
        let body =
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>Words.</Message></Error>");
        let retry_after = Some(Duration::from_secs(2));
        let refusal = Refusal { status, retry_after, code: None, body: body.as_bytes() };
        Failure { status: Some(status), error: judge(&refusal) }
    }

    #[test]
    fn a_refusal_says_what_can_be_done() {
        let throttled = ErrorClass::Throttled { retry_after: Duration::from_secs(2) };
        for (status, code, class) in [
            (503, "SlowDown", throttled),
            (429, "TooManyRequests", throttled),
            (500, "InternalError", ErrorClass::Retryable),
            (409, "ConditionalRequestConflict", ErrorClass::Retryable),
            (400, "RequestTimeout", ErrorClass::Retryable),
            (400, "EntityTooLarge", ErrorClass::TooLarge),
            (403, "SignatureDoesNotMatch", ErrorClass::Fatal),
            (404, NO_BUCKET, ErrorClass::Fatal),
            (301, "PermanentRedirect", ErrorClass::Fatal),
            (412, "PreconditionFailed", ErrorClass::Fatal),
        ] {
            let Failure { error, .. } = of(status, code);
            assert_eq!((error.class, error.condition.as_str()), (class, code), "{status}");
        }
        assert_eq!(of(404, NO_BUCKET).error.to_string(), "NoSuchBucket: Words. (status 404)");
    }

    #[test]
    fn a_condition_that_is_lost_is_told_from_other_refusals() {
        assert!(is_condition(&of(412, "PreconditionFailed"), false));
        assert!(is_condition(&of(409, "ObjectAlreadyExists"), false));
        assert!(!is_condition(&of(409, "ConditionalRequestConflict"), false));
        assert!(is_condition(&of(404, "NoSuchKey"), true));
        assert!(!is_condition(&of(404, "NoSuchKey"), false));
        assert!(!is_condition(&of(404, NO_BUCKET), true));
        assert!(!is_condition(&of(403, "AccessDenied"), true));
    }
}
