//! What is counted and timed of sends, openings and closings, and of the time in which the loop sleeps.

use connect::event::EnqueuedTime;
use connect::sink::ErrorClass;

use super::*;

fn milliseconds(nanoseconds: u64) -> u64 {
    nanoseconds / 1_000_000
}

#[tokio::test(start_paused = true)]
async fn each_send_is_timed_by_itself_and_sized_in_events_and_bytes() {
    let mut pipe = Pipe::new(1, 2);
    pipe.script.reply_next(0, Reply::Accept(ms(20)));
    pipe.script.reply_next(1, Reply::Accept(ms(50)));
    pipe.append(4);
    let metrics = pipe.run_to_the_end().await.metrics;
    let [short, long] = [0.25, 0.75].map(|quantile| metrics.send_us.value_at_quantile(quantile));
    assert_eq!((metrics.send_us.len(), short / 1_000, long / 1_000), (2, 20, 50));
    assert_eq!(metrics.batch_send_us.max() / 1_000, 50);
    assert_eq!((metrics.send_events.len(), metrics.send_events.max()), (2, 2));
    // Each of them is "event n".
    assert_eq!((metrics.send_bytes.min(), metrics.send_bytes.max()), (14, 14));
    assert_eq!((metrics.batch_bytes.len(), metrics.batch_bytes.max()), (1, 28));
}

#[tokio::test(start_paused = true)]
async fn sends_of_one_batch_that_are_accepted_together_are_all_recorded() {
    let mut pipe = Pipe::new(1, 4);
    pipe.script.reply_by_default(Reply::Accept(ms(10)));
    pipe.fetch_single_batches();
    pipe.append(40);
    let metrics = pipe.run_to_the_end().await.metrics;
    assert_eq!((metrics.sends, metrics.send_us.len()), (40, 40));
    assert_eq!((metrics.send_us.min() / 1_000, metrics.send_us.max() / 1_000), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn failed_sends_are_timed_apart_from_accepted_ones() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_next(0, Reply::Lose);
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    pipe.append(4);
    let metrics = pipe.run_to_the_end().await.metrics;
    assert_eq!((metrics.sends, metrics.failed_sends), (3, 2));
    assert_eq!((metrics.timed_out_sends, metrics.send_us.len()), (1, 1));
    let timed_out = metrics.failed_send_us.max() as f64 / 1e6;
    assert!((timed_out - 1.0).abs() < 0.02, "{timed_out} s");
}

#[tokio::test(start_paused = true)]
async fn openings_and_closings_are_counted_with_their_reason() {
    let mut pipe = Pipe::new(2, 1);
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Fatal));
    pipe.append(16);
    let metrics = pipe.run_to_the_end().await.metrics;
    assert_eq!((metrics.opened_at_start, metrics.opened_after_rest), (2, 1));
    assert_eq!((metrics.closed_after_batch, metrics.closed_at_stop), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_is_given_up_is_the_reason_of_a_closing() {
    let mut pipe = Pipe::new(1, 1);
    pipe.store.fail_updates(3);
    pipe.append(4);
    let metrics = pipe.run_to_the_end().await.metrics;
    assert_eq!((metrics.closed_after_checkpoint, metrics.failed_checkpoints), (1, 3));
}

#[tokio::test(start_paused = true)]
async fn the_loop_waits_for_sends_while_batches_are_there_and_for_the_source_after_that() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_by_default(Reply::Accept(ms(10)));
    pipe.append(400);
    let start = pipe.start;
    let metrics = pipe.run_until(|_| start.elapsed() >= ms(3_000)).await.metrics;
    let sends = milliseconds(metrics.waited_for_sends_ns);
    let source = milliseconds(metrics.waited_for_source_ns);
    // Twelve events may be fetched, which makes 34 sends; the last four are fewer than that.
    assert!((320..=340).contains(&sends), "{sends} ms");
    assert!((2_640..=2_690).contains(&source), "{source} ms");
    assert_eq!(metrics.waited_for_partitions_ns, 0);
}

#[tokio::test(start_paused = true)]
async fn the_loop_waits_for_a_busy_destination_for_memory_and_for_a_partition_that_rests() {
    let mut pipe = Pipe::new(1, 4);
    pipe.script.reply_by_default(Reply::Accept(ms(100)));
    pipe.script.limit_unanswered(1);
    pipe.append(4);
    let metrics = pipe.run_to_the_end().await.metrics;
    // Four sends, one at a time; during the last one nothing is held up any more.
    let destination = milliseconds(metrics.waited_for_destination_ns);
    assert!((295..=305).contains(&destination), "{destination} ms");

    let mut pipe = Pipe::new(2, 1);
    pipe.options.max_held_bytes = 1;
    pipe.script.reply_by_default(Reply::Accept(ms(100)));
    pipe.append(8);
    let metrics = pipe.run_to_the_end().await.metrics;
    let memory = milliseconds(metrics.waited_for_memory_ns);
    assert!((195..=205).contains(&memory), "{memory} ms");

    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Fatal));
    pipe.append(4);
    let metrics = pipe.run_to_the_end().await.metrics;
    let partitions = milliseconds(metrics.waited_for_partitions_ns);
    assert!((495..=505).contains(&partitions), "{partitions} ms");
}

#[tokio::test(start_paused = true)]
async fn events_are_as_old_as_their_dates_say_and_unusable_dates_are_counted() {
    let mut pipe = Pipe::new(1, 1);
    // A batch of two dates, one of a single date, and one ahead of the clock.
    for date in [5, 5, 5, 20, 20, 20, 20, 20, 9_000, 9_000, 9_000, 9_000] {
        let date = EnqueuedTime::from_unix_ms(date);
        pipe.log.append_with_key(PartitionId(0), b"dated", b"", date);
        pipe.appended += 1;
    }
    // And one without a date.
    pipe.append(4);
    // The store's clock has begun at the epoch.
    tokio::time::advance(ms(30)).await;
    let metrics = pipe.run_to_the_end().await.metrics;
    let ages = metrics.source_age_us.iter_recorded();
    let ages: Vec<_> = ages.map(|age| (age.value_iterated_to() / 1_000, age.count_at_value())).collect();
    assert_eq!(ages, [(10, 5), (25, 3)]);
    assert_eq!(metrics.undated_events, 8);
}
