//! Sends to the partitions of a topic.
//!
//! The records of a send go into the library's queue one by one, and it puts them into batches as `linger.ms`, `batch.size` and the
//! like say. A send is done when the last of its records is: each counts it down, and only the last takes a lock and wakes.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use convert::{HeaderForm, Message};
use kafka::record_tail::RecordTail;
use rdkafka::ClientConfig;
use rdkafka::config::NativeClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

use super::client::{blocking, config, creation_error, error_of, partitions, property_error, service_error};
use super::context::{ClientEar, Heard};
use crate::event::{Encoding, Event, EventBatch};
use crate::kafka::{ClientStatistics, KafkaOptions};
use crate::service::ServiceError;
use crate::sink::{ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, Sink, SinkBusy, SinkError};

/// A [`Sink`] whose destinations are the partitions of a topic.
pub(in crate::kafka) struct RdKafkaSink {
    producer: Arc<BaseProducer<ClientEar>>,
    heard: Arc<Heard>,
    shared: Arc<Shared>,
    topic: String,
    destinations: u32,
    limits: Limits,
    /// Messages and bytes of the send that there was no room for.
    refused: (usize, usize),
    outage: Option<ServiceError>,
}

/// What the library's queue takes.
#[derive(Clone, Copy, Debug)]
struct Limits {
    messages: usize,
    bytes: usize,
    of_message: usize,
}

/// What the thread that hears of records shares with the sink.
#[derive(Debug, Default)]
struct Shared {
    /// The sink is gone.
    is_over: AtomicBool,
    /// What is in the library's queue.
    messages: AtomicUsize,
    bytes: AtomicUsize,
    outcomes: Mutex<Vec<SendOutcome>>,
}

/// A send whose records are under way.
#[derive(Debug)]
pub(super) struct SendState {
    token: SendToken,
    /// Records that nothing is known of yet, and one for as long as they are being handed over.
    remaining: AtomicU32,
    messages: usize,
    bytes: usize,
    /// The first error.
    error: OnceLock<Box<SendError>>,
    shared: Arc<Shared>,
}

impl SendState {
    /// It is known what became of a record. Whether that was the last.
    pub(super) fn delivered(&self, error: Option<RDKafkaErrorCode>) -> bool {
        if let Some(code) = error {
            self.fail(error_of(code, ""));
        }
        self.count_down(1)
    }

    fn fail(&self, error: ServiceError) {
        let _ = self.error.set(Box::new(error.into()));
    }

    /// So many fewer remain. Whether none does.
    fn count_down(&self, records: u32) -> bool {
        if self.remaining.fetch_sub(records, Ordering::AcqRel) > records {
            return false;
        }
        self.shared.messages.fetch_sub(self.messages, Ordering::AcqRel);
        self.shared.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        let result = self.error.get().cloned().map_or(Ok(()), Err);
        let outcome = SendOutcome { token: self.token, result };
        self.shared.outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        true
    }
}

impl RdKafkaSink {
    /// Makes a producer, and asks for the partitions.
    ///
    /// # Errors
    /// A property is wrong, no broker can be reached, the login is refused, or there is no such topic.
    pub(in crate::kafka) async fn connect(options: &KafkaOptions) -> Result<Self, ServiceError> {
        let asked = options.clone();
        let (producer, heard, destinations, limits) = blocking(move || {
            let ear = ClientEar::default();
            let mut config = config(&asked.properties)?;
            let limits = Limits::of(&config.create_native_config().map_err(property_error)?)?;
            limits.leave_slack(&mut config);
            let producer: BaseProducer<ClientEar> =
                config.create_with_context(ear.clone()).map_err(creation_error)?;
            let found = partitions(producer.client(), &ear, &asked, || producer.poll(Duration::ZERO))?;
            Ok((Arc::new(producer), ear.heard, u32::try_from(found.len()).unwrap_or(u32::MAX), limits))
        })
        .await?;
        let shared = Arc::new(Shared::default());
        let (listener, over) = (Arc::clone(&producer), Arc::clone(&shared));
        let listen = move || {
            while !over.is_over.load(Ordering::Acquire) {
                listener.poll(LISTEN);
            }
            // What is still in the queue is given up here, where that may take its time.
        };
        let thread = std::thread::Builder::new().name("librdkafka-reports".to_owned()).spawn(listen);
        thread.map_err(|error| {
            ServiceError::fatal("librdkafka", format!("the system refuses a thread: {error}"))
        })?;
        let topic = options.topic.clone();
        Ok(Self { producer, heard, shared, topic, destinations, limits, refused: (1, 1), outage: None })
    }

