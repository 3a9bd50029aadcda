//! Who the client of a connection is.
//!
//! `SASL PLAIN` has a user and a password. As in Event Hubs, the user is `$ConnectionString` and the password a whole connection
//! string, of which the key counts, and the entity if it names one. Otherwise the user is the name of a key and the password
//! its value. Where everyone knows how to get in anyway, a client may come without.

use std::time::SystemTime;

use access::{ConnectionString, Credential, Resource, Right};

use crate::namespace::{AuthorizationError, Claims, Namespace};

/// What a connection has shown of itself.
#[derive(Debug)]
pub(super) struct Session {
    claims: Claims,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing.
    New,
    /// It is about to say who it is, in messages of the protocol or, as the first clients did, without.
    Handshaken { in_requests: bool },
    /// It has shown who it is.
    Proven,
}

/// Why a login failed. The client sees the text.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoginError {
    #[error("PLAIN needs an optional identity, a user and a password, separated by zero bytes")]
    Form,
    #[error("the user $ConnectionString has a connection string as its password: {0}")]
    ConnectionString(String),
    #[error("{0}")]
    Refused(#[from] AuthorizationError),
}

impl Session {
    pub(super) fn new(namespace: &Namespace) -> Self {
        Self { claims: Claims::new(namespace.signatures()), state: State::New }
    }

    pub(super) const fn state(&self) -> State {
        self.state
    }

    pub(super) const fn handshaken(&mut self, in_requests: bool) {
        self.state = State::Handshaken { in_requests };
    }

    /// Goes on without a login, if the namespace is open to anyone.
    pub(super) fn enter(&mut self, namespace: &Namespace) -> bool {
        let claim = namespace.open_claim();
        let enters = claim.is_some_and(|claim| self.claims.add(&claim, SystemTime::now()).is_ok());
        if enters {
            self.state = State::Proven;
        }
        enters
    }

    /// Takes what the client has to say in PLAIN.
    pub(super) fn log_in(&mut self, namespace: &Namespace, message: &[u8]) -> Result<(), LoginError> {
        let text = str::from_utf8(message).map_err(|_not_utf8| LoginError::Form)?;
        let mut parts = text.splitn(3, '\0').skip(1);
        let (user, password) = parts.next().zip(parts.next()).ok_or(LoginError::Form)?;
        let claim = match user {
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
                claim
            }
            name => namespace.authorize_key(name, password)?,
        };
        self.claims.add(&claim, SystemTime::now())?;
        self.state = State::Proven;
        Ok(())
    }

    /// Whether it may use `right` on the hub of this name.
    pub(super) fn allows(&self, hub: &str, right: Right) -> bool {
        self.claims.allows(hub, right, SystemTime::now())
    }

    /// Whether it may know that there is a hub of this name: with any right.
    pub(super) fn knows(&self, hub: &str) -> bool {
        [Right::Listen, Right::Send, Right::Manage].into_iter().any(|right| self.allows(hub, right))
    }
}

/// The user whose password is a connection string.
const CONNECTION_STRING: &str = "$ConnectionString";

/// The mechanisms that there are.
pub(super) const MECHANISMS: [&str; 1] = ["PLAIN"];
