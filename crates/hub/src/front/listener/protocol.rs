//! What is spoken on an address.

use std::fmt;

use access::TransportSecurity;

/// What is spoken on an address, apart from whether it is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// AMQP: hubs, queues and topics. Clients that speak HTTP are served as well.
    Amqp,
    /// AMQP in the messages of a WebSocket.
    AmqpWebSocket,
    /// Kafka: hubs.
    Kafka,
    /// HTTP: hubs, queues and topics.
    Rest,
    /// HTTP for blobs.
    Blob,
    /// HTTP for tokens of a development issuer.
    Identity,
    /// HTTP for health and metrics.
    Operations,
    /// HTTP for the explorer page.
    Explorer,
}

impl Protocol {
    /// Whether it can be spoken over TLS.
    #[must_use]
    pub const fn has_tls(self) -> bool {
        !matches!(self, Self::Operations | Self::Explorer)
    }

    /// What people call it.
    #[must_use]
    pub const fn name_over(self, security: TransportSecurity) -> &'static str {
        match (self, security) {
            (Self::Amqp, TransportSecurity::Plain) => "AMQP",
            (Self::Amqp, TransportSecurity::Tls) => "AMQP over TLS",
            (Self::AmqpWebSocket, TransportSecurity::Plain) => "AMQP over WebSocket",
            (Self::AmqpWebSocket, TransportSecurity::Tls) => "AMQP over WebSocket and TLS",
            (Self::Kafka, TransportSecurity::Plain) => "Kafka",
            (Self::Kafka, TransportSecurity::Tls) => "Kafka over TLS",
            (Self::Rest, TransportSecurity::Plain) => "HTTP for events and messages",
            (Self::Rest, TransportSecurity::Tls) => "HTTP for events and messages over TLS",
            (Self::Blob, TransportSecurity::Plain) => "blob storage",
            (Self::Blob, TransportSecurity::Tls) => "blob storage over TLS",
            (Self::Identity, TransportSecurity::Plain) => "tokens",
            (Self::Identity, TransportSecurity::Tls) => "tokens over TLS",
            (Self::Operations, _) => "HTTP",
            (Self::Explorer, _) => "the explorer page",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name_over(TransportSecurity::Plain))
    }
}
