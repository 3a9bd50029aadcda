//! Sinks that store later than they accept: checkpoints cover what is stored, whatever else happens.

use connect::sink::ErrorClass;

use super::*;
use crate::DispatchUnit;
use crate::engine::Ended;

const PARTITION: PartitionId = PartitionId(0);

/// How many events a sink has accepted, those that came twice included.
fn accepted(script: &SinkScript) -> usize {
    numbers(script).len()
}

/// The events that a sink has accepted, as they came.
fn numbers(script: &SinkScript) -> Vec<i64> {
    let accepted = script.writes().into_iter().filter(Write::is_accepted);
    accepted.flat_map(|write| write.sequence_numbers).collect()
}

/// Lets a sink store up to an event, whose offset is as the log has it.
fn store(late: &SinkScript, through: i64) {
    late.store_through(PARTITION, through, &(10 * through).to_string());
}

/// A pipeline with a second sink that stores later, and twelve events.
fn pipe() -> (Pipe, SinkScript) {
    let mut pipe = Pipe::new(1, 1);
    let late = pipe.add_sink(1);
    late.store_later();
    pipe.append(12);
    (pipe, late)
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_covers_what_is_stored_and_not_what_is_accepted() {
    let (mut pipe, late) = pipe();
    let relay = pipe.relay();
    let shutdown = async {
        pipe.wait_until(|| accepted(&late) == 12 && pipe.accepted_count() == 12).await;
        tokio::time::sleep(ms(1_000)).await;
        assert_eq!(pipe.checkpoint(0), None);
        // Within a batch and at its end.
        for through in [5, 11] {
            store(&late, through);
            pipe.wait_until(|| pipe.checkpoint(0) == Some(through)).await;
        }
    };
    let summary = relay.run(shutdown).await.unwrap();
    assert_eq!(summary.ended, Ended::Finished);
    assert_eq!(late.flushed_and_forgotten(), (vec![], vec![]), "nothing was left to store");
    assert_eq!(pipe.written(), [5, 11]);
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_before_others_accept_it_waits_for_them() {
    let (mut pipe, late) = pipe();
    pipe.script.reply_by_default(Reply::Accept(ms(300)));
    let relay = pipe.relay();
    let shutdown = async {
        pipe.wait_until(|| accepted(&late) >= 4).await;
        store(&late, 3);
        tokio::time::sleep(ms(100)).await;
        assert_eq!(pipe.checkpoint(0), None);
        pipe.wait_until(|| pipe.checkpoint(0) == Some(3)).await;
        pipe.wait_until(|| accepted(&late) == 12).await;
        store(&late, 11);
        pipe.wait_until(|| pipe.is_done()).await;
    };
    relay.run(shutdown).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_one_sink_has_lost_comes_again_for_that_sink_alone() {
    let (mut pipe, late) = pipe();
    let relay = pipe.relay();
    let shutdown = async {
        pipe.wait_until(|| accepted(&late) == 12).await;
        store(&late, 3);
        pipe.wait_until(|| pipe.checkpoint(0) == Some(3)).await;
        late.lose_unstored(PARTITION);
        pipe.wait_until(|| accepted(&late) == 20).await;
        store(&late, 11);
        pipe.wait_until(|| pipe.is_done()).await;
    };
    let summary = relay.run(shutdown).await.unwrap();
    assert_eq!(late.flushed_and_forgotten(), (vec![], vec![]));
    assert_eq!((pipe.accepted_count(), summary.metrics.failed_batches), (12, 1));
    assert_eq!(numbers(&late)[12..], (4..12).collect::<Vec<_>>());
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_sink_keeps_what_it_has_when_another_fails() {
    let (mut pipe, late) = pipe();
    pipe.fetch_single_batches();
    pipe.script.reply_next(0, Reply::Accept(ms(0)));
    for _ in 0..3 {
        pipe.script.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    }
    let relay = pipe.relay();
    let shutdown = async {
        pipe.wait_until(|| accepted(&late) == 12 && pipe.accepted_count() == 12).await;
        store(&late, 11);
        pipe.wait_until(|| pipe.is_done()).await;
    };
    let summary = relay.run(shutdown).await.unwrap();
    assert_eq!(summary.metrics.failed_batches, 1, "the partition began again at its start");
    assert_eq!(late.flushed_and_forgotten(), (vec![], vec![]));
    assert_eq!((numbers(&late), pipe.check_delivery()), ((0..12).collect(), 0), "each has each event once");
}

#[tokio::test(start_paused = true)]
async fn whatever_the_strategy_they_come_in_order() {
    for sinks_at_once in [1, 2] {
        let (mut pipe, late) = pipe();
        pipe.options.dispatch_unit = DispatchUnit::Event;
        pipe.options.events_at_once = 5;
        pipe.options.sinks_at_once = sinks_at_once;
        for turn in 0..12 {
            pipe.script.reply_next(0, Reply::Accept(ms(100 * (turn * 7 % 5))));
        }
        let relay = pipe.relay();
        let shutdown = async {
            pipe.wait_until(|| accepted(&late) == 12 && pipe.accepted_count() == 12).await;
            store(&late, 11);
            pipe.wait_until(|| pipe.is_done()).await;
        };
        relay.run(shutdown).await.unwrap();
        assert_eq!(numbers(&late), (0..12).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_asks_for_what_is_not_stored_and_waits_for_it() {
    let (mut pipe, late) = pipe();
    let relay = pipe.relay();
    let shutdown = pipe.wait_until(|| accepted(&late) == 12 && pipe.accepted_count() == 12);
    let storing = async {
        pipe.wait_until(|| late.flushed_and_forgotten().0 == [PARTITION]).await;
        tokio::time::sleep(ms(1_000)).await;
        store(&late, 11);
    };
    let (summary, ()) = tokio::join!(relay.run(shutdown), storing);
    assert_eq!(summary.unwrap().ended, Ended::Finished);
    assert_eq!(pipe.written(), [11]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_what_is_lost_and_writes_what_is_stored() {
    let (mut pipe, late) = pipe();
    let relay = pipe.relay();
    let shutdown = pipe.wait_until(|| accepted(&late) == 12 && pipe.accepted_count() == 12);
    let storing = async {
        pipe.wait_until(|| !late.flushed_and_forgotten().0.is_empty()).await;
        store(&late, 7);
        late.lose_unstored(PARTITION);
    };
    let (summary, ()) = tokio::join!(relay.run(shutdown), storing);
    assert_eq!(summary.unwrap().ended, Ended::Finished);
    assert_eq!(pipe.written(), [7]);
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_settled_need_sinks_that_store_at_once() {
    let (_, script) = ScriptedSink::new(1);
    script.store_later();
    let queue = connect::fakes::MemoryQueue::new();
    let source = connect::fakes::QueueSource::new(&queue, 4);
    let options = crate::options::SettlingOptions::default();
    let relay = Relay::settling(options, Box::new(source), vec![Box::new(script.sink())]);
    assert!(matches!(relay, Err(RelayError::StoresLater { index: 0 })));
}
