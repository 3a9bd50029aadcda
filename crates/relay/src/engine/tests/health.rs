//! What ends a relay, what it waits for, and what it says of itself meanwhile.

use connect::sink::{ErrorClass, SendError};

use super::*;
use crate::health::{Place, Position};

fn closed(class: ErrorClass, condition: &str) -> SourceError {
    SourceError { class, condition: condition.to_owned(), description: "said the service".to_owned() }
}

fn refused(condition: &str) -> Reply {
    let error = SendError {
        class: ErrorClass::Fatal,
        condition: condition.to_owned(),
        description: "said the service".to_owned(),
    };
    Reply::Refuse(ms(1), error)
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_can_never_be_opened_ends_the_relay_with_the_reason() {
    for condition in ["amqp:not-found", "amqp:unauthorized-access", "com.microsoft:argument-out-of-range"] {
        let mut pipe = Pipe::new(2, 1);
        pipe.append(8);
        let error = closed(ErrorClass::Fatal, condition);
        let relay = pipe.relay();
        let (pipe, refusal) = (&pipe, error.clone());
        let fail = async {
            pipe.wait_until(|| pipe.log.opened().len() == 2).await;
            pipe.log.fail_partition(PartitionId(1), refusal);
            std::future::pending().await
        };
        let ended = relay.run(fail).await;
        assert!(matches!(ended, Err(RelayError::Source(reason)) if reason == error), "{condition}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_without_the_right_ends_the_relay_and_one_that_is_gone_is_waited_for() {
    let mut pipe = Pipe::new(1, 1);
    pipe.append(4);
    pipe.script.reply_next(0, refused("amqp:unauthorized-access"));
    let ended = pipe.relay().run(std::future::pending()).await;
    assert!(
        matches!(ended, Err(RelayError::Sink { source, .. }) if source.condition == "amqp:unauthorized-access")
    );

    let mut pipe = Pipe::new(1, 1);
    pipe.append(4);
    pipe.script.reply_next(0, refused("amqp:not-found"));
    let summary = pipe.run_to_the_end().await;
    assert_eq!(summary.metrics.opened_after_rest, 1);
}

#[tokio::test(start_paused = true)]
async fn rests_grow_as_long_as_nothing_comes_of_them() {
    let mut pipe = Pipe::new(1, 1);
    for _ in 0..8 {
        pipe.script.reply_next(0, refused("amqp:not-found"));
    }
    pipe.append(4);
    pipe.run_to_the_end().await;
    let sent_at = pipe.sent_at();
    let rests: Vec<_> = sent_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(rests.len(), 8);
    for (rest, full) in rests.iter().zip([500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000_u128]) {
        // Jitter shortens it by a fifth at most; waiting for a batch and an answer takes 2 ms.
        let longest = full + 5;
        assert!((full * 4 / 5..=longest).contains(rest), "{rests:?}");
    }
    assert_ne!(rests[6], rests[7], "jitter");
}

#[tokio::test(start_paused = true)]
async fn a_relay_is_not_ready_while_a_partition_is_closed_and_says_why() {
    let mut pipe = Pipe::new(2, 1);
    pipe.append(8);
    let relay = pipe.relay();
    let handle = relay.metrics_handle();
    let running = tokio::spawn(relay.run(std::future::pending()));
    pipe.wait_until(|| pipe.is_done()).await;
    let health = handle.metrics().await.expect("it runs").health;
    assert!(health.is_ready(), "{:?}", health.reasons);
    let positions: Vec<_> = health.partitions.iter().map(|one| one.position).collect();
    assert_eq!(positions, [Position::After(3), Position::After(3)]);

    let error = closed(ErrorClass::Retryable, "amqp:link:detach-forced");
    pipe.log.fail_partition(PartitionId(1), error);
    tokio::time::sleep(ms(100)).await;
    let health = handle.metrics().await.expect("it runs").health;
    assert_eq!(health.reasons.len(), 1);
    let reason = &health.reasons[0];
    assert_eq!(
        (reason.place, &*reason.condition, reason.partitions.as_slice()),
        (Place::Source, "amqp:link:detach-forced", &[PartitionId(1)][..])
    );
    assert_eq!(health.last_errors.len(), 1);

    tokio::time::sleep(ms(600)).await;
    let health = handle.metrics().await.expect("it runs").health;
    assert!(health.is_ready(), "{:?}", health.reasons);
    running.abort();
}

/// The conditions that keep a relay from being ready, each with its partitions.
async fn conditions(handle: &crate::metrics::MetricsHandle) -> Vec<(String, Vec<u32>)> {
    let reasons = handle.metrics().await.expect("it runs").health.reasons.into_iter();
    reasons.map(|reason| (reason.condition, reason.partitions.iter().map(|id| id.0).collect())).collect()
}

fn end(last_sequence_number: i64) -> crate::health::LogEnd {
    crate::health::LogEnd { begin_sequence_number: 0, last_sequence_number, last_enqueued: None }
}

#[tokio::test(start_paused = true)]
async fn relay_whose_source_does_not_deliver_known_events_is_not_ready_after_a_minute() {
    let mut pipe = Pipe::new(2, 1);
    pipe.append(8);
    let relay = pipe.relay();
    let handle = relay.metrics_handle();
    let running = tokio::spawn(relay.run(std::future::pending()));
    pipe.wait_until(|| pipe.is_done()).await;
    // Nothing comes for an hour, and there is nothing.
    for partition in [0, 1].map(PartitionId) {
        handle.log_ends().note(partition, end(3));
    }
    tokio::time::sleep(ms(3_600_000)).await;
    assert_eq!(conditions(&handle).await, []);
    // From now on the broker has events, says so, and does not give them.
    pipe.log.silence(true);
    pipe.append(8);
    handle.log_ends().note(PartitionId(1), end(7));
    tokio::time::sleep(ms(59_000)).await;
    assert_eq!(conditions(&handle).await, []);
    tokio::time::sleep(ms(1_000)).await;
    assert_eq!(conditions(&handle).await, [("no-progress".to_owned(), vec![1])]);
    pipe.log.silence(false);
    pipe.wait_until(|| pipe.is_done()).await;
    assert_eq!(conditions(&handle).await, []);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn relay_whose_sink_keeps_a_send_without_an_answer_is_not_ready_after_a_minute() {
    let mut pipe = Pipe::new(2, 2);
    pipe.options.retry.try_timeout = ms(90_000);
    pipe.script.reply_next(1, Reply::Lose);
    pipe.append(8);
    let relay = pipe.relay();
    let handle = relay.metrics_handle();
    let running = tokio::spawn(relay.run(std::future::pending()));
    tokio::time::sleep(ms(80_000)).await;
    assert_eq!(conditions(&handle).await, [], "a send may take 90 s");
    // The send is given up, and another one is accepted.
    pipe.wait_until(|| pipe.is_done()).await;
    running.abort();

    let mut pipe = Pipe::new(1, 1);
    pipe.options.retry.attempts = u32::MAX;
    pipe.script.reply_by_default(Reply::Lose);
    pipe.append(4);
    let relay = pipe.relay();
    let handle = relay.metrics_handle();
    let running = tokio::spawn(relay.run(std::future::pending()));
    tokio::time::sleep(ms(59_000)).await;
    assert_eq!(conditions(&handle).await, []);
    tokio::time::sleep(ms(2_000)).await;
    assert_eq!(conditions(&handle).await, [("no-progress".to_owned(), vec![0])]);
    pipe.script.reply_by_default(Reply::Accept(ms(1)));
    pipe.wait_until(|| pipe.is_done()).await;
    assert_eq!(conditions(&handle).await, []);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn before_the_first_batch_is_done_a_partition_stands_where_it_was_opened() {
    let mut pipe = Pipe::new(1, 1);
    pipe.append(4);
    pipe.run_to_the_end().await;
    for (start, expected) in [
        (StartPosition::Earliest, Position::Beginning),
        (StartPosition::Latest, Position::Unknown),
        (StartPosition::AtSequenceNumber(9), Position::After(8)),
    ] {
        let mut fresh = Pipe::new(1, 1);
        if matches!(start, StartPosition::AtSequenceNumber(_)) {
            // There has to be such an event, and none of its batch is done.
            fresh.append(10);
            fresh.script.reply_by_default(Reply::Lose);
        }
        fresh.options.start_position = start;
        let summary = fresh.run_until(|pipe| pipe.start.elapsed() >= ms(50)).await;
        assert_eq!(summary.metrics.health.partitions[0].position, expected);
    }
    let summary = pipe.run_until(|pipe| pipe.start.elapsed() >= ms(5_000)).await;
    let position = summary.metrics.health.partitions[0].position;
    assert_eq!(position, Position::After(3), "the checkpoint");
}
