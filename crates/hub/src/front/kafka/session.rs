//! Who the client of a connection is.
//!
//! `SASL PLAIN` has a user and a password. As in Event Hubs, the user is `$ConnectionString` and the password a whole connection
//! string, of which the key counts, and the entity if it names one. Otherwise the user is the name of a key and the password
//! its value. `OAUTHBEARER` has a token, where such are accepted, and the session ends with it, unless the client shows another one
//! before. Where everyone knows how to get in anyway, a client may come without.
//!
//! ```text
//!   n,, ^A auth=Bearer TOKEN ^A [NAME=VALUE ^A]... ^A        the client (RFC 7628)
//!   {"status":"invalid_token"}                               the answer to a token that is not accepted; the client
//!   ^A                                                       says that it has seen it, and is refused
//! ```

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use access::token::TokenError;
use access::{ConnectionString, Credential, Resource, Right};

use crate::clock::{ServiceClock, TokenNow};
use crate::namespace::{AuthorizationError, Claims, Namespace, Principal};

/// What a connection has shown of itself.
#[derive(Debug)]
pub(super) struct Session {
    claims: Claims,
    clock: Arc<ServiceClock>,
    principal: Principal,
    state: State,
    /// When the token ends that the client has shown, if it was one.
    ends_at: Option<SystemTime>,
    /// Why the last one was not accepted, until the client has said that it knows.
    refusal: Option<AuthorizationError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing.
    New,
    /// It is about to say who it is, in messages of the protocol or, as the first clients did, without.
    Handshaken { in_requests: bool, mechanism: Mechanism },
    /// Its token was not accepted, and it is about to say that it knows.
    Refused,
    /// It has shown who it is.
    Proven,
}

/// How a client says who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    /// By a user and a password.
    Plain,
    /// By a token.
    OauthBearer,
}

/// What comes of a login.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LoggedIn {
    /// The client is known, and for how long.
    Until(Option<SystemTime>),
    /// It is not, and this is how it gets to know.
    Refused(String),
}

/// Why a login failed. The client sees the text.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginError {
    #[error("OAUTHBEARER needs `n,,`, and `auth=Bearer` and a token between bytes of value 1")]
    BearerForm,
    #[error("the token can't be verified yet")]
    NotYet,
    #[error("PLAIN needs an optional identity, a user and a password, separated by zero bytes")]
    Form,
    #[error("the user $ConnectionString has a connection string as its password: {0}")]
    ConnectionString(String),
    #[error("{0}")]
    Refused(#[from] AuthorizationError),
}

impl Session {
    pub(super) fn new(namespace: &Namespace) -> Self {
        let clock = Arc::clone(namespace.clock());
        Self {
            claims: Claims::new(namespace.signatures()),
            clock,
            principal: Principal::Anyone,
            state: State::New,
            ends_at: None,
            refusal: None,
        }
    }

    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// The identity that the client has proven.
    pub(super) const fn principal(&self) -> &Principal {
        &self.principal
    }

    pub(super) const fn handshaken(&mut self, mechanism: Mechanism, in_requests: bool) {
        self.state = State::Handshaken { in_requests, mechanism };
    }

    /// Why the last token was not accepted, if the client has not heard it yet.
    pub(super) fn take_refusal(&mut self) -> Option<LoginError> {
        self.refusal.take().map(LoginError::Refused)
    }

    /// Whether the token that the client has shown is void.
    pub(super) fn has_ended(&self) -> bool {
        self.ends_at.is_some_and(|end| end <= self.clock.token_now().time())
    }

    /// Goes on without a login, if the namespace is open to anyone.
    pub(super) fn enter(&mut self, namespace: &Namespace) -> bool {
        let claim = namespace.open_claim();
        let enters = claim.is_some_and(|claim| self.claims.add(&claim, self.clock.token_now()).is_ok());
        if enters {
            self.state = State::Proven;
        }
        enters
    }

    /// Takes what the client has to say in its mechanism.
    pub(super) fn log_in(
        &mut self,
        namespace: &Namespace,
        mechanism: Mechanism,
        message: &[u8],
    ) -> Result<LoggedIn, LoginError> {
        match mechanism {
            Mechanism::Plain => self.log_in_with_key(namespace, message).map(|()| LoggedIn::Until(None)),
            Mechanism::OauthBearer => self.log_in_with_token(namespace, message),
        }
    }