    /// Whether the queue takes so much more, beside what is there.
    fn has_room(&self, messages: usize, bytes: usize) -> bool {
        let queued = self.shared.messages.load(Ordering::Acquire);
        queued == 0
            || queued.saturating_add(messages) <= self.limits.messages
                && self.shared.bytes.load(Ordering::Acquire).saturating_add(bytes) <= self.limits.bytes
    }

    /// Puts one event into the library's queue.
    fn produce(
        &self,
        partition: i32,
        batch: &EventBatch,
        event: &Event,
        send: &Arc<SendState>,
    ) -> Result<(), ServiceOrBusy> {
        let mut record: BaseRecord<'_, [u8], [u8], Arc<SendState>> =
            BaseRecord::with_opaque_to(&self.topic, Arc::clone(send))
                .partition(partition)
                .timestamp(event.enqueued_time.unix_ms());
        let message = batch.message(event);
        match batch.encoding() {
            Encoding::Kafka | Encoding::Opaque => {
                let tail = RecordTail::read(message).map_err(|malformed| {
                    let description = format!("this is no record of Kafka: malformed {}", malformed.0);
                    ServiceOrBusy::Error(ServiceError::fatal("INVALID_RECORD", description))
                })?;
                check_names(tail.headers.all())?;
                (record.key, record.payload) = (tail.key, tail.value);
                record.headers = headers(tail.headers.count() as usize, tail.headers.iter());
                self.enqueue(record)
            }
            Encoding::Amqp => {
                let key = batch.partition_key(event);
                let message = Message { key, header_form: HeaderForm::Bytes, ..Message::of(message) };
                if let Some(value) = message.plain_value() {
                    (record.key, record.payload) = (key, Some(value));
                    return self.enqueue(record);
                }
                let parts = message.record_parts();
                (record.key, record.payload) = (parts.key, parts.value.as_deref());
                check_names(parts.headers())?;
                let of_parts =
                    || parts.headers().filter_map(|(name, value)| Some((str::from_utf8(name).ok()?, value)));
                record.headers = headers(of_parts().count(), of_parts());
                self.enqueue(record)
            }
        }
    }

    #[inline]
    fn enqueue(&self, record: BaseRecord<'_, [u8], [u8], Arc<SendState>>) -> Result<(), ServiceOrBusy> {
        match self.producer.send(record) {
            Ok(()) => Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => Err(ServiceOrBusy::Busy),
            Err((error, _)) => Err(ServiceOrBusy::Error(service_error(&error, ""))),
        }
    }
}

/// Headers as the library has them; none if there is none.
fn headers<'h>(
    count: usize,
    headers: impl Iterator<Item = (&'h str, Option<&'h [u8]>)>,
) -> Option<OwnedHeaders> {
    let insert = |all: OwnedHeaders, (key, value)| all.insert(Header { key, value });
    (count > 0).then(|| headers.fold(OwnedHeaders::new_with_capacity(count), insert))
}

/// The library's wrapper has no headers whose names are no text: a record that has one is refused rather than changed.
fn check_names<'h>(
    mut headers: impl Iterator<Item = kafka::record::Header<'h>>,
) -> Result<(), ServiceOrBusy> {
    match headers.all(|(name, _)| str::from_utf8(name).is_ok()) {
        true => Ok(()),
        false => {
            let description = "a header has a name that is not UTF-8, which only the native client can send";
            Err(ServiceOrBusy::Error(ServiceError::fatal("INVALID_RECORD", description)))
        }
    }
}

/// Why a record was not taken.
enum ServiceOrBusy {
    Busy,
    Error(ServiceError),
}

impl Sink for RdKafkaSink {
    fn destinations(&self) -> u32 {
        self.destinations
    }

    fn takes(&self, encoding: Encoding) -> bool {
        matches!(encoding, Encoding::Kafka | Encoding::Amqp)
    }

