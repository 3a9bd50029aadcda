//! Retries, time-outs, failed batches, crashes.

use connect::sink::{ErrorClass, SendError};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_send_is_not_given_up_whose_sink_ends_it_whenever_that_is() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.end_sends();
    // Thirty times as long as a try may take.
    pipe.script.reply_next(0, Reply::Accept(ms(30_000)));
    pipe.append(4);
    let summary = pipe.run_to_the_end().await;
    assert_eq!((pipe.sent_at(), pipe.check_delivery()), (vec![0], 0));
    let metrics = summary.metrics;
    assert_eq!((metrics.sends, metrics.timed_out_sends, metrics.late_outcomes), (1, 0, 0));
    let taken = metrics.send_us.max() as f64 / 1e6;
    assert!((taken - 30.0).abs() < 0.5, "{taken} s");
}

#[tokio::test(start_paused = true)]
async fn a_retryable_refusal_is_tried_again_after_growing_delays() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    pipe.append(4);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(pipe.sent_at(), [0, 100, 300]);
    assert_eq!((summary.metrics.sends, summary.metrics.retries, summary.metrics.failed_batches), (3, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_throttled_send_waits_as_long_as_the_service_asks() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Throttled { retry_after: ms(4_000) }));
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Throttled { retry_after: ms(1) }));
    pipe.append(4);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(pipe.sent_at(), [0, 4_000, 4_200]);
    assert_eq!(summary.metrics.throttled_sends, 2);
}

#[tokio::test(start_paused = true)]
async fn a_send_without_an_outcome_is_tried_again_after_its_time() {
    let mut pipe = Pipe::new(1, 2);
    pipe.script.reply_next(1, Reply::Lose);
    pipe.fetch_single_batches();
    pipe.append(8);
    let summary = pipe.run_to_the_end().await;
    // Both groups; the second group again after its time-out and the first delay; then the next batch.
    assert_eq!(pipe.sent_at(), [0, 0, 1_100, 1_100, 1_100]);
    assert_eq!(summary.metrics.timed_out_sends, 1);
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_comes_too_late_is_counted_and_ignored() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_next(0, Reply::Accept(ms(1_050)));
    pipe.script.reply_next(0, Reply::Accept(ms(500)));
    pipe.append(4);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(pipe.sent_at(), [0, 1_100]);
    assert_eq!(
        pipe.start.elapsed().as_millis(),
        1_601,
        "noticed after 1 ms; the first outcome, at 1050 ms, completes nothing"
    );
    assert_eq!((summary.metrics.late_outcomes, summary.metrics.timed_out_sends), (1, 1));
    assert_eq!(pipe.check_delivery(), 4, "all of it twice");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_given_up_stops_its_partition_which_resumes_from_its_checkpoint() {
    let mut pipe = Pipe::new(1, 2);
    pipe.fetch_single_batches();
    pipe.append(8);
    pipe.run_to_the_end().await;
    pipe.start = Instant::now();
    for _ in 0..3 {
        pipe.script.reply_next(1, Reply::refuse(ErrorClass::Retryable));
    }
    pipe.append(8);
    let summary = pipe.run_to_the_end().await;
    // Tries of destination 1 at 0, 100 and 300 ms, a rest of 500 ms, then what is left of one batch, and the other.
    assert_eq!(pipe.sent_at()[4..], [0, 0, 100, 300, 800, 800, 800]);
    let after_batch_2 = StartPosition::AfterOffset("70".to_owned());
    let positions: Vec<_> = pipe.log.opened().into_iter().map(|(_, position)| position).collect();
    assert_eq!(positions, [StartPosition::Earliest, after_batch_2.clone(), after_batch_2]);
    assert_eq!(summary.metrics.failed_batches, 1);
    assert_eq!(
        pipe.check_delivery(),
        0,
        "what destination 0 had accepted of the failed batch is not sent again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_fatal_refusal_is_not_tried_again() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Fatal));
    pipe.append(4);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(pipe.sent_at(), [0, 500]);
    assert_eq!(summary.metrics.retries, 0);
}

#[tokio::test(start_paused = true)]
async fn a_single_event_that_is_too_large_stops_its_partition_and_no_other() {
    let mut pipe = Pipe::new(2, 1);
    pipe.script.limit_batch_bytes(44);
    pipe.log.append(PartitionId(0), &[b'x'; 100]);
    for _ in 0..8 {
        pipe.log.append(PartitionId(1), b"small");
    }
    let summary = pipe.run_until(|pipe| pipe.start.elapsed() >= ms(1_200)).await;
    assert_eq!(
        summary.metrics.failed_batches, 2,
        "at 1 and 502 ms, a batch waits 1 ms; the next rest is twice as long"
    );
    assert_eq!((pipe.checkpoint(0), pipe.checkpoint(1)), (None, Some(7)));
}

#[tokio::test(start_paused = true)]
async fn while_a_partition_rests_the_others_go_on() {
    let mut pipe = Pipe::new(2, 1);
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Fatal));
    pipe.append(80);
    pipe.run_until(|pipe| pipe.start.elapsed() >= ms(100)).await;
    assert_eq!((pipe.checkpoint(0), pipe.checkpoint(1)), (None, Some(39)));
}

