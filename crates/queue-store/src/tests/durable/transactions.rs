//! Transactions that span several entities, with kills at any moment and journals that are cut at any byte.

use super::super::transactions::{commit, schedule};
use super::*;
use proptest::prelude::*;

/// The queues that messages go between.
const NAMES: [&str; 3] = ["a", "b", "c"];

fn queues(running: &Running) -> Vec<Arc<Queue>> {
    NAMES.iter().map(|name| running.queue(name, QueueOptions::default())).collect()
}

/// All messages of all queues, sorted.
fn everything(queues: &[Arc<Queue>]) -> Vec<String> {
    let texts = queues.iter().flat_map(|queue| {
        let there = seen(&peek(queue, 0)).into_iter().map(|seen| seen.text);
        let dead = dead_letters(queue, 0).into_iter().map(|(text, _)| text);
        there.chain(dead).collect::<Vec<_>>()
    });
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

/// Takes what the first queue has to others, in one transaction: each message is completed here and sent there.
fn carry(running: &Running, from: &Arc<Queue>, to: &[&Arc<Queue>], most: usize) -> Option<CommitNumber> {
    let received = receive(from, 0, most);
    if received.is_empty() {
        return None;
    }
    let tokens = tokens(&received);
    let entities: Vec<Entity> = to.iter().map(|to| Entity::Queue(Arc::clone(to))).collect();
    let carried: Vec<[&str; 1]> = received.iter().map(|seen| [&*seen.text]).collect();
    let sends: Vec<(&Entity, &[&str])> =
        carried.iter().enumerate().map(|(at, text)| (&entities[at % entities.len()], &text[..])).collect();
    let work = Work::Settle { queue: from, tokens: &tokens, settlement: Settlement::Complete };
    Some(commit(&running.store, 0, &sends, &[work]).unwrap())
}

#[test]
fn a_transaction_is_whole_wherever_the_journals_are_cut() {
    let disk = Disk::new();
    let running = disk.start();
    let all = queues(&running);
    send(&all[0], 0, &["1", "2", "3", "4"]);
    running.safe(&all[0]);
    let before: Vec<u64> = NAMES.map(|name| disk.bytes(name)).to_vec();
    let done = carry(&running, &all[0], &[&all[1], &all[2]], 4).unwrap();
    assert_eq!(running.outcome(done), CommitState::Done);
    all.iter().for_each(|queue| running.safe(queue));
    drop(all);
    running.kill();
    let folders = ["~transactions", "a", "b", "c"];
    let files: Vec<(PathBuf, Vec<u8>)> = folders
        .iter()
        .map(|folder| {
            let path = disk.segments(folder).pop().unwrap();
            let bytes = fs::read(&path).unwrap();
            (path, bytes)
        })
        .collect();
    let restore = |lengths: [usize; 4]| {
        for ((path, bytes), length) in files.iter().zip(lengths) {
            disk.put_back(path, &bytes[..length]);
        }
    };
    let whole = [0, 1, 2, 3].map(|at: usize| files[at].1.len());
    let check = |expected: &dyn Fn(&[Vec<String>])| {
        let running = disk.start();
        let all = queues(&running);
        let found: Vec<Vec<String>> =
            all.iter().map(|queue| everything(std::slice::from_ref(queue))).collect();
        expected(&found);
        drop(all);
        running.kill();
    };
    let after = |found: &[Vec<String>]| assert_eq!(found, [vec![], vec!["1", "3"], vec!["2", "4"]]);
    // Whatever of their journals was not written, the journal of transactions has it.
    for at in 1..4 {
        for length in before[at - 1] as usize..=whole[at] {
            let mut lengths = whole;
            lengths[at] = length;
            restore(lengths);
            check(&after);
        }
    }
    restore([whole[0], before[0] as usize, before[1] as usize, before[2] as usize]);
    check(&after);
    // What was done at the start stays done.
    check(&after);
    // It is written ahead, so where it is cut, nothing of the transaction is anywhere else.
    for length in 0..whole[0] {
        restore([length, before[0] as usize, before[1] as usize, before[2] as usize]);
        check(&|found| assert_eq!(found, [vec!["1", "2", "3", "4"], vec![], vec![]], "cut at {length}"));
    }
}

#[test]
fn no_message_is_lost_or_there_twice_at_whatever_moment_the_process_is_killed() {
    // The commits are not waited for, so each kill finds the committer elsewhere.
    let disk = Disk::new();
    let running = disk.start();
    let all = queues(&running);
    let texts: Vec<String> = (0..60).map(|number| format!("{number:03}")).collect();
    let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
    send(&all[0], 0, &borrowed);
    running.safe(&all[0]);
    drop(all);
    running.kill();
    for round in 0..60_usize {
        let running = disk.start();
        let all = queues(&running);
        assert_eq!(everything(&all), texts, "before round {round}");
        for step in 0..round % 7 + 1 {
            let from = (round + step) % 3;
            let to = [&all[(from + 1) % 3], &all[(from + 2) % 3]];
            carry(&running, &all[from], &to[..step % 2 + 1], 1 + (round * 7 + step) % 40);
        }
        drop(all);
        running.kill();
    }
}

#[test]
fn the_journal_of_transactions_is_kept_short_and_its_entities_remember() {
    let disk = Disk::new();
    let running = disk.start();
    let all = queues(&running);
    let long = "x".repeat(20_000);
    for round in 0..1_000 {
        let texts = [format!("{round} {long}")];
        send(&all[0], 0, &[&texts[0]]);
        let done = carry(&running, &all[0], &[&all[1]], 1).unwrap();
        assert_eq!(running.outcome(done), CommitState::Done);
        let received = receive(&all[1], 0, 1);
        settle(&all[1], 0, &received, &Settlement::Complete);
    }
    // 20 MB have gone through it.
    assert!(disk.bytes("~transactions") < 12_000_000, "{}", disk.bytes("~transactions"));
    all.iter().for_each(|queue| running.safe(queue));
    drop(all);
    running.kill();
    let running = disk.start();
    assert_eq!(everything(&queues(&running)), [""; 0]);
    running.close();
}

#[test]
fn an_entity_that_takes_the_name_of_another_gets_nothing_of_that() {
    let disk = Disk::new();
    let running = disk.start();
    let all = queues(&running);
    send(&all[0], 0, &["old"]);
    let done = carry(&running, &all[0], &[&all[1]], 1).unwrap();
    assert_eq!(running.outcome(done), CommitState::Done);
    all.iter().for_each(|queue| running.safe(queue));
    drop(all);
    running.kill();
    fs::remove_dir_all(disk.directory.path().join("queues").join("b")).unwrap();
    // Nobody asks for it at the start, so it was deleted.
    let running = disk.start();
    running.queue("a", QueueOptions::default());
    running.store.advance(at(0));
    let new = running.queue("b", QueueOptions::default());
    assert_eq!(everything(&[new]), [""; 0]);
    running.close();
    let running = disk.start();
    assert_eq!(everything(&[running.queue("b", QueueOptions::default())]), [""; 0]);
    running.close();
}

#[test]
fn what_is_deleted_and_made_again_gets_nothing_of_that_after_a_crash() {
    let disk = Disk::new();
    let running = disk.start();
    let all = queues(&running);
    send(&all[0], 0, &["old"]);
    let done = carry(&running, &all[0], &[&all[1]], 1).unwrap();
    assert_eq!(running.outcome(done), CommitState::Done);
    drop(all);
    running.store.delete("b").unwrap();
    let folder = disk.directory.path().join("queues").join("b");
    fs::remove_dir_all(&folder).unwrap();
    running.kill();
    // It was made again, and killed before anything of it was written.
    fs::create_dir(&folder).unwrap();
    let running = disk.start();
    assert_eq!(everything(&queues(&running)), [""; 0]);
    running.close();
}

#[test]
fn the_journal_of_transactions_is_kept_short_when_entities_are_deleted() {
    let disk = Disk::new();
    let running = disk.start();
    let from = running.queue("a", QueueOptions::default());
    let long = "x".repeat(200_000);
    for round in 0..100 {
        let to = running.queue("b", QueueOptions::default());
        let texts = [format!("{round} {long}")];
        send(&from, 0, &[&texts[0]]);
        let done = carry(&running, &from, &[&to], 1).unwrap();
        assert_eq!(running.outcome(done), CommitState::Done);
        running.store.delete("b").unwrap();
        fs::remove_dir_all(disk.directory.path().join("queues").join("b")).unwrap();
    }
    // 20 MB have gone through it.
    assert!(disk.bytes("~transactions") < 12_000_000, "{}", disk.bytes("~transactions"));
    running.close();
}

#[test]
fn everything_that_a_transaction_can_do_is_done_again() {
    let disk = Disk::new();
    let running = disk.start();
    let all = queues(&running);
    let sent = ["complete", "abandon", "defer", "dead letter", "release"];
    send(&all[0], 0, &sent);
    running.safe(&all[0]);
    let before = disk.bytes("a") as usize;
    let tokens = tokens(&receive(&all[0], 0, 5));
    let note = [("note".to_owned(), Value::from("set"))];
    let settle =
        |at: usize, settlement| Work::Settle { queue: &all[0], tokens: &tokens[at..=at], settlement };
    let work = [
        settle(0, Settlement::Complete),
        settle(1, Settlement::Abandon { properties: &note }),
        settle(2, DEFER),
        settle(
            3,
            Settlement::DeadLetter { reason: Some("bad"), description: Some("why"), properties: &note },
        ),
        settle(4, Settlement::Release),
    ];
    let to = Entity::Queue(Arc::clone(&all[1]));
    let done = commit(&running.store, 0, &[(&to, &["sent"])], &work).unwrap();
    assert_eq!(running.outcome(done), CommitState::Done);
    all.iter().for_each(|queue| running.safe(queue));
    drop((all, to));
    running.kill();
    let segment = disk.segments("a").pop().unwrap();
    let bytes = fs::read(&segment).unwrap();
    for length in [bytes.len(), before] {
        disk.put_back(&segment, &bytes[..length]);
        let running = disk.start();
        let all = queues(&running);
        let left = seen(&peek(&all[0], 0));
        assert_eq!(texts(&left), ["abandon", "defer", "release"]);
        assert_eq!((left[0].count, left[1].state), (1, MessageState::Deferred));
        let peeked = peek(&all[0], 0);
        let first = peeked.iter().next().unwrap();
        assert_eq!(property(first.sections, "note"), Some("set".into()));
        assert_eq!(dead_letters(&all[0], 0), [("dead letter".to_owned(), "bad".to_owned())]);
        assert_eq!(texts(&seen(&peek(&all[1], 0))), ["sent"]);
        drop(all);
        running.kill();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send {
        to: usize,
        count: usize,
    },
    Carry {
        from: usize,
        both: bool,
        most: usize,
    },
    /// The process is killed, without waiting for anything.
    Kill,
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3_usize, 1..5_usize).prop_map(|(to, count)| Step::Send { to, count }),
        6 => (0..3_usize, any::<bool>(), 1..20_usize)
            .prop_map(|(from, both, most)| Step::Carry { from, both, most }),
        1 => Just(Step::Kill),
        1 => Just(Step::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_each_message_is_in_one_place(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let disk = Disk::new();
        let mut running = disk.start();
        let mut all = queues(&running);
        let mut sent = Vec::new();
        for step in &steps {
            match step {
                Step::Send { to, count } => {
                    let texts: Vec<String> = (0..*count).map(|at| format!("{:05}", sent.len() + at)).collect();
                    let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
                    send(&all[*to], 0, &borrowed);
                    running.safe(&all[*to]);
                    sent.extend(texts);
                }
                Step::Carry { from, both, most } => {
                    let to = [&all[(from + 1) % 3], &all[(from + 2) % 3]];
                    carry(&running, &all[*from], &to[..usize::from(*both) + 1], *most);
                }
                Step::Kill | Step::Close => {
                    drop(all);
                    match step {
                        Step::Close => running.close(),
                        _ => running.kill(),
                    }
                    running = disk.start();
                    all = queues(&running);
                }
            }
            prop_assert_eq!(&everything(&all), &sent);
        }
    }
}

#[test]
fn kill_keeps_all_or_nothing_of_requests_in_transaction() {
    let disk = Disk::new();
    let start = || {
        let running = disk.start();
        let queue = running.queue("a", QueueOptions::default());
        let sessions = QueueOptions { requires_session: true, ..QueueOptions::default() };
        let of_sessions = running.queue("s", sessions);
        (running, queue, of_sessions)
    };
    let (running, queue, of_sessions) = start();
    let entity = Entity::Queue(Arc::clone(&queue));
    let cancelled = schedule(&running.store, 0, &entity, (&["cancelled"], 900), |_| {}, &[]).unwrap();
    send(&queue, 0, &["deleted"]);
    let request = DeleteRequest { enqueued_before: at(1), session: None, messages: 1 };
    let deleted = queue.deletable(at(0), &request).unwrap();
    of_sessions.accept_session(at(0), Some("session")).unwrap().unwrap();
    running.safe(&queue);
    let before: Vec<u64> = ["a", "s"].map(|name| disk.bytes(name)).to_vec();
    let work = [
        Work::CancelScheduled { entity: &entity, sequence_numbers: &cancelled },
        Work::Delete { queue: &queue, sequence_numbers: &deleted },
        Work::SetSessionState { queue: &of_sessions, session_id: "session", session_state: Some(b"state") },
    ];
    let numbers = schedule(
        &running.store,
        0,
        &entity,
        (&["later", "due"], 900),
        |_| send(&queue, 0, &["meanwhile"]),
        &work,
    )
    .unwrap();
    running.safe(&queue);
    running.safe(&of_sessions);
    drop((entity, queue, of_sessions));
    running.kill();
    let folders = ["~transactions", "a", "s"];
    let files: Vec<(PathBuf, Vec<u8>)> = folders
        .iter()
        .map(|folder| {
            let path = disk.segments(folder).pop().unwrap();
            let bytes = fs::read(&path).unwrap();
            (path, bytes)
        })
        .collect();
    let found = |lengths: [usize; 3]| {
        for ((path, bytes), length) in files.iter().zip(lengths) {
            disk.put_back(path, &bytes[..length]);
        }
        let (running, queue, of_sessions) = start();
        let there: Vec<(u64, String)> =
            seen(&peek(&queue, 0)).into_iter().map(|seen| (seen.number, seen.text)).collect();
        of_sessions.accept_session(at(0), Some("session")).unwrap().unwrap();
        let state = of_sessions.session_state(at(0), "session").unwrap();
        drop((queue, of_sessions));
        running.kill();
        (there, state)
    };
    let whole = [0, 1, 2].map(|at: usize| files[at].1.len());
    let text = |number, text: &str| (number, text.to_owned());
    let after = vec![text(numbers[0], "later"), text(numbers[1], "due"), text(numbers[1] + 1, "meanwhile")];
    assert_eq!(found(whole), (after.clone(), Some(b"state".to_vec())));
    // What the journals of the entities lack of it, that of transactions has.
    assert_eq!(found([whole[0], whole[1], before[1] as usize]), (after, Some(b"state".to_vec())));
    let (there, state) = found([0, before[0] as usize, before[1] as usize]);
    assert_eq!((there, state), (vec![text(cancelled[0], "cancelled"), text(deleted[0], "deleted")], None));
}