    fn log_in_with_token(&mut self, namespace: &Namespace, message: &[u8]) -> Result<LoggedIn, LoginError> {
        let token = bearer_token(message).ok_or(LoginError::BearerForm)?;
        let now = self.clock.token_now();
        let (principal, claims) = match namespace.authorize_bearer(token, now) {
            Ok(accepted) => accepted,
            Err(AuthorizationError::Bearer(TokenError::KeysPending)) => return Err(LoginError::NotYet),
            Err(error) => {
                self.state = State::Refused;
                let status = match error {
                    AuthorizationError::Bearer(TokenError::NoRole { .. }) => "insufficient_scope",
                    _ => "invalid_token",
                };
                let refusal = serde_json::json!({"status": status, "error_description": error.to_string()});
                self.refusal = Some(error);
                return Ok(LoggedIn::Refused(refusal.to_string()));
            }
        };
        // What an earlier token allowed counts no longer.
        self.claims = Claims::new(namespace.signatures());
        claims.iter().try_for_each(|claim| self.claims.add(claim, now))?;
        self.principal = principal;
        self.ends_at = claims.iter().filter_map(|claim| claim.expires_at).min();
        self.state = State::Proven;
        Ok(LoggedIn::Until(self.ends_at))
    }

    /// Takes what the client has to say in PLAIN.
    fn log_in_with_key(&mut self, namespace: &Namespace, message: &[u8]) -> Result<(), LoginError> {
        let text = str::from_utf8(message).map_err(|_not_utf8| LoginError::Form)?;
        let mut parts = text.splitn(3, '\0').skip(1);
        let (user, password) = parts.next().zip(parts.next()).ok_or(LoginError::Form)?;
        let (claim, name) = match user {
            CONNECTION_STRING => {
                let string: ConnectionString =
                    password.parse().map_err(|error: access::ConnectionStringError| {
                        LoginError::ConnectionString(error.to_string())
                    })?;
                let Credential::Key(key) = &string.credential else {
                    return Err(LoginError::ConnectionString("it has no SharedAccessKey".to_owned()));
                };
                let mut claim = namespace.authorize_key(key.name(), key.value().reveal())?;
                if let Some(entity) = &string.entity_path {
                    claim.resource = Resource::parse(&format!("sb://{}/{entity}", namespace.host()));
                }
                (claim, key.name().to_owned())
            }
            name => (namespace.authorize_key(name, password)?, name.to_owned()),
        };
        self.claims.add(&claim, self.clock.token_now())?;
        self.principal = namespace.principal_of_key(&name);
        self.ends_at = None;
        self.state = State::Proven;
        Ok(())
    }

    /// Whether it may use `right` on the hub of this name.
    pub(super) fn allows(&self, hub: &str, right: Right) -> bool {
        self.claims.allows(hub, right, self.clock.token_now())
    }

    /// Whether it may know that there is a hub of this name: with any right.
    pub(super) fn knows(&self, hub: &str) -> bool {
        [Right::Listen, Right::Send, Right::Manage].into_iter().any(|right| self.allows(hub, right))
    }
}

/// The user whose password is a connection string.
const CONNECTION_STRING: &str = "$ConnectionString";

impl Mechanism {
    /// The mechanisms of this name that a namespace has.
    pub(super) fn of(name: &str, namespace: &Namespace) -> Option<Self> {
        Self::names(namespace).contains(&name).then_some(match name {
            OAUTHBEARER => Self::OauthBearer,
            _ => Self::Plain,
        })
    }

    /// The names of all that a namespace has.
    pub(super) fn names(namespace: &Namespace) -> &'static [&'static str] {
        match namespace.identity() {
            Some(_) => &[PLAIN, OAUTHBEARER],
            None => &[PLAIN],
        }
    }
}

impl LoggedIn {
    /// For how long the client may go on from `now` before it shows another token, in milliseconds; 0 for as long as it likes.
    pub(super) fn lifetime_ms(&self, now: TokenNow) -> i64 {
        let Self::Until(Some(end)) = self else {
            return 0;
        };
        let left: Duration = end.duration_since(now.time()).unwrap_or_default();
        // 0 would mean no end.
        i64::try_from(left.as_millis()).unwrap_or(i64::MAX).max(1)
    }
}

/// The token in what a client says in OAUTHBEARER.
fn bearer_token(message: &[u8]) -> Option<&str> {
    let text = str::from_utf8(message).ok()?;
    let (channel_binding, fields) = text.split_once('\u{1}')?;
    // Without channel binding; for whom it asks makes no difference.
    if !channel_binding.starts_with("n,") || !fields.ends_with('\u{1}') {
        return None;
    }
    let authorization = fields.split('\u{1}').find_map(|field| field.strip_prefix("auth="))?;
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

const PLAIN: &str = "PLAIN";
const OAUTHBEARER: &str = "OAUTHBEARER";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_between_bytes_of_value_1() {
        assert_eq!(bearer_token(b"n,,\x01auth=Bearer a.b.c\x01\x01"), Some("a.b.c"));
        let extended = b"n,a=user,\x01auth=bearer a.b.c\x01logicalCluster=x\x01traceId=1\x01\x01";
        assert_eq!(bearer_token(extended), Some("a.b.c"));
        for wrong in [
            &b""[..],
            b"n,,",
            b"n,,\x01auth=Basic a\x01\x01",
            b"p=tls,,\x01auth=Bearer a\x01\x01",
            b"\xff\x01",
            b"n,,\x01auth=Bearer a",
        ] {
            assert_eq!(bearer_token(wrong), None, "{wrong:?}");
        }
    }
}
