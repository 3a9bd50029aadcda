//! Dead letters that go to a sink: queue, topic, hub or whatever else takes messages.
//!
//! An event that its destination refuses for good waits where it is, with its lane and its place among what is in work, until
//! the letter is accepted; then it counts as done for that sink. So no checkpoint covers an event before either its
//! destination or the sink of dead letters has it. A letter is tried again as any send is. One that is refused for good, or too
//! often, fails its partition, which rests and comes to the same event again. So does the failure of another batch: a letter
//! that has no answer by then is not tried again, and one that is accepted all the same is the only one of its event, unless
//! its partition is another relay's by now.

use std::task::{Context, Poll};
use std::time::Duration;

use connect::dead_letter::{Refusal, dead_letter, dead_letter_without_message};
use connect::event::{Encoding, EventBatch};
use connect::sink::{ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, Sink};

use super::in_flight::InFlight;
use super::poison::Poison;
use super::sends::Stage;
use super::timers::Due;
use super::{Relay, RelayError};

/// Where dead letters go, and those that are on their way.
#[derive(Debug)]
pub(super) struct Letters {
    sink: Box<dyn Sink>,
    letters: Vec<Letter>,
    outcomes: Vec<SendOutcome>,
    /// Numbers the attempts.
    count: u64,
    /// Whether the sink failed as a whole, so that it is not polled any more.
    failed: bool,
}

#[derive(Debug)]
struct Letter {
    /// The present attempt.
    number: u64,
    /// The send that waits for it.
    of: SendToken,
    /// Index of the partition in the relay, and its tenure.
    partition: usize,
    tenure: u64,
    /// The sink that refuses the event.
    refused_by: u32,
    batch: EventBatch,
    failures: u32,
    stage: LetterStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LetterStage {
    /// To be sent as soon as the sink takes it.
    Ready,
    Sent,
    BackingOff,
}

/// What became of letters.
#[derive(Debug, Default)]
struct News {
    accepted: Vec<Letter>,
    refused: Vec<(SendToken, Box<SendError>)>,
    /// Attempts that failed, and when the next ones are due.
    later: Vec<(u64, Duration)>,
    /// Attempts that were made.
    sent: Vec<u64>,
}

impl Letters {
    pub(super) fn new(sink: Box<dyn Sink>) -> Self {
        Self { sink, letters: Vec::new(), outcomes: Vec::new(), count: 0, failed: false }
    }

    /// The sink, unless it failed.
    pub(super) fn into_healthy_sink(self) -> Option<Box<dyn Sink>> {
        (!self.failed).then_some(self.sink)
    }

    fn number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// An attempt has failed: it is made again, or the letter is given up.
    fn fail(&mut self, at: usize, error: Box<SendError>, delay: Option<Duration>, news: &mut News) {
        let number = self.number();
        let letter = &mut self.letters[at];
        let least = match error.class {
            ErrorClass::Retryable => Some(Duration::ZERO),
            ErrorClass::Throttled { retry_after } => Some(retry_after),
            ErrorClass::Fatal | ErrorClass::TooLarge => None,
        };
        match (least, delay) {
            (Some(least), Some(delay)) => {
                letter.failures += 1;
                (letter.number, letter.stage) = (number, LetterStage::BackingOff);
                news.later.push((number, delay.max(least)));
            }
            _ => news.refused.push((self.letters.swap_remove(at).of, error)),
        }
    }
}

impl Relay {
    /// Sends events that a destination refuses for good to `sink`, each as a message that says where it comes from and why.
    /// In place of what the options say of them.
    ///
    /// # Errors
    /// When the sink does not take messages of AMQP, or those of the source are something else.
    pub fn send_dead_letters_to(&mut self, sink: Box<dyn Sink>) -> Result<(), RelayError> {
        let encoding = self.source.encoding();
        if encoding == Encoding::Kafka || !sink.takes(Encoding::Amqp) {
            return Err(RelayError::DeadLetterEncoding { encoding });
        }
        self.poison = Poison::Send(Box::new(Letters::new(sink)));
        Ok(())
    }

    /// An event waits until the sink of dead letters has it.
    #[cold]
    pub(super) fn put_aside(&mut self, index: u32, error: &SendError) {
        self.sends.end_attempt(index, Stage::BackingOff);
        let send = *self.sends.send(index);
        let of = self.sends.token(index);
        let &InFlight { partition, ref batch, ref order, .. } = self.slots.in_flight(self.sends.slot(index));
        let tenure = self.partitions[partition].tenure;
        let event = &batch.events()[order[send.next as usize] as usize];
        let refusal = Refusal {
            source: &self.options.group.hub,
            sink: send.sink,
            destination: send.destination,
            error,
            attempts: send.failures + 1,
            at: self.store.now(),
        };
        if let Poison::Send(letters) = &mut self.poison {
            let mut letter = dead_letter(batch, event, &refusal);
            // Records that can't be read are as long as a producer's batch may be, which is more than some places take.
            let sink = &letters.sink;
            if batch.unreadable().is_some()
                && sink.encoded_len(letter.message_bytes()) > sink.max_batch_bytes(0)
            {
                letter = dead_letter_without_message(batch, event, &refusal);
            }
            let number = letters.number();
            letters.letters.push(Letter {
                number,
                of,
                partition,
                tenure,
                refused_by: send.sink,
                batch: letter,
                failures: 0,
                stage: LetterStage::Ready,
            });
        }
    }

