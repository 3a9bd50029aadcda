//! Which service a command sends to or reads from, over which protocol, and how its refusals are told.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use access::{ConnectionString, Credential, ServiceAddress};
use clap::{Args, ValueEnum};
use connect::event_hubs::EventHubsOptions;
use connect::identity::{EVENT_HUBS_SCOPE, SERVICE_BUS_SCOPE};
use connect::kafka::{KafkaOptions, Properties};
use connect::service::error::UNREACHABLE;
use connect::service::{ClientOptions, ServiceError, Transport};

use crate::connection_advice::{ConnectionSettings, named};
use crate::exit::CommandError;
use crate::named_namespace::{EVENT_HUBS, NamedNamespace, SERVICE_BUS, unreadable};

/// Where the service is, what it is spoken to in, and how to get in.
#[derive(Debug, Args)]
#[command(next_help_heading = "Service")]
pub(crate) struct ServiceArguments {
    /// The service's connection string [default: the variable EVENT_HUBS_CONNECTION_STRING or
    /// SERVICE_BUS_CONNECTION_STRING, otherwise that of `parshall serve` on this machine]
    ///
    /// Example: --connection-string 'Endpoint=sb://localhost;SharedAccessKeyName=…;SharedAccessKey=…;UseDevelopmentEmulator=true'
    #[arg(long, value_name = "TEXT", conflicts_with = "fully_qualified_namespace")]
    connection_string: Option<String>,

    /// The service's namespace, to be used by the identity that DefaultAzureCredential finds: variables, workload
    /// identity, managed identity, `az login` [default: the variable EVENT_HUBS_FULLY_QUALIFIED_NAMESPACE or
    /// SERVICE_BUS_FULLY_QUALIFIED_NAMESPACE]
    ///
    /// On loopback, `;UseDevelopmentEmulator=true` behind it means without TLS.
    /// Example: --fully-qualified-namespace orders.servicebus.windows.net
    #[arg(long, value_name = "HOST")]
    fully_qualified_namespace: Option<String>,

    /// The certificate authorities (PEM) to trust instead of the system's, such as the ca.pem of `serve --amqps`
    ///
    /// Example: --certificate-authority parshall-tls/ca.pem
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,

    /// What to speak
    #[arg(long, value_enum, default_value_t = Protocol::Amqp)]
    protocol: Protocol,

    /// A broker of the cluster, for Kafka [default: the variable PARSHALL_KAFKA_BOOTSTRAP_SERVERS, otherwise
    /// 127.0.0.1:9092]
    ///
    /// Given alone, the cluster is used without login. With a connection string, that is the login, as for Event Hubs.
    /// Example: --bootstrap broker-1:9092,broker-2:9092
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap: Option<String>,

    /// A property of the client for Kafka, as librdkafka names it. May be repeated
    ///
    /// Example: --client-property security.protocol=sasl_ssl
    #[arg(long = "client-property", value_name = "NAME=VALUE")]
    client_properties: Vec<String>,
}

/// What can be spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// AMQP 1.0
    Amqp,
    /// AMQP 1.0 over WebSocket
    WebSocket,
    /// The protocol of Kafka
    Kafka,
    /// The REST interface, which takes events and gives none
    Http,
}

/// The service that is meant.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) protocol: Protocol,
    connection_string: ConnectionString,
    /// Whether somebody has named it, and it isn't just the usual one.
    is_named: bool,
    /// What tokens are for, if that was said.
    token_scope: Option<&'static str>,
    certificate_authority: Option<PathBuf>,
    bootstrap: Option<String>,
    client_properties: Vec<(String, String)>,
}

impl Service {
    /// The service that the arguments or the environment name.
    ///
    /// # Errors
    /// The connection string or a property can't be read.
    pub(crate) fn of(arguments: &ServiceArguments) -> Result<Self, CommandError> {
        let NamedNamespace { connection_string, is_named, token_scope } = NamedNamespace::find(
            arguments.connection_string.as_deref(),
            arguments.fully_qualified_namespace.as_deref(),
            &[EVENT_HUBS, SERVICE_BUS],
        )?;
        let property = |text: &String| match text.split_once('=') {
            Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
            None => Err(unreadable("--client-property", &format!("{text:?} is not NAME=VALUE"))),
        };
        Ok(Self {
            protocol: arguments.protocol,
            connection_string,
            is_named,
            token_scope,
            certificate_authority: arguments.certificate_authority.clone(),
            bootstrap: arguments.bootstrap.clone().or_else(|| env::var(BOOTSTRAP).ok()),
            client_properties: arguments.client_properties.iter().map(property).collect::<Result<_, _>>()?,
        })
    }

    /// Whether anything can be read over the protocol.
    ///
    /// # Errors
    /// It can't.
    pub(crate) fn check_reads(&self) -> Result<(), CommandError> {
        match self.protocol {
            Protocol::Http => Err(CommandError::Usage {
                message: "--protocol http: the REST interface gives no events".to_owned(),
                advice: Some("leave it out for AMQP".to_owned()),
            }),
            Protocol::Amqp | Protocol::WebSocket | Protocol::Kafka => Ok(()),
        }
    }

