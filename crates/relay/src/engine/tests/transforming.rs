//! Transforms: which sinks get what, and what that means for checkpoints, settlements and poison events.

use connect::event::EventBatch;
use connect::fakes::{MemoryQueue, MessageState, QueueSource};
use connect::sink::SendUnit;
use connect::transform::{Selection, SinkSet, Transform};

use super::*;
use crate::options::{DispatchUnit, PoisonEvents, SettlingOptions};

/// What becomes of the event with this number.
type Fate = fn(i64) -> Result<SinkSet, &'static str>;

/// Says of each event by its number who gets it, and puts a mark before each message.
#[derive(Debug)]
struct ByNumber(Fate);

impl Transform for ByNumber {
    fn apply(&mut self, batch: &mut EventBatch, selection: &mut Selection) {
        selection.begin(batch.len());
        batch.rewrite(&mut Vec::new(), |batch, index, event, out| {
            match self.0(event.sequence_number) {
                Ok(sinks) => selection.choose(index, sinks),
                Err(reason) => selection.refuse(index, reason.to_owned()),
            }
            out.extend_from_slice(b"> ");
            out.extend_from_slice(batch.message(event));
            true
        });
    }
}

/// Runs a relay with a transform until the checkpoint of partition 0 covers `last`.
async fn run(pipe: &mut Pipe, fate: Fate, last: i64) -> Summary {
    let source = MemorySource::new(&pipe.log, pipe.source_options);
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(pipe.sink.take().expect("the first relay"))];
    sinks.extend(pipe.others.iter().map(|script| Box::new(script.sink()) as Box<dyn Sink>));
    let store = Arc::new(pipe.store.clone());
    let mut relay = Relay::new(pipe.options.clone(), Box::new(source), sinks, store).expect("it fits");
    relay.transform_by(Box::new(ByNumber(fate)));
    let pipe = &*pipe;
    let covered = async { pipe.wait_until(|| pipe.checkpoint(0) == Some(last)).await };
    let summary = relay.run(covered).await.expect("neither end fails");
    check_accounts(&summary.metrics);
    summary
}

fn numbers(script: &SinkScript) -> Vec<i64> {
    script.accepted(0).into_iter().map(|(_, number)| number).collect()
}

const EVEN: Fate = |number| Ok(if number % 2 == 0 { SinkSet::ALL } else { SinkSet::NONE });

