//! A sink whose sends are accepted when the transaction that they are in has committed.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::TransactionOptions;
use super::coordinators::{Coordinators, Step, Trouble};
use super::gate::Gate;
use super::progress::Progress;
use crate::alarm::Alarm;
use crate::event::Encoding;
use crate::kafka::native::cluster::Cluster;
use crate::kafka::native::endpoint::Endpoint;
use crate::kafka::native::sink::KafkaSink;
use crate::retry::RetryPolicy;
use crate::service::ServiceError;
use crate::service::error::TIMEOUT;
use crate::sink::{
    self, ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, Sink, SinkBusy, SinkError,
};

/// A [`Sink`] whose destinations are the partitions of a topic, in the order of their numbers. Events have to come in the order of their
/// offsets, those of a partition of the source in one send at a time.
pub(crate) struct TransactionalSink {
    inner: KafkaSink,
    progress: Progress,
    work: Work,
    /// When the transaction began, if one has.
    since: Option<Instant>,
    /// Why the transaction can't commit. Nothing is taken up until it is aborted.
    failure: Option<SendError>,
    /// Whether the cluster has aborted it already.
    is_aborted: bool,
    /// Sends that were refused because of what they are.
    too_large: Vec<(SendToken, SendError)>,
    /// Tries in a row that a step has come to nothing.
    futile: u32,
    outage: Option<ServiceError>,
    /// What has become of sends, before it counts.
    answers: Vec<SendOutcome>,
    outcomes: Vec<SendOutcome>,
    /// How long a transaction takes up what is sent.
    interval: Duration,
    /// How long it may be open before its end is asked for.
    patience: Duration,
    alarm: Alarm,
}

/// What is asked of the coordinators.
enum Work {
    Idle(Box<Coordinators>),
    Busy(Step, Taking),
    /// Between the two.
    Over,
}

/// A step that is taken, at the end of which the coordinators are free again.
type Taking = Pin<Box<dyn Future<Output = (Box<Coordinators>, Result<(), Trouble>)> + Send>>;

impl TransactionalSink {
    /// Connects, asks for the partitions, and becomes the producer of the transactional id: what another one of that id had open is
    /// aborted, or has committed, when this is done.
    ///
    /// # Errors
    /// No broker can be reached, the login is refused, or a topic is missing: that of the sink, or in its cluster that of the source.
    pub(crate) async fn connect(
        endpoint: Arc<Endpoint>,
        options: TransactionOptions,
    ) -> Result<Self, ServiceError> {
        check_place_of_offsets(&endpoint, &options).await?;
        let options = Arc::new(options);
        let gate = |partitions| Gate::new(options.id.as_str().into(), partitions);
        let mut inner = KafkaSink::connect_gated(Arc::clone(&endpoint), gate).await?;
        let mut coordinators = Coordinators::new(Arc::clone(&endpoint), Arc::clone(&options));
        begin(&mut coordinators, endpoint.settings.request_timeout).await?;
        inner.go_on_as(coordinators.producer());
        Ok(Self {
            inner,
            progress: Progress::default(),
            work: Work::Idle(Box::new(coordinators)),
            since: None,
            failure: None,
            is_aborted: false,
            too_large: Vec::new(),
            futile: 0,
            outage: None,
            answers: Vec::new(),
            outcomes: Vec::new(),
            interval: options.interval,
            patience: endpoint.settings.produce.transaction_timeout / 2,
            alarm: Alarm::new(),
        })
    }

    /// Does all there is to do until the task would have to wait. An error is one that trying again can't change.
    fn drive(&mut self, context: &mut Context<'_>) -> Result<(), ServiceError> {
        loop {
            self.inner.drive_gated(context, &mut self.answers)?;
            self.take_answers();
            if self.poll_step(context)? || self.begin_step() {
                continue;
            }
            if self.poll_timer(context).is_pending() {
                return Ok(());
            }
        }
    }

    /// What has become of sends does not count yet, but that one has failed does.
    fn take_answers(&mut self) {
        for SendOutcome { token, result } in self.answers.drain(..) {
            match result {
                Ok(()) => self.progress.acknowledge(token),
                Err(error) => {
                    if error.class == ErrorClass::TooLarge {
                        self.too_large.push((token, (*error).clone()));
                    }
                    self.failure.get_or_insert(*error);
                }
            }
        }
    }

    /// Goes on with the step that is taken. Says whether it has come to an end.
    fn poll_step(&mut self, context: &mut Context<'_>) -> Result<bool, ServiceError> {
        let Work::Busy(_, taking) = &mut self.work else {
            return Ok(false);
        };
        let Poll::Ready((coordinators, result)) = taking.as_mut().poll(context) else {
            return Ok(false);
        };
        let Work::Busy(step, _) = std::mem::replace(&mut self.work, Work::Idle(coordinators)) else {
            return Ok(false);
        };
        match result {
            Ok(()) => {
                (self.futile, self.outage) = (0, None);
                self.follow(step);
            }
            Err(Trouble::Fail(error)) => return Err(error),
            Err(Trouble::Abort(error)) => self.fail(error),
            // It may have come to this by the time that it took.
            Err(Trouble::Fenced(error)) if step != Step::Begin && self.has_lasted(2 * self.patience) => {
                self.is_aborted = true;
                self.fail(error);
            }
            Err(Trouble::Fenced(error)) => return Err(error),
            Err(Trouble::Again(error)) => self.take_again(step, error),
        }
        Ok(true)
    }

