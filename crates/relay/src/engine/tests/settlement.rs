//! Messages under locks: each is settled once, completed only after its destination has accepted it, and abandoned or given
//! back otherwise. The fakes panic where a message is settled twice or not at all.

use connect::fakes::{MemoryQueue, MessageState, QueueSource};
use connect::sink::{ErrorClass, SendError, SendUnit};
use connect::source::Settlement;
use proptest::prelude::*;

use super::*;
use crate::options::SettlingOptions;

/// A queue and a sink, through which any number of relays run one after the other.
struct Forward {
    queue: MemoryQueue,
    script: SinkScript,
    concurrency: usize,
    options: SettlingOptions,
    start: Instant,
}

impl Forward {
    fn new(messages: usize, concurrency: usize) -> Self {
        let queue = MemoryQueue::new();
        for number in 0..messages {
            queue.put(format!("message {number}").as_bytes());
        }
        let (_sink, script) = ScriptedSink::new(1);
        script.send_by(SendUnit::Event);
        audit(&queue, &script);
        let start = Instant::now();
        let options = SettlingOptions {
            retry: RetryPolicy {
                attempts: 3,
                delay: ms(100),
                try_timeout: ms(1_000),
                jitter: 0.0,
                ..RetryPolicy::default()
            },
            seed: 7,
            ..SettlingOptions::default()
        };
        Self { queue, script, concurrency, options, start }
    }

    async fn run_until(&self, condition: impl Fn(&Self) -> bool) -> Summary {
        let source = QueueSource::new(&self.queue, self.concurrency);
        let relay =
            Relay::settling(self.options.clone(), Box::new(source), vec![Box::new(self.script.sink())])
                .unwrap();
        let shutdown = async {
            while !condition(self) {
                assert!(self.start.elapsed() < ms(1_000_000), "nothing happened");
                tokio::time::sleep(ms(1)).await;
            }
        };
        let summary = relay.run(shutdown).await.unwrap();
        assert!(self.queue.most_in_work() <= self.concurrency);
        check_settlements(&summary.metrics);
        summary
    }

    async fn run_to_the_end(&self) -> Summary {
        let total = self.queue.states().len();
        self.run_until(|forward| {
            forward.queue.count(MessageState::Completed) + forward.queue.count(MessageState::DeadLettered)
                == total
        })
        .await
    }
}

/// Fails the test when a message is completed that no destination had said to have accepted.
fn audit(queue: &MemoryQueue, script: &SinkScript) {
    let script = script.clone();
    queue.audit(move |number, settlement| {
        if settlement != Settlement::Complete {
            return;
        }
        let was_accepted = |write: &Write| match write.reply {
            Reply::Accept(delay) => {
                write.sequence_numbers.contains(&number) && write.sent_at + delay <= Instant::now()
            }
            _ => false,
        };
        let accepted = script.with_writes(|writes| writes.iter().any(was_accepted));
        assert!(accepted, "message {number} is completed and was not accepted");
    });
}

fn check_settlements(metrics: &Metrics) {
    let answered = metrics.confirmed_events
        + metrics.abandoned_events
        + metrics.released_events
        + metrics.dead_lettered_events
        + metrics.lock_lost_events
        + metrics.unsettled_events;
    assert_eq!(metrics.settle_us.len(), answered);
    assert_eq!(metrics.completed_events, metrics.confirmed_events);
    assert_eq!(metrics.checkpoints, 0);
    assert_eq!(metrics.opened_partitions, 1);
}

fn refusal(class: ErrorClass) -> Reply {
    Reply::Refuse(
        ms(1),
        SendError { class, condition: "test:refused".to_owned(), description: "refused".to_owned() },
    )
}

