//! Where a namespace is.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The `Endpoint` of a connection string: a host and perhaps a port. Written `sb://host[:port]/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: Option<u16>,
}

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportSecurity {
    /// TLS from the first byte.
    Tls,
    /// Plain TCP, as the development emulator speaks.
    Plain,
}

/// Everything that dialling needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAddress {
    /// Name or address of the host; an IPv6 address is without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Encrypted or not.
    pub security: TransportSecurity,
}

/// Why a text is not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Another scheme or none.
    #[error("it must begin with sb://")]
    Scheme,
    /// No host, or characters that no host has.
    #[error("it has no valid host; the form is sb://host[:port]/")]
    Host,
    /// Not a number from 1 to 65535.
    #[error("its port is not a number from 1 to 65535")]
    Port,
    /// Something after the host.
    #[error("it has a path; the hub goes into EntityPath")]
    Path,
}

impl Endpoint {
    /// An endpoint of `host` (an IPv6 address without brackets) and, unless it is the default one, `port`.
    pub fn new(host: impl Into<String>, port: Option<u16>) -> Result<Self, EndpointError> {
        let host = host.into();
        if host.is_empty()
            || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:%".contains(&byte))
        {
            return Err(EndpointError::Host);
        }
        if port == Some(0) {
            return Err(EndpointError::Port);
        }
        Ok(Self { host, port })
    }

    /// The host; an IPv6 address is without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, where the endpoint names one.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Whether what is sent there stays on this machine: `localhost`, 127.0.0.0/8 and ::1.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }

    /// Where AMQP is spoken: the endpoint's port, else the registered one for `security`.
    #[must_use]
    pub fn amqp_address(&self, security: TransportSecurity) -> ServiceAddress {
        self.address(security, AMQPS_PORT, AMQP_PORT)
    }

    /// Where AMQP over WebSocket is spoken: the endpoint's port, else that of HTTP for `security`.
    #[must_use]
    pub fn web_socket_address(&self, security: TransportSecurity) -> ServiceAddress {
        self.address(security, HTTPS_PORT, HTTP_PORT)
    }

    fn address(&self, security: TransportSecurity, tls: u16, plain: u16) -> ServiceAddress {
        let port = self.port.unwrap_or(match security {
            TransportSecurity::Tls => tls,
            TransportSecurity::Plain => plain,
        });
        ServiceAddress { host: self.host.clone(), port, security }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let (scheme, rest) = text.trim().split_once("://").ok_or(EndpointError::Scheme)?;
        if !scheme.eq_ignore_ascii_case("sb") {
            return Err(EndpointError::Scheme);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !path.is_empty() {
            return Err(EndpointError::Path);
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(bracketed) => {
                let (host, after) = bracketed.split_once(']').ok_or(EndpointError::Host)?;
                let port = match after {
                    "" => None,
                    _ => Some(after.strip_prefix(':').ok_or(EndpointError::Host)?),
                };
                (host, port)
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().map_err(|_overflow_or_empty| EndpointError::Port)?)
            }
            Some(_) => return Err(EndpointError::Port),
            None => None,
        };
        Self::new(host, port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "sb://[{}]", self.host)?,
            false => write!(f, "sb://{}", self.host)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}/"),
            None => f.write_str("/"),
        }
    }
}

/// Whether what is sent to this host stays on this machine: `localhost`, and the addresses of 127.0.0.0/8 and ::1, the latter with
/// brackets or without.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// The port that IANA registers for AMQP over plain TCP.
const AMQP_PORT: u16 = 5672;
/// The port that IANA registers for AMQP over TLS.
const AMQPS_PORT: u16 = 5671;

const HTTP_PORT: u16 = 80;

const HTTPS_PORT: u16 = 443;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_read_and_written_back() {
        for (text, host, port) in [
            ("sb://ns.servicebus.windows.net/", "ns.servicebus.windows.net", None),
            ("sb://localhost:5673/", "localhost", Some(5673)),
            ("sb://127.0.0.1/", "127.0.0.1", None),
            ("sb://[::1]:5672/", "::1", Some(5672)),
            ("sb://[::1]/", "::1", None),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!((endpoint.host(), endpoint.port()), (host, port), "{text}");
            assert_eq!(endpoint.to_string(), text);
        }
        assert_eq!("SB://Host".parse::<Endpoint>().unwrap().to_string(), "sb://Host/");
    }

    #[test]
    fn a_text_that_is_no_endpoint_is_refused_with_its_reason() {
        for (text, reason) in [
            ("", EndpointError::Scheme),
            ("localhost", EndpointError::Scheme),
            ("http://localhost", EndpointError::Scheme),
            ("sb://", EndpointError::Host),
            ("sb:///hub", EndpointError::Path),
            ("sb://:5672/", EndpointError::Host),
            ("sb://user@host/", EndpointError::Host),
            ("sb://[::1", EndpointError::Host),
            ("sb://[::1]5672", EndpointError::Host),
            ("sb://host:0/", EndpointError::Port),
            ("sb://host:65536/", EndpointError::Port),
            ("sb://host:+80/", EndpointError::Port),
            ("sb://host:/", EndpointError::Port),
            ("sb://::1/", EndpointError::Port),
            ("sb://host/hub", EndpointError::Path),
        ] {
            assert_eq!(text.parse::<Endpoint>(), Err(reason), "{text}");
        }
    }

    #[test]
    fn a_host_of_this_machine_is_told_from_others() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.8.9.1", "::1", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "localhost.example.com", "127.0.0.1.example.com", "10.0.0.1", "::2", "0.0.0.0"] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn the_port_follows_the_security_unless_it_is_named() {
        let named: Endpoint = "sb://host:9999".parse().unwrap();
        assert_eq!(named.amqp_address(TransportSecurity::Tls).port, 9999);
        let default: Endpoint = "sb://host".parse().unwrap();
        assert_eq!(default.amqp_address(TransportSecurity::Tls).port, 5671);
        assert_eq!(default.amqp_address(TransportSecurity::Plain).port, 5672);
    }
}