    /// A step is taken: does what follows from it.
    fn follow(&mut self, step: Step) {
        match step {
            Step::AddPartitions(partitions) => self.inner.gate().admit(&partitions),
            Step::AddOffsets(_) => self.take(Step::End { commits: true }),
            Step::End { commits: true } => {
                let accepted = |token| SendOutcome { token, result: Ok(()) };
                self.outcomes.extend(self.progress.commit().into_iter().map(accepted));
                self.begin_anew();
            }
            Step::End { commits: false } | Step::TakeUp => self.take(Step::Begin),
            Step::Begin => {
                if let Work::Idle(coordinators) = &self.work {
                    self.inner.go_on_as(coordinators.producer());
                }
                self.give_up_sends();
                self.begin_anew();
            }
        }
    }

    /// A step has come to nothing, and is taken again, unless the transaction may be aborted instead and has waited for long enough.
    fn take_again(&mut self, step: Step, error: ServiceError) {
        self.futile = self.futile.saturating_add(1);
        let may_be_left = matches!(step, Step::AddPartitions(_) | Step::AddOffsets(_));
        if may_be_left && (self.failure.is_some() || self.has_lasted(self.patience)) {
            self.fail(error);
            return;
        }
        tracing::debug!(%error, ?step, "asked again");
        // Coordinators say for a moment that they are not ready; nobody has to know.
        if self.futile >= FUTILE_MAX {
            self.outage = Some(error);
        }
        self.take(step);
    }

    /// Begins what is to be asked next. Says whether there was anything.
    fn begin_step(&mut self) -> bool {
        if !matches!(self.work, Work::Idle(_)) {
            return false;
        }
        if self.failure.is_some() {
            self.inner.gate().close();
            self.inner.forget_waiting();
            // What is under way could come late, into the next transaction.
            if self.inner.is_quiet() {
                self.take(match self.is_aborted {
                    true => Step::TakeUp,
                    false => Step::End { commits: false },
                });
                return true;
            }
            return false;
        }
        if self.has_lasted(self.patience) {
            let what = "the events of a transaction were not acknowledged in time";
            self.fail(ServiceError::of_connection(TIMEOUT, what));
            return true;
        }
        if self.progress.has_acknowledged() {
            let is_due = self.has_lasted(self.interval);
            if is_due || self.inner.is_idle() {
                self.inner.gate().close();
            }
            if self.inner.is_idle() || is_due && self.inner.is_quiet() {
                self.take(Step::AddOffsets(self.progress.offsets()));
                return true;
            }
        }
        let wanting = self.inner.gate().take_wanting();
        if wanting.is_empty() {
            return false;
        }
        self.since.get_or_insert_with(Instant::now);
        self.take(Step::AddPartitions(wanting));
        true
    }

    /// Takes a step, after a while if it was taken in vain.
    fn take(&mut self, step: Step) {
        let delay = AGAIN.delay_after(self.futile, 0).filter(|_| self.futile > 0);
        self.work = match std::mem::replace(&mut self.work, Work::Over) {
            Work::Idle(mut coordinators) => {
                let taken = step.clone();
                Work::Busy(
                    step,
                    Box::pin(async move {
                        if let Some(delay) = delay {
                            tokio::time::sleep(delay).await;
                        }
                        let result = coordinators.take(&taken).await;
                        (coordinators, result)
                    }),
                )
            }
            busy => busy,
        };
    }

    fn fail(&mut self, error: ServiceError) {
        self.futile = 0;
        self.failure.get_or_insert_with(|| error.into());
    }

    /// The transaction was aborted: nothing of it is there. What was to follow it is given up as well, since it would leave a gap.
    fn give_up_sends(&mut self) {
        let cause = self.failure.take();
        let cause = cause.map_or_else(String::new, |error| format!(": {error}"));
        tracing::debug!("the transaction was aborted{cause}");
        for token in self.progress.abort() {
            let own = self.too_large.iter().find(|(of, _)| *of == token);
            let error = own.map_or_else(
                || SendError {
                    class: ErrorClass::Fatal,
                    condition: ABORTED.to_owned(),
                    description: format!("the transaction was aborted{cause}"),
                },
                |(_, error)| error.clone(),
            );
            self.outcomes.push(SendOutcome { token, result: Err(Box::new(error)) });
        }
        self.too_large.clear();
    }

    fn begin_anew(&mut self) {
        (self.since, self.is_aborted) = (None, false);
        self.inner.gate().begin_anew();
        self.inner.unblock();
    }

