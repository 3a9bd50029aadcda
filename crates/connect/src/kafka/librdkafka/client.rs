//! What source and sink have in common: properties, connecting, errors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kafka::ErrorCode;
use rdkafka::ClientConfig;
use rdkafka::client::Client;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::context::ClientEar;
use crate::event::PartitionId;
use crate::kafka::{KafkaOptions, Properties, PropertyError};
use crate::service::ServiceError;
use crate::sink::ErrorClass;
use crate::source::OFFSET_OUT_OF_RANGE;

/// Whether the library takes these properties for a consumer.
pub(in crate::kafka) fn check_source(options: &KafkaOptions) -> Result<(), PropertyError> {
    consumer_config(&options.properties)?.create_native_config().map(drop).map_err(property_error)
}

/// Whether it takes them for a producer.
pub(in crate::kafka) fn check_sink(options: &KafkaOptions) -> Result<(), PropertyError> {
    config(&options.properties)?.create_native_config().map(drop).map_err(property_error)
}

/// The offset of the newest record of each partition that has one.
pub(in crate::kafka) async fn ends(options: &KafkaOptions) -> Result<Vec<(PartitionId, i64)>, ServiceError> {
    let options = options.clone();
    blocking(move || {
        let (consumer, partitions) = connect_consumer(&options)?;
        let mut ends = Vec::new();
        for partition in partitions {
            let wait = setup_timeout(&options.properties);
            let (low, high) = consumer
                .fetch_watermarks(&options.topic, partition.0.cast_signed(), wait)
                .map_err(|error| service_error(&error, "asking for the end of a partition"))?;
            if high > low {
                ends.push((partition, high - 1));
            }
        }
        Ok(ends)
    })
    .await
}

/// A consumer that knows the topic, and the topic's partitions. Blocks.
pub(super) fn connect_consumer(
    options: &KafkaOptions,
) -> Result<(Arc<BaseConsumer<ClientEar>>, Vec<PartitionId>), ServiceError> {
    let ear = ClientEar::default();
    let mut consumer: BaseConsumer<ClientEar> =
        consumer_config(&options.properties)?.create_with_context(ear.clone()).map_err(creation_error)?;
    let heard = Arc::clone(&ear.heard);
    consumer.set_nonempty_callback(move || heard.has_something());
    let partitions = partitions(consumer.client(), &ear, options, || {
        // What it has to say waits in its queue. No record does: nothing is assigned.
        let _ = consumer.poll(Duration::ZERO);
    })?;
    ear.heard.has_something();
    Ok((Arc::new(consumer), partitions))
}

/// The partitions of the topic, once a broker has answered. `listen` lets the client say what is wrong.
pub(super) fn partitions<C: rdkafka::ClientContext>(
    client: &Client<C>,
    ear: &ClientEar,
    options: &KafkaOptions,
    listen: impl Fn(),
) -> Result<Vec<PartitionId>, ServiceError> {
    let begun = Instant::now();
    let patience = setup_timeout(&options.properties);
    let mut failed = None;
    loop {
        let left = patience.saturating_sub(begun.elapsed());
        if left.is_zero() {
            let nobody = || ServiceError::of_connection(TIMEOUT, "no broker has answered in time");
            return Err(ear.heard.outage().or(failed).unwrap_or_else(nobody));
        }
        let answer = client.fetch_metadata(Some(&options.topic), left.min(ASK_AGAIN));
        // Several things may have been said: each call hears one.
        for _ in 0..MOST_SAID {
            listen();
        }
        if let Some(error) = ear.heard.fatal() {
            return Err(error);
        }
        let metadata = match answer {
            Ok(metadata) => metadata,
            Err(error) => {
                if let Some(outage) = ear.heard.outage() {
                    return Err(outage);
                }
                failed = Some(service_error(&error, "asking for the topic"));
                continue;
            }
        };
        let topic = metadata.topics().iter().find(|topic| topic.name() == options.topic);
        let Some(topic) = topic else {
            return Err(unknown_topic(&options.topic));
        };
        match topic.error().map(RDKafkaErrorCode::from) {
            None if !topic.partitions().is_empty() => {
                let count = u32::try_from(topic.partitions().len()).unwrap_or(u32::MAX);
                return Ok((0..count).map(PartitionId).collect());
            }
            // A broker that makes topics as they are asked for needs a moment for it.
            None | Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::LeaderNotAvailable)
                if begun.elapsed() < patience.min(MAKING_A_TOPIC) =>
            {
                std::thread::park_timeout(BETWEEN_QUESTIONS);
            }
            None | Some(RDKafkaErrorCode::UnknownTopicOrPartition) => {
                return Err(unknown_topic(&options.topic));
            }
            Some(code) => return Err(error_of(code, &format!("the topic {}", options.topic))),
        }
    }
}

/// Runs what blocks on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
) -> Result<T, ServiceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(ServiceError::fatal("librdkafka", format!("connecting was interrupted: {error}"))),
    }
}

/// The configuration of a producer.
pub(super) fn config(properties: &Properties) -> Result<ClientConfig, PropertyError> {
    let mut config = ClientConfig::new();
    for (name, value) in properties.iter() {
        if let Some(error) = refused(name, value) {
            return Err(error);
        }
        config.set(name, value);
    }
    if ["bootstrap.servers", "metadata.broker.list"].iter().all(|name| properties.get(name).is_none()) {
        let advice = "name one broker at least, as host:port";
        return Err(PropertyError::new("bootstrap.servers", "is missing", advice));
    }
    Ok(config)
}

