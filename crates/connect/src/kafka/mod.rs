//! Apache Kafka, the Kafka endpoint of Event Hubs, or the embedded service over Kafka's protocol.
//!
//! Source and sink are set up by [`Properties`], whose names are those that librdkafka and its users know: what is written
//! for one client holds for the other ([`Client`]). A topic is named by [`KafkaOptions`]; its partitions are those of the
//! source, and the destinations of the sink.
//!
//! The message of an event is what [`Encoding::Kafka`](crate::event::Encoding::Kafka) says: the tail of a record, which goes
//! from one broker to another without anyone looking into it.

mod extents;
mod group;
#[cfg(feature = "librdkafka")]
mod librdkafka;
mod native;
mod offsets;
mod options;
mod properties;
mod settings;
mod statistics;
mod transaction_offsets;

use crate::event::{Encoding, PartitionId};
use crate::service::ServiceError;
use crate::sink::Sink;
use crate::source::{Source, SourceOptions};

pub use extents::TopicExtents;
pub use native::{PartitionExtent, TransactionOptions};
pub use offsets::{GroupOffsetStore, SessionTimes};
pub use options::{Client, KafkaOptions, UnknownClient};
pub use properties::{Properties, PropertyError};
pub use statistics::{ClientStatistics, ClientWindow, Percentiles};
pub use transaction_offsets::TransactionOffsetStore;

/// A source of the records of a topic, as messages that are encoded so. Connects within
/// `socket.connection.setup.timeout.ms`. Made within a tokio runtime with time and I/O.
///
/// # Errors
/// No broker can be reached, the login is refused, there is no such topic, or a property is wrong.
pub async fn connect_source(
    options: &KafkaOptions,
    source: SourceOptions,
    encoding: Encoding,
) -> Result<Box<dyn Source>, ServiceError> {
    match options.client {
        Client::Native => {
            let settings = settings::Settings::read(&options.properties)?;
            let endpoint = native::Endpoint::new(settings, &options.topic)?;
            Ok(Box::new(native::KafkaSource::connect(endpoint, source, encoding).await?))
        }
        #[cfg(feature = "librdkafka")]
        Client::Librdkafka => {
            Ok(Box::new(librdkafka::RdKafkaSource::connect(options, source, encoding).await?))
        }
    }
}

/// A sink whose destinations are the partitions of a topic. Connects within `socket.connection.setup.timeout.ms`. Made within a
/// tokio runtime with time and I/O.
///
/// # Errors
/// As with [`connect_source`].
pub async fn connect_sink(options: &KafkaOptions) -> Result<Box<dyn Sink>, ServiceError> {
    options.check_sink()?;
    match options.client {
        Client::Native => {
            let settings = settings::Settings::read(&options.properties)?;
            let endpoint = native::Endpoint::new(settings, &options.topic)?;
            Ok(Box::new(native::KafkaSink::connect(endpoint).await?))
        }
        #[cfg(feature = "librdkafka")]
        Client::Librdkafka => Ok(Box::new(librdkafka::RdKafkaSink::connect(options).await?)),
    }
}

/// The same with transactions: what is sent, and the offsets of the source that it comes from, commit together. The outcomes of sends
/// come when their transaction has; then each is accepted, or none, and all fail fatally without being to blame. Only the native client
/// has this.
///
/// Progress is kept by a [`TransactionOffsetStore`] of the same options, which is to be asked when the sink is connected.
///
/// # Errors
/// As with [`connect_source`]; and when the cluster of the sink does not have the topic that the offsets are of.
pub async fn connect_transactional_sink(
    options: &KafkaOptions,
    transactions: TransactionOptions,
) -> Result<Box<dyn Sink>, ServiceError> {
    options.check_transactional_sink()?;
    let settings = settings::Settings::read(&options.properties)?;
    let endpoint = native::Endpoint::new(settings, &options.topic)?;
    Ok(Box::new(native::TransactionalSink::connect(endpoint, transactions).await?))
}

/// The offset of the newest record of each partition that has one: to read from now on.
///
/// # Errors
/// As with [`connect_source`], and when a partition has no leader.
pub async fn ends(options: &KafkaOptions) -> Result<Vec<(PartitionId, i64)>, ServiceError> {
    match options.client {
        Client::Native => {
            let settings = settings::Settings::read(&options.properties)?;
            native::ends(native::Endpoint::new(settings, &options.topic)?).await
        }
        #[cfg(feature = "librdkafka")]
        Client::Librdkafka => librdkafka::ends(options).await,
    }
}

/// The names of the topics of a cluster that is reached with these properties of the native client: those that the login may
/// see, in alphabetical order, without those that brokers keep for themselves.
///
/// # Errors
/// No broker can be reached, the login is refused, or a property is wrong.
pub async fn topics(properties: &Properties) -> Result<Vec<String>, ServiceError> {
    let settings = settings::Settings::read(properties)?;
    native::topics(native::Endpoint::new(settings, "")?).await
}

impl From<PropertyError> for ServiceError {
    fn from(error: PropertyError) -> Self {
        Self::fatal("property", error.to_string())
    }
}