    /// Whether the transaction has been open for so long.
    fn has_lasted(&self, time: Duration) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= time)
    }

    /// Ready when the transaction has been open for as long as it may.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (Some(since), Work::Idle(_), None) = (self.since, &self.work, &self.failure) else {
            return Poll::Pending;
        };
        let is_interval = self.progress.has_acknowledged() && !self.has_lasted(self.interval);
        let deadline = since + if is_interval { self.interval } else { self.patience };
        self.alarm.poll(context, Some(deadline))
    }

    /// Whether sends are refused as busy.
    const fn is_held(&self) -> bool {
        self.failure.is_some() || self.inner.is_blocked()
    }
}

impl Sink for TransactionalSink {
    fn destinations(&self) -> u32 {
        self.inner.destinations()
    }

    fn takes(&self, encoding: Encoding) -> bool {
        self.inner.takes(encoding)
    }

    fn ends_sends(&self) -> bool {
        true
    }

    fn max_batch_bytes(&self, destination: u32) -> usize {
        self.inner.max_batch_bytes(destination)
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        self.inner.encoded_len(message_len)
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        if self.is_held() {
            self.drive(context)?;
        }
        if !self.outcomes.is_empty() {
            context.waker().wake_by_ref();
        }
        match self.is_held() {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        if self.failure.is_some() {
            return Err(SinkBusy);
        }
        let partition = outgoing.partition();
        let Some((first, last)) = outgoing.sequence_numbers() else {
            self.outcomes.push(SendOutcome { token, result: Ok(()) });
            return Ok(());
        };
        if let Err(error) = self.progress.check(partition, first) {
            let (class, description) = (ErrorClass::Fatal, error.to_string());
            let error = SendError { class, condition: OUT_OF_TURN.to_owned(), description };
            self.outcomes.push(SendOutcome { token, result: Err(Box::new(error)) });
            return Ok(());
        }
        self.inner.send(token, outgoing)?;
        self.progress.give(token, partition, last);
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        let driven = self.drive(context);
        let any = sink::hand_over(&mut self.outcomes, outcomes);
        driven?;
        any.map(Ok)
    }

    fn outage(&self) -> Option<&ServiceError> {
        self.outage.as_ref().or_else(|| self.inner.outage())
    }
}

impl fmt::Debug for TransactionalSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match &self.work {
            Work::Busy(step, _) => Some(step),
            Work::Idle(_) | Work::Over => None,
        };
        f.debug_struct("TransactionalSink")
            .field("inner", &self.inner)
            .field("since", &self.since)
            .field("step", &step)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

/// Sees to it that offsets of the source can go with the transactions: brokers keep none of a topic that they don't have.
async fn check_place_of_offsets(
    endpoint: &Endpoint,
    options: &TransactionOptions,
) -> Result<(), ServiceError> {
    let TransactionOptions { topic, partitions, .. } = options;
    let of_source = Endpoint::new(endpoint.settings.clone(), topic)?;
    let found = match Cluster::<()>::find(of_source).await {
        Ok(cluster) => cluster.partitions(),
        Err(error) if error.condition == "UNKNOWN_TOPIC_OR_PARTITION" => 0,
        Err(error) => return Err(error),
    };
    if found >= *partitions as usize {
        return Ok(());
    }
    let there = match found {
        0 => format!("has no topic {topic}"),
        _ => format!("has a topic {topic} of only {found} partitions"),
    };
    let what = format!(
        "with exactly-once delivery the sink's cluster keeps the offsets of the source, and {there}: create it there with \
         {partitions} partitions (it may stay empty), or leave out `delivery`"
    );
    Err(ServiceError::fatal(NO_PLACE_OF_OFFSETS, what))
}

/// Becomes the producer, waiting for what another one has left to come to its end.
async fn begin(coordinators: &mut Coordinators, patience: Duration) -> Result<(), ServiceError> {
    let give_up_at = Instant::now() + patience;
    for tries in 1.. {
        match coordinators.take(&Step::Begin).await {
            Ok(()) => break,
            Err(Trouble::Again(error)) => {
                let delay = AGAIN.delay_after(tries, 0).unwrap_or(AGAIN.max_delay);
                if error.condition.starts_with("connection:") || Instant::now() + delay > give_up_at {
                    return Err(error);
                }
                tokio::time::sleep(delay).await;
            }
            Err(Trouble::Abort(error) | Trouble::Fenced(error) | Trouble::Fail(error)) => return Err(error),
        }
    }
    Ok(())
}

/// When a step is taken again. The end of a transaction is a matter of milliseconds, and the next can't begin before.
const AGAIN: RetryPolicy = RetryPolicy {
    attempts: u32::MAX,
    mode: crate::retry::RetryMode::Exponential,
    delay: Duration::from_millis(5),
    max_delay: Duration::from_secs(1),
    try_timeout: Duration::ZERO,
    jitter: 0.2,
    seed: 0,
};

/// After so many tries of a step it is said that there is an outage.
const FUTILE_MAX: u32 = 6;

/// What sends are told whose transaction was aborted. It is not about their events.
const ABORTED: &str = "TRANSACTION_ABORTED";

/// What a send is told that does not continue its partition.
const OUT_OF_TURN: &str = "OUT_OF_TURN";

/// The cluster of the sink does not have the topic of the source.
const NO_PLACE_OF_OFFSETS: &str = "NO_PLACE_FOR_OFFSETS";
