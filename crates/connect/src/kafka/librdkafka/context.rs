//! What the library tells a client of ours, whichever thread it does so in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::task::AtomicWaker;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{DeliveryResult, ProducerContext};

use super::client::{error_of, is_fatal};
use super::sink::SendState;
use super::statistics;
use crate::kafka::ClientStatistics;
use crate::service::ServiceError;

/// The ear of one client.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientEar {
    pub(super) heard: Arc<Heard>,
}

/// What it has heard.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Who polls the client.
    pub(super) waker: AtomicWaker,
    /// Whether its queue may have something.
    has_events: AtomicBool,
    /// Whether it has said something since somebody looked.
    has_spoken: AtomicBool,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// Trying again can't help.
    fatal: Option<ServiceError>,
    /// No broker can be reached.
    outage: Option<ServiceError>,
    /// The last words about a connection that failed: why all are down.
    transport: Option<String>,
    statistics: ClientStatistics,
}

impl Heard {
    /// Its queue is not empty any more.
    pub(super) fn has_something(&self) {
        self.has_events.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether its queue may have something, and since that is looked at now: what comes later says so again.
    pub(super) fn takes_events(&self) -> bool {
        self.has_events.swap(false, Ordering::AcqRel)
    }

    /// Whether the ear has heard anything that a call of `poll` does not return.
    pub(super) fn takes_words(&self) -> bool {
        self.has_spoken.swap(false, Ordering::AcqRel)
    }

    /// Why the client can't go on, if it can't.
    pub(super) fn fatal(&self) -> Option<ServiceError> {
        self.told(|told| told.fatal.clone())
    }

    /// Why nothing can be reached at the moment, if that is so.
    pub(super) fn outage(&self) -> Option<ServiceError> {
        self.told(|told| told.outage.clone())
    }

    /// A broker has answered.
    pub(super) fn is_up(&self) {
        self.told(|told| told.outage = None);
    }

    /// What the library has measured so far.
    pub(super) fn statistics(&self) -> ClientStatistics {
        self.told(|told| told.statistics.clone())
    }

    /// How often a broker has asked to be left alone, as far as the library has reported.
    pub(super) fn slowed_down(&self) -> u64 {
        self.told(|told| told.statistics.throttled.count)
    }

    fn told<T>(&self, change: impl FnOnce(&mut Told) -> T) -> T {
        change(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn error(&self, code: RDKafkaErrorCode, reason: &str) {
        self.told(|told| match code {
            RDKafkaErrorCode::AllBrokersDown => {
                let why = told.transport.as_deref().unwrap_or(reason);
                told.outage = Some(error_of(code, why));
            }
            code if is_fatal(code) => told.fatal = Some(error_of(code, reason)),
            // One of several brokers; the library connects again by itself.
            _ => told.transport = Some(reason.to_owned()),
        });
        self.waker.wake();
    }
}

impl ClientContext for ClientEar {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.heard.has_spoken.store(true, Ordering::Release);
        match level {
            RDKafkaLogLevel::Debug => tracing::trace!(facility, "librdkafka: {message}"),
            // Errors come as such as well; here they are for those who look for more.
            _ => tracing::debug!(facility, "librdkafka: {message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if let Some(code) = error.rdkafka_error_code() {
            self.heard.error(code, reason);
        }
    }

    fn stats_raw(&self, statistics: &[u8]) {
        self.heard.has_spoken.store(true, Ordering::Release);
        match statistics::read(statistics) {
            Ok(window) => self.heard.told(|told| told.statistics.add(&window)),
            Err(error) => tracing::debug!(%error, "librdkafka's statistics can't be read"),
        }
    }
}

impl ConsumerContext for ClientEar {}

impl ProducerContext for ClientEar {
    type DeliveryOpaque = Arc<SendState>;

    fn delivery(&self, result: &DeliveryResult<'_>, send: Arc<SendState>) {
        let error = result.as_ref().err().and_then(|(error, _)| error.rdkafka_error_code());
        if send.delivered(error) {
            self.heard.waker.wake();
        }
    }
}
