//! The announcement as environment variables: ours, and those that programs commonly read.

use std::fmt;

use super::{Announcement, ListeningProtocol};

/// An environment variable. It prints as an assignment that a POSIX shell, and most readers of `.env` files, can read.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::serve) struct Variable {
    pub(in crate::serve) name: &'static str,
    pub(in crate::serve) value: String,
}

impl Announcement {
    /// Everything that a client needs, by names that do not depend on what is served.
    pub(in crate::serve) fn variables(&self) -> Vec<Variable> {
        let namespace = Some(&self.strings.connection_string);
        let storage = self.storage_connection_string.as_ref();
        let kafka = |tls| {
            let listening = self.listening(ListeningProtocol::Kafka, tls);
            listening.map(|listening| listening.address.to_string())
        };
        let (kafka, kafka_tls) = (kafka(false), kafka(true));
        let identity = self.identity.as_ref();
        let managed = identity.and_then(|identity| identity.managed.as_ref());
        // Without an authority, clients would look for one in the cloud.
        let application = identity.filter(|identity| identity.authority.is_some());
        let (tenant, client) = (
            application.map(|found| found.tenant.to_owned()),
            application.map(|found| found.client.to_owned()),
        );
        let named = [
            (&["PARSHALL_CONNECTION_STRING"][..], namespace),
            (&["PARSHALL_TLS_CONNECTION_STRING"], self.strings.tls_connection_string.as_ref()),
            (&["PARSHALL_STORAGE_CONNECTION_STRING"], storage),
            (&["PARSHALL_STORAGE_TLS_CONNECTION_STRING"], self.storage_tls_connection_string.as_ref()),
            (&["PARSHALL_KAFKA_BOOTSTRAP_SERVERS"], kafka.as_ref()),
            (&["PARSHALL_KAFKA_TLS_BOOTSTRAP_SERVERS"], kafka_tls.as_ref()),
            (&["PARSHALL_CERTIFICATE_AUTHORITY"], self.certificate_authority.as_ref()),
            (&["PARSHALL_HEALTH_URL"], self.health.as_ref()),
            (&["PARSHALL_METRICS_URL"], self.metrics.as_ref()),
            (&["IDENTITY_ENDPOINT"], managed.map(|managed| &managed.endpoint)),
            (&["IDENTITY_HEADER"], managed.map(|managed| &managed.header)),
            (&["AZURE_AUTHORITY_HOST"], application.and_then(|found| found.authority.as_ref())),
            (&["AZURE_TENANT_ID"], tenant.as_ref()),
            (&["AZURE_CLIENT_ID"], client.as_ref()),
            (&["AZURE_CLIENT_SECRET"], application.map(|found| &found.secret)),
            (&["PARSHALL_TIME_URL"], self.time.as_ref()),
            (&["PARSHALL_EXPLORER_URL"], self.explorer.as_ref()),
            (&EVENT_HUBS, namespace),
            (&SERVICE_BUS, namespace),
            (&STORAGE, storage),
        ];
        let named = named.into_iter().filter_map(|(names, value)| Some((names, value?)));
        named
            .flat_map(|(names, value)| names.iter().map(|name| Variable { name, value: value.clone() }))
            .collect()
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}='{}'", self.name, self.value.replace('\'', r"'\''"))
    }
}

/// What `parshall hub`, scenarios and pipelines read; the samples of the clients for JavaScript and Go; those for Python.
const EVENT_HUBS: [&str; 3] =
    ["EVENT_HUBS_CONNECTION_STRING", "EVENTHUB_CONNECTION_STRING", "EVENT_HUB_CONN_STR"];
const SERVICE_BUS: [&str; 3] =
    ["SERVICE_BUS_CONNECTION_STRING", "SERVICEBUS_CONNECTION_STRING", "SERVICEBUS_CONNECTION_STR"];
/// What the samples of all clients and Azure's own command line read.
const STORAGE: [&str; 1] = ["AZURE_STORAGE_CONNECTION_STRING"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_any_value_as_it_is() {
        let value = "it's;$HOME `x` \"y\"\\".to_owned();
        let line = Variable { name: "A", value: value.clone() }.to_string();
        let script = format!("{line}\nprintf %s \"$A\"");
        let output = std::process::Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), value);
    }
}
