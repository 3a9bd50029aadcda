//! What a client is told, by the names that librdkafka has for it.

use std::collections::BTreeMap;
use std::fmt;

/// Settings by the names that librdkafka and its users know them by: `bootstrap.servers`, `security.protocol`,
/// `sasl.username`, `acks`, `linger.ms` … What `Debug` shows has no secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

/// A mistake in a property. It is known before anything is connected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("property {name}: {reason}; {advice}")]
pub struct PropertyError {
    /// The property.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
    /// What is allowed, or what to do.
    pub advice: String,
}

impl Properties {
    /// The value of a property, if it is set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets a property. What it was before is forgotten.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// The same, with a property set.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    /// All that are set, by their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether nobody should see the value of this property.
    #[must_use]
    pub fn is_secret(name: &str) -> bool {
        SECRETS.iter().any(|part| name.contains(part))
    }
}

impl PropertyError {
    /// A mistake in the property of this name.
    pub(crate) fn new(name: &str, reason: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name: name.to_owned(), reason: reason.into(), advice: advice.into() }
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Properties {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(properties: I) -> Self {
        Self(properties.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown =
            self.iter().map(|(name, value)| (name, if Self::is_secret(name) { "***" } else { value }));
        f.debug_map().entries(shown).finish()
    }
}

/// What the names of secret properties have in them. A key may be given in place of the file that it is in.
const SECRETS: [&str; 6] =
    ["password", "secret", "sasl.oauthbearer.config", "sasl.jaas.config", "ssl.key.pem", "ssl.keystore.key"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_has_no_secrets() {
        let properties = Properties::from_iter([
            ("sasl.username", "$ConnectionString"),
            ("sasl.password", "Endpoint=sb://ns/;SharedAccessKey=hidden"),
            ("ssl.key.password", "hidden"),
            ("sasl.oauthbearer.client.secret", "hidden"),
        ]);
        let shown = format!("{properties:?}");
        assert!(shown.contains("$ConnectionString") && !shown.contains("hidden"), "{shown}");
        assert_eq!(properties.get("ssl.key.password"), Some("hidden"));
    }

    #[test]
    fn the_last_value_counts() {
        let mut properties = Properties::default().with("acks", "1");
        properties.set("acks", "all");
        assert_eq!(properties.iter().collect::<Vec<_>>(), [("acks", "all")]);
    }
}
