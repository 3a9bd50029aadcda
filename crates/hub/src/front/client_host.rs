//! The host name that a client uses for the service. Errors repeat it, so that users recognise the service that they speak of.

/// Returns the host of an authority, `host`, `host:port` or `[v6]:port`, without its port; `None` where that is no host.
pub(in crate::front) fn of_authority(authority: &str) -> Option<&str> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !authority.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_port = port.is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_host = match host.strip_prefix('[') {
        Some(address) => {
            address.ends_with(']') && address[..address.len() - 1].parse::<std::net::Ipv6Addr>().is_ok()
        }
        None => host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte)),
    };
    (is_port && is_host && (1..=LONGEST).contains(&host.len())).then_some(host)
}

/// The longest name that the domain name system has, in bytes.
const LONGEST: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_stands_before_the_port_and_nothing_else_is_repeated() {
        for (authority, expected) in [
            ("localhost", Some("localhost")),
            ("parshall.test:5672", Some("parshall.test")),
            ("127.0.0.1:80", Some("127.0.0.1")),
            ("[::1]:5672", Some("[::1]")),
            ("[::1]", Some("[::1]")),
            ("", None),
            (":80", None),
            ("a b", None),
            ("host:http", None),
            ("<b>", None),
            ("[a]:1", None),
            ("[", None),
        ] {
            assert_eq!(of_authority(authority), expected, "{authority}");
        }
        assert_eq!(of_authority(&"x".repeat(254)), None);
    }
}