    fn max_batch_bytes(&self, _: u32) -> usize {
        // The library parts a send into as many batches as it needs. A record that is too long it refuses.
        SEND_MAX.min(self.limits.bytes).max(self.limits.of_message)
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len + RECORD_OVERHEAD + CONVERTED
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        self.heard.waker.register(context.waker());
        if let Some(error) = self.heard.fatal() {
            return Poll::Ready(Err(error.into()));
        }
        match self.has_room(self.refused.0, self.refused.1) {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        let messages = outgoing.events().len();
        let bytes = outgoing.events().map(|(_, event)| event.message_len()).sum();
        if !self.has_room(messages, bytes) {
            self.refused = (messages, bytes);
            return Err(SinkBusy);
        }
        let remaining = AtomicU32::new(u32::try_from(messages).unwrap_or(u32::MAX).saturating_add(1));
        let (error, shared) = (OnceLock::new(), Arc::clone(&self.shared));
        let send = Arc::new(SendState { token, remaining, messages, bytes, error, shared });
        self.shared.messages.fetch_add(messages, Ordering::AcqRel);
        self.shared.bytes.fetch_add(bytes, Ordering::AcqRel);
        let partition = outgoing.destination().cast_signed();
        let mut taken = 0;
        for (batch, event) in outgoing.events() {
            match self.produce(partition, batch, event, &send) {
                Ok(()) => taken += 1,
                Err(ServiceOrBusy::Busy)
                    if taken == 0 && self.shared.messages.load(Ordering::Acquire) > messages =>
                {
                    self.refused = (messages, bytes);
                    self.shared.messages.fetch_sub(messages, Ordering::AcqRel);
                    self.shared.bytes.fetch_sub(bytes, Ordering::AcqRel);
                    return Err(SinkBusy);
                }
                Err(ServiceOrBusy::Busy) => {
                    send.fail(ServiceError {
                        // The queue is smaller than the send.
                        class: ErrorClass::TooLarge,
                        ..error_of(RDKafkaErrorCode::QueueFull, "")
                    });
                    break;
                }
                Err(ServiceOrBusy::Error(error)) => {
                    send.fail(error);
                    break;
                }
            }
        }
        let left = u32::try_from(messages - taken).unwrap_or(u32::MAX).saturating_add(1);
        if send.count_down(left) {
            self.heard.waker.wake();
        }
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        self.heard.waker.register(context.waker());
        let before = outcomes.len();
        outcomes.append(&mut self.shared.outcomes.lock().unwrap_or_else(PoisonError::into_inner));
        self.outage = self.heard.outage();
        if outcomes.len() > before {
            if self.outage.is_some() && outcomes[before..].iter().any(|outcome| outcome.result.is_ok()) {
                self.heard.is_up();
                self.outage = None;
            }
            return Poll::Ready(Ok(()));
        }
        match self.heard.fatal() {
            Some(error) => Poll::Ready(Err(error.into())),
            None => Poll::Pending,
        }
    }

    fn outage(&self) -> Option<&ServiceError> {
        self.outage.as_ref()
    }

    fn slowed_down(&self) -> u64 {
        self.heard.slowed_down()
    }

    fn client_statistics(&self) -> Option<ClientStatistics> {
        Some(self.heard.statistics())
    }
}

impl Drop for RdKafkaSink {
    /// The thread that listens ends then, and the producer with it.
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
    }
}

impl fmt::Debug for RdKafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RdKafkaSink")
            .field("topic", &self.topic)
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Limits {
    /// Gives the library's queue twice the room, and leaves the bound to the sink: a record counts for the library until a moment after
    /// its report, and a send must not be refused in its middle.
    fn leave_slack(self, config: &mut ClientConfig) {
        let twice = |bound: usize| bound.saturating_mul(2).min(LIBRARY_MAX).to_string();
        if self.messages < LIBRARY_MAX {
            config.set(MAX_MESSAGES, twice(self.messages));
        }
        config.set(MAX_KILOBYTES, twice(self.bytes / 1024));
    }

    /// As the library has read them.
    fn of(config: &NativeClientConfig) -> Result<Self, ServiceError> {
        let number = |name: &str| -> Result<usize, ServiceError> {
            let text = config.get(name).map_err(property_error)?;
            text.trim().parse().map_err(|_| ServiceError::fatal("librdkafka", format!("{name} is {text:?}")))
        };
        Ok(Self {
            messages: match number(MAX_MESSAGES)? {
                // As it says: no bound.
                0 => usize::MAX,
                messages => messages,
            },
            bytes: number(MAX_KILOBYTES)?.saturating_mul(1024),
            of_message: number("message.max.bytes")?,
        })
    }
}

/// How long the thread waits for reports at a time, before it looks whether the sink is gone. Reports wake it at once.
const LISTEN: Duration = Duration::from_millis(100);

const MAX_MESSAGES: &str = "queue.buffering.max.messages";
const MAX_KILOBYTES: &str = "queue.buffering.max.kbytes";

/// The largest value that the library takes for either.
const LIBRARY_MAX: usize = i32::MAX as usize;

/// The most bytes of a send, so that not everything waits for one outcome.
const SEND_MAX: usize = 16 * 1024 * 1024;

/// What a record has before its tail: its length, attributes, and two deltas.
const RECORD_OVERHEAD: usize = 21;

/// What a message can be longer by as a record.
const CONVERTED: usize = 1_024;
