//! What to change if a service can be reached but not talked to: most often TLS, a port or a certificate.

use access::{ConnectionString, Credential};
use connect::service::error::{
    IS_HTTP, NEEDS_TLS, NO_ANSWER, NO_TOKEN, NOT_WEB_SOCKET, OTHER_NAME, UNTRUSTED, WITHOUT_TLS,
};

/// What a command or file calls the settings of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionSettings {
    /// Of the connection string, such as `--connection-string`.
    pub(crate) connection_string: String,
    /// Of the file with the authorities to trust.
    pub(crate) certificate_authority: String,
    /// Of the choice between TCP and WebSocket, where there is one.
    pub(crate) transport: Option<String>,
}

/// What a command calls the setting that a namespace was named by.
pub(crate) const fn named(namespace: &ConnectionString) -> &'static str {
    match namespace.credential {
        Credential::Identity => "the fully qualified namespace",
        Credential::Key(_) | Credential::Signature(_) => "the connection string",
    }
}

impl ConnectionSettings {
    /// The keys of a section of a file.
    pub(crate) fn of_section(section: &str) -> Self {
        Self {
            connection_string: format!("{section}.connection_string"),
            certificate_authority: format!("{section}.certificate_authority"),
            transport: Some(format!("{section}.transport")),
        }
    }

    /// What to change for an error with this condition, if that can be told.
    pub(crate) fn advice(&self, condition: &str) -> Option<String> {
        let Self { connection_string, certificate_authority, .. } = self;
        Some(match condition {
            UNTRUSTED => format!(
                "name the file of the authority that issued the certificate with {certificate_authority}; that of \
                 `parshall serve` is its `Trusted authority`, ca.pem"
            ),
            OTHER_NAME => format!("use a host name that the certificate has in {connection_string}"),
            NEEDS_TLS => format!(
                "connect with TLS: without `UseDevelopmentEmulator=true` in {connection_string}; or name the port for \
                 plain AMQP there"
            ),
            WITHOUT_TLS => format!(
                "connect without TLS: with `;UseDevelopmentEmulator=true` at the end of {connection_string}; or name \
                 the port for TLS there"
            ),
            NO_ANSWER => format!(
                "check the port in {connection_string}, and whether it is for TLS: AMQP is usually on 5671 with TLS and on \
                 5672 without"
            ),
            IS_HTTP => match &self.transport {
                Some(transport) => format!(
                    "use `web-socket` for {transport}, or name the port for AMQP in {connection_string} (usually 5672, \
                     or 5671 with TLS)"
                ),
                None => {
                    format!("name the port for AMQP in {connection_string} (usually 5672, or 5671 with TLS)")
                }
            },
            NOT_WEB_SOCKET => {
                let transport = self.transport.as_deref().unwrap_or("the transport");
                format!(
                    "use `tcp` for {transport}, or name the port for AMQP over WebSocket in {connection_string}"
                )
            }
            NO_TOKEN => "sign in with `az login`; or set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or run it \
                         where there is a workload identity or a managed one"
                .to_owned(),
            _ => return None,
        })
    }
}
