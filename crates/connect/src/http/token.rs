//! The token in a request's head.

use std::time::{Duration, SystemTime};

use access::Credential;
use tokio::time::Instant;

use crate::service::Endpoint;

/// A token that is signed anew before it expires.
#[derive(Clone, Default)]
pub(crate) struct Token {
    text: String,
    /// Whether it was signed at all, and until when it serves; for good without.
    until: Option<Option<Instant>>,
}

impl Token {
    /// Signs it anew if it is time. Says whether it was.
    pub(crate) fn renew(&mut self, endpoint: &Endpoint) -> bool {
        let now = Instant::now();
        if self.until.is_some_and(|until| until.is_none_or(|until| now < until)) {
            return false;
        }
        let (text, serves) = match &endpoint.options.connection_string.credential {
            Credential::Key(key) => {
                let life = endpoint.options.token_life;
                (key.sign(&endpoint.audience(), SystemTime::now() + life), Some(life.mul_f64(RENEWED_AT)))
            }
            Credential::Signature(token) => (token.reveal().to_owned(), None),
        };
        self.until = Some(serves.map(|serves: Duration| now + serves));
        // Tokens are encoded for URLs; one that is not must not become two lines. The service refuses it.
        self.text = text.replace(|character: char| !(' '..='~').contains(&character), "");
        true
    }

    /// The value of the header `Authorization`, once it was [signed](Self::renew).
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// The part of a token's life after which the next one is signed.
const RENEWED_AT: f64 = 0.75;
