//! `/time` for operators: the service's clock, shown and advanced, where that is under control.
//!
//! ```text
//!  GET  /time                                  {"now":"2026-11-20T23:21:07.125Z","now_ms":…,"offset":"1 h","offset_ms":3600000}
//!  POST /time/advance   1h                     the same, with "happened": what became due, and acted
//!  POST /time/advance   2026-11-21T00:00:00Z
//!  POST /time/advance   {"by":"1 h"}  or  {"to":"2026-11-21T00:00:00Z"}, and {…, "end_tokens":true}
//! ```
//!
//! There is no key to it: the service is on loopback addresses, and any program that reaches those may do it. A page in a browser reaches them too, though it
//! may come from anywhere. So requests are refused that come from a page of another origin, and those whose host is no loopback address or `localhost`:
//! a name can be made to lead here.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{ALLOW, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode, Uri};
use listen::http::{Page, RequestBody};
use serde::Deserialize;
use units::{date, duration};

use super::server::Client;
use crate::service::{AdvanceError, Happened, TimeControl};

/// Where the clock is shown.
pub(super) const PATH: &str = "/time";

/// Where it is advanced.
pub(super) const ADVANCE_PATH: &str = "/time/advance";

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    target: Target,
    ends_tokens: bool,
}

/// How far to advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    By(Duration),
    To(SystemTime),
}

/// The same, as programs write it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WantedFields {
    by: Option<String>,
    to: Option<String>,
    #[serde(default)]
    end_tokens: bool,
}

/// The page that shows the time.
pub(super) fn page(control: Option<&TimeControl>) -> Page {
    match control {
        Some(control) => shown(control.now(), control.offset(), None),
        None => not_controlled(),
    }
}

