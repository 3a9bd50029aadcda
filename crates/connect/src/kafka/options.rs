//! Which topic, through which client.

use std::fmt;
use std::str::FromStr;

#[cfg(feature = "librdkafka")]
use super::librdkafka;
use super::properties::{Properties, PropertyError};
use super::settings::Settings;

/// A topic, and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaOptions {
    /// The topic.
    pub topic: String,
    /// What speaks to the brokers.
    pub client: Client,
    /// What that is told.
    pub properties: Properties,
}

/// What speaks to the brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Client {
    /// The client of this crate: for speed. It knows the properties that most need, and refuses all others.
    #[default]
    Native,
    /// The library that most other clients are made of: for its properties, and to compare with.
    #[cfg(feature = "librdkafka")]
    Librdkafka,
}

impl KafkaOptions {
    /// A topic through the native client.
    #[must_use]
    pub fn new(topic: impl Into<String>, properties: Properties) -> Self {
        Self { topic: topic.into(), client: Client::default(), properties }
    }

    /// Whether a source can be set up so. Nothing is connected.
    ///
    /// # Errors
    /// The first mistake in the properties.
    pub fn check_source(&self) -> Result<(), PropertyError> {
        match self.client {
            Client::Native => Settings::read(&self.properties).map(drop),
            #[cfg(feature = "librdkafka")]
            Client::Librdkafka => librdkafka::check_source(self),
        }
    }

    /// Whether a sink can be set up so. Nothing is connected.
    ///
    /// # Errors
    /// The first mistake in the properties.
    pub fn check_sink(&self) -> Result<(), PropertyError> {
        let of_transactions = [TRANSACTIONAL_ID, TRANSACTION_TIMEOUT];
        if let Some(name) = of_transactions.into_iter().find(|name| self.properties.get(name).is_some()) {
            let reason = "transactions are for exactly-once delivery";
            let advice = "leave it out, or write `delivery: exactly-once` in the pipeline";
            return Err(PropertyError::new(name, reason, advice));
        }
        match self.client {
            Client::Native => Settings::read(&self.properties)?.check_sink(),
            #[cfg(feature = "librdkafka")]
            Client::Librdkafka => librdkafka::check_sink(self),
        }
    }

    /// Whether a sink that delivers exactly once can be set up so. Nothing is connected.
    ///
    /// # Errors
    /// The first mistake in the properties.
    pub fn check_transactional_sink(&self) -> Result<(), PropertyError> {
        match self.client {
            Client::Native => {
                let settings = Settings::read(&self.properties)?;
                settings.check_sink()?;
                settings.check_transactions()
            }
            #[cfg(feature = "librdkafka")]
            Client::Librdkafka => {
                let reason = "only the native client has transactions";
                Err(PropertyError::new(TRANSACTIONAL_ID, reason, "leave out `client: librdkafka`"))
            }
        }
    }

    /// The transactional id that is given.
    #[must_use]
    pub fn transactional_id(&self) -> Option<&str> {
        self.properties.get(TRANSACTIONAL_ID)
    }
}

/// The property that makes a producer one of transactions.
const TRANSACTIONAL_ID: &str = "transactional.id";

/// The property that says how long one may be open.
const TRANSACTION_TIMEOUT: &str = "transaction.timeout.ms";

impl Client {
    /// Those that this build has.
    pub const ALL: &[Self] = &[
        Self::Native,
        #[cfg(feature = "librdkafka")]
        Self::Librdkafka,
    ];

    /// What it is called in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            #[cfg(feature = "librdkafka")]
            Self::Librdkafka => "librdkafka",
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No client of this build has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no client of this build")]
pub struct UnknownClient(pub String);

impl FromStr for Client {
    type Err = UnknownClient;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|client| client.name() == name);
        found.copied().ok_or_else(|| UnknownClient(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(properties: &[(&str, &str)]) -> KafkaOptions {
        let properties = properties.iter().copied().chain([("bootstrap.servers", "localhost:9092")]);
        KafkaOptions::new("orders", properties.collect())
    }

    #[test]
    fn each_end_is_checked_for_what_it_is_asked_to_do() {
        let contradiction = options(&[("acks", "1"), ("enable.idempotence", "true")]);
        assert_eq!(contradiction.check_source(), Ok(()), "a source acknowledges nothing");
        assert_eq!(contradiction.check_sink().unwrap_err().name, "enable.idempotence");
        let transactional = options(&[("transactional.id", "mover")]);
        for client in Client::ALL {
            let refused = KafkaOptions { client: *client, ..transactional.clone() }.check_sink();
            assert_eq!(refused.unwrap_err().name, "transactional.id", "{client}");
        }
        assert_eq!(transactional.check_transactional_sink(), Ok(()));
        assert_eq!(transactional.transactional_id(), Some("mover"));
        assert_eq!(contradiction.check_transactional_sink().unwrap_err().name, "enable.idempotence");
        let timed = options(&[("transaction.timeout.ms", "90000")]);
        assert_eq!(timed.check_sink().unwrap_err().name, "transaction.timeout.ms");
        let unknown = options(&[("socket.nagle.disable", "true")]);
        for refused in [unknown.check_source(), unknown.check_sink()] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.name, "socket.nagle.disable");
            assert!(refused.advice.contains("client: librdkafka"), "{refused}");
        }
    }

    #[test]
    fn clients_are_known_by_their_names() {
        for client in Client::ALL {
            assert_eq!(client.to_string().parse(), Ok(*client));
        }
        assert_eq!("java".parse::<Client>(), Err(UnknownClient("java".to_owned())));
    }
}
