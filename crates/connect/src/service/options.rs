//! What a client is told: where, what it is to use there, with what right, and how patiently.

use std::path::PathBuf;
use std::time::Duration;

use access::ConnectionString;

use crate::identity::{Identity, SERVICE_BUS_SCOPE};
use crate::retry::RetryPolicy;

/// How to reach an entity of a namespace: a hub, a queue, a topic, a subscription, or the namespace as a whole.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The namespace and what gives the right to use it. `UseDevelopmentEmulator=true` means plain TCP, else TLS.
    pub connection_string: ConnectionString,
    /// The address of the entity, which tokens are for; empty for the namespace as a whole.
    pub entity: String,
    /// What carries the bytes of AMQP.
    pub transport: Transport,
    /// A PEM file of the certificate authorities to trust instead of the system's.
    pub certificate_authority: Option<PathBuf>,
    /// How long it may take from dialling to a connection that is authorised, and how long a single request may take.
    pub connect_timeout: Duration,
    /// The silence after which the service is asked for a sign of life. If it gives such signs, and none within the same time again,
    /// it counts as out of reach; the connection is not given up for that.
    pub probe_after: Duration,
    /// How long signed tokens are valid. They are renewed when three quarters of it are over.
    pub token_life: Duration,
    /// Whose tokens are used where the connection string has none, and no key.
    pub identity: Identity,
    /// What these are for: [`SERVICE_BUS_SCOPE`], or [`EVENT_HUBS_SCOPE`](crate::identity::EVENT_HUBS_SCOPE).
    pub token_scope: &'static str,
    /// After what delay a broken connection is made again, and how often that is tried in a row; the time-out in it does
    /// not matter. Without delay after a connection that had worked, there would be no pause between connections that
    /// are accepted and closed at once, so that counts as a first failure.
    pub reconnect: RetryPolicy,
}

/// What carries the bytes of AMQP, with TLS below it unless the connection string says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// TCP, to the ports of AMQP.
    #[default]
    Tcp,
    /// WebSocket, to the ports of HTTP: for networks that let nothing else through.
    WebSocket,
}

impl ClientOptions {
    /// Options with usual values for all that is not given.
    #[must_use]
    pub fn new(connection_string: ConnectionString, entity: impl Into<String>) -> Self {
        Self {
            connection_string,
            entity: entity.into(),
            transport: Transport::default(),
            certificate_authority: None,
            connect_timeout: Duration::from_secs(30),
            probe_after: Duration::from_secs(5),
            token_life: Duration::from_secs(60 * 60),
            identity: Identity::of_process(),
            token_scope: SERVICE_BUS_SCOPE,
            reconnect: RetryPolicy {
                attempts: u32::MAX,
                delay: Duration::from_millis(200),
                max_delay: Duration::from_secs(30),
                jitter: 0.5,
                ..RetryPolicy::default()
            },
        }
    }
}
