//! What retention took before it was read, and sources that number their events again.

use connect::sink::ErrorClass;

use super::*;
use crate::options::MissedEvents;

const PARTITION: PartitionId = PartitionId(0);

impl Pipe {
    async fn run_unaudited(&mut self, condition: impl Fn(&Self) -> bool) -> Result<Summary, RelayError> {
        let relay = self.unaudited();
        let pipe = &*self;
        relay.run(async { pipe.wait_until(|| condition(pipe)).await }).await
    }

    fn numbers(&self) -> Vec<i64> {
        let accepted = self.script.accepted(0).into_iter();
        accepted.map(|(_, number)| number).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn what_retention_took_while_no_relay_ran_is_counted_and_never_completed() {
    let mut pipe = Pipe::new(1, 1);
    pipe.append(8);
    pipe.run_to_the_end().await;
    pipe.append(20);
    pipe.log.take_before(PARTITION, 20);
    let summary = pipe.run_unaudited(|pipe| pipe.checkpoint(0) == Some(27)).await.expect("a gap is reported");
    let metrics = summary.metrics;
    assert_eq!((metrics.missed_events, metrics.completed_events), (12, 8));
    assert_eq!(pipe.numbers(), (0..8).chain(20..28).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_first_event_that_was_asked_for_by_its_number_is_missed_if_it_is_gone() {
    for (start, missed) in [(StartPosition::AtSequenceNumber(5), 7), (StartPosition::Earliest, 0)] {
        let mut pipe = Pipe::new(1, 1);
        pipe.options.start_position = start;
        pipe.append(20);
        pipe.log.take_before(PARTITION, 12);
        let summary =
            pipe.run_unaudited(|pipe| pipe.checkpoint(0) == Some(19)).await.expect("a gap is reported");
        let metrics = summary.metrics;
        assert_eq!((metrics.missed_events, metrics.completed_events), (missed, 8));
    }
}

#[tokio::test(start_paused = true)]
async fn what_retention_took_from_a_link_that_stays_is_counted_and_never_completed() {
    let mut pipe = Pipe::new(1, 1);
    pipe.append(4);
    let log = pipe.log.clone();
    let relay = pipe.unaudited();
    let pipe = &pipe;
    let shutdown = async {
        pipe.wait_until(|| pipe.checkpoint(0) == Some(3)).await;
        // Nothing runs between these: the reader finds the rest gone, and its last batch has a hole.
        for number in 4..30 {
            log.append(PARTITION, format!("event {number}").as_bytes());
        }
        log.take_before(PARTITION, 24);
        pipe.wait_until(|| pipe.checkpoint(0) == Some(29)).await;
    };
    let summary = relay.run(shutdown).await.expect("a gap is reported");
    let metrics = summary.metrics;
    assert_eq!((metrics.missed_events, metrics.completed_events), (20, 10));
    assert_eq!(metrics.opened_partitions, 1);
}

#[tokio::test(start_paused = true)]
async fn a_gap_that_is_met_again_after_a_failure_is_counted_once() {
    let mut pipe = Pipe::new(1, 1);
    pipe.append(4);
    pipe.run_to_the_end().await;
    pipe.append(20);
    pipe.log.take_before(PARTITION, 20);
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Fatal));
    let summary = pipe.run_unaudited(|pipe| pipe.checkpoint(0) == Some(23)).await.expect("a gap is reported");
    let metrics = summary.metrics;
    assert_eq!(metrics.opened_after_rest, 1);
    assert_eq!((metrics.missed_events, metrics.completed_events), (16, 4));
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_is_to_stop_at_a_gap_writes_no_checkpoint_past_it() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.missed_events = MissedEvents::Stop;
    pipe.append(4);
    let log = pipe.log.clone();
    let relay = pipe.unaudited();
    let pipe_ref = &pipe;
    let appending = async {
        pipe_ref.wait_until(|| pipe_ref.checkpoint(0) == Some(3)).await;
        for number in 4..30 {
            log.append(PARTITION, format!("event {number}").as_bytes());
        }
        log.take_before(PARTITION, 20);
        std::future::pending::<()>().await;
    };
    let error = relay.run(appending).await.expect_err("a gap ends the relay");
    assert!(matches!(error, RelayError::MissedEvents { expected: 4, first: 20, missing: 16, .. }), "{error}");
    assert_eq!(pipe.checkpoint(0), Some(3));
    assert_eq!(pipe.numbers(), [0, 1, 2, 3]);
    let again = pipe.run_unaudited(|_| false).await;
    assert!(again.is_err(), "the gap is still there");
    pipe.options.missed_events = MissedEvents::Report;
    pipe.run_unaudited(|pipe| pipe.checkpoint(0) == Some(29)).await.expect("a gap is reported");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_was_made_anew_is_read_from_its_first_event() {
    let mut pipe = Pipe::new(1, 1);
    pipe.append(20);
    pipe.run_to_the_end().await;
    pipe.log.recreate(PARTITION);
    pipe.append(6);
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Fatal));
    let summary = pipe.run_unaudited(|pipe| pipe.checkpoint(0) == Some(5)).await.expect("it is reported");
    let metrics = summary.metrics;
    assert_eq!(metrics.restarted_partitions, 1);
    assert_eq!((metrics.missed_events, metrics.completed_events), (0, 6));
    assert_eq!(pipe.numbers()[20..], [0, 1, 2, 3, 4, 5]);
    let summary =
        pipe.run_unaudited(|pipe| pipe.start.elapsed() > ms(60_000)).await.expect("the new checkpoint holds");
    assert_eq!(summary.metrics.restarted_partitions, 0);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_made_anew_under_the_relay_is_read_from_its_first_event() {
    let mut pipe = Pipe::new(1, 1);
    pipe.append(20);
    let log = pipe.log.clone();
    let relay = pipe.unaudited();
    let pipe = &pipe;
    let shutdown = async {
        pipe.wait_until(|| pipe.checkpoint(0) == Some(19)).await;
        log.recreate(PARTITION);
        log.append(PARTITION, b"new");
        // What was there before is waited for, as sources say.
        let gone = SourceError { class: ErrorClass::Retryable, ..refused("amqp:not-found") };
        log.fail_partition(PARTITION, gone);
        pipe.wait_until(|| pipe.checkpoint(0) == Some(0)).await;
    };
    let summary = relay.run(shutdown).await.expect("it is reported");
    assert_eq!(summary.metrics.restarted_partitions, 1);
    assert_eq!(summary.metrics.completed_events, 21);
}

/// The checkpoint of the partition with the id of its log.
fn identified(pipe: &Pipe) -> Option<(i64, String)> {
    let checkpoint = pipe.store.checkpoint(&group(), PARTITION)?;
    checkpoint.sequence_number.zip(checkpoint.log_id)
}

fn made_anew_with(log: &MemoryLog, events: usize) {
    log.recreate(PARTITION);
    (0..events).for_each(|_| _ = log.append(PARTITION, b"new"));
}

#[tokio::test(start_paused = true)]
async fn another_log_with_more_events_than_the_checkpoint_has_is_read_from_its_first_one() {
    let mut pipe = Pipe::new(1, 1);
    pipe.log.identify("first");
    pipe.append(20);
    pipe.run_to_the_end().await;
    assert_eq!(identified(&pipe), Some((19, "first".to_owned())));
    made_anew_with(&pipe.log, 50);
    pipe.log.identify("second");
    let summary = pipe.run_unaudited(|pipe| pipe.checkpoint(0) == Some(49)).await.expect("it is reported");
    assert_eq!((summary.metrics.restarted_partitions, summary.metrics.completed_events), (1, 50));
    assert!(pipe.numbers()[20..].iter().copied().eq(0..50), "{:?}", pipe.numbers());
    assert_eq!(identified(&pipe), Some((49, "second".to_owned())));
    pipe.log.append(PARTITION, b"one more");
    let summary = pipe.run_unaudited(|pipe| pipe.checkpoint(0) == Some(50)).await.expect("it goes on");
    assert_eq!((summary.metrics.restarted_partitions, summary.metrics.completed_events), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn another_log_under_the_relay_is_read_from_its_first_event() {
    let mut pipe = Pipe::new(1, 1);
    pipe.log.identify("0");
    pipe.append(20);
    let log = pipe.log.clone();
    let relay = pipe.unaudited();
    let pipe = &pipe;
    let shutdown = async {
        pipe.wait_until(|| pipe.checkpoint(0) == Some(19)).await;
        for number in 1..4_i64 {
            let events = 20 + 10 * number;
            made_anew_with(&log, events as usize);
            log.identify(&number.to_string());
            pipe.wait_until(|| identified(pipe) == Some((events - 1, number.to_string()))).await;
        }
    };
    let summary = relay.run(shutdown).await.expect("it is reported");
    assert_eq!((summary.metrics.restarted_partitions, summary.metrics.missed_events), (3, 0));
    assert!(
        pipe.numbers()[20..].iter().copied().eq((0..30).chain(0..40).chain(0..50)),
        "{:?}",
        pipe.numbers()
    );
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_without_the_id_of_a_log_is_gone_on_from_and_gets_it() {
    let mut pipe = Pipe::new(1, 1);
    pipe.append(20);
    pipe.run_to_the_end().await;
    pipe.log.identify("first");
    pipe.append(1);
    let summary = pipe.run_to_the_end().await;
    assert_eq!((summary.metrics.restarted_partitions, summary.metrics.completed_events), (0, 1));
    assert_eq!(identified(&pipe), Some((20, "first".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_is_to_stop_stops_for_another_log() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.missed_events = MissedEvents::Stop;
    pipe.log.identify("first");
    pipe.append(20);
    pipe.run_to_the_end().await;
    made_anew_with(&pipe.log, 50);
    pipe.log.identify("second");
    let error = pipe.run_unaudited(|_| false).await.expect_err("a restart ends the relay").to_string();
    assert!(error.contains("its log has the id second, that before had first"), "{error}");
    assert_eq!(identified(&pipe), Some((19, "first".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_is_accepted_late_of_a_source_that_was_made_anew_says_nothing_of_its_new_events() {
    let mut pipe = Pipe::new(1, 1);
    pipe.append(20);
    pipe.script.limit_batch_bytes(200);
    pipe.options.restart_after = ms(10);
    let (_, letters) = ScriptedSink::new(1);
    letters.reply_by_default(Reply::Accept(ms(900)));
    let log = pipe.log.clone();
    let mut relay = pipe.unaudited();
    relay.send_dead_letters_to(Box::new(letters.sink())).expect("it takes anything");
    let pipe = &pipe;
    let shutdown = async {
        pipe.wait_until(|| pipe.checkpoint(0) == Some(19)).await;
        log.append(PARTITION, &[b'x'; 300]);
        pipe.wait_until(|| !letters.writes().is_empty()).await;
        log.recreate(PARTITION);
        (0..10).for_each(|_| _ = log.append(PARTITION, b"new"));
        let gone = SourceError { class: ErrorClass::Retryable, ..refused("amqp:not-found") };
        log.fail_partition(PARTITION, gone);
        pipe.wait_until(|| pipe.checkpoint(0) == Some(9)).await;
        let before = pipe.start.elapsed();
        assert!(before < ms(900), "the letter has no answer yet: {before:?}");
        tokio::time::sleep(ms(900)).await;
        (10..30).for_each(|_| _ = log.append(PARTITION, b"new"));
        pipe.wait_until(|| pipe.checkpoint(0) == Some(29)).await;
    };
    let summary = relay.run(shutdown).await.expect("it is reported");
    assert_eq!(summary.metrics.restarted_partitions, 1);
    assert!(pipe.numbers()[20..].iter().copied().eq(0..30), "{:?}", pipe.numbers());
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_is_to_stop_stops_for_a_source_that_was_made_anew() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.missed_events = MissedEvents::Stop;
    pipe.append(20);
    pipe.run_to_the_end().await;
    pipe.log.recreate(PARTITION);
    let error = pipe.run_unaudited(|_| false).await;
    assert!(matches!(error, Err(RelayError::Restarted { .. })));
    assert_eq!(pipe.checkpoint(0), Some(19));
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_at_the_newest_event_is_not_skipped_when_its_batch_fails() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.start_position = StartPosition::Latest;
    pipe.append(8);
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Fatal));
    let log = pipe.log.clone();
    let relay = pipe.unaudited();
    let pipe = &pipe;
    let shutdown = async {
        pipe.wait_until(|| !log.opened().is_empty()).await;
        for number in 8..12 {
            log.append(PARTITION, format!("event {number}").as_bytes());
        }
        pipe.wait_until(|| pipe.checkpoint(0) == Some(11)).await;
    };
    relay.run(shutdown).await.expect("neither end fails");
    assert_eq!(pipe.numbers(), [8, 9, 10, 11]);
}

fn refused(condition: &str) -> SourceError {
    SourceError {
        class: ErrorClass::Fatal,
        condition: condition.to_owned(),
        description: "the hub was deleted".to_owned(),
    }
}
