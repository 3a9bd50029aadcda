//! Which namespace the command line or the environment names, and with what right it is used there.
//!
//! | in this order | |
//! |---|---|
//! | `--connection-string`, or `--fully-qualified-namespace` | one of them |
//! | `…_CONNECTION_STRING`, otherwise `…_FULLY_QUALIFIED_NAMESPACE` | of each service that the command is for |
//! | `parshall serve` on this machine | |

use std::env::{self, VarError};
use std::fmt::Display;

use access::{ConnectionString, ConnectionStringError};
use connect::identity::{EVENT_HUBS_SCOPE, SERVICE_BUS_SCOPE};

use crate::exit::CommandError;

/// A namespace, and who has named it.
#[derive(Debug)]
pub(crate) struct NamedNamespace {
    pub(crate) connection_string: ConnectionString,
    /// Whether somebody has named it, and it isn't just the usual one.
    pub(crate) is_named: bool,
    /// What tokens for it are for, if that was said with its name.
    pub(crate) token_scope: Option<&'static str>,
}

/// The variables of a service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Variables {
    connection_string: &'static str,
    namespace: &'static str,
    token_scope: &'static str,
}

/// Those of Event Hubs, which scenarios and pipelines of the documentation use as well.
pub(crate) const EVENT_HUBS: Variables = Variables {
    connection_string: "EVENT_HUBS_CONNECTION_STRING",
    namespace: "EVENT_HUBS_FULLY_QUALIFIED_NAMESPACE",
    token_scope: EVENT_HUBS_SCOPE,
};

/// Those of Service Bus.
pub(crate) const SERVICE_BUS: Variables = Variables {
    connection_string: "SERVICE_BUS_CONNECTION_STRING",
    namespace: "SERVICE_BUS_FULLY_QUALIFIED_NAMESPACE",
    token_scope: SERVICE_BUS_SCOPE,
};

impl NamedNamespace {
    /// The namespace that the options or the variables name.
    ///
    /// # Errors
    /// What is named can't be read.
    pub(crate) fn find(
        connection_string: Option<&str>,
        namespace: Option<&str>,
        services: &[Variables],
    ) -> Result<Self, CommandError> {
        let named =
            |connection_string, token_scope| Ok(Self { connection_string, is_named: true, token_scope });
        if let Some(text) = connection_string {
            return named(of_text("--connection-string", text)?, None);
        }
        if let Some(text) = namespace {
            return named(of_namespace("--fully-qualified-namespace", text)?, None);
        }
        for service in services {
            if let Some(text) = variable(service.connection_string)? {
                return named(of_text(service.connection_string, &text)?, Some(service.token_scope));
            }
            if let Some(text) = variable(service.namespace)? {
                return named(of_namespace(service.namespace, &text)?, Some(service.token_scope));
            }
        }
        let connection_string = of_text("the default", EMULATOR)?;
        Ok(Self { connection_string, is_named: false, token_scope: None })
    }
}

/// A namespace by its name, where a connection string is a mistake that people make.
fn of_namespace(origin: &str, text: &str) -> Result<ConnectionString, CommandError> {
    match text.trim_start().get(..ENDPOINT.len()) {
        Some(start) if start.eq_ignore_ascii_case(ENDPOINT) => Err(CommandError::Usage {
            message: format!("{origin}: it is a connection string, not the host of a namespace"),
            advice: Some("name the host alone, such as `orders.servicebus.windows.net`".to_owned()),
        }),
        _ => ConnectionString::of_namespace(text).map_err(|error| unreadable(origin, &error)),
    }
}

fn of_text(origin: &str, text: &str) -> Result<ConnectionString, CommandError> {
    text.parse().map_err(|error: ConnectionStringError| unreadable(origin, &error))
}

/// What connection strings begin with.
const ENDPOINT: &str = "Endpoint=";

fn variable(name: &'static str) -> Result<Option<String>, CommandError> {
    match env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(unreadable(name, &"it is not UTF-8 text")),
    }
}

/// What was given there can't be read.
pub(crate) fn unreadable(origin: &str, reason: &dyn Display) -> CommandError {
    CommandError::Usage { message: format!("{origin}: {reason}"), advice: None }
}

/// That of the emulator, and of `parshall serve` without arguments.
pub(crate) const EMULATOR: &str = "Endpoint=sb://127.0.0.1;SharedAccessKeyName=RootManageSharedAccessKey;\
     SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true";