#[tokio::test(start_paused = true)]
async fn what_a_filter_leaves_out_is_done_with_and_counted() {
    for unit in [DispatchUnit::Batch, DispatchUnit::Event] {
        let mut pipe = Pipe::new(1, 1);
        pipe.options.dispatch_unit = unit;
        pipe.options.events_at_once = 3;
        pipe.append(12);
        let summary = run(&mut pipe, EVEN, 11).await;
        assert_eq!(numbers(&pipe.script), [0, 2, 4, 6, 8, 10]);
        let metrics = summary.metrics;
        assert_eq!((metrics.received_events, metrics.forwarded_events), (12, 6));
        assert_eq!((&metrics.filtered_events[..], metrics.completed_events), (&[6][..], 12));
        let bytes: usize = [0, 2, 4, 6, 8, 10].iter().map(|number| format!("> event {number}").len()).sum();
        assert_eq!(metrics.forwarded_bytes, bytes as u64);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_which_nothing_is_left_moves_the_checkpoint() {
    for unit in [DispatchUnit::Batch, DispatchUnit::Event] {
        let mut pipe = Pipe::new(1, 1);
        pipe.options.dispatch_unit = unit;
        pipe.append(8);
        let summary = run(&mut pipe, |_| Ok(SinkSet::NONE), 7).await;
        assert_eq!(pipe.accepted_count(), 0);
        assert_eq!((summary.metrics.completed_events, summary.metrics.sends), (8, 0));
        assert_eq!(summary.metrics.filtered_events, [8]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_does_not_pass_what_waits_before_a_batch_of_which_nothing_is_left() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_next(0, Reply::Accept(ms(300)));
    pipe.append(8);
    let fate: Fate = |number| Ok(if number < 4 { SinkSet::ALL } else { SinkSet::NONE });
    run(&mut pipe, fate, 7).await;
    assert_eq!(numbers(&pipe.script), [0, 1, 2, 3]);
    assert!(pipe.start.elapsed() >= ms(300), "the second batch was done with at once, the first was not");
    assert!(pipe.written().iter().all(|&number| number == 3 || number == 7), "{:?}", pipe.written());
}

#[tokio::test(start_paused = true)]
async fn each_sink_gets_what_its_condition_is_true_for() {
    for (unit, sinks_at_once) in [
        (DispatchUnit::Batch, 9),
        (DispatchUnit::Batch, 1),
        (DispatchUnit::Event, 1),
        (DispatchUnit::Event, 2),
    ] {
        let mut pipe = Pipe::new(1, 1);
        pipe.options.dispatch_unit = unit;
        pipe.options.sinks_at_once = sinks_at_once;
        pipe.options.events_at_once = 2;
        let second = pipe.add_sink(1);
        pipe.append(9);
        let fate: Fate = |number| {
            Ok(match number % 3 {
                0 => SinkSet::ALL.without(1),
                1 => SinkSet::ALL.without(0),
                _ => SinkSet::ALL,
            })
        };
        let summary = run(&mut pipe, fate, 8).await;
        assert_eq!(numbers(&pipe.script), [0, 2, 3, 5, 6, 8]);
        assert_eq!(numbers(&second), [1, 2, 4, 5, 7, 8]);
        assert_eq!(summary.metrics.filtered_events, [3, 3]);
        assert_eq!(summary.metrics.forwarded_events, 12);
    }
}

/// Nobody can say anything of number 5.
const NOT_FIVE: Fate = |number| if number == 5 { Err("no type") } else { Ok(SinkSet::ALL) };

#[tokio::test(start_paused = true)]
async fn an_event_of_which_nobody_can_say_anything_is_put_aside_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (unit, sinks) in [(DispatchUnit::Batch, 1), (DispatchUnit::Event, 1), (DispatchUnit::Batch, 2)] {
        let path = folder.path().join(format!("{unit:?}-{sinks}.ndjson"));
        let mut pipe = Pipe::new(1, 1);
        pipe.options.dispatch_unit = unit;
        pipe.options.sinks_at_once = 1;
        pipe.options.events_at_once = 2;
        pipe.options.poison_events = PoisonEvents::DeadLetter(path.clone());
        let others: Vec<_> = (1..sinks).map(|_| pipe.add_sink(1)).collect();
        pipe.append(10);
        let summary = run(&mut pipe, NOT_FIVE, 9).await;
        for script in others.iter().chain([&pipe.script]) {
            let mut numbers = numbers(script);
            numbers.sort_unstable();
            assert_eq!(numbers, [0, 1, 2, 3, 4, 6, 7, 8, 9]);
        }
        let metrics = summary.metrics;
        assert_eq!((metrics.poison_events, metrics.dead_lettered_events), (1, 1), "{unit:?}");
        assert!(metrics.filtered_events.iter().all(|&events| events == 0));
        let text = std::fs::read_to_string(path).expect("a file");
        let letter: serde_json::Value = serde_json::from_str(&text).expect("one line of JSON");
        assert_eq!(letter["sequence_number"], 5);
        assert_eq!(letter["condition"], "parshall:transform-failed");
        assert_eq!(letter["description"], "no type");
    }
}

#[tokio::test(start_paused = true)]
async fn by_default_its_partition_waits_before_it() {
    for unit in [DispatchUnit::Batch, DispatchUnit::Event] {
        let mut pipe = Pipe::new(1, 1);
        pipe.options.dispatch_unit = unit;
        pipe.append(10);
        let summary = run(&mut pipe, NOT_FIVE, if unit == DispatchUnit::Event { 4 } else { 3 }).await;
        assert!(numbers(&pipe.script).starts_with(&[0, 1, 2, 3]), "{:?}", numbers(&pipe.script));
        assert!(!numbers(&pipe.script).contains(&5));
        assert_eq!(summary.metrics.poison_events, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_can_stop_at_it() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.poison_events = PoisonEvents::Stop;
    pipe.append(10);
    let mut relay = pipe.relay();
    relay.transform_by(Box::new(ByNumber(NOT_FIVE)));
    let error = relay.run(std::future::pending()).await.expect_err("the event ends the relay").to_string();
    assert!(error.contains("event 5 of partition 0") && error.contains("no type"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn messages_that_go_nowhere_are_completed_and_those_that_nobody_can_place_abandoned() {
    for sinks in [1, 2] {
        let queue = MemoryQueue::new();
        queue.limit_deliveries(2);
        for number in 0..8 {
            queue.put(format!("message {number}").as_bytes());
        }
        let scripts: Vec<SinkScript> = (0..sinks)
            .map(|_| {
                let (_sink, script) = ScriptedSink::new(1);
                script.send_by(SendUnit::Event);
                script
            })
            .collect();
        let source = QueueSource::new(&queue, 3);
        let ends = scripts.iter().map(|script| Box::new(script.sink()) as Box<dyn Sink>).collect();
        let mut relay = Relay::settling(SettlingOptions::default(), Box::new(source), ends).expect("it fits");
        let fate: Fate = |number| match number % 4 {
            0 => Ok(SinkSet::NONE),
            1 => Err("no type"),
            2 => Ok(SinkSet::ALL.without(0)),
            _ => Ok(SinkSet::ALL),
        };
        relay.transform_by(Box::new(ByNumber(fate)));
        let done = async {
            let is_done =
                || queue.count(MessageState::Completed) + queue.count(MessageState::DeadLettered) == 8;
            while !is_done() {
                tokio::time::sleep(ms(1)).await;
            }
        };
        let summary = relay.run(done).await.expect("neither end fails");
        assert_eq!((queue.count(MessageState::Completed), queue.count(MessageState::DeadLettered)), (6, 2));
        assert_eq!(numbers(&scripts[0]).len(), 2);
        if let Some(second) = scripts.get(1) {
            assert_eq!(numbers(second).len(), 4);
        }
        assert_eq!(summary.metrics.poison_events, 4, "two messages, delivered twice");
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_ever_is_never_skipped_and_what_was_put_aside_is_not_put_aside_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("letters.ndjson");
    let mut pipe = Pipe::new(1, 1);
    pipe.options.poison_events = PoisonEvents::DeadLetter(path.clone());
    pipe.source_options.batch.max_events = 10;
    // Its batch fails after the event was put aside, and comes again.
    pipe.script.reply_next(0, Reply::refuse(connect::sink::ErrorClass::Fatal));
    pipe.append(10);
    let summary = run(&mut pipe, NOT_FIVE, 9).await;
    assert_eq!(summary.metrics.failed_batches, 1);
    assert_eq!(numbers(&pipe.script), [0, 1, 2, 3, 4, 6, 7, 8, 9]);
    assert_eq!(std::fs::read_to_string(path).expect("a file").lines().count(), 1);
}
