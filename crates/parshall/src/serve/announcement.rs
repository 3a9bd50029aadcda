//! What `serve` prints once clients can connect: where, and the texts to paste into them.
//!
//! One thing per line, what it is first, so that a person finds it and a script can cut it out.

use std::fmt;
use std::path::Path;

use access::ConnectionString;
use hub::namespace::StorageConfig;
use hub::service::{Protocol, Service, WEB_SOCKET_PATH};

/// A running service, told.
#[derive(Debug)]
pub(super) struct Announcement<'a> {
    pub(super) service: &'a Service,
    /// The file with the authority of the certificate, where that is our own.
    pub(super) authority: Option<&'a Path>,
    /// Where hubs and events are kept.
    pub(super) storage: Option<&'a StorageConfig>,
}

impl fmt::Display for Announcement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = self.service;
        writeln!(f, "AMQP               {}", service.amqp_address())?;
        if let Some(address) = service.tls_address(Protocol::Amqp) {
            writeln!(f, "AMQP over TLS      {address}")?;
        }
        if let Some(address) = service.address(Protocol::AmqpWebSocket) {
            writeln!(f, "AMQP over WS       ws://{address}{WEB_SOCKET_PATH}")?;
        }
        if let Some(address) = service.tls_address(Protocol::AmqpWebSocket) {
            writeln!(f, "AMQP over WSS      wss://{address}{WEB_SOCKET_PATH}")?;
        }
        if let Some(authority) = self.authority {
            writeln!(f, "Trusted authority  {}", authority.display())?;
        }
        if let Some(address) = service.address(Protocol::Operations) {
            writeln!(f, "Health             http://{address}/health")?;
            writeln!(f, "Metrics            http://{address}/metrics")?;
        }
        if let Some(address) = service.address(Protocol::Blob) {
            writeln!(f, "Blobs              http://{address}")?;
        }
        if let Some(address) = service.tls_address(Protocol::Blob) {
            writeln!(f, "Blobs over TLS     https://{address}")?;
        }
        match service.unserved_containers() {
            0 => {}
            count => {
                writeln!(f, "Blobs              not served ({}); add --blob ADDRESS:PORT", containers(count))?
            }
        }
        if let Some(storage) = self.storage {
            let (directory, sync) = (storage.directory.display(), storage.options.sync);
            writeln!(f, "Data               {directory} (sync: {sync})")?;
        }
        if let Some(authority) = self.authority {
            let tls = service.tls_address(Protocol::Amqp);
            let has_port = tls.is_some_and(|address| address.port() != USUAL_TLS_PORT);
            advice(f, authority, has_port)?;
        }
        writeln!(f, "\nConnection strings")?;
        self.connection_strings(f, |hub| Some(service.connection_string(hub)))?;
        if service.tls_address(Protocol::Amqp).is_some() {
            writeln!(f, "\nConnection strings for TLS")?;
            self.connection_strings(f, |hub| service.tls_connection_string(hub))?;
        }
        if let Some(string) = service.storage_connection_string() {
            writeln!(f, "\nConnection string for blobs\n  {}", string.reveal())?;
        }
        if let Some(string) = service.storage_tls_connection_string() {
            let string = string.reveal();
            writeln!(f, "\nConnection string for blobs with TLS\n  {string}")?;
        }
        writeln!(f, "\nReady.")
    }
}

fn containers(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} container{plural} in the data directory")
}

/// How clients are made to trust an authority; also where connection strings for TLS have a port.
fn advice(f: &mut fmt::Formatter<'_>, authority: &Path, has_port: bool) -> fmt::Result {
    let authority = authority.display();
    writeln!(f, "\nTo trust the authority")?;
    writeln!(
        f,
        "  Java            keytool -importcert -noprompt -alias parshall -file {authority} -keystore parshall.p12 -storepass parshall"
    )?;
    writeln!(
        f,
        "                  java -Djavax.net.ssl.trustStore=parshall.p12 -Djavax.net.ssl.trustStorePassword=parshall"
    )?;
    writeln!(f, "  Python          connection_verify=\"{authority}\" for the clients of azure-eventhub")?;
    writeln!(f, "  Node.js         NODE_EXTRA_CA_CERTS={authority}")?;
    writeln!(f, "  Rust, Go, curl  SSL_CERT_FILE={authority}")?;
    if has_port {
        writeln!(
            f,
            "  Go              as well: TLSConfig: &tls.Config{{ServerName: \"HOST\"}}, the host without its port"
        )?;
    }
    Ok(())
}

/// The port that connection strings do not name.
const USUAL_TLS_PORT: u16 = 5671;

impl Announcement<'_> {
    fn connection_strings(
        &self,
        f: &mut fmt::Formatter<'_>,
        of: impl Fn(Option<&str>) -> Option<ConnectionString>,
    ) -> fmt::Result {
        let namespace = self.service.namespace();
        let (hubs, queues, topics) = (namespace.hubs(), namespace.queue_configs(), namespace.topic_configs());
        let label = |name: &str, partitions: usize| {
            let plural = if partitions == 1 { "" } else { "s" };
            format!("{name} ({partitions} partition{plural})")
        };
        let all = match (queues, topics) {
            ([], []) => "all hubs",
            _ => "everything",
        };
        let mut lines = vec![(all.to_owned(), of(None))];
        lines
            .extend(hubs.iter().map(|hub| (label(hub.name(), hub.partitions().len()), of(Some(hub.name())))));
        lines.extend(queues.iter().map(|queue| {
            let sessions = if queue.options.requires_session { ", sessions" } else { "" };
            (format!("{} (queue{sessions})", queue.name), of(Some(&queue.name)))
        }));
        lines.extend(topics.iter().map(|topic| {
            let subscriptions: Vec<&str> =
                topic.subscriptions.iter().map(|subscription| subscription.name.as_str()).collect();
            let label = match subscriptions.is_empty() {
                true => "no subscription".to_owned(),
                false => subscriptions.join(", "),
            };
            (format!("{} (topic: {label})", topic.name), of(Some(&topic.name)))
        }));
        let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        for (label, string) in lines {
            if let Some(string) = string {
                writeln!(f, "  {label:width$}  {}", string.reveal())?;
            }
        }
        Ok(())
    }
}
