//! Several sinks: every event goes to each of them, and is done with once all have accepted it. The store fails the test when
//! a checkpoint covers what any of them has not accepted.

use connect::event::Encoding;
use connect::fakes::{MemoryQueue, MessageState, QueueSource};
use connect::sink::{ErrorClass, SendUnit};

use super::*;
use crate::options::SettlingOptions;

/// Milliseconds since the test began at which a sink was given each of its sends.
fn sent_at(script: &SinkScript, start: Instant) -> Vec<u128> {
    script.writes().iter().map(|write| (write.sent_at - start).as_millis()).collect()
}

/// How many events a sink has accepted, those that came twice included.
fn accepted(script: &SinkScript) -> usize {
    let accepted = script.writes().into_iter().filter(Write::is_accepted);
    accepted.map(|write| write.sequence_numbers.len()).sum()
}

#[tokio::test(start_paused = true)]
async fn every_event_goes_to_each_sink_and_its_checkpoint_waits_for_the_slowest() {
    let mut pipe = Pipe::new(2, 3);
    let slow = pipe.add_sink(1);
    slow.reply_by_default(Reply::Accept(ms(300)));
    pipe.append(40);
    let summary = pipe.run_to_the_end().await;
    assert_eq!((accepted(&pipe.script), accepted(&slow)), (40, 40));
    assert_eq!(summary.metrics.forwarded_events, 80, "each sink counts");
    assert_eq!((summary.metrics.received_events, summary.metrics.completed_events), (40, 40));
    assert_eq!(pipe.check_delivery(), 0);
    let spread = pipe.accepted().values().filter(|events| !events.is_empty()).count();
    assert_eq!(spread, 3, "the fan-out is that of each sink");
}

