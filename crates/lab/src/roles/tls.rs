//! An address for TLS on this machine that every client can reach.
//!
//! Older SDKs know one port for AMQP over TLS, whatever their connection string says. So the embedded service listens on
//! that port, and what varies is the loopback address: if another service has it on the first one, there are millions
//! more.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use access::TransportSecurity;
use hub::service::{Listener, Protocol, Service, ServiceConfig, StartError};

use super::network::BackendError;

/// Starts the service with these protocols over TLS beside what `config` says already, with a certificate made below
/// `directory`. The path is that of the authority that clients are to trust.
pub(super) async fn start(
    config: ServiceConfig,
    protocols: Vec<Protocol>,
    directory: PathBuf,
) -> Result<(Service, PathBuf), BackendError> {
    let mut taken = None;
    for address in addresses() {
        // The certificate is for one address beside the usual one, hence a directory for each.
        let directory = directory.join(address.to_string());
        let development = hub::tls::development(&directory, &address.to_string())?;
        let mut config = config.clone();
        if address != Ipv4Addr::LOCALHOST {
            // Clients sign their tokens for the host that they know, which has to be the namespace's own.
            config.namespace.host = address.to_string();
            config.listeners.iter_mut().for_each(|listener| listener.address.set_ip(address.into()));
        }
        config.listeners.extend(protocols.iter().map(|protocol| Listener {
            protocol: *protocol,
            address: SocketAddr::from((address, if *protocol == Protocol::Amqp { PORT } else { ANY_PORT })),
            tls: Some(Arc::clone(&development.server)),
        }));
        match Service::start(config).await {
            Ok(service) => return Ok((service, development.authority)),
            Err(error) if is_taken(&error) => taken = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    let taken = taken.expect("the last of several addresses was taken, or this would have returned");
    Err(taken.into())
}

/// The usual address, then some that no other process is likely to choose.
fn addresses() -> impl Iterator<Item = Ipv4Addr> {
    let [.., high, low] = std::process::id().to_be_bytes();
    let others = (1..=OTHER_ADDRESSES).map(move |first| Ipv4Addr::new(127, first, high, low.max(1)));
    std::iter::once(Ipv4Addr::LOCALHOST).chain(others)
}

fn is_taken(error: &StartError) -> bool {
    matches!(error, StartError::Listen { security: TransportSecurity::Tls, source, .. }
        if source.kind() == io::ErrorKind::AddrInUse)
}

/// Registered for AMQP over TLS.
const PORT: u16 = 5671;

/// Clients of other protocols go by their connection string.
const ANY_PORT: u16 = 0;

/// Whoever has the port on all of them has it on every address.
const OTHER_ADDRESSES: u8 = 8;

#[cfg(test)]
mod tests {
    use hub::namespace::{HubConfig, NamespaceConfig};

    use super::*;

    fn config() -> ServiceConfig {
        ServiceConfig::loopback(NamespaceConfig::with_hubs(vec![HubConfig::new("events", 1)]))
    }

    #[tokio::test]
    async fn two_services_at_once_have_the_port_on_addresses_of_their_own() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        let start = |folder| start(config(), vec![Protocol::Amqp, Protocol::AmqpWebSocket], folder);
        let (one, one_authority) = start(one).await.expect("an address is free");
        let (two, two_authority) = start(two).await.expect("another is free");
        let told = |service: &Service| {
            assert!(service.tls_address(Protocol::AmqpWebSocket).is_some());
            let told = service.tls_connection_string(None);
            told.expect("it listens for TLS").endpoint.to_string()
        };
        let [one_endpoint, two_endpoint] = [told(&one), told(&two)];
        assert_ne!(one_endpoint, two_endpoint);
        assert_eq!(
            two.amqp_address().ip(),
            two.tls_address(Protocol::Amqp).map(|tls| tls.ip()).expect("TLS")
        );
        for endpoint in [one_endpoint, two_endpoint] {
            let host = endpoint.trim_start_matches("sb://").trim_end_matches('/');
            assert!(!host.contains(':'), "the port goes without saying: {endpoint}");
        }
        assert!(one_authority.is_file() && two_authority.is_file());
        assert_ne!(one_authority, two_authority);
        one.stop().await;
        two.stop().await;
    }
}
