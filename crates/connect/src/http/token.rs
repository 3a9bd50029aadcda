//! The token in a request's head.

use std::time::{Duration, SystemTime};

use access::Credential;
use tokio::time::Instant;

use crate::identity::{BearerToken, FollowedToken};
use crate::service::{Endpoint, ServiceError};

/// A token that is signed, or asked for, anew before it expires.
#[derive(Clone, Default)]
pub(crate) struct Token {
    text: String,
    /// Whether it was signed at all, and until when it serves; for good without.
    until: Option<Option<Instant>>,
    /// The tokens of an identity, renewed in the background.
    followed: Option<FollowedToken>,
    /// The token of an identity that is in the text.
    bearer: Option<BearerToken>,
    /// Whether the text is another one than when [`renew`](Self::renew) was last called.
    is_new: bool,
}

impl Token {
    /// Asks the identity for its token, if it is one that gives the right.
    ///
    /// # Errors
    /// It has none.
    pub(crate) async fn ask(&mut self, endpoint: &Endpoint) -> Result<(), ServiceError> {
        let options = &endpoint.options;
        if options.connection_string.credential == Credential::Identity {
            let token = options.identity.token(options.token_scope).await?;
            self.bear(token);
        }
        Ok(())
    }

    /// The same, for who can't wait later on: from now on [`renew`](Self::renew) has the newest one.
    ///
    /// # Errors
    /// As with [`ask`](Self::ask).
    pub(crate) async fn follow(&mut self, endpoint: &Endpoint) -> Result<(), ServiceError> {
        let options = &endpoint.options;
        if options.connection_string.credential == Credential::Identity {
            let mut followed = options.identity.follow(options.token_scope).await?;
            self.bear(followed.current());
            self.followed = Some(followed);
        }
        Ok(())
    }

    /// Signs it anew if it is time, or takes the one that was asked for. Says whether it is another one than before. Hot path.
    pub(crate) fn renew(&mut self, endpoint: &Endpoint) -> bool {
        let options = &endpoint.options;
        if options.connection_string.credential == Credential::Identity {
            if let Some(token) = self.followed.as_mut().and_then(FollowedToken::changed) {
                self.bear(token);
            }
            return std::mem::take(&mut self.is_new);
        }
        let now = Instant::now();
        if self.until.is_some_and(|until| until.is_none_or(|until| now < until)) {
            return false;
        }
        let (text, serves) = match &options.connection_string.credential {
            Credential::Key(key) => {
                let life = options.token_life;
                (key.sign(&endpoint.audience(), SystemTime::now() + life), Some(life.mul_f64(RENEWED_AT)))
            }
            Credential::Signature(token) => (token.reveal().to_owned(), None),
            Credential::Identity => return false,
        };
        self.until = Some(serves.map(|serves: Duration| now + serves));
        // Tokens are encoded for URLs; one that is not must not become two lines. The service refuses it.
        self.text = text.replace(|character: char| !(' '..='~').contains(&character), "");
        true
    }

    /// The value of the header `Authorization`, once it was [signed](Self::renew) or [asked for](Self::ask).
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn bear(&mut self, token: BearerToken) {
        if self.bearer.as_ref().is_none_or(|bearer| !bearer.is(&token)) {
            self.text = format!("Bearer {}", token.reveal());
            self.is_new = true;
        }
        self.bearer = Some(token);
    }
}

/// The part of a token's life after which the next one is signed.
const RENEWED_AT: f64 = 0.75;