    /// Drives the sink of dead letters, if there is one.
    pub(super) fn poll_letters(&mut self, context: &mut Context<'_>) -> bool {
        let Poison::Send(letters) = &mut self.poison else {
            return false;
        };
        if letters.failed {
            return false;
        }
        let mut news = News::default();
        let polled = letters.sink.poll_outcomes(context, &mut letters.outcomes);
        let mut progress = polled.is_ready();
        let mut outcomes = std::mem::take(&mut letters.outcomes);
        for SendOutcome { token, result } in outcomes.drain(..) {
            let sent = |letter: &Letter| letter.number == token.0 && letter.stage == LetterStage::Sent;
            let Some(at) = letters.letters.iter().position(sent) else {
                continue;
            };
            match result {
                Ok(()) => news.accepted.push(letters.letters.swap_remove(at)),
                Err(error) => {
                    let failures = letters.letters[at].failures + 1;
                    letters.fail(at, error, self.options.retry.delay_after(failures, token.0), &mut news);
                }
            }
        }
        letters.outcomes = outcomes;
        // The batch of a letter may have been given up in the meantime: then the event comes again, here or at another relay.
        let sends = &self.sends;
        letters
            .letters
            .retain(|letter| letter.stage == LetterStage::Sent || sends.of_token(letter.of).is_some());
        for letter in letters.letters.iter_mut().filter(|letter| letter.stage == LetterStage::Ready) {
            let outgoing = OutgoingBatch::new(0, &letter.batch, &[0]);
            if letters.sink.send(SendToken(letter.number), outgoing).is_err() {
                if let Poll::Ready(Ok(())) = letters.sink.poll_ready(context) {
                    context.waker().wake_by_ref();
                }
                break;
            }
            letter.stage = LetterStage::Sent;
            news.sent.push(letter.number);
        }
        progress |= !news.sent.is_empty();
        if let Poll::Ready(Err(source)) = polled {
            letters.failed = true;
            self.fail(RelayError::DeadLetterSink { source });
            return true;
        }
        self.take_news(news);
        progress
    }

    fn take_news(&mut self, news: News) {
        let timeout = self.now + self.options.retry.try_timeout;
        news.sent.into_iter().for_each(|number| self.timers.set(timeout, Due::Letter(number)));
        for (number, delay) in news.later {
            self.timers.set(self.now + delay, Due::Letter(number));
        }
        for letter in news.accepted {
            self.metrics.dead_lettered_events += 1;
            match self.sends.of_token(letter.of) {
                Some(index) => self.pass_over(index),
                None => self.remember_letter(&letter),
            }
        }
        for (of, error) in news.refused {
            if let Some(index) = self.sends.of_token(of) {
                let partition = self.slots.in_flight(self.sends.slot(index)).partition;
                tracing::error!(
                    partition = self.partitions[partition].id.0, %error,
                    "the sink of dead letters refuses the event, too"
                );
                self.fail_batch(partition, &*error);
            }
        }
    }

    /// The batch of a letter was given up before the letter was accepted: the event comes again, and is left out.
    fn remember_letter(&mut self, letter: &Letter) {
        let partition = &mut self.partitions[letter.partition];
        if partition.tenure == letter.tenure {
            partition
                .accepted
                .extend(letter.refused_by, letter.batch.first_sequence_number().into_iter().collect());
        }
    }

    /// Events of a partition have other numbers from now on: no letter of one before is remembered.
    pub(super) fn forget_letters(&mut self, index: usize) {
        if let Poison::Send(letters) = &mut self.poison {
            letters.letters.retain(|letter| letter.partition != index);
        }
    }

    /// A letter has waited long enough, for its outcome or for its next attempt.
    pub(super) fn letter_is_due(&mut self, number: u64) {
        let Poison::Send(letters) = &mut self.poison else {
            return;
        };
        let Some(at) = letters.letters.iter().position(|letter| letter.number == number) else {
            return;
        };
        let mut news = News::default();
        let letter = &mut letters.letters[at];
        match letter.stage {
            LetterStage::BackingOff => letter.stage = LetterStage::Ready,
            LetterStage::Ready => {}
            LetterStage::Sent => {
                let error = Box::new(SendError {
                    class: ErrorClass::Retryable,
                    condition: "timeout".to_owned(),
                    description: format!("no outcome within {:?}", self.options.retry.try_timeout),
                });
                let delay = self.options.retry.delay_after(letter.failures + 1, number);
                letters.fail(at, error, delay, &mut news);
            }
        }
        self.take_news(news);
    }
}