#[tokio::test(start_paused = true)]
async fn a_send_that_failed_is_tried_again_at_its_sink_only() {
    let mut pipe = Pipe::new(1, 1);
    let other = pipe.add_sink(1);
    other.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    pipe.append(4);
    let summary = pipe.run_to_the_end().await;
    assert_eq!((pipe.sent_at(), sent_at(&other, pipe.start)), (vec![0], vec![0, 100]));
    assert_eq!((summary.metrics.sends, summary.metrics.retries, summary.metrics.failed_batches), (3, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_one_sink_has_of_a_batch_that_another_fails_is_not_sent_to_it_again() {
    let mut pipe = Pipe::new(1, 1);
    let other = pipe.add_sink(1);
    pipe.fetch_single_batches();
    for _ in 0..3 {
        other.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    }
    pipe.append(8);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(summary.metrics.failed_batches, 1);
    assert_eq!((accepted(&pipe.script), accepted(&other)), (8, 8));
    assert_eq!(pipe.sent_at(), [0, 800], "its first batch once, its second after the rest");
    // Tries at 0, 100 and 300 ms, a rest of 500 ms, and then both batches.
    assert_eq!(sent_at(&other, pipe.start), [0, 100, 300, 800, 800]);
}

#[tokio::test(start_paused = true)]
async fn what_is_accepted_after_its_batch_failed_counts_for_the_sink_that_accepted_it() {
    let mut pipe = Pipe::new(1, 1);
    let other = pipe.add_sink(1);
    pipe.fetch_single_batches();
    pipe.script.reply_next(0, Reply::Accept(ms(600)));
    for _ in 0..3 {
        other.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    }
    pipe.append(4);
    let summary = pipe.run_to_the_end().await;
    // The batch fails at 300 ms. What the first sink says at 600 ms is known when the partition resumes at 800 ms.
    assert_eq!((pipe.sent_at(), summary.metrics.late_outcomes), (vec![0], 1));
    assert_eq!(sent_at(&other, pipe.start), [0, 100, 300, 800]);
}

#[tokio::test(start_paused = true)]
async fn one_sink_at_a_time_begins_when_those_before_have_accepted() {
    let mut pipe = Pipe::new(1, 2);
    let (second, third) = (pipe.add_sink(2), pipe.add_sink(1));
    pipe.script.reply_by_default(Reply::Accept(ms(10)));
    second.reply_by_default(Reply::Accept(ms(10)));
    pipe.fetch_single_batches();
    pipe.options.sinks_at_once = 1;
    pipe.append(4);
    pipe.run_to_the_end().await;
    assert_eq!(pipe.sent_at(), [0, 0]);
    assert_eq!(sent_at(&second, pipe.start), [10, 10]);
    assert_eq!(sent_at(&third, pipe.start), [20]);

    pipe.options.sinks_at_once = 2;
    pipe.start = Instant::now();
    pipe.append(4);
    pipe.run_to_the_end().await;
    let (second, third) = (sent_at(&second, pipe.start), sent_at(&third, pipe.start));
    assert_eq!((&second[2..], &third[1..]), (&[0, 0][..], &[10][..]), "as soon as one of two has all of it");
}

#[tokio::test(start_paused = true)]
async fn a_batch_goes_to_its_second_sink_after_the_batches_before_it() {
    let mut pipe = Pipe::new(1, 2);
    let second = pipe.add_sink(1);
    pipe.options.sinks_at_once = 1;
    // By turns: events 0, 2, … go to the first destination, which is slow with its first batch.
    pipe.options.route = Route::RoundRobin;
    pipe.source_options.batch.max_events = 1;
    pipe.script.reply_next(0, Reply::Accept(ms(100)));
    pipe.append(6);
    pipe.run_to_the_end().await;
    let numbers: Vec<i64> = second.accepted(0).into_iter().map(|(_, number)| number).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5]);
}

/// The most events that a sink had at one instant, which it accepts after this long.
fn most_at_once(script: &SinkScript, accepted_after: Duration) -> usize {
    let writes = script.writes();
    let at = |now: Instant| {
        let held = writes.iter().filter(|write| write.sent_at <= now && now < write.sent_at + accepted_after);
        held.map(|write| write.sequence_numbers.len()).sum()
    };
    writes.iter().map(|write| at(write.sent_at)).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn no_more_events_are_in_work_than_may_be_at_once() {
    for (events_at_once, most) in [(usize::MAX, 48), (8, 8), (1, 4)] {
        let mut pipe = Pipe::new(4, 1);
        let slow = pipe.add_sink(1);
        slow.reply_by_default(Reply::Accept(ms(10)));
        pipe.options = RelayOptions { events_at_once, in_flight: 3, ..pipe.options.clone() };
        pipe.append(96);
        pipe.run_to_the_end().await;
        assert_eq!(accepted(&slow), 96);
        assert_eq!(most_at_once(&slow, ms(10)), most, "of {events_at_once}");
    }
}

#[tokio::test(start_paused = true)]
async fn sinks_of_different_units_and_one_that_is_busy_get_everything() {
    let mut pipe = Pipe::new(2, 2);
    let single = pipe.add_sink(1);
    single.send_by(SendUnit::Event);
    single.limit_unanswered(3);
    single.reply_by_default(Reply::Accept(ms(2)));
    pipe.append(40);
    let summary = pipe.run_to_the_end().await;
    assert_eq!((accepted(&pipe.script), accepted(&single)), (40, 40));
    assert!(single.writes().iter().all(|write| write.sequence_numbers.len() == 1));
    assert!(summary.metrics.busy_sink > 0);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_cannot_go_on_ends_the_relay_and_nothing_is_covered_that_it_lacks() {
    let mut pipe = Pipe::new(1, 1);
    let other = pipe.add_sink(1);
    other.fail(SinkError { condition: "test:gone".to_owned(), description: "gone".to_owned() });
    pipe.append(4);
    let ended = pipe.relay().run(std::future::pending()).await;
    assert!(matches!(ended, Err(RelayError::Sink { index: 1, .. })), "{ended:?}");
    assert_eq!(pipe.written(), [] as [i64; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_that_no_sink_has_is_refused() {
    let mut pipe = Pipe::new(1, 2);
    pipe.add_sink(3);
    pipe.options.fan_out = 3;
    pipe.append(12);
    pipe.run_to_the_end().await;
    assert!(pipe.accepted()[&0].len() + pipe.accepted()[&1].len() == 12, "all of the two that it has");
    pipe.options.fan_out = 4;
    let refused = pipe.try_relay().expect_err("three at most");
    assert!(matches!(refused, RelayError::FanOut { fan_out: 4, destinations: 3 }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_does_not_take_the_encoding_of_the_source_is_refused_by_name() {
    let mut pipe = Pipe::new(1, 1);
    let other = pipe.add_sink(1);
    other.take_only(Encoding::Opaque);
    pipe.append(4);
    pipe.run_to_the_end().await;
    other.take_only(Encoding::Amqp);
    let refused = pipe.try_relay().expect_err("the memory source has opaque bytes");
    assert!(matches!(refused, RelayError::Encoding { index: 1, encoding: Encoding::Opaque }), "{refused}");
    assert_eq!(refused.to_string(), "the source yields opaque bytes, which the sink does not accept");
}

/// Runs messages through a relay to two sinks until all are settled.
async fn settle(
    messages: usize,
    scripts: [&SinkScript; 2],
    options: SettlingOptions,
) -> (MemoryQueue, Metrics) {
    let queue = MemoryQueue::new();
    for number in 0..messages {
        queue.put(format!("message {number}").as_bytes());
    }
    let audited = scripts.map(Clone::clone);
    queue.audit(move |number, settlement| {
        let has = |script: &SinkScript| {
            script
                .writes()
                .iter()
                .any(|write| write.is_accepted() && write.sequence_numbers.contains(&number))
        };
        let complete = settlement == connect::source::Settlement::Complete;
        assert!(!complete || audited.iter().all(has), "message {number} is completed and one sink lacks it");
    });
    let source = QueueSource::new(&queue, 4);
    let sinks = scripts.map(|script| Box::new(script.sink()) as Box<dyn Sink>);
    let relay = Relay::settling(options, Box::new(source), sinks.into()).expect("destinations");
    let settled = async {
        while queue.count(MessageState::Completed) < messages {
            tokio::time::sleep(ms(1)).await;
        }
    };
    let stopped = tokio::time::timeout(ms(100_000), relay.run(settled)).await.expect("it comes to its end");
    (queue, stopped.expect("neither end fails").metrics)
}

#[tokio::test(start_paused = true)]
async fn a_message_is_completed_once_both_sinks_have_it() {
    let ((_, first), (_, second)) = (ScriptedSink::new(1), ScriptedSink::new(1));
    first.send_by(SendUnit::Event);
    second.reply_by_default(Reply::Accept(ms(20)));
    let (_, metrics) = settle(50, [&first, &second], SettlingOptions::default()).await;
    assert_eq!((metrics.confirmed_events, metrics.redelivered_events), (50, 0));
    assert_eq!((accepted(&first), accepted(&second), metrics.forwarded_events), (50, 50, 100));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_one_sink_refuses_is_abandoned_once_and_comes_again_to_both() {
    for (sinks_at_once, extra) in [(2, 1), (1, 1)] {
        let ((_, first), (_, second)) = (ScriptedSink::new(1), ScriptedSink::new(1));
        first.send_by(SendUnit::Event);
        second.send_by(SendUnit::Event);
        second.reply_next(0, Reply::refuse(ErrorClass::Fatal));
        let options = SettlingOptions { sinks_at_once, ..SettlingOptions::default() };
        let (queue, metrics) = settle(20, [&first, &second], options).await;
        assert_eq!((metrics.abandoned_events, metrics.confirmed_events), (1, 20));
        assert_eq!(queue.delivery_counts().iter().sum::<u32>(), 1);
        assert_eq!(
            (accepted(&first), accepted(&second)),
            (20 + extra, 20),
            "the duplicate is the first sink's"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn one_after_the_other_the_second_sink_gets_nothing_of_what_the_first_refused() {
    let ((_, first), (_, second)) = (ScriptedSink::new(1), ScriptedSink::new(1));
    first.send_by(SendUnit::Event);
    second.send_by(SendUnit::Event);
    first.reply_next(0, Reply::refuse(ErrorClass::Fatal));
    let options = SettlingOptions { sinks_at_once: 1, ..SettlingOptions::default() };
    let (_, metrics) = settle(1, [&first, &second], options).await;
    assert_eq!((metrics.abandoned_events, metrics.confirmed_events), (1, 1));
    assert_eq!((first.writes().len(), second.writes().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn failures_on_purpose_lose_nothing_at_any_sink() {
    for sinks_at_once in [1, 2] {
        let mut pipe = Pipe::new(2, 2);
        let other = pipe.add_sink(2);
        pipe.options.failure_ratio = 0.05;
        pipe.options.sinks_at_once = sinks_at_once;
        pipe.append(400);
        let summary = pipe.run_to_the_end().await;
        assert!(summary.metrics.injected_failures > 0);
        let distinct = |script: &SinkScript| {
            let writes = script.writes().into_iter();
            let events = writes.flat_map(|write| {
                let partition = write.partition;
                write.sequence_numbers.into_iter().map(move |number| (partition, number))
            });
            events.collect::<HashSet<_>>().len()
        };
        assert_eq!((distinct(&pipe.script), distinct(&other)), (400, 400));
        let ((_, first), (_, second)) = (ScriptedSink::new(1), ScriptedSink::new(1));
        let options = SettlingOptions { sinks_at_once, failure_ratio: 0.05, ..SettlingOptions::default() };
        let (_, metrics) = settle(100, [&first, &second], options).await;
        assert_eq!(metrics.confirmed_events, 100);
        assert!(metrics.abandoned_events > 0);
    }
}
