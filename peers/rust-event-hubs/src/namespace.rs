//! How a namespace is reached, from its connection string.
//!
//! The SDK always speaks TLS to the registered port of the endpoint's host: it drops a port, and it does not know
//! `UseDevelopmentEmulator`. What it does follow is a custom endpoint, so what the connection string says goes there.

use crate::settings::Hub;

/// The custom endpoint for a connection string; none if the SDK finds the way by itself.
pub fn custom_endpoint(hub: &Hub) -> Option<String> {
    let value = |wanted: &str| {
        hub.connection_string.split(';').find_map(|part| {
            let (key, value) = part.split_once('=')?;
            key.trim().eq_ignore_ascii_case(wanted).then(|| value.trim())
        })
    };
    let plain = value("UseDevelopmentEmulator").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let address = value("Endpoint")?.split_once("://")?.1.trim_end_matches('/');
    // An IPv6 address has colons of its own, within brackets.
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    match (plain, has_port) {
        (false, false) => None,
        (false, true) => Some(format!("amqps://{address}")),
        (true, true) => Some(format!("amqp://{address}")),
        (true, false) => Some(format!("amqp://{address}:5672")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint_of(connection_string: &str) -> Option<String> {
        custom_endpoint(&Hub { connection_string: connection_string.to_owned(), name: "events".to_owned() })
    }

    #[test]
    fn ports_and_plain_connections_become_a_custom_endpoint() {
        let key = "SharedAccessKeyName=name;SharedAccessKey=a=";
        assert_eq!(endpoint_of(&format!("Endpoint=sb://hubs.example/;{key}")), None);
        assert_eq!(
            endpoint_of(&format!("Endpoint=sb://localhost:5999/;{key}")).as_deref(),
            Some("amqps://localhost:5999")
        );
        assert_eq!(
            endpoint_of(&format!("endpoint=sb://localhost:4000;{key};usedevelopmentemulator=True"))
                .as_deref(),
            Some("amqp://localhost:4000")
        );
        assert_eq!(
            endpoint_of(&format!("Endpoint=sb://[::1];{key};UseDevelopmentEmulator=true")).as_deref(),
            Some("amqp://[::1]:5672")
        );
    }
}
