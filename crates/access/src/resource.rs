//! What a token is about.

use std::fmt;

/// An entity of some namespace, as a host and a path of segments: `sb://host:5672/hub/Partitions/0` is the host
/// `host` and the segments `hub`, `Partitions`, `0`.
///
/// Scheme, port, letter case and empty segments make no difference to any comparison; `Display` keeps the case
/// that was given.
#[derive(Clone, Debug)]
pub struct Resource {
    host: String,
    path: String,
}

impl Resource {
    /// Reads a URI, or a bare `host/path`. Any text is some resource: one that nobody signed is harmless.
    #[must_use]
    pub fn parse(uri: &str) -> Self {
        let rest = without_scheme(uri).unwrap_or(uri);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        Self { host: without_port(authority).to_owned(), path: join(segments(path)) }
    }

    /// The host, without its port.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The path, without a slash at either end; empty for the namespace itself.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether this resource is `other` or something above it, on the same host.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.host.eq_ignore_ascii_case(&other.host) && self.covers_path(&other.path)
    }

    /// Whether this resource's path is that of `address` or something above it, whatever the hosts.
    ///
    /// `address` is what a link names: a relative path (`hub/Partitions/0`) or a whole URI, whose scheme and
    /// authority are passed over.
    #[must_use]
    pub fn covers_path(&self, address: &str) -> bool {
        let mut asked = segments(Self::path_of(address));
        segments(&self.path).all(|own| asked.next().is_some_and(|segment| own.eq_ignore_ascii_case(segment)))
    }

    /// The path of a link address in either form, relative or a whole URI, without a slash at the front.
    #[must_use]
    pub fn path_of(address: &str) -> &str {
        let path = match without_scheme(address) {
            Some(rest) => rest.split_once('/').map_or("", |(_authority, path)| path),
            None => address,
        };
        path.trim_start_matches('/')
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sb://{}/{}", self.host, self.path)
    }
}

fn without_scheme(uri: &str) -> Option<&str> {
    uri.split_once("://").filter(|(scheme, _)| !scheme.contains('/')).map(|(_, rest)| rest)
}

/// `host`, `host:port` or `[v6]:port` to the host, brackets included.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => host,
        _ => authority,
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

fn join<'a>(segments: impl Iterator<Item = &'a str>) -> String {
    let mut path = String::new();
    for segment in segments {
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(segment);
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_port_case_and_stray_slashes_do_not_matter() {
        let signed = Resource::parse("amqps://NS.example.com:5671/Hub/");
        for same in ["sb://ns.example.com/hub", "http://ns.example.com:80//HUB", "ns.example.com/hub"] {
            assert!(signed.covers(&Resource::parse(same)), "{same}");
            assert!(Resource::parse(same).covers(&signed), "{same}");
        }
    }

    #[test]
    fn a_resource_covers_what_is_beneath_it_and_not_what_is_beside_or_above() {
        let hub = Resource::parse("sb://ns/hub");
        for beneath in ["sb://ns/hub/Partitions/0", "sb://ns/hub/ConsumerGroups/$Default/Partitions/1"] {
            assert!(hub.covers(&Resource::parse(beneath)), "{beneath}");
            assert!(!Resource::parse(beneath).covers(&hub), "{beneath}");
        }
        for beside in ["sb://ns/hub2", "sb://ns/hu", "sb://ns", "sb://other/hub", "sb://ns/other/hub"] {
            assert!(!hub.covers(&Resource::parse(beside)), "{beside}");
        }
        assert!(Resource::parse("sb://ns/").covers(&hub));
    }

    #[test]
    fn an_address_is_compared_by_its_path_in_either_form() {
        let hub = Resource::parse("sb://ns/hub");
        for address in ["hub", "/hub", "HUB/Partitions/3", "amqps://elsewhere:5671/hub/Partitions/3"] {
            assert!(hub.covers_path(address), "{address}");
        }
        for address in ["", "/", "other", "amqps://hub", "amqps://hub/other", "hubhub"] {
            assert!(!hub.covers_path(address), "{address}");
        }
        assert_eq!(Resource::path_of("amqps://ns:5671/hub/Partitions/0"), "hub/Partitions/0");
        assert_eq!(Resource::path_of("//hub"), "hub");
    }

    #[test]
    fn an_address_with_a_scheme_deep_inside_its_path_is_relative() {
        assert_eq!(Resource::path_of("hub/sb://ns/other"), "hub/sb://ns/other");
    }

    #[test]
    fn a_version_six_host_keeps_its_colons() {
        assert_eq!(Resource::parse("sb://[::1]:5672/hub").host(), "[::1]");
        assert_eq!(Resource::parse("sb://[::1]/hub").host(), "[::1]");
    }
}
