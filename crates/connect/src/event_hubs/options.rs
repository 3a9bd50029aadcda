//! What a client of a hub is told: where, which hub, with what right, and how patiently.

use std::path::PathBuf;
use std::time::Duration;

use access::ConnectionString;

use crate::identity::{EVENT_HUBS_SCOPE, Identity};
use crate::retry::RetryPolicy;
use crate::service::{ClientOptions, Transport};

/// How to reach a hub.
#[derive(Clone, Debug)]
pub struct EventHubsOptions {
    /// The namespace and what gives the right to use it. `UseDevelopmentEmulator=true` means plain TCP, else TLS.
    pub connection_string: ConnectionString,
    /// The name of the hub; empty for the namespace as a whole.
    pub hub: String,
    /// What carries the bytes of AMQP.
    pub transport: Transport,
    /// A PEM file of the certificate authorities to trust instead of the system's.
    pub certificate_authority: Option<PathBuf>,
    /// How long it may take from dialling to a connection that is authorised, and how long a single request may take.
    pub connect_timeout: Duration,
    /// As [`ClientOptions::probe_after`].
    pub probe_after: Duration,
    /// How long signed tokens are valid. They are renewed when three quarters of it are over.
    pub token_life: Duration,
    /// Whose tokens are used where the connection string has none, and no key.
    pub identity: Identity,
    /// What these are for: [`EVENT_HUBS_SCOPE`] for hubs.
    pub token_scope: &'static str,
    /// After what delay a broken connection is made again, and how often that is tried in a row; the time-out in it does
    /// not matter. Without delay after a connection that had worked, there would be no pause between connections that
    /// are accepted and closed at once, so that counts as a first failure.
    pub reconnect: RetryPolicy,
}

/// Why it is not clear which hub is meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HubNameError {
    /// Named nowhere.
    #[error("no hub is named, and the connection string has no EntityPath")]
    Missing,
    /// Named twice, and differently.
    #[error("the hub {named} is not the {entity_path} that the connection string is for")]
    Conflict {
        /// The name given.
        named: String,
        /// The connection string's `EntityPath`.
        entity_path: String,
    },
}

impl EventHubsOptions {
    /// Options for the hub called `hub`, or else the connection string's `EntityPath`, with usual values for the rest.
    ///
    /// # Errors
    /// When neither names a hub, or both name a different one. Letter case does not tell hubs apart.
    pub fn new(connection_string: ConnectionString, hub: Option<&str>) -> Result<Self, HubNameError> {
        let hub = match (hub, &connection_string.entity_path) {
            (None, None) => return Err(HubNameError::Missing),
            (Some(named), Some(entity_path)) if !named.eq_ignore_ascii_case(entity_path) => {
                return Err(HubNameError::Conflict {
                    named: named.to_owned(),
                    entity_path: entity_path.clone(),
                });
            }
            (Some(named), _) => named.to_owned(),
            (None, Some(entity_path)) => entity_path.clone(),
        };
        Ok(Self::of(connection_string, hub))
    }

    /// Options for a namespace as a whole, with usual values: no hub is named, and the connection string's `EntityPath`
    /// makes no difference.
    #[must_use]
    pub fn for_namespace(connection_string: ConnectionString) -> Self {
        Self::of(connection_string, String::new())
    }

    fn of(connection_string: ConnectionString, hub: String) -> Self {
        let usual = ClientOptions::new(connection_string, hub);
        Self {
            connection_string: usual.connection_string,
            hub: usual.entity,
            transport: usual.transport,
            certificate_authority: usual.certificate_authority,
            connect_timeout: usual.connect_timeout,
            probe_after: usual.probe_after,
            token_life: usual.token_life,
            identity: usual.identity,
            token_scope: EVENT_HUBS_SCOPE,
            reconnect: usual.reconnect,
        }
    }
}

impl From<EventHubsOptions> for ClientOptions {
    fn from(options: EventHubsOptions) -> Self {
        Self {
            connection_string: options.connection_string,
            entity: options.hub,
            transport: options.transport,
            certificate_authority: options.certificate_authority,
            connect_timeout: options.connect_timeout,
            probe_after: options.probe_after,
            token_life: options.token_life,
            identity: options.identity,
            token_scope: options.token_scope,
            reconnect: options.reconnect,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMULATOR: &str = "Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=b";

    fn hub(connection_string: &str, hub: Option<&str>) -> Result<String, HubNameError> {
        EventHubsOptions::new(connection_string.parse().unwrap(), hub).map(|options| options.hub)
    }

    #[test]
    fn the_hub_is_the_one_that_is_named_or_the_connection_strings() {
        let with_path = format!("{EMULATOR};EntityPath=orders");
        assert_eq!(hub(EMULATOR, Some("orders")).as_deref(), Ok("orders"));
        assert_eq!(hub(&with_path, None).as_deref(), Ok("orders"));
        assert_eq!(hub(&with_path, Some("Orders")).as_deref(), Ok("Orders"));
        assert_eq!(hub(EMULATOR, None), Err(HubNameError::Missing));
        let conflict = HubNameError::Conflict { named: "bills".into(), entity_path: "orders".into() };
        assert_eq!(hub(&with_path, Some("bills")), Err(conflict));
    }
}