#[tokio::test(start_paused = true)]
async fn batches_behind_a_failed_one_are_not_checkpointed() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.in_flight = 3;
    pipe.script.reply_next(0, Reply::Accept(ms(1)));
    pipe.script.reply_next(0, Reply::Refuse(ms(50), refusal(ErrorClass::Fatal)));
    pipe.run_while_appending(3, ms(4)).await;
    assert_eq!(pipe.sent_at(), [0, 4, 8, 554]);
    assert_eq!(pipe.written(), [3, 11], "not the third before the second");
    assert_eq!(pipe.accepted_count(), 12, "nothing is sent twice");
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_the_service_closes_is_opened_again() {
    let mut pipe = Pipe::new(2, 1);
    pipe.append(8);
    let log = pipe.log.clone();
    let relay = pipe.relay();
    let stolen = SourceError {
        class: ErrorClass::Retryable,
        condition: "amqp:link:stolen".to_owned(),
        description: "a new receiver".to_owned(),
    };
    let shutdown = async {
        pipe.wait_until(|| pipe.is_done()).await;
        log.fail_partition(PartitionId(1), stolen);
        pipe.wait_until(|| log.opened().len() == 3).await;
    };
    let summary = relay.run(shutdown).await.expect("neither end fails");
    assert_eq!(log.opened()[2], (PartitionId(1), StartPosition::AfterOffset("30".to_owned())));
    assert_eq!((summary.metrics.closed_partitions, summary.metrics.opened_partitions), (1, 3));
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_or_reordered_by_injected_failures_and_duplicates_are_bounded() {
    for seed in 0..8 {
        let mut pipe = Pipe::new(4, 5);
        pipe.options.seed = seed;
        pipe.options.route = Route::Random;
        pipe.options.failure_ratio = 0.02;
        pipe.append(2_000);
        let summary = pipe.run_to_the_end().await;
        let duplicates = pipe.check_delivery();
        let metrics = summary.metrics;
        assert!(metrics.injected_failures > 0, "seed {seed}");
        assert!(metrics.failed_batches <= metrics.injected_failures, "seed {seed}");
        assert!(duplicates <= metrics.failed_batches * 12, "seed {seed}: {duplicates} duplicates");
        assert_eq!(
            metrics.forwarded_events,
            2_000 + duplicates - lost_outcomes(&pipe, &metrics),
            "seed {seed}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_lost_when_everything_goes_wrong_at_random() {
    for seed in 0..8 {
        let mut pipe = Pipe::new(3, 3);
        pipe.options.in_flight = 1 + (seed % 3) as usize;
        pipe.options.retry.try_timeout = ms(50);
        pipe.options.failure_ratio = 0.01;
        pipe.options.restart_after = ms(10);
        pipe.store.delay_updates(ms(seed % 4));
        pipe.store.fail_updates(5);
        pipe.script.limit_unanswered(4);
        let mut random = Random::from_seed(seed);
        for _ in 0..300 {
            let reply = match random.below(6) {
                0 => Reply::refuse(ErrorClass::Retryable),
                1 => Reply::refuse(ErrorClass::Throttled { retry_after: ms(30) }),
                2 => Reply::refuse(ErrorClass::TooLarge),
                3 => Reply::Refuse(ms(20), refusal(ErrorClass::Fatal)),
                _ => Reply::Accept(ms(random.below(80))),
            };
            pipe.script.reply_next(random.below(3) as u32, reply);
        }
        pipe.append(1_000);
        pipe.run_to_the_end().await;
        if pipe.options.in_flight == 1 {
            pipe.check_delivery();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_instant_loses_nothing_and_repeats_no_more_than_was_under_way() {
    for seed in 0..8 {
        let mut random = Random::from_seed(seed);
        let mut pipe = Pipe::new(4, 3);
        pipe.options.in_flight = 1 + (seed % 2) as usize;
        pipe.script.reply_by_default(Reply::Accept(ms(3)));
        pipe.append(1_000);
        let mut crashes = 0;
        while !pipe.is_done() {
            // The relay is dropped where it stands, as by a kill.
            let relay = pipe.relay();
            let life = ms(random.below(15));
            if tokio::time::timeout(life, relay.run(std::future::pending())).await.is_err() {
                crashes += 1;
            }
        }
        let repeated = pipe.accepted_count() - pipe.appended;
        // What each partition had fetched.
        let bound = crashes * 4 * 12;
        assert!(repeated <= bound, "seed {seed}: {repeated} repeated by {crashes} crashes");
        assert!(crashes > 5, "seed {seed}");
        pipe.check_delivery();
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_or_source_that_fails_as_a_whole_ends_the_relay() {
    let mut pipe = Pipe::new(1, 1);
    pipe.append(4);
    let (condition, description) = ("amqp:unauthorized-access".to_owned(), "the key is wrong".to_owned());
    let relay = pipe.relay();
    pipe.log.fail(SourceError {
        class: ErrorClass::Fatal,
        condition: condition.clone(),
        description: description.clone(),
    });
    assert!(matches!(relay.run(std::future::pending()).await, Err(RelayError::Source(_))));
    let relay = pipe.relay();
    pipe.script.fail(SinkError { condition, description });
    assert!(matches!(relay.run(std::future::pending()).await, Err(RelayError::Sink { .. })));
}

fn refusal(class: ErrorClass) -> SendError {
    SendError { class, condition: "test:refused".to_owned(), description: "refused".to_owned() }
}

/// Events that a destination had accepted when their batch was abandoned before their outcome was seen.
fn lost_outcomes(pipe: &Pipe, metrics: &Metrics) -> u64 {
    pipe.accepted_count() - metrics.forwarded_events
}