/// Advances the time as a request asks.
pub(super) async fn advance(
    control: Option<&TimeControl>,
    request: Request<RequestBody>,
    client: &Client<'_>,
) -> Response<Full<Bytes>> {
    let Some(control) = control else {
        return not_controlled().into();
    };
    if request.method() != Method::POST {
        let refusal = refused(StatusCode::METHOD_NOT_ALLOWED, "only POST is served here");
        let mut response = Response::from(refusal);
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    if let Err(reason) = check_origin(request.headers()) {
        return refused(StatusCode::FORBIDDEN, &reason).into();
    }
    let Ok(body) = Limited::new(request.into_body(), BODY_MAX).collect().await else {
        let reason = format!("the body did not arrive, or is longer than {BODY_MAX} bytes");
        return refused(StatusCode::PAYLOAD_TOO_LARGE, &reason).into();
    };
    let wanted = match wanted(&body.to_bytes()) {
        Ok(wanted) => wanted,
        Err(reason) => return refused(StatusCode::BAD_REQUEST, &reason).into(),
    };
    // What takes long is not cut off.
    client.prove();
    let control = match wanted.ends_tokens {
        true => &control.ending_tokens(),
        false => control,
    };
    let advanced = match wanted.target {
        Target::By(by) => control.advance(by).await,
        Target::To(to) => control.advance_to(to).await,
    };
    match advanced {
        Ok(advanced) => shown(advanced.now, advanced.offset, Some(&advanced.happened)).into(),
        Err(error) => {
            let status = match error {
                AdvanceError::Back { .. } | AdvanceError::TooFar { .. } => StatusCode::BAD_REQUEST,
                AdvanceError::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            };
            refused(status, &error.to_string()).into()
        }
    }
}

fn shown(now: SystemTime, offset: Duration, happened: Option<&Happened>) -> Page {
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut shown = serde_json::json!({
        "now": date::iso_instant(now),
        "now_ms": milliseconds(now.duration_since(UNIX_EPOCH).unwrap_or_default()),
        "offset": duration::text(offset),
        "offset_ms": milliseconds(offset),
    });
    if let Some(happened) = happened {
        shown["happened"] = serde_json::json!(happened);
    }
    Page::json(format!("{shown}\n"))
}

fn not_controlled() -> Page {
    let reason = "time is not under control; start the service with --time-control";
    refused(StatusCode::NOT_FOUND, reason)
}

fn refused(status: StatusCode, reason: &str) -> Page {
    Page::json(format!("{}\n", serde_json::json!({ "error": reason }))).with_status(status)
}

/// What a body asks for.
fn wanted(body: &[u8]) -> Result<Wanted, String> {
    let text = str::from_utf8(body).map_err(|_not_utf8| "the body is not UTF-8 text".to_owned())?.trim();
    let by = |text: &str| duration::parse(text).map(Target::By);
    let to = |text: &str| date::parse_iso_instant(text).map(Target::To);
    if !text.starts_with('{') {
        // A text that is neither is refused as what it more likely was meant to be.
        let is_instant = text.contains('-') && text.starts_with(|first: char| first.is_ascii_digit());
        let target = match is_instant {
            true => to(text).ok_or_else(|| no_instant(text))?,
            false => by(text).map_err(|error| error.to_string())?,
        };
        return Ok(Wanted { target, ends_tokens: false });
    }
    let fields: WantedFields = serde_json::from_str(text).map_err(|error| format!("the body: {error}"))?;
    let target = match (fields.by, fields.to) {
        (Some(text), None) => by(&text).map_err(|error| format!("by: {error}"))?,
        (None, Some(text)) => to(&text).ok_or_else(|| format!("to: {}", no_instant(&text)))?,
        _ => return Err("give either `by`, a duration, or `to`, an instant".to_owned()),
    };
    Ok(Wanted { target, ends_tokens: fields.end_tokens })
}

fn no_instant(text: &str) -> String {
    format!("`{text}` is not an instant in UTC such as `2026-11-21T00:00:00Z`")
}

/// Whether a request comes from a program on this machine, or from a page of this service.
fn check_origin(headers: &HeaderMap) -> Result<(), String> {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let host = headers.get(HOST).map(text).unwrap_or_default();
    let is_local = host.parse::<Authority>().is_ok_and(|authority| is_loopback(authority.host()));
    if !is_local {
        return Err(format!(
            "requests for the host `{host}` are refused: use localhost or a loopback address"
        ));
    }
    if let Some(site) = headers.get("sec-fetch-site").map(text)
        && !matches!(&*site, "same-origin" | "none")
    {
        return Err(format!("requests of pages from elsewhere are refused (Sec-Fetch-Site: {site})"));
    }
    let Some(origin) = headers.get(ORIGIN).map(text) else {
        return Ok(());
    };
    let is_own =
        origin.parse::<Uri>().is_ok_and(|uri| uri.authority().map(Authority::as_str) == Some(&*host));
    match is_own {
        true => Ok(()),
        false => Err(format!("requests of pages from elsewhere are refused (Origin: {origin})")),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The longest body of a request, in bytes.
const BODY_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_body_is_a_duration_or_an_instant_as_text_or_in_json() {
        let end = |target| Wanted { target, ends_tokens: false };
        let hour = end(Target::By(Duration::from_secs(3_600)));
        let to = end(Target::To(UNIX_EPOCH + Duration::from_millis(951_782_400_500)));
        for (body, expected) in [
            ("1h", hour),
            (" 60 min\n", hour),
            (r#"{"by": "1 h"}"#, hour),
            (r#"{"by": "1 h", "end_tokens": true}"#, Wanted { ends_tokens: true, ..hour }),
            ("2000-02-29T00:00:00.5Z", to),
            (r#"{"to":"2000-02-29T00:00:00.500Z"}"#, to),
        ] {
            assert_eq!(wanted(body.as_bytes()), Ok(expected), "{body}");
        }
        for (body, expected) in [
            ("", "is not a duration"),
            ("10", "lacks its unit"),
            ("-1 h", "is not a duration"),
            ("2000-02-30T00:00:00Z", "is not an instant"),
            ("{}", "give either"),
            (r#"{"by":"1 h","to":"2000-02-29"}"#, "give either"),
            (r#"{"after":"1 h"}"#, "unknown field"),
            (r#"{"by":1}"#, "invalid type"),
        ] {
            let reason = wanted(body.as_bytes()).unwrap_err();
            assert!(reason.contains(expected), "{body}: {reason}");
        }
    }

    fn checked(headers: &[(&'static str, &'static str)]) -> bool {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        check_origin(&headers.collect()).is_ok()
    }

    #[test]
    fn pages_from_elsewhere_and_names_that_lead_here_are_refused() {
        for accepted in [
            &[("host", "127.0.0.1:5300")][..],
            &[("host", "localhost:5300")],
            &[("host", "[::1]:5300")],
            &[("host", "127.0.0.1")],
            &[
                ("host", "localhost:5300"),
                ("origin", "http://localhost:5300"),
                ("sec-fetch-site", "same-origin"),
            ],
            &[("host", "localhost:5300"), ("sec-fetch-site", "none")],
        ] {
            assert!(checked(accepted), "{accepted:?}");
        }
        for refused in [
            &[][..],
            &[("host", "example.com")],
            &[("host", "localhost.example.com:5300")],
            &[("host", "10.0.0.1:5300")],
            &[("host", "localhost:5300"), ("origin", "http://example.com")],
            &[("host", "localhost:5300"), ("origin", "http://localhost:8080")],
            &[("host", "localhost:5300"), ("origin", "null")],
            &[("host", "localhost:5300"), ("sec-fetch-site", "cross-site")],
            &[("host", "localhost:5300"), ("sec-fetch-site", "same-site")],
            &[("host", "example.com"), ("origin", "http://example.com"), ("sec-fetch-site", "same-origin")],
        ] {
            assert!(!checked(refused), "{refused:?}");
        }
    }

    proptest! {
        #[test]
        fn no_body_and_no_host_is_a_panic(body: Vec<u8>, host in "[ -~]{0,40}") {
            let _ = wanted(&body);
            let host = HeaderValue::from_str(&host).unwrap();
            let _ = check_origin(&HeaderMap::from_iter([(HOST, host)]));
        }
    }
}