#[tokio::test(start_paused = true)]
async fn each_message_is_forwarded_and_then_completed_with_no_more_in_work_than_allowed() {
    let forward = Forward::new(1_000, 8);
    forward.script.reply_by_default(Reply::Accept(ms(4)));
    forward.queue.answer_after(ms(2));
    let summary = forward.run_to_the_end().await;
    assert_eq!(summary.ended, Ended::Finished);
    assert_eq!(forward.queue.most_in_work(), 8);
    let metrics = summary.metrics;
    assert_eq!(metrics.forwarded_events, 1_000);
    assert_eq!(metrics.sends, 1_000, "each is sent alone");
    assert_eq!((metrics.confirmed_events, metrics.redelivered_events), (1_000, 0));
    // Little's law: 8 in work for 6 ms each.
    let expected_ms = 1_000 * 6 / 8;
    let took_ms = forward.start.elapsed().as_millis();
    assert!((expected_ms..expected_ms + 20).contains(&took_ms), "{took_ms} ms");
}

#[tokio::test(start_paused = true)]
async fn a_slow_message_does_not_hold_up_the_others_of_its_batch() {
    let forward = Forward::new(101, 2);
    forward.script.reply_next(0, Reply::Accept(ms(500)));
    forward.script.reply_by_default(Reply::Accept(ms(5)));
    forward.run_to_the_end().await;
    // One place in work is left for them while the first one takes half a second.
    let sends = forward.script.writes();
    let before = sends.iter().filter(|write| write.sent_at < forward.start + ms(250));
    assert!(before.count() > 30);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_forwarded_is_abandoned_and_comes_again() {
    let forward = Forward::new(10, 4);
    forward.script.reply_next(0, refusal(ErrorClass::Fatal));
    let metrics = forward.run_to_the_end().await.metrics;
    assert_eq!((metrics.abandoned_events, metrics.confirmed_events), (1, 10));
    assert_eq!(metrics.redelivered_events, 1);
    assert_eq!(forward.queue.delivery_counts()[0], 1);
    assert_eq!(metrics.failed_batches, 1);
}

#[tokio::test(start_paused = true)]
async fn a_forward_is_tried_again_before_its_message_is_abandoned() {
    let forward = Forward::new(2, 2);
    for _ in 0..2 {
        forward.script.reply_next(0, refusal(ErrorClass::Retryable));
    }
    let metrics = forward.run_to_the_end().await.metrics;
    assert_eq!((metrics.retries, metrics.abandoned_events), (2, 0));
    assert_eq!(metrics.confirmed_events, 2);
}

#[tokio::test(start_paused = true)]
async fn what_fails_for_good_is_put_aside_by_the_service_and_all_else_is_forwarded() {
    let forward = Forward::new(1, 4);
    forward.queue.limit_deliveries(3);
    for _ in 0..3 {
        forward.script.reply_next(0, refusal(ErrorClass::Fatal));
    }
    let metrics = forward.run_to_the_end().await.metrics;
    assert_eq!(forward.queue.states(), [MessageState::DeadLettered]);
    assert_eq!((metrics.abandoned_events, metrics.redelivered_events), (3, 2));
    forward.queue.put(b"another");
    assert_eq!(forward.run_to_the_end().await.metrics.confirmed_events, 1);
}

#[tokio::test(start_paused = true)]
async fn a_check_that_fails_abandons_the_message_without_sending_it() {
    let mut forward = Forward::new(1_000, 16);
    forward.options.failure_ratio = 0.1;
    let metrics = forward.run_to_the_end().await.metrics;
    assert!(metrics.injected_failures > 50);
    assert_eq!(metrics.abandoned_events, metrics.injected_failures);
    assert_eq!(metrics.redelivered_events, metrics.injected_failures);
    assert_eq!((metrics.sends, metrics.confirmed_events), (1_000, 1_000));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_is_counted_and_the_message_forwarded_again() {
    let forward = Forward::new(6, 6);
    forward.script.reply_by_default(Reply::Accept(ms(100)));
    let queue = forward.queue.clone();
    let expiry = async {
        tokio::time::sleep(ms(50)).await;
        queue.expire_locks();
    };
    let (summary, ()) = tokio::join!(forward.run_to_the_end(), expiry);
    let metrics = summary.metrics;
    assert_eq!((metrics.lock_lost_events, metrics.confirmed_events), (6, 6));
    assert_eq!((metrics.forwarded_events, metrics.redelivered_events), (12, 6));
}

#[tokio::test(start_paused = true)]
async fn a_stop_settles_what_is_done_and_gives_back_what_was_not_begun() {
    let forward = Forward::new(40, 16);
    forward.script.limit_unanswered(4);
    forward.script.reply_by_default(Reply::Accept(ms(100)));
    forward.queue.answer_after(ms(10));
    let summary = forward.run_until(|forward| forward.start.elapsed() >= ms(50)).await;
    assert_eq!(summary.ended, Ended::Finished);
    let states = forward.queue.states();
    assert!(!states.contains(&MessageState::Locked), "{states:?}");
    let completed = forward.queue.count(MessageState::Completed);
    assert_eq!(summary.metrics.confirmed_events, completed as u64);
    assert!(forward.queue.delivery_counts().iter().all(|&count| count == 0));
    forward.run_to_the_end().await;
    assert_eq!(forward.queue.count(MessageState::Completed), 40);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_sent_as_one_is_completed_as_one() {
    let forward = Forward::new(100, 25);
    forward.script.send_by(SendUnit::Batch);
    forward.script.reply_by_default(Reply::Accept(ms(1)));
    let metrics = forward.run_to_the_end().await.metrics;
    assert_eq!((metrics.sends, metrics.confirmed_events), (4, 100));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_as_a_whole_ends_the_relay() {
    let forward = Forward::new(0, 4);
    forward.queue.fail(SourceError {
        class: ErrorClass::Fatal,
        condition: "amqp:not-found".to_owned(),
        description: "the queue is gone".to_owned(),
    });
    let source = QueueSource::new(&forward.queue, 4);
    let relay =
        Relay::settling(forward.options.clone(), Box::new(source), vec![Box::new(forward.script.sink())])
            .unwrap();
    let ended = relay.run(std::future::pending()).await;
    assert!(matches!(ended, Err(RelayError::Source(_))));
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        6 => (0_u64..200).prop_map(|delay| Reply::Accept(ms(delay))),
        1 => Just(refusal(ErrorClass::Fatal)),
        1 => Just(refusal(ErrorClass::Retryable)),
        1 => Just(refusal(ErrorClass::TooLarge)),
        1 => Just(Reply::Lose),
        1 => Just(Reply::AcceptSilently),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever destinations answer, whenever relays stop and locks expire: every message is settled once per delivery (the
    /// fake sees to it), never completed before it was accepted (the audit does), and in the end forwarded.
    #[test]
    fn every_message_is_settled_once_or_given_back_and_completed_only_after_acceptance(
        messages in 1_usize..60,
        concurrency in 1_usize..20,
        replies in prop::collection::vec(reply(), 0..80),
        unanswered_max in 1_usize..30,
        answer_after in 0_u64..50,
        by_event: bool,
        failing: bool,
        stops in prop::collection::vec(0_u64..2_000, 0..4),
        expiries in prop::collection::vec(0_u64..3_000, 0..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut forward = Forward::new(messages, concurrency);
            forward.options.failure_ratio = if failing { 0.05 } else { 0.0 };
            forward.queue.answer_after(ms(answer_after));
            forward.script.limit_unanswered(unanswered_max);
            forward.script.send_by(if by_event { SendUnit::Event } else { SendUnit::Batch });
            for reply in replies {
                forward.script.reply_next(0, reply);
            }
            let queue = forward.queue.clone();
            tokio::spawn(async move {
                for expiry in expiries {
                    tokio::time::sleep(ms(expiry)).await;
                    queue.expire_locks();
                }
            });
            let mut confirmed = 0;
            for stop in stops {
                let until = Instant::now() + ms(stop);
                let summary = forward.run_until(|_| Instant::now() >= until).await;
                confirmed += summary.metrics.confirmed_events;
                if summary.ended == Ended::Finished {
                    assert_eq!(forward.queue.count(MessageState::Locked), 0, "nothing is left locked");
                }
                // What a relay left locked is given back when its lock expires.
                forward.queue.expire_locks();
            }
            // Replies that never come hold places of the sink.
            forward.script.limit_unanswered(usize::MAX);
            confirmed += forward.run_to_the_end().await.metrics.confirmed_events;
            assert_eq!(forward.queue.count(MessageState::Completed), messages);
            assert_eq!(confirmed, messages as u64, "each is completed once");
        });
    }
}
