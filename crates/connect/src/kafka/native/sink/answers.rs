//! What becomes of a batch: an outcome for each send in it, or that it goes again.

use std::time::Duration;

use kafka::ErrorCode;
use kafka::produce::{self, Produced};
use tokio::time::Instant;

use super::KafkaSink;
use crate::kafka::native::connection::Answer;
use crate::kafka::native::error::{is_about_leaders, malformed, refused, refused_for_good};
use crate::kafka::native::sent::Sent;
use crate::service::ServiceError;
use crate::service::error::TIMEOUT;
use crate::sink::{ErrorClass, SendError, SendOutcome};

impl KafkaSink {
    /// Takes what became of the batches of a request. A fatal error is one of the sink, any other of the connection.
    pub(super) fn take_answer(
        &mut self,
        broker: usize,
        sent: Vec<Sent>,
        answer: &Answer,
    ) -> Result<(), ServiceError> {
        let mut sent: Vec<_> = sent.into_iter().map(Some).collect();
        let mut results = Vec::with_capacity(sent.len());
        let throttle_time_ms = produce::read_response(answer.reader(), answer.version, |produced| {
            let of_it = |sent: &&mut Option<Sent>| {
                sent.as_ref().is_some_and(|sent| sent.partition as i32 == produced.index)
            };
            if let Some(sent) = sent.iter_mut().find(of_it).and_then(Option::take) {
                results.push((sent, refusal(&produced)));
            }
        });
        let is_first = results.iter().any(|(_, refusal)| refusal.is_none());
        for (sent, refusal) in results {
            match refusal {
                None => self.accepted(sent),
                Some((code, message)) => self.refused(sent, code, message)?,
            }
        }
        if is_first {
            self.cluster.works();
        }
        let unanswered = sent.into_iter().flatten().collect();
        match throttle_time_ms {
            Ok(time) => self.quiet(broker, time),
            Err(error) => {
                let error = malformed(error);
                self.fail_or_retry(unanswered, &error);
                return Err(error);
            }
        }
        let error = malformed(kafka::Malformed("partitions of an answer"));
        self.fail_or_retry(unanswered, &error);
        Ok(())
    }

    /// The broker wants to be left alone.
    pub(super) fn quiet(&mut self, broker: usize, throttle_time_ms: i32) {
        let Some(milliseconds) = u64::try_from(throttle_time_ms).ok().filter(|time| *time > 0) else {
            return;
        };
        self.slowed_down += 1;
        let retry_after = Duration::from_millis(milliseconds).min(QUIET_MAX);
        self.quiet_until[broker] = Some(Instant::now() + retry_after);
        self.throttled = Some(ServiceError {
            class: ErrorClass::Throttled { retry_after },
            condition: "THROTTLED".to_owned(),
            description: format!("the broker is not to be asked for {retry_after:?}: a quota is used up"),
        });
    }

    /// The connection is gone, and with it the answers to what was sent.
    pub(super) fn lose(&mut self, broker: usize, error: &ServiceError) {
        for sent in self.cluster.lost(broker, error) {
            self.fail_or_retry(sent, error);
        }
    }

    /// Nobody knows whether these were appended.
    pub(super) fn fail_or_retry(&mut self, batches: Vec<Sent>, error: &ServiceError) {
        for sent in batches {
            match sent.numbers.is_some() {
                true => self.go_again(sent),
                false => self.failed(sent, error),
            }
        }
    }

    pub(super) fn accepted(&mut self, mut sent: Sent) {
        self.is_blocked = false;
        self.destinations[sent.partition].under_way -= 1;
        self.outcomes.extend(sent.tokens.drain(..).map(|token| SendOutcome { token, result: Ok(()) }));
        if self.spare_tokens.len() < self.destinations.len() {
            self.spare_tokens.push(sent.tokens);
        }
        // Unless the socket still has a part of it, or enough is kept: fresh memory costs more than what is written into it.
        let kept: usize = self.spare_bytes.iter().map(Vec::capacity).sum();
        if self.spare_bytes.len() < SPARE_MAX
            && let Ok(mut bytes) = sent.bytes.try_into_mut()
            && kept + bytes.capacity() <= SPARE_BYTES_MAX
        {
            bytes.clear();
            self.spare_bytes.push(bytes.into());
        }
    }

