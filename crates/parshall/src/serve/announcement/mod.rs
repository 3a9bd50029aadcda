//! What `serve` announces once clients can connect: the listeners, the entities, and the strings to connect with.
//!
//! * `text` is for a person, one thing per line under headings that do not change.
//! * `environment` is for a shell: assignments that it can read, and the names that programs commonly look for.
//! * JSON is this structure as it is, on one line, so that a program can read it from a service that keeps running.

mod environment;
mod text;

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use access::TransportSecurity;
use clap::ValueEnum;
use hub::namespace::StorageConfig;
use hub::service::{Protocol, Service, WEB_SOCKET_PATH};
use serde::Serialize;

use super::identity::AuthorityForm;
pub(super) use environment::Variable;

/// Forms of the announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For a person; ends with the line `Ready.`
    Text,
    /// For a program: one object on one line
    Json,
    /// For a shell: NAME='value' lines, to be read with `set -a; . FILE`
    Env,
}

/// A running service, as clients need to know it. What is absent is not served.
#[derive(Debug, Serialize)]
pub(super) struct Announcement {
    listeners: Vec<Listening>,
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<String>,
    /// Where the service's time is shown, and advanced, if it can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    /// The page for browsers.
    #[serde(skip_serializing_if = "Option::is_none")]
    explorer: Option<String>,
    /// The file with the authority of the certificate, where that was generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate_authority: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Data>,
    #[serde(skip_serializing_if = "is_zero")]
    unserved_containers: usize,
    /// For the whole namespace.
    #[serde(flatten)]
    strings: ConnectionStrings,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_connection_string: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_tls_connection_string: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Identity>,
    entities: Vec<Entity>,
}

/// What programs need that ask the development issuer for tokens.
#[derive(Debug, Serialize)]
struct Identity {
    /// Where a managed identity is asked for tokens, and what it has to show.
    #[serde(skip_serializing_if = "Option::is_none")]
    managed: Option<ManagedIdentity>,
    /// The authority for applications with a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    authority: Option<String>,
    tenant: &'static str,
    client: &'static str,
    secret: String,
}

/// A managed identity.
#[derive(Debug, Serialize)]
struct ManagedIdentity {
    endpoint: String,
    header: String,
}

/// An address, and what is spoken there.
#[derive(Debug, Serialize)]
struct Listening {
    protocol: ListeningProtocol,
    tls: bool,
    address: SocketAddr,
    url: String,
}

/// What is spoken, in the words of the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum ListeningProtocol {
    Amqp,
    Websocket,
    Kafka,
    HttpIngress,
    Blob,
    Identity,
    Http,
    Explorer,
}

/// Where hubs and events are kept.
#[derive(Debug, Serialize)]
struct Data {
    directory: String,
    sync: String,
}

/// What clients connect with.
#[derive(Debug, Serialize)]
struct ConnectionStrings {
    connection_string: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_connection_string: Option<String>,
}

/// A hub, queue or topic.
#[derive(Debug, Serialize)]
struct Entity {
    name: String,
    #[serde(flatten)]
    kind: Kind,
    #[serde(flatten)]
    strings: ConnectionStrings,
}

/// What an entity is, with what clients need to know of it.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Kind {
    Hub { partition_count: usize, consumer_groups: Vec<String> },
    Queue { requires_session: bool },
    Topic { subscriptions: Vec<String> },
}

impl Announcement {
    /// What there is to say of `service`. `authority` is the file with the authority of its certificate, where that was
    /// generated.
    pub(super) fn of(
        service: &Service,
        authority: Option<&Path>,
        storage: Option<&StorageConfig>,
        identity: AuthorityForm,
    ) -> Self {
        let operations =
            |path| service.address(Protocol::Operations).map(|address| format!("http://{address}/{path}"));
        Self {
            listeners: listeners(service),
            health: operations("health"),
            metrics: operations("metrics"),
            time: service.time_control().and_then(|_| operations("time")),
            explorer: service.address(Protocol::Explorer).map(|address| format!("http://{address}/")),
            certificate_authority: authority.map(|path| path.display().to_string()),
            data: storage.map(|storage| Data {
                directory: storage.directory.display().to_string(),
                sync: storage.options.sync.to_string(),
            }),
            unserved_containers: service.unserved_containers(),
            strings: ConnectionStrings::of(service, None),
            storage_connection_string: service.storage_connection_string().map(|string| string.reveal()),
            storage_tls_connection_string: service
                .storage_tls_connection_string()
                .map(|string| string.reveal()),
            identity: Identity::of(service, identity),
            entities: entities(service),
        }
    }

