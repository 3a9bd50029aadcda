//! Which service is meant, and how its refusals are told.

use std::path::PathBuf;
use std::time::Duration;

use access::ServiceAddress;
use clap::Args;
use connect::event_hubs::{EventHubsOptions, NamespaceClient};
use connect::service::ServiceError;
use connect::service::error::UNREACHABLE;

use crate::connection_advice::{ConnectionSettings, named};
use crate::exit::CommandError;
use crate::named_namespace::{EVENT_HUBS, NamedNamespace};

/// Where the service is and how to get in.
#[derive(Debug, Args)]
pub(super) struct TargetArguments {
    /// The service's connection string, with a key that has the Manage right [default: the variable
    /// EVENT_HUBS_CONNECTION_STRING, otherwise that of `parshall serve` on this machine]
    ///
    /// Example: --connection-string 'Endpoint=sb://localhost;SharedAccessKeyName=…;SharedAccessKey=…;UseDevelopmentEmulator=true'
    #[arg(long, value_name = "TEXT", help_heading = "Service", conflicts_with = "fully_qualified_namespace")]
    connection_string: Option<String>,

    /// The service's namespace, to be used by the identity that DefaultAzureCredential finds: variables, workload
    /// identity, managed identity, `az login` [default: the variable EVENT_HUBS_FULLY_QUALIFIED_NAMESPACE]
    ///
    /// On loopback, `;UseDevelopmentEmulator=true` behind it means without TLS.
    /// Example: --fully-qualified-namespace orders.servicebus.windows.net
    #[arg(long, value_name = "HOST", help_heading = "Service")]
    fully_qualified_namespace: Option<String>,

    /// The certificate authorities (PEM) to trust instead of the system's, such as the ca.pem of `serve --amqps`
    ///
    /// Example: --certificate-authority parshall-tls/ca.pem
    #[arg(long, value_name = "FILE", help_heading = "Service")]
    certificate_authority: Option<PathBuf>,
}

/// The service that is meant.
#[derive(Debug)]
pub(super) struct Target {
    options: EventHubsOptions,
}

impl Target {
    /// The service that the arguments or the environment name.
    ///
    /// # Errors
    /// The connection string can't be read.
    pub(super) fn of(arguments: &TargetArguments) -> Result<Self, CommandError> {
        let NamedNamespace { connection_string, .. } = NamedNamespace::find(
            arguments.connection_string.as_deref(),
            arguments.fully_qualified_namespace.as_deref(),
            &[EVENT_HUBS],
        )?;
        Ok(Self {
            options: EventHubsOptions {
                certificate_authority: arguments.certificate_authority.clone(),
                connect_timeout: PATIENCE,
                ..EventHubsOptions::for_namespace(connection_string)
            },
        })
    }

    /// Connects to it.
    ///
    /// # Errors
    /// It can't be reached, or refuses the key.
    pub(super) async fn connect(&self) -> Result<NamespaceClient, CommandError> {
        NamespaceClient::connect(self.options.clone()).await.map_err(|error| self.refusal(&error, true))
    }

    /// What the service, or the way to it, has against it. `is_azures`: whether Azure's own service would do it.
    pub(super) fn refusal(&self, error: &ServiceError, is_azures: bool) -> CommandError {
        let ServiceAddress { host, port, .. } = self.options.connection_string.amqp_address();
        let ServiceError { condition, description, .. } = error;
        let message = if condition == UNREACHABLE {
            format!("the service can't be reached: {description}")
        } else if condition.starts_with("connection:") {
            format!("the service at {host}:{port} can't be used: {description}")
        } else {
            format!("the service at {host}:{port} refuses: {description}")
        };
        let settings = ConnectionSettings {
            connection_string: named(&self.options.connection_string).to_owned(),
            certificate_authority: "--certificate-authority".to_owned(),
            transport: None,
        };
        let only_show = (!is_azures && host.contains(AZURE)).then(|| {
            "Azure Event Hubs supports only `show` over AMQP; list, create and delete hubs in the portal, \
             with `az eventhubs eventhub` or with a template"
                .to_owned()
        });
        CommandError::Refused { message, advice: settings.advice(condition).or(only_show) }
    }
}

/// Part of every host of Azure's service, in whatever cloud.
const AZURE: &str = ".servicebus.";

/// A person waits for the answer.
const PATIENCE: Duration = Duration::from_secs(10);