    /// How an entity is reached over AMQP: the given one, or that of the connection string.
    pub(crate) fn client_options(&self, entity: &str) -> ClientOptions {
        ClientOptions {
            certificate_authority: self.certificate_authority.clone(),
            connect_timeout: PATIENCE,
            transport: match self.protocol {
                Protocol::WebSocket => Transport::WebSocket,
                Protocol::Amqp | Protocol::Kafka | Protocol::Http => Transport::Tcp,
            },
            token_scope: self.token_scope.unwrap_or(SERVICE_BUS_SCOPE),
            ..ClientOptions::new(self.connection_string.clone(), entity)
        }
    }

    /// The same as a hub.
    pub(crate) fn hub_options(&self, hub: &str) -> EventHubsOptions {
        let ClientOptions { connection_string, transport, certificate_authority, connect_timeout, .. } =
            self.client_options(hub);
        EventHubsOptions {
            hub: hub.to_owned(),
            token_scope: self.token_scope.unwrap_or(EVENT_HUBS_SCOPE),
            transport,
            certificate_authority,
            connect_timeout,
            ..EventHubsOptions::for_namespace(connection_string)
        }
    }

    /// How a topic is reached over Kafka's protocol.
    pub(crate) fn kafka_options(&self, topic: &str) -> KafkaOptions {
        let given = |name: &str| self.client_properties.iter().any(|(given, _)| given == name);
        let mut properties: Vec<(String, String)> = Vec::new();
        let mut usual = |name: &str, value: String| {
            if !given(name) {
                properties.push((name.to_owned(), value));
            }
        };
        usual("bootstrap.servers", self.bootstrap.clone().unwrap_or_else(|| USUAL_BROKER.to_owned()));
        let has_own_login = given("security.protocol") || given("sasl.username");
        if !has_own_login && (self.is_named || self.bootstrap.is_none() || env::var(BOOTSTRAP).is_ok()) {
            let protocol = match self.connection_string.security {
                access::TransportSecurity::Plain => "sasl_plaintext",
                access::TransportSecurity::Tls => "sasl_ssl",
            };
            usual("security.protocol", protocol.to_owned());
            match self.connection_string.credential {
                Credential::Identity => usual("sasl.mechanisms", "OAUTHBEARER".to_owned()),
                Credential::Key(_) | Credential::Signature(_) => {
                    usual("sasl.mechanisms", "PLAIN".to_owned());
                    usual("sasl.username", "$ConnectionString".to_owned());
                    usual("sasl.password", self.connection_string.reveal());
                }
            }
        }
        if let Some(file) = &self.certificate_authority {
            usual("ssl.ca.location", file.display().to_string());
        }
        properties.extend(self.client_properties.iter().cloned());
        let properties =
            properties.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Properties>();
        KafkaOptions::new(topic, properties)
    }

    /// The entity's name: the one given, or that of the connection string.
    ///
    /// # Errors
    /// There is neither.
    pub(crate) fn entity(&self, given: Option<&str>) -> Result<String, CommandError> {
        given.map(str::to_owned).or_else(|| self.connection_string.entity_path.clone()).ok_or_else(|| {
            CommandError::Usage {
                message: "no hub, queue or topic is named, and the connection string has no EntityPath"
                    .to_owned(),
                advice: None,
            }
        })
    }

    /// What the service, or the way to it, has against `entity`.
    pub(crate) fn refusal(&self, entity: &str, error: &ServiceError) -> CommandError {
        let ServiceError { condition, description, .. } = error;
        let place = match self.protocol {
            Protocol::Kafka => self.bootstrap.clone().unwrap_or_else(|| USUAL_BROKER.to_owned()),
            Protocol::Amqp | Protocol::WebSocket | Protocol::Http => {
                let ServiceAddress { host, port, .. } = self.connection_string.amqp_address();
                format!("{host}:{port}")
            }
        };
        let message = if condition == UNREACHABLE {
            format!("the service can't be reached: {description}")
        } else if condition.starts_with("connection:") {
            format!("the service at {place} can't be used: {description}")
        } else {
            format!("the service at {place} refuses {entity}: {description}")
        };
        let settings = ConnectionSettings {
            connection_string: named(&self.connection_string).to_owned(),
            certificate_authority: "--certificate-authority".to_owned(),
            transport: Some("--protocol".to_owned()),
        };
        CommandError::Refused { message, advice: settings.advice(condition) }
    }
}

/// What `parshall serve` gives a command that it runs.
const BOOTSTRAP: &str = "PARSHALL_KAFKA_BOOTSTRAP_SERVERS";

/// Where `parshall serve --kafka` listens, and most brokers.
const USUAL_BROKER: &str = "127.0.0.1:9092";

/// A person waits for the connection.
const PATIENCE: Duration = Duration::from_secs(10);
