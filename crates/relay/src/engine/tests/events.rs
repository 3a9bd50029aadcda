//! Dispatch by event: what is sent when, how much at once, and what checkpoints cover. The store fails the test when a
//! checkpoint covers what any sink has not accepted.

use connect::sink::{ErrorClass, SendUnit};

use super::*;
use crate::options::{DispatchUnit, Order, PoisonEvents};

/// A pipe from one partition to two sinks, the first of which takes 10 ms and the second 5 ms for an event.
fn pipe(events_at_once: usize, sinks_at_once: usize) -> (Pipe, SinkScript) {
    let mut pipe = Pipe::new(1, 1);
    let other = pipe.add_sink(1);
    pipe.script.reply_by_default(Reply::Accept(ms(10)));
    other.reply_by_default(Reply::Accept(ms(5)));
    pipe.options.dispatch_unit = DispatchUnit::Event;
    (pipe.options.events_at_once, pipe.options.sinks_at_once) = (events_at_once, sinks_at_once);
    (pipe, other)
}

/// Milliseconds since the test began at which a sink was given each event.
fn sent_at(script: &SinkScript, start: Instant) -> Vec<u128> {
    script.writes().iter().map(|write| (write.sent_at - start).as_millis()).collect()
}

/// What a sink has accepted, in order.
fn accepted(script: &SinkScript) -> Vec<i64> {
    script.accepted(0).into_iter().map(|(_, number)| number).collect()
}

const ALL: usize = usize::MAX;

#[tokio::test(start_paused = true)]
async fn serial_is_one_event_after_the_other_and_one_sink_after_the_other() {
    let (mut pipe, other) = pipe(1, 1);
    pipe.append(6);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(pipe.sent_at(), [0, 15, 30, 45, 60, 75]);
    assert_eq!(sent_at(&other, pipe.start), [10, 25, 40, 55, 70, 85]);
    assert_eq!(summary.metrics.sends, 12);
    assert_eq!(summary.metrics.completed_events, 6);
    let means = summary.metrics.sink_send_us.iter().map(|histogram| histogram.mean().round());
    assert_eq!(means.map(|us| us as u64 / 100).collect::<Vec<_>>(), [100, 50]);
}

#[tokio::test(start_paused = true)]
async fn parallel_sinks_have_one_event_at_once() {
    let (mut pipe, other) = pipe(1, ALL);
    pipe.append(5);
    pipe.run_to_the_end().await;
    assert_eq!(pipe.sent_at(), [0, 10, 20, 30, 40]);
    assert_eq!(sent_at(&other, pipe.start), [0, 10, 20, 30, 40]);
}

#[tokio::test(start_paused = true)]
async fn parallel_events_go_to_one_sink_after_the_other_each_by_itself() {
    let (mut pipe, other) = pipe(2, 1);
    pipe.script.reply_next(0, Reply::Accept(ms(100)));
    pipe.append(6);
    pipe.run_to_the_end().await;
    // The first one is slow; the others take its neighbour's place one after the other.
    assert_eq!(pipe.sent_at(), [0, 0, 15, 30, 45, 60]);
    assert_eq!(sent_at(&other, pipe.start), [10, 25, 40, 55, 70, 100]);
    assert_eq!(accepted(&other), [1, 2, 3, 4, 5, 0]);
    assert_eq!(pipe.written(), [5], "both batches are complete when the first event is");
}

