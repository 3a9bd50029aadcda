//! Events that a destination refuses for good, and what was accepted beside them.

use connect::sink::{ErrorClass, SendError};

use super::*;
use crate::options::{DispatchUnit, PoisonEvents};

/// A pipe whose sink takes no event as large as number 5 of its ten, which go to one destination in batches of ten.
fn with_a_large_event() -> Pipe {
    let mut pipe = Pipe::new(1, 1);
    pipe.source_options.batch.max_events = 10;
    pipe.script.limit_batch_bytes(200);
    for number in 0..10 {
        let bytes = if number == 5 { 300 } else { 10 };
        pipe.log.append(PartitionId(0), &vec![b'x'; bytes]);
    }
    pipe.appended = 10;
    pipe
}

fn accepted(pipe: &Pipe) -> Vec<i64> {
    let accepted = pipe.script.accepted(0).into_iter();
    accepted.map(|(_, number)| number).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_beside_an_event_that_is_refused_is_not_sent_again() {
    let mut pipe = with_a_large_event();
    let summary = pipe.run_until(|pipe| pipe.start.elapsed() >= ms(20_000)).await;
    assert_eq!(accepted(&pipe), [0, 1, 2, 3, 4]);
    let metrics = summary.metrics;
    assert_eq!((metrics.poison_events, metrics.completed_events), (1, 0));
    // At 1 ms, and then after rests of 0.5, 1, 2, 4 and 8 s.
    assert_eq!(metrics.failed_batches, 6);
    assert_eq!(pipe.checkpoint(0), None);
    pipe.script.limit_batch_bytes(1_000);
    pipe.run_to_the_end().await;
    // A new relay knows nothing of it.
    assert_eq!(pipe.check_delivery(), 5);
}

#[tokio::test(start_paused = true)]
async fn once_the_destination_takes_the_event_each_is_there_once() {
    let mut pipe = with_a_large_event();
    let script = pipe.script.clone();
    let relay = pipe.relay();
    let pipe = &pipe;
    let shutdown = async {
        pipe.wait_until(|| pipe.start.elapsed() >= ms(3_000)).await;
        script.limit_batch_bytes(1_000);
        pipe.wait_until(|| pipe.is_done()).await;
    };
    let summary = relay.run(shutdown).await.expect("neither end fails");
    assert_eq!(summary.metrics.completed_events, 10);
    assert_eq!(pipe.check_delivery(), 0);
    assert_eq!(accepted(pipe), (0..10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn batches_behind_a_failed_one_that_were_accepted_are_not_sent_again() {
    let mut pipe = Pipe::new(1, 2);
    pipe.options.in_flight = 3;
    pipe.script.reply_next(0, Reply::Accept(ms(1)));
    pipe.script.reply_next(0, Reply::Refuse(ms(50), refusal(ErrorClass::Fatal, "test:refused")));
    pipe.append(12);
    pipe.run_to_the_end().await;
    assert_eq!(pipe.accepted_count(), 12, "each once");
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_is_to_stop_names_the_event_and_passes_it_with_no_checkpoint() {
    let mut pipe = with_a_large_event();
    pipe.options.poison_events = PoisonEvents::Stop;
    let error = pipe.relay().run(std::future::pending()).await;
    let error = error.expect_err("the event ends the relay").to_string();
    assert!(
        error.contains("event 5 of partition 0 (offset 50) of 300 bytes permanently (test:refused"),
        "{error}"
    );
    assert_eq!(pipe.checkpoint(0), None);
}

#[tokio::test(start_paused = true)]
async fn a_file_of_dead_letters_takes_what_is_refused_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("letters.ndjson");
    let mut pipe = with_a_large_event();
    pipe.options.poison_events = PoisonEvents::DeadLetter(path.clone());
    let relay = pipe.unaudited();
    let pipe = &pipe;
    let covered = async { pipe.wait_until(|| pipe.checkpoint(0) == Some(9)).await };
    let summary = relay.run(covered).await.expect("neither end fails");
    assert_eq!(accepted(pipe), [0, 1, 2, 3, 4, 6, 7, 8, 9]);
    let metrics = summary.metrics;
    assert_eq!((metrics.poison_events, metrics.dead_lettered_events), (1, 1));
    let text = std::fs::read_to_string(path).expect("a file");
    let letter: serde_json::Value = serde_json::from_str(&text).expect("one line of JSON");
    assert_eq!(letter["sequence_number"], 5);
    assert_eq!(letter["offset"], "50");
    assert_eq!(letter["condition"], "test:refused");
    let message = letter["message"].as_str().expect("text");
    assert_eq!(message.len(), 400, "300 bytes in base64");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_fits_is_not_to_blame_for_the_size_of_another_until_it_is_refused_again_and_again() {
    let mut pipe = Pipe::new(1, 1);
    pipe.source_options.batch.max_events = 1;
    pipe.options.poison_events = PoisonEvents::Stop;
    pipe.script.limit_batch_bytes(100);
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::TooLarge));
    pipe.append(1);
    let summary = pipe.run_to_the_end().await;
    assert_eq!((summary.metrics.retries, summary.metrics.poison_events), (1, 0));
    for _ in 0..3 {
        pipe.script.reply_next(0, Reply::refuse(ErrorClass::TooLarge));
    }
    pipe.append(1);
    let ended = pipe.relay().run(std::future::pending()).await;
    assert!(matches!(ended, Err(RelayError::Poison { sequence_number: 1, .. })), "{ended:?}");
}

/// Runs a relay whose event 5 is refused, with a sink for dead letters, until all is covered.
async fn run_with_letters(letters: &SinkScript, unit: DispatchUnit) -> (Pipe, Summary) {
    let mut pipe = with_a_large_event();
    pipe.options.dispatch_unit = unit;
    let mut relay = pipe.unaudited();
    relay.send_dead_letters_to(Box::new(letters.sink())).expect("it takes anything");
    let covered = async { pipe.wait_until(|| pipe.checkpoint(0) == Some(9)).await };
    let summary = relay.run(covered).await.expect("neither end fails");
    (pipe, summary)
}

#[tokio::test(start_paused = true)]
async fn no_checkpoint_covers_an_event_before_the_sink_of_dead_letters_has_it() {
    for unit in [DispatchUnit::Batch, DispatchUnit::Event] {
        let (_, letters) = ScriptedSink::new(1);
        letters.reply_next(0, Reply::refuse(ErrorClass::Retryable));
        letters.reply_next(0, Reply::Lose);
        letters.reply_next(0, Reply::Accept(ms(40)));
        let (pipe, summary) = run_with_letters(&letters, unit).await;
        let mut accepted = accepted(&pipe);
        accepted.sort_unstable();
        assert_eq!(accepted, [0, 1, 2, 3, 4, 6, 7, 8, 9]);
        assert_eq!((summary.metrics.poison_events, summary.metrics.dead_lettered_events), (1, 1));
        // Tries at 0, 100 and 1,300 ms: the second one gets no answer for 1 s, and the delay doubles.
        let writes = letters.writes();
        assert_eq!(writes.len(), 3);
        let covered = pipe.start.elapsed().as_millis();
        assert!((1_340..1_345).contains(&covered), "{covered}");
        assert!(writes.iter().all(|write| write.sequence_numbers == [5]));
    }
}

/// Runs a relay until all is covered: with ten events, of which number 5 is refused after 1 ms, and a neighbour fails its
/// partition after 50 ms.
async fn run_into_a_failure(letters: &SinkScript) -> (Pipe, Summary) {
    let mut pipe = with_a_large_event();
    pipe.options.dispatch_unit = DispatchUnit::Event;
    for _ in 0..9 {
        pipe.script.reply_next(0, Reply::Accept(ms(1)));
    }
    pipe.script.reply_next(0, Reply::Refuse(ms(50), refusal(ErrorClass::Fatal, "test:refused-for-now")));
    let mut relay = pipe.unaudited();
    relay.send_dead_letters_to(Box::new(letters.sink())).expect("it takes anything");
    let covered = async { pipe.wait_until(|| pipe.checkpoint(0) == Some(9)).await };
    let summary = relay.run(covered).await.expect("neither end fails");
    assert_eq!(summary.metrics.failed_batches, 1);
    (pipe, summary)
}

#[tokio::test(start_paused = true)]
async fn a_letter_of_a_batch_that_is_given_up_is_not_tried_again() {
    let (_, letters) = ScriptedSink::new(1);
    letters.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    let (pipe, summary) = run_into_a_failure(&letters).await;
    assert_eq!(summary.metrics.dead_lettered_events, 1);
    let writes = letters.writes().into_iter();
    let sent_at: Vec<_> = writes.map(|write| (write.sent_at - pipe.start).as_millis()).collect();
    // The partition fails after 50 ms and rests for 500. The letter's next try would have been due after 100 ms.
    assert_eq!(sent_at.len(), 2, "{sent_at:?}");
    assert!(sent_at[0] < 10 && sent_at[1] > 500, "{sent_at:?}");
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_is_accepted_after_its_batch_was_given_up_is_the_only_one_of_its_event() {
    let (_, letters) = ScriptedSink::new(1);
    letters.reply_next(0, Reply::Accept(ms(100)));
    let (pipe, summary) = run_into_a_failure(&letters).await;
    assert_eq!((summary.metrics.poison_events, summary.metrics.dead_lettered_events), (1, 1));
    assert_eq!(letters.writes().len(), 1);
    let mut accepted = accepted(&pipe);
    accepted.sort_unstable();
    assert_eq!(accepted, [0, 1, 2, 3, 4, 6, 7, 8, 9], "and nothing twice");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_refused_there_too_fails_its_partition_which_comes_to_it_again() {
    let (_, letters) = ScriptedSink::new(1);
    letters.reply_next(0, Reply::refuse(ErrorClass::TooLarge));
    let (pipe, summary) = run_with_letters(&letters, DispatchUnit::Batch).await;
    assert_eq!((summary.metrics.failed_batches, summary.metrics.dead_lettered_events), (1, 1));
    assert_eq!(accepted(&pipe), [0, 1, 2, 3, 4, 6, 7, 8, 9], "and nothing twice");
    assert_eq!(letters.writes().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_sink_of_dead_letters_that_can_not_go_on_ends_the_relay() {
    let (_, letters) = ScriptedSink::new(1);
    letters.reply_by_default(Reply::Lose);
    let mut pipe = with_a_large_event();
    let mut relay = pipe.relay();
    relay.send_dead_letters_to(Box::new(letters.sink())).expect("it takes anything");
    let gone = SinkError { condition: "test:gone".to_owned(), description: "gone".to_owned() };
    let fails = async {
        tokio::time::sleep(ms(50)).await;
        letters.fail(gone);
        std::future::pending().await
    };
    let ended = relay.run(fails).await;
    assert!(matches!(ended, Err(RelayError::DeadLetterSink { .. })), "{ended:?}");
    assert_eq!(pipe.checkpoint(0), None);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_malformed_in_the_destinations_eyes_is_found_among_others() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.poison_events = PoisonEvents::Stop;
    // Four, two, the first, the second.
    for accepted in [false, false, true, false] {
        let reply = match accepted {
            true => Reply::Accept(ms(1)),
            false => Reply::Refuse(ms(1), refusal(ErrorClass::Fatal, "amqp:decode-error")),
        };
        pipe.script.reply_next(0, reply);
    }
    pipe.append(4);
    let error = pipe.relay().run(std::future::pending()).await;
    assert!(matches!(error, Err(RelayError::Poison { sequence_number: 1, .. })));
    assert_eq!(accepted(&pipe), [0]);
}

fn refusal(class: ErrorClass, condition: &str) -> SendError {
    SendError { class, condition: condition.to_owned(), description: "as the test has it".to_owned() }
}
