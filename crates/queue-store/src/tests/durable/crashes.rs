//! The model of the queue in memory, with kills in between.

use super::super::model::{self, Model};
use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Step(model::Step),
    /// Everything is safe, and the process is killed.
    Kill,
    /// The process ends in good order.
    Close,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => model::step().prop_map(Event::Step),
        1 => Just(Event::Kill),
        1 => Just(Event::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_queue_continues_after_each_end_of_the_process_as_if_nothing_had_been_locked(
        events in proptest::collection::vec(event(), 1..60),
    ) {
        let disk = Disk::new();
        let mut model = Model::new();
        let mut tokens = Vec::new();
        let mut running = disk.start();
        let mut queue = running.queue("orders", model::options());
        for event in &events {
            if let Event::Step(step) = event {
                model::run(&queue, &mut model, &mut tokens, step);
            } else {
                running.safe(&queue);
                drop(queue);
                match event {
                    Event::Close => running.close(),
                    _ => running.kill(),
                }
                model.start_again();
                running = disk.start();
                queue = running.queue("orders", model::options());
            }
            model::compare(&queue, &mut model);
        }
    }
}

#[test]
fn what_was_accepted_is_there_and_what_was_completed_is_not_at_whatever_moment_it_is_killed() {
    // The commits are not waited for, so each kill finds the committer elsewhere.
    for round in 0..20 {
        let disk = Disk::new();
        let running = disk.start();
        let queue = running.queue("orders", QueueOptions::default());
        let mut accepted = Vec::new();
        let mut completed = Vec::new();
        for batch in 0..(round * 7) {
            let names: Vec<String> = (0..10).map(|n| format!("{batch}.{n}")).collect();
            let texts: Vec<&str> = names.iter().map(String::as_str).collect();
            let enqueued = send_with(&queue, 0, &texts, |message| message).unwrap();
            accepted.extend(names.iter().map(|name| (name.clone(), enqueued.commit)));
            let received = receive(&queue, 0, 7);
            let settled = queue.settle(at(0), &tokens(&received), &Settlement::Complete).unwrap();
            completed.extend(received.into_iter().map(|seen| (seen.text, settled.commit)));
        }
        let is_known = |commit| running.committer.state_of(commit) == CommitState::Done;
        accepted.retain(|(_, commit)| is_known(*commit));
        let started: Vec<String> = completed.iter().map(|(text, _)| text.clone()).collect();
        completed.retain(|(_, commit)| is_known(*commit));
        drop(queue);
        running.kill();

        let running = disk.start();
        let queue = running.queue("orders", QueueOptions::default());
        let left: Vec<String> = seen(&peek(&queue, 0)).into_iter().map(|seen| seen.text).collect();
        for (text, _) in &accepted {
            assert!(left.contains(text) || started.contains(text), "{text} is lost");
        }
        for (text, _) in &completed {
            assert!(!left.contains(text), "{text} came back");
        }
    }
}
