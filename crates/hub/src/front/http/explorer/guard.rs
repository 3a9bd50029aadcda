//! Which requests are answered: those of the page itself, and of programs that are no browsers.
//!
//! A page from elsewhere may send requests here, and by a name of its own that leads to this address (DNS rebinding) even read the
//! answers. So the host that a request names must be an address, `localhost` or the namespace's; reading must not be asked for from
//! another site; and what changes something comes from the page itself, in a form that no other page can send unasked.

use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use std::net::IpAddr;

use super::reply::Refusal;

/// Whether the request names a host that can't be made to lead here from elsewhere.
///
/// # Errors
/// It did not.
pub(super) fn check_host(head: &Parts, own: &str) -> Result<(), Refusal> {
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok());
    match host.is_some_and(|host| is_known(host_of(host), own)) {
        true => Ok(()),
        false => Err(Refusal::forbidden("the Host of the request is neither an address nor localhost")),
    }
}

/// Whether reading is asked for by the page, or by no page at all.
///
/// # Errors
/// Another page asks.
pub(super) fn check_reading(head: &Parts) -> Result<(), Refusal> {
    match head.headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none") {
        true => check_origin(&head.headers),
        false => Err(foreign()),
    }
}

/// The same for what changes something.
///
/// # Errors
/// Another page asks, or the content is not declared as JSON.
pub(super) fn check_changing(head: &Parts) -> Result<(), Refusal> {
    check_reading(head)?;
    // No page may send this type to another origin without that origin's leave.
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|content_type| content_type.to_str().ok());
    let media_type = content_type.and_then(|content_type| content_type.split(';').next()).unwrap_or_default();
    match media_type.trim().eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(Refusal::new(415, "the Content-Type must be application/json")),
    }
}

/// What every response says to browsers: nothing is loaded from elsewhere, no script stands in the page, no other page frames it.
///
/// It says nothing of openers (`Cross-Origin-Opener-Policy`): Chromium learns that with the response and then starts another
/// process for the page, which delays the first paint by some 70 ms. A page that opened this one has nothing to reach: this one
/// listens to no messages and has no frames.
pub(super) fn secure(headers: &mut HeaderMap) {
    let mut set = |name, value| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(REFERRER_POLICY, "no-referrer");
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert_with(|| HeaderValue::from_static("no-store"));
}

fn check_origin(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(origin) = headers.get(ORIGIN) else {
        return Ok(());
    };
    let host = headers.get(HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    match origin.as_bytes().strip_prefix(b"http://").is_some_and(|origin| origin.eq_ignore_ascii_case(host)) {
        true => Ok(()),
        false => Err(foreign()),
    }
}

fn foreign() -> Refusal {
    Refusal::forbidden("only the explorer page itself may ask this")
}

/// The host of `host:port`.
fn host_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_known(host: &str, own: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    address.parse::<IpAddr>().is_ok()
        || host.eq_ignore_ascii_case("localhost")
        || host.eq_ignore_ascii_case(own)
}

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn head(fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder();
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_hosts_that_lead_nowhere_else_are_known() {
        for host in
            ["127.0.0.1:5400", "localhost:5400", "[::1]:5400", "LOCALHOST", "10.0.0.7", "own.example:1"]
        {
            assert!(check_host(&head(&[("host", host)]), "own.example").is_ok(), "{host}");
        }
        for host in
            ["evil.example", "evil.example:5400", "127.0.0.1.evil.example", "", "localhost.evil.example"]
        {
            assert!(check_host(&head(&[("host", host)]), "own.example").is_err(), "{host}");
        }
        assert!(check_host(&head(&[]), "own.example").is_err());
    }

    #[test]
    fn another_page_neither_reads_nor_changes_anything() {
        let host = ("host", "localhost:5400");
        let json = ("content-type", "application/json; charset=utf-8");
        for fields in [
            &[host, json][..],
            &[host, json, ("origin", "http://localhost:5400"), ("sec-fetch-site", "same-origin")],
        ] {
            assert!(check_reading(&head(fields)).is_ok(), "{fields:?}");
            assert!(check_changing(&head(fields)).is_ok(), "{fields:?}");
        }
        for foreign in [
            ("origin", "http://localhost:5401"),
            ("origin", "https://localhost:5400"),
            ("origin", "null"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "cross-site"),
        ] {
            assert!(check_reading(&head(&[host, foreign])).is_err(), "{foreign:?}");
            assert!(check_changing(&head(&[host, json, foreign])).is_err(), "{foreign:?}");
        }
        for form in ["text/plain", "application/x-www-form-urlencoded", ""] {
            assert!(check_changing(&head(&[host, ("content-type", form)])).is_err(), "{form}");
        }
        assert!(check_changing(&head(&[host])).is_err());
    }
}
