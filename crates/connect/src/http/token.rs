//! The token in a request's head.

use std::time::{Duration, SystemTime};

use access::Credential;
use http::HeaderValue;
use tokio::time::Instant;

use crate::service::Endpoint;

/// A token that is signed anew before it expires.
#[derive(Debug, Default)]
pub(crate) struct Token {
    value: Option<HeaderValue>,
    /// Until when it serves; for good without.
    until: Option<Instant>,
}

impl Token {
    /// The value of the header `Authorization`.
    pub(crate) fn header(&mut self, endpoint: &Endpoint) -> HeaderValue {
        let now = Instant::now();
        if let Some(value) = self.value.as_ref().filter(|_| self.until.is_none_or(|until| now < until)) {
            return value.clone();
        }
        let (text, serves) = match &endpoint.options.connection_string.credential {
            Credential::Key(key) => {
                let life = endpoint.options.token_life;
                (key.sign(&endpoint.audience(), SystemTime::now() + life), Some(life.mul_f64(RENEWED_AT)))
            }
            Credential::Signature(token) => (token.reveal().to_owned(), None),
        };
        self.until = serves.map(|serves: Duration| now + serves);
        // Tokens are encoded for URLs; one that is not is refused by the service.
        let mut value =
            HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("unreadable"));
        value.set_sensitive(true);
        self.value.insert(value).clone()
    }
}

/// The part of a token's life after which the next one is signed.
const RENEWED_AT: f64 = 0.75;