    /// The announcement in this form, with a line feed at the end.
    pub(super) fn render(&self, format: Format) -> String {
        match format {
            Format::Text => text::render(self),
            Format::Json => {
                let text = serde_json::to_string(self).expect("text and numbers under text keys are JSON");
                format!("{text}\n")
            }
            Format::Env => self.variables().iter().map(|variable| format!("{variable}\n")).collect(),
        }
    }

    fn listening(&self, protocol: ListeningProtocol, tls: bool) -> Option<&Listening> {
        self.listeners.iter().find(|listening| (listening.protocol, listening.tls) == (protocol, tls))
    }
}

impl Identity {
    fn of(service: &Service, form: AuthorityForm) -> Option<Self> {
        let variables = service.development_identity()?;
        let secret = variables.secret.reveal().to_owned();
        let endpoint = service.address(Protocol::Identity);
        Some(Self {
            managed: endpoint.map(|address| ManagedIdentity {
                endpoint: format!("http://{address}/msi/token"),
                header: secret.clone(),
            }),
            authority: service.tls_address(Protocol::Identity).map(|address| form.at(address)),
            tenant: variables.tenant,
            client: variables.client,
            secret,
        })
    }
}

impl ConnectionStrings {
    /// For an entity, or without one for the namespace.
    fn of(service: &Service, entity: Option<&str>) -> Self {
        Self {
            connection_string: service.connection_string(entity).reveal(),
            tls_connection_string: service.tls_connection_string(entity).map(|string| string.reveal()),
        }
    }
}

impl fmt::Display for Entity {
    /// The name, and in parentheses what it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.name)?;
        match &self.kind {
            Kind::Hub { partition_count: 1, .. } => f.write_str("(1 partition)"),
            Kind::Hub { partition_count, .. } => write!(f, "({partition_count} partitions)"),
            Kind::Queue { requires_session: true } => f.write_str("(queue, sessions)"),
            Kind::Queue { requires_session: false } => f.write_str("(queue)"),
            Kind::Topic { subscriptions } if subscriptions.is_empty() => {
                f.write_str("(topic: no subscription)")
            }
            Kind::Topic { subscriptions } => write!(f, "(topic: {})", subscriptions.join(", ")),
        }
    }
}

fn listeners(service: &Service) -> Vec<Listening> {
    let mut listeners = Vec::new();
    for (protocol, name, scheme, path) in [
        (Protocol::Amqp, ListeningProtocol::Amqp, "amqp", ""),
        (Protocol::AmqpWebSocket, ListeningProtocol::Websocket, "ws", WEB_SOCKET_PATH),
        (Protocol::Kafka, ListeningProtocol::Kafka, "kafka", ""),
        (Protocol::Rest, ListeningProtocol::HttpIngress, "http", ""),
        (Protocol::Blob, ListeningProtocol::Blob, "http", ""),
        (Protocol::Identity, ListeningProtocol::Identity, "http", ""),
        (Protocol::Operations, ListeningProtocol::Http, "http", ""),
        (Protocol::Explorer, ListeningProtocol::Explorer, "http", "/"),
    ] {
        for security in [TransportSecurity::Plain, TransportSecurity::Tls] {
            let tls = security == TransportSecurity::Tls;
            let address = if tls { service.tls_address(protocol) } else { service.address(protocol) };
            listeners.extend(address.map(|address| Listening {
                protocol: name,
                tls,
                address,
                url: format!("{scheme}{}://{address}{path}", if tls { "s" } else { "" }),
            }));
        }
    }
    listeners
}

fn entities(service: &Service) -> Vec<Entity> {
    let namespace = service.namespace();
    let entity = |name: &str, kind| Entity {
        name: name.to_owned(),
        kind,
        strings: ConnectionStrings::of(service, Some(name)),
    };
    let hubs = namespace.hubs();
    let hubs = hubs.iter().map(|hub| {
        let groups = hub.consumer_groups();
        entity(
            hub.name(),
            Kind::Hub {
                partition_count: hub.partitions().len(),
                consumer_groups: groups.iter().map(|group| group.name().to_owned()).collect(),
            },
        )
    });
    let queues = namespace
        .queue_configs()
        .iter()
        .map(|queue| entity(&queue.name, Kind::Queue { requires_session: queue.options.requires_session }));
    let topics = namespace.topic_configs().iter().map(|topic| {
        let subscriptions = topic.subscriptions.iter();
        let subscriptions = subscriptions.map(|subscription| subscription.name.clone()).collect();
        entity(&topic.name, Kind::Topic { subscriptions })
    });
    hubs.chain(queues).chain(topics).collect()
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