#[tokio::test(start_paused = true)]
async fn in_parallel_as_many_events_as_may_be_are_at_all_sinks() {
    for (partitions, events_at_once) in [(1, 3), (4, 7), (4, 1)] {
        let (mut pipe, other) = pipe(events_at_once, ALL);
        pipe.log = MemoryLog::new(partitions);
        other.reply_by_default(Reply::Accept(ms(10)));
        pipe.append(70);
        pipe.run_to_the_end().await;
        for script in [&pipe.script, &other] {
            let writes = script.writes();
            let at_once = |now: Instant| {
                writes.iter().filter(|write| write.sent_at <= now && now < write.sent_at + ms(10)).count()
            };
            assert_eq!(writes.iter().map(|write| at_once(write.sent_at)).max(), Some(events_at_once));
            assert_eq!(writes.len(), 70, "each event once and by itself");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_batch_waits_for_the_checkpoint_if_it_is_to() {
    for unit in [DispatchUnit::Batch, DispatchUnit::Event] {
        let mut pipe = Pipe::new(1, 1);
        pipe.script.reply_by_default(Reply::Accept(ms(10)));
        pipe.store.delay_updates(ms(50));
        pipe.options.dispatch_unit = unit;
        pipe.options.await_checkpoint = true;
        pipe.append(12);
        pipe.run_to_the_end().await;
        let mut sent_at = pipe.sent_at();
        sent_at.dedup();
        assert_eq!(sent_at, [0, 60, 120]);
        assert_eq!(pipe.written(), [3, 7, 11]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_can_not_be_written_holds_the_next_batch_until_it_is() {
    let mut pipe = Pipe::new(1, 1);
    pipe.store.fail_updates(2);
    pipe.options.await_checkpoint = true;
    pipe.append(8);
    pipe.run_to_the_end().await;
    assert_eq!(pipe.sent_at(), [0, 300], "after 100 and 200 ms");
    assert_eq!(pipe.written(), [3, 7]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_what_was_taken_up_and_covers_it() {
    let (mut pipe, other) = pipe(2, 1);
    pipe.source_options.batch.max_events = 8;
    pipe.append(8);
    let summary = pipe.run_until(|pipe| pipe.start.elapsed() >= ms(20)).await;
    // Two at 0 ms, two more at 15 ms.
    assert_eq!(summary.ended, Ended::Finished);
    assert_eq!((accepted(&pipe.script), accepted(&other)), (vec![0, 1, 2, 3], vec![0, 1, 2, 3]));
    assert_eq!(pipe.checkpoint(0), Some(3));
    assert_eq!(summary.metrics.completed_events, 4);
    pipe.run_to_the_end().await;
    assert_eq!(accepted(&other), [0, 1, 2, 3, 4, 5, 6, 7], "nothing twice");
}

#[tokio::test(start_paused = true)]
async fn progress_at_intervals_covers_a_part_of_a_batch() {
    let (mut pipe, _) = pipe(1, 1);
    pipe.source_options.batch.max_events = 8;
    pipe.options.checkpoint = CheckpointPolicy::Every(ms(50));
    pipe.append(8);
    pipe.run_to_the_end().await;
    assert_eq!(pipe.written()[..2], [2, 5], "after 50 and 100 ms of 15 ms for each event");
}

#[tokio::test(start_paused = true)]
async fn what_a_sink_has_of_a_batch_that_fails_is_not_sent_to_it_again() {
    let (mut pipe, other) = pipe(1, 1);
    for reply in [Reply::Accept(ms(5))].into_iter().chain(vec![Reply::refuse(ErrorClass::Retryable); 3]) {
        other.reply_next(0, reply);
    }
    pipe.append(8);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(summary.metrics.failed_batches, 1);
    assert_eq!(accepted(&pipe.script), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(accepted(&other), [0, 1, 2, 3, 4, 5, 6, 7]);
    // Event 1 is refused at 25, 125 and 325 ms. The rest of 500 ms begins at event 1, which the first sink has.
    assert_eq!(sent_at(&other, pipe.start)[..5], [10, 25, 125, 325, 825]);
    assert_eq!(pipe.written()[0], 0, "the first event is covered when the batch fails");
}

#[tokio::test(start_paused = true)]
async fn a_poison_event_is_put_aside_for_one_sink_and_goes_to_the_others() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut pipe, other) = pipe(3, 1);
    pipe.options.poison_events = PoisonEvents::DeadLetter(folder.path().join("letters.ndjson"));
    pipe.script.limit_batch_bytes(100);
    for length in [10, 200, 10, 10] {
        pipe.log.append(PartitionId(0), &vec![b'x'; length]);
    }
    let sink = pipe.sink.take().expect("the first relay");
    let sinks: Vec<Box<dyn Sink>> = vec![Box::new(sink), Box::new(other.sink())];
    let source = MemorySource::new(&pipe.log, pipe.source_options);
    let store = Arc::new(pipe.store.clone());
    let relay = Relay::new(pipe.options.clone(), Box::new(source), sinks, store).expect("a file");
    let pipe = &pipe;
    let covered = async { pipe.wait_until(|| pipe.checkpoint(0) == Some(3)).await };
    let summary = relay.run(covered).await.expect("neither end fails");
    assert_eq!((summary.metrics.poison_events, summary.metrics.dead_lettered_events), (1, 1));
    assert_eq!(accepted(&pipe.script), [0, 2, 3]);
    let mut all = accepted(&other);
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn sinks_that_are_busy_or_take_single_events_get_everything() {
    let (mut pipe, other) = pipe(9, ALL);
    pipe.script.limit_unanswered(2);
    other.limit_unanswered(3);
    other.send_by(SendUnit::Event);
    pipe.append(40);
    let summary = pipe.run_to_the_end().await;
    assert_eq!((accepted(&pipe.script).len(), accepted(&other).len()), (40, 40));
    assert!(summary.metrics.busy_sink > 0);
}

/// Appends events with these keys to one partition.
fn append_with_keys(pipe: &mut Pipe, keys: &[&str]) {
    for key in keys {
        pipe.log.append_with_key(
            PartitionId(0),
            b"event",
            key.as_bytes(),
            connect::event::EnqueuedTime::default(),
        );
        pipe.appended += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn the_order_of_a_partition_is_kept_at_each_sink_and_sinks_work_side_by_side() {
    let (mut pipe, other) = pipe(4, 1);
    pipe.options.order = Order::Partition;
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    pipe.append(6);
    pipe.run_to_the_end().await;
    assert_eq!((accepted(&pipe.script), accepted(&other)), (vec![0, 1, 2, 3, 4, 5], vec![0, 1, 2, 3, 4, 5]));
    assert_eq!(pipe.sent_at(), [0, 100, 110, 120, 130, 140, 150]);
    assert_eq!(sent_at(&other, pipe.start), [110, 120, 130, 140, 150, 160]);
}

#[tokio::test(start_paused = true)]
async fn the_order_of_each_key_is_kept_and_other_keys_do_not_wait() {
    let (mut pipe, other) = pipe(6, ALL);
    pipe.options.order = Order::Key;
    pipe.source_options.batch.max_events = 6;
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    append_with_keys(&mut pipe, &["a", "b", "a", "c", "b", "d"]);
    pipe.run_to_the_end().await;
    // All others go on while `a` is tried again.
    assert_eq!(accepted(&pipe.script), [1, 3, 5, 4, 0, 2]);
    let order = accepted(&other);
    let place = |number: i64| order.iter().position(|&other| other == number);
    assert!(place(0) < place(2) && place(1) < place(4), "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn as_many_events_are_in_work_as_the_sinks_are_found_to_carry() {
    let (mut pipe, other) = pipe(1_000, ALL);
    pipe.options.adapt_events = true;
    pipe.source_options =
        SourceOptions { batch: BatchOptions { max_events: 128, max_wait: ms(1) }, prefetch: 1_000 };
    // Eight at once; what is more finds the sink busy, and waits in the relay.
    pipe.script.limit_unanswered(8);
    other.reply_by_default(Reply::Accept(ms(10)));
    pipe.append(20_000);
    let relay = pipe.relay();
    let metrics = relay.metrics_handle();
    let pipe = &pipe;
    let found = async {
        pipe.wait_until(|| pipe.accepted_count() >= 15_000).await;
        let limit = metrics.metrics().await.expect("it runs").events_limit;
        assert!((8..=32).contains(&limit), "{limit}");
    };
    let summary = relay.run(found).await.expect("neither end fails");
    let rate = 15_000.0 / pipe.start.elapsed().as_secs_f64();
    assert!(rate > 0.8 * 800.0, "{rate} per second of 800");
    assert_eq!(summary.ended, Ended::Finished);
}

#[tokio::test(start_paused = true)]
async fn a_sink_may_have_tries_of_its_own() {
    let (mut pipe, other) = pipe(1, 1);
    let once = RetryPolicy { attempts: 1, ..pipe.options.retry };
    pipe.options.sink_retries = vec![None, Some(once)];
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    other.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    pipe.append(1);
    let summary = pipe.run_to_the_end().await;
    assert_eq!((summary.metrics.retries, summary.metrics.failed_batches), (1, 1));
    // A batch that is not full waits 1 ms. The second sink fails at 111 ms, and the partition rests for 500 ms.
    assert_eq!(pipe.sent_at().len(), 2);
    assert_eq!(sent_at(&other, pipe.start).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn failures_lose_nothing_and_leave_bounds_and_accounts_right() {
    for (events_at_once, sinks_at_once) in [(1, 1), (1, ALL), (5, 1), (5, ALL)] {
        let mut pipe = Pipe::new(3, 2);
        let other = pipe.add_sink(2);
        pipe.options.dispatch_unit = DispatchUnit::Event;
        (pipe.options.events_at_once, pipe.options.sinks_at_once) = (events_at_once, sinks_at_once);
        pipe.options.failure_ratio = 0.02;
        for _ in 0..20 {
            other.reply_next(0, Reply::refuse(ErrorClass::Retryable));
            other.reply_next(0, Reply::Accept(ms(3)));
            other.reply_next(0, Reply::Lose);
        }
        pipe.append(300);
        let summary = pipe.run_to_the_end().await;
        assert!(summary.metrics.injected_failures > 0);
        assert_eq!(summary.metrics.completed_events, 300);
        let distinct = |script: &SinkScript| {
            let writes = script.writes().into_iter().filter(Write::is_accepted);
            let events = writes.flat_map(|write| {
                let partition = write.partition;
                write.sequence_numbers.into_iter().map(move |number| (partition, number))
            });
            events.collect::<HashSet<_>>().len()
        };
        assert_eq!((distinct(&pipe.script), distinct(&other)), (300, 300));
    }
}