/// The configuration of a consumer.
fn consumer_config(properties: &Properties) -> Result<ClientConfig, PropertyError> {
    let mut config = config(properties)?;
    for (name, value) in [("group.id", "parshall"), ("enable.auto.commit", "false")] {
        if properties.get(name).is_none() {
            config.set(name, value);
        }
    }
    config.set("auto.offset.reset", "error");
    Ok(config)
}

/// What this build, or a pipeline, can't have.
fn refused(name: &str, value: &str) -> Option<PropertyError> {
    let (reason, advice) = match name {
        "auto.offset.reset" => ("has no effect", "where to start is said by `start` of the pipeline"),
        "security.protocol" if value.to_ascii_lowercase().ends_with("ssl") => {
            ("librdkafka is built without OpenSSL here, and can't speak TLS", "choose `client: native`")
        }
        _ => return None,
    };
    Some(PropertyError::new(name, reason, advice))
}

/// What is wrong with a property, in the library's words.
pub(super) fn property_error(error: KafkaError) -> PropertyError {
    match error {
        KafkaError::ClientConfig(_, reason, name, _) => {
            let reason = reason.trim_end_matches(['\0', '\n']).to_owned();
            PropertyError::new(&name, reason, "see CONFIGURATION.md of librdkafka")
        }
        other => PropertyError::new("librdkafka", other.to_string(), "see CONFIGURATION.md of librdkafka"),
    }
}

/// Why there can be no client.
pub(super) fn creation_error(error: KafkaError) -> ServiceError {
    match error {
        KafkaError::ClientCreation(reason) => ServiceError::fatal("property", reason),
        other => property_error(other).into(),
    }
}

/// How long connecting may take, as the library has it.
pub(super) fn setup_timeout(properties: &Properties) -> Duration {
    let written = properties.get("socket.connection.setup.timeout.ms");
    let milliseconds = written.and_then(|text| text.trim().parse().ok()).unwrap_or(30_000);
    Duration::from_millis(milliseconds)
}

/// How often the topic is looked at though nothing has failed, as the library has it; `None` for never.
pub(super) fn refresh_interval(properties: &Properties) -> Option<Duration> {
    let written = properties.get("topic.metadata.refresh.interval.ms");
    match written.and_then(|text| text.trim().parse::<i64>().ok()) {
        Some(milliseconds) => u64::try_from(milliseconds).ok().map(Duration::from_millis),
        None => Some(Duration::from_secs(300)),
    }
}

/// An error of the library while it did something.
pub(super) fn service_error(error: &KafkaError, doing: &str) -> ServiceError {
    match error.rdkafka_error_code() {
        Some(code) => error_of(code, doing),
        None => ServiceError::fatal("librdkafka", format!("{doing}: {error}")),
    }
}

/// An error of a broker, or of the way to it.
pub(super) fn error_of(code: RDKafkaErrorCode, words: &str) -> ServiceError {
    let class = match code {
        RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::MessageBatchTooLarge => {
            ErrorClass::TooLarge
        }
        RDKafkaErrorCode::ThrottlingQuotaExceeded => {
            ErrorClass::Throttled { retry_after: Duration::from_secs(1) }
        }
        code if is_fatal(code) => ErrorClass::Fatal,
        _ => ErrorClass::Retryable,
    };
    let description = match words {
        "" => code.to_string(),
        words => format!("{words}: {code}"),
    };
    ServiceError { class, condition: condition(code), description }
}

/// Whether the same again can't succeed.
pub(super) fn is_fatal(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::UnsupportedSASLMechanism
            | RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::GroupAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::TransactionalIdAuthorizationFailed
            | RDKafkaErrorCode::InvalidRequiredAcks
            | RDKafkaErrorCode::InvalidTopic
            | RDKafkaErrorCode::InvalidRecord
            | RDKafkaErrorCode::UnsupportedVersion
            | RDKafkaErrorCode::PolicyViolation
            | RDKafkaErrorCode::Fatal
            | RDKafkaErrorCode::Fenced
    )
}

/// Kafka's name of an error, or one of ours for what no broker said.
fn condition(code: RDKafkaErrorCode) -> String {
    match code {
        RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => {
            OFFSET_OUT_OF_RANGE.to_owned()
        }
        RDKafkaErrorCode::Authentication => "SASL_AUTHENTICATION_FAILED".to_owned(),
        RDKafkaErrorCode::AllBrokersDown
        | RDKafkaErrorCode::BrokerTransportFailure
        | RDKafkaErrorCode::Resolve => "connection:unreachable".to_owned(),
        RDKafkaErrorCode::OperationTimedOut | RDKafkaErrorCode::MessageTimedOut => TIMEOUT.to_owned(),
        code => match i16::try_from(code as i32) {
            Ok(number) if number > 0 => ErrorCode::of(number).name(),
            _ => "librdkafka".to_owned(),
        },
    }
}

fn unknown_topic(topic: &str) -> ServiceError {
    ServiceError::fatal("UNKNOWN_TOPIC_OR_PARTITION", format!("there is no topic {topic}"))
}

const TIMEOUT: &str = "connection:timeout";

/// How long one question about a topic may wait, so that what is wrong is heard in between.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// How long a topic may take to be there.
const MAKING_A_TOPIC: Duration = Duration::from_secs(3);

const BETWEEN_QUESTIONS: Duration = Duration::from_millis(50);

/// More than a client has to say at a time.
const MOST_SAID: usize = 32;
