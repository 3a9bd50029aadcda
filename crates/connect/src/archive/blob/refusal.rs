//! What a refusal of blob storage stands for.
//!
//! | status | |
//! |---|---|
//! | 503, 429 | throttled: tried again when the service asks for it |
//! | 500 and above, 408, a container that is being deleted | tried again |
//! | 409 or 412 of a blob that is there | what is there is looked at |
//! | 413 | too large |
//! | 401 because of a token | tried again, with the newest token |
//! | other 401, 403, 404 and others | no request can succeed |

use std::time::Duration;

use crate::http::Refusal;
use crate::service::ServiceError;
use crate::sink::ErrorClass;

/// See the module. The condition is the service's code.
pub(in crate::archive) fn judge(refusal: &Refusal<'_>) -> ServiceError {
    let &Refusal { status, retry_after, code, body } = refusal;
    let text = String::from_utf8_lossy(body);
    let element = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(content, _)| content.trim())
    };
    let code = code.or_else(|| element("Code")).filter(|code| !code.is_empty());
    let class = match (status, code) {
        (429 | 503, _) => ErrorClass::Throttled { retry_after: Duration::ZERO },
        (413, _) => ErrorClass::TooLarge,
        // A token that ended while its request waited. The next request has another one.
        (401, Some("InvalidAuthenticationInfo")) => ErrorClass::Retryable,
        (408, _) | (409, Some("ContainerBeingDeleted")) | (400, Some("Md5Mismatch")) => ErrorClass::Retryable,
        // These say that the same again can't succeed.
        (501 | 507, _) => ErrorClass::Fatal,
        (500.., _) => ErrorClass::Retryable,
        _ => ErrorClass::Fatal,
    };
    // The first line: the others have the time and the id of the request.
    let message = element("Message").and_then(|message| message.lines().next()).unwrap_or("without a reason");
    let condition = code.map_or_else(|| format!("http:{status}"), str::to_owned);
    let mut error = ServiceError { class, condition, description: format!("{message} (status {status})") };
    error.wait_as_asked(retry_after);
    error
}

/// Whether a refusal may mean that the blob is there.
pub(in crate::archive) fn may_be_there(error: &ServiceError) -> bool {
    const CODES: [&str; 6] = [
        "BlobAlreadyExists",
        "ConditionNotMet",
        "UnauthorizedBlobOverwrite",
        "BlobImmutableDueToPolicy",
        "LeaseIdMissing",
        // Who may create and not replace.
        "AuthorizationPermissionMismatch",
    ];
    CODES.contains(&error.condition.as_str())
}

/// Whether a refusal is about the name of a blob.
pub(in crate::archive) fn is_about_the_name(error: &ServiceError) -> bool {
    ["InvalidResourceName", "OutOfRangeInput", "InvalidUri"].contains(&error.condition.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, code: Option<&str>, body: &str) -> ServiceError {
        judge(&Refusal { status, retry_after: Some(Duration::from_secs(2)), code, body: body.as_bytes() })
    }

    #[test]
    fn a_refusal_says_what_can_be_done() {
        let throttled = ErrorClass::Throttled { retry_after: Duration::from_secs(2) };
        for (status, code, class) in [
            (503, Some("ServerBusy"), throttled),
            (429, None, throttled),
            (500, Some("InternalError"), ErrorClass::Retryable),
            (408, None, ErrorClass::Retryable),
            (409, Some("ContainerBeingDeleted"), ErrorClass::Retryable),
            (507, Some("InsufficientStorage"), ErrorClass::Fatal),
            (413, Some("RequestBodyTooLarge"), ErrorClass::TooLarge),
            (403, Some("AuthenticationFailed"), ErrorClass::Fatal),
            (404, Some("ContainerNotFound"), ErrorClass::Fatal),
            (401, Some("InvalidAuthenticationInfo"), ErrorClass::Retryable),
        ] {
            assert_eq!(of(status, code, "").class, class, "{status} {code:?}");
        }
    }

    #[test]
    fn the_reason_is_the_services_own_without_the_id_of_the_request() {
        let body = "<?xml version=\"1.0\"?><Error><Code>ContainerNotFound</Code><Message>There is none.\nRequestId:1</Message></Error>";
        let error = of(404, None, body);
        assert_eq!(error.to_string(), "ContainerNotFound: There is none. (status 404)");
        assert_eq!(of(418, None, "\u{0}").to_string(), "http:418: without a reason (status 418)");
    }
}
