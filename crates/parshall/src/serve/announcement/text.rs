//! The announcement for a person. One thing per line, what it is first; headings and labels do not change with what is
//! served, so that a script can cut lines out, though `--format json` is made for that.

use std::fmt::{self, Write as _};

use super::{Announcement, ConnectionStrings, ListeningProtocol};

pub(super) fn render(announcement: &Announcement) -> String {
    let mut text = String::new();
    write(announcement, &mut text).expect("a string takes everything");
    text
}

/// What clients call the security of an address for Kafka.
const KAFKA_SECURITY: [(ListeningProtocol, bool, &str); 2] =
    [(ListeningProtocol::Kafka, false, "SASL_PLAINTEXT"), (ListeningProtocol::Kafka, true, "SASL_SSL")];

fn write(announcement: &Announcement, text: &mut String) -> fmt::Result {
    let address =
        |protocol, tls| announcement.listening(protocol, tls).map(|found| found.address.to_string());
    let url = |protocol, tls| announcement.listening(protocol, tls).map(|found| found.url.clone());
    let unserved = match announcement.unserved_containers {
        0 => None,
        count => {
            let plural = if count == 1 { "" } else { "s" };
            Some(format!("{count} container{plural} in the data directory; add --blob ADDRESS:PORT"))
        }
    };
    let data = announcement.data.as_ref().map(|data| format!("{} (sync: {})", data.directory, data.sync));
    for (label, value) in [
        ("AMQP", address(ListeningProtocol::Amqp, false)),
        ("AMQP over TLS", address(ListeningProtocol::Amqp, true)),
        ("AMQP over WS", url(ListeningProtocol::Websocket, false)),
        ("AMQP over WSS", url(ListeningProtocol::Websocket, true)),
        ("Kafka", address(ListeningProtocol::Kafka, false)),
        ("Kafka over TLS", address(ListeningProtocol::Kafka, true)),
        ("HTTP ingress", url(ListeningProtocol::HttpIngress, false)),
        ("HTTPS ingress", url(ListeningProtocol::HttpIngress, true)),
        ("Trusted authority", announcement.certificate_authority.clone()),
        ("Health", announcement.health.clone()),
        ("Metrics", announcement.metrics.clone()),
        ("Time", announcement.time.clone()),
        ("Explorer", announcement.explorer.clone()),
        ("Blobs", url(ListeningProtocol::Blob, false)),
        ("Blobs over TLS", url(ListeningProtocol::Blob, true)),
        ("Tokens", url(ListeningProtocol::Identity, false)),
        ("Tokens over TLS", url(ListeningProtocol::Identity, true)),
        ("Blobs not served", unserved),
        ("Data", data),
    ] {
        if let Some(value) = value {
            writeln!(text, "{label:19}{value}")?;
        }
    }
    if let Some(authority) = &announcement.certificate_authority {
        let tls = announcement.listening(ListeningProtocol::Amqp, true);
        advice(text, authority, tls.is_some_and(|found| found.address.port() != USUAL_TLS_PORT))?;
    }
    writeln!(text, "\nConnection strings")?;
    connection_strings(announcement, text, |strings| Some(&strings.connection_string))?;
    if announcement.strings.tls_connection_string.is_some() {
        writeln!(text, "\nConnection strings for TLS")?;
        connection_strings(announcement, text, |strings| strings.tls_connection_string.as_ref())?;
    }
    for (protocol, tls, security) in KAFKA_SECURITY {
        if let Some(listening) = announcement.listening(protocol, tls) {
            writeln!(text, "\nSettings for Kafka{}", if tls { " with TLS" } else { "" })?;
            writeln!(text, "  bootstrap.servers={}", listening.address)?;
            writeln!(text, "  security.protocol={security}")?;
            writeln!(text, "  sasl.mechanism=PLAIN")?;
            writeln!(text, "  sasl.username=$ConnectionString")?;
            writeln!(text, "  sasl.password={}", announcement.strings.connection_string)?;
        }
    }
    if let Some(string) = &announcement.storage_connection_string {
        writeln!(text, "\nConnection string for blobs\n  {string}")?;
    }
    if let Some(string) = &announcement.storage_tls_connection_string {
        writeln!(text, "\nConnection string for blobs with TLS\n  {string}")?;
    }
    if let Some(identity) = &announcement.identity {
        writeln!(text, "\nFor DefaultAzureCredential")?;
        let managed = identity.managed.iter();
        let managed = managed
            .flat_map(|found| [("IDENTITY_ENDPOINT", &found.endpoint), ("IDENTITY_HEADER", &found.header)]);
        for (name, value) in managed {
            writeln!(text, "  {name}={value}")?;
        }
        if let Some(authority) = &identity.authority {
            writeln!(text, "  AZURE_AUTHORITY_HOST={authority}")?;
            writeln!(text, "  AZURE_TENANT_ID={}", identity.tenant)?;
            writeln!(text, "  AZURE_CLIENT_ID={}", identity.client)?;
            writeln!(text, "  AZURE_CLIENT_SECRET={}", identity.secret)?;
        }
    }
    writeln!(text, "\nReady.")
}

fn connection_strings(
    announcement: &Announcement,
    text: &mut String,
    of: impl Fn(&ConnectionStrings) -> Option<&String>,
) -> fmt::Result {
    let namespace = (NAMESPACE.to_owned(), of(&announcement.strings));
    let entities = announcement.entities.iter().map(|entity| (entity.to_string(), of(&entity.strings)));
    let lines: Vec<(String, Option<&String>)> = [namespace].into_iter().chain(entities).collect();
    let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    for (label, string) in lines {
        if let Some(string) = string {
            writeln!(text, "  {label:width$}  {string}")?;
        }
    }
    Ok(())
}

/// How clients are made to trust an authority; also where connection strings for TLS have a port.
fn advice(text: &mut String, authority: &str, has_port: bool) -> fmt::Result {
    writeln!(text, "\nTo trust the authority")?;
    writeln!(
        text,
        "  Java            keytool -importcert -noprompt -alias parshall -file {authority} -keystore parshall.p12 -storepass parshall"
    )?;
    writeln!(
        text,
        "                  java -Djavax.net.ssl.trustStore=parshall.p12 -Djavax.net.ssl.trustStorePassword=parshall"
    )?;
    writeln!(text, "  Python          connection_verify=\"{authority}\" for the clients of azure-eventhub")?;
    writeln!(text, "  Node.js         NODE_EXTRA_CA_CERTS={authority}")?;
    writeln!(text, "  Rust, Go, curl  SSL_CERT_FILE={authority}")?;
    if has_port {
        writeln!(
            text,
            "  Go              as well: TLSConfig: &tls.Config{{ServerName: \"HOST\"}}, the host without its port"
        )?;
    }
    Ok(())
}

/// The label of the string for all entities.
const NAMESPACE: &str = "namespace";

/// The port that connection strings do not name.
const USUAL_TLS_PORT: u16 = 5671;