    /// A broker refuses a batch. An error is one of the sink.
    pub(super) fn refused(
        &mut self,
        sent: Sent,
        code: ErrorCode,
        message: Option<String>,
    ) -> Result<(), ServiceError> {
        let topic = &self.endpoint.topic;
        let reason = message.map(|message| format!(": {message}")).unwrap_or_default();
        let what = format!("partition {} of {topic} does not take a batch{reason}", sent.partition);
        if matches!(code, ErrorCode::TopicAuthorizationFailed | ErrorCode::ClusterAuthorizationFailed) {
            return Err(refused_for_good(code, what));
        }
        let destination = &mut self.destinations[sent.partition];
        if is_about_leaders(code) {
            destination.seeks_leader = true;
            self.cluster.refresh_soon();
        }
        let error = refused(code, what);
        let is_numbered = sent.numbers.is_some();
        match code {
            code if is_numbered && code.is_retriable() => self.go_again(sent),
            // What stood before it was refused, or goes again.
            ErrorCode::OutOfOrderSequenceNumber
                if is_numbered && (destination.has_gap() || !destination.again.is_empty()) =>
            {
                self.go_again(sent);
            }
            ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::UnknownProducerId
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::InvalidProducerIdMapping
            | ErrorCode::ProducerFenced => {
                destination.forget_producer();
                self.ask_producer();
                self.failed(sent, &ServiceError { class: ErrorClass::Retryable, ..error });
            }
            ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge if sent.tokens.len() > 1 => {
                // Together they are too large; each of them need not be.
                destination.gathered_max = Some(sent.bytes.len() / 2);
                destination.close_gap(&sent);
                self.failed(sent, &ServiceError { class: ErrorClass::Retryable, ..error });
            }
            _ => {
                destination.close_gap(&sent);
                self.failed(sent, &error);
            }
        }
        Ok(())
    }

    pub(super) fn go_again(&mut self, sent: Sent) {
        let place = sent.partition;
        let destination = &mut self.destinations[place];
        destination.under_way -= 1;
        destination.retry(sent);
        self.going_again += 1;
        self.enqueue(place);
    }

    pub(super) fn failed(&mut self, mut sent: Sent, error: &ServiceError) {
        self.is_blocked = false;
        self.destinations[sent.partition].under_way -= 1;
        self.give_up(&mut sent, error);
    }

    pub(super) fn give_up(&mut self, sent: &mut Sent, error: &ServiceError) {
        let failed = |token| SendOutcome { token, result: Err(Box::new(SendError::from(error.clone()))) };
        self.outcomes.extend(sent.tokens.drain(..).map(failed));
    }

    /// Gives up what has gone again for too long. Nobody knows whether it was appended, so that what follows is another
    /// producer's.
    pub(super) fn give_up_overdue(&mut self) {
        if self.going_again == 0 {
            return;
        }
        let now = Instant::now();
        for place in 0..self.destinations.len() {
            let destination = &mut self.destinations[place];
            if destination.under_way > 0 || destination.again.front().is_none_or(|sent| now < sent.deadline) {
                continue;
            }
            let overdue = std::mem::take(&mut destination.again);
            destination.forget_producer();
            self.going_again -= overdue.len();
            let what = "the batch was not acknowledged in time, and may have been appended";
            let error = ServiceError::of_connection(TIMEOUT, what);
            for mut sent in overdue {
                self.give_up(&mut sent, &error);
            }
            self.ask_producer();
        }
    }
}

/// Why a batch was not appended, if it was not.
fn refusal(produced: &Produced<'_>) -> Option<(ErrorCode, Option<String>)> {
    match ErrorCode::check(produced.error_code) {
        // It was appended before.
        Ok(()) | Err(ErrorCode::DuplicateSequenceNumber) => None,
        Err(code) => Some((code, produced.error_message.map(str::to_owned))),
    }
}

/// Batches of which the memory is kept.
const SPARE_MAX: usize = 64;

/// Bytes of memory that is kept, all of it together.
const SPARE_BYTES_MAX: usize = 16 << 20;

/// No broker is left alone for longer, whatever it says.
const QUIET_MAX: Duration = Duration::from_secs(30);
