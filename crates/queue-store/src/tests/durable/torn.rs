//! A journal that ends in the middle of whatever was written last, as a crash may leave it.

use super::super::super::journal::SKIPPED_NUMBERS;
use super::*;
use std::collections::BTreeMap;

#[test]
fn a_torn_end_takes_the_last_operation_and_nothing_else() {
    let disk = Disk::new();
    let running = disk.start();
    let queue = running.queue("orders", QueueOptions::default());
    send(&queue, 0, &["a", "b"]);
    let received = receive(&queue, 0, 2);
    running.safe(&queue);
    let before = disk.bytes("orders");
    settle(&queue, 0, &received, &Settlement::Complete);
    running.safe(&queue);
    let after = disk.bytes("orders");
    drop(queue);
    running.kill();
    cut_at_every_byte(&disk, "orders", before, |running, length| {
        let queue = running.queue("orders", QueueOptions::default());
        let expected = if length == after { 0 } else { 2 };
        assert_eq!(peek(&queue, 0).len(), expected, "cut at {length}");
    });
}

/// All that there is to see of a queue after a start.
#[derive(Clone, Debug, PartialEq)]
struct View {
    /// Number, text, count, state.
    messages: Vec<(u64, String, u32, MessageState)>,
    dead_letters: Vec<(String, String)>,
    sessions: Vec<(String, Option<Vec<u8>>)>,
    next_number: u64,
}

const STARTED: i64 = 1_000;

fn options() -> QueueOptions {
    QueueOptions {
        requires_session: true,
        duplicate_detection: Some(Duration::from_millis(1_000_000)),
        ..QueueOptions::default()
    }
}

/// What is there, without the locks that end with the process.
fn view(queue: &Queue) -> View {
    let messages = seen(&peek(queue, STARTED));
    let sessions = queue.sessions(0, usize::MAX);
    let states = sessions.into_iter().map(|session| {
        let lock = queue.accept_session(at(STARTED), Some(&session));
        let state = queue.session_state(at(STARTED), &session).unwrap();
        if let Ok(Some(lock)) = lock {
            queue.release_session(at(STARTED), &lock);
        }
        (session, state)
    });
    View {
        messages: messages.into_iter().map(|seen| (seen.number, seen.text, seen.count, seen.state)).collect(),
        dead_letters: dead_letters(queue, STARTED),
        sessions: states.collect(),
        next_number: queue.entity.lock().queues[0].pages.next_sequence_number(),
    }
}

/// A journal with operations of all kinds; how long it was after each, and what there was to see then.
fn eventful() -> (Disk, Vec<(u64, View)>) {
    let disk = Disk::new();
    let running = disk.start();
    let queue = running.queue("orders", options());
    running.safe(&queue);
    let mut history = vec![(disk.bytes("orders"), view(&queue))];
    let mut note = |queue: &Arc<Queue>| {
        running.safe(queue);
        history.push((disk.bytes("orders"), view(queue)));
    };
    for texts in [&["a", "b", "c"][..], &["d", "e"]] {
        send_with(&queue, STARTED, texts, |message| NewMessage { session_id: Some("one"), ..message })
            .unwrap();
        note(&queue);
    }
    send_with(&queue, STARTED, &["later"], |message| NewMessage {
        session_id: Some("two"),
        message_id: Some(b"later"),
        scheduled_enqueue_time: Some(at(STARTED * 2)),
        ..message
    })
    .unwrap();
    note(&queue);
    let lock = queue.accept_session(at(STARTED), Some("one"));
    let lock = lock.unwrap().unwrap();
    let mut deliveries = Deliveries::new();
    let request = ReceiveRequest { session: Some(&lock), ..request(ReceiveMode::PeekLock, 5) };
    queue.receive(at(STARTED), &request, &mut deliveries).unwrap();
    let received = seen(&deliveries);
    let hopeless = Settlement::DeadLetter { reason: Some("no"), description: None, properties: &[] };
    let marked = Settlement::Abandon { properties: &[("mark".to_owned(), Value::Int(7))] };
    for (place, settlement) in [Settlement::Complete, ABANDON, DEFER, hopeless, marked].iter().enumerate() {
        settle(&queue, STARTED, &received[place..=place], settlement);
        note(&queue);
    }
    for state in [Some(&b"state"[..]), None, Some(b"other")] {
        queue.set_session_state(at(STARTED), "one", state).unwrap();
        note(&queue);
    }
    let later = history.last().unwrap().1.messages.last().unwrap().0;
    queue.cancel_scheduled(at(STARTED), &[later]).unwrap();
    running.safe(&queue);
    history.push((disk.bytes("orders"), view(&queue)));
    drop(queue);
    running.kill();

    (disk, history)
}

/// What there is to see after a start that finds so much of the journal to be as it was written.
fn expected(history: &[(u64, View)], length: u64) -> View {
    let last = history.iter().rev().find(|(end, _)| *end <= length);
    let (_, view) = last.unwrap_or(&history[0]);
    View { next_number: view.next_number + SKIPPED_NUMBERS, ..view.clone() }
}

#[test]
fn wherever_a_journal_is_cut_what_is_there_is_what_was_at_the_end_of_the_last_whole_operation() {
    let (disk, history) = eventful();
    cut_at_every_byte(&disk, "orders", 0, |running, length| {
        let queue = running.queue("orders", options());
        assert_eq!(view(&queue), expected(&history, length), "cut at {length}");
    });
}

/// What became of each message, by its text, in the queue or among its dead letters.
fn fates(view: &View) -> BTreeMap<String, String> {
    let messages = view.messages.iter();
    let messages = messages
        .map(|(number, text, count, state)| (text.clone(), format!("{number}, {count} times, {state:?}")));
    let dead = view.dead_letters.iter();
    let dead = dead.map(|(text, reason)| (text.clone(), format!("dead: {reason}")));
    messages.chain(dead).collect()
}

#[test]
fn a_bit_that_has_flipped_costs_the_operation_that_it_was_in_and_no_other() {
    let (disk, history) = eventful();
    let segment = disk.segments("orders").pop().unwrap();
    let bytes = fs::read(&segment).unwrap();
    let last = &history.last().unwrap().1;
    for position in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[position] ^= 1 << (position % 8);
        disk.put_back(&segment, &damaged);
        let running = disk.start();
        let queue = running.queue("orders", options());
        let found = view(&queue);
        // The operation that ends behind the bit, and what it changed.
        let place = history.partition_point(|(end, _)| *end <= position as u64);
        let empty = BTreeMap::new();
        let before = place.checked_sub(1).map(|before| fates(&history[before].1));
        let (before, after) = (before.unwrap_or(empty), fates(&history[place].1));
        let is_touched = |text: &String| before.get(text) != after.get(text);
        let mut expected = fates(last);
        let mut found_fates = fates(&found);
        expected.retain(|text, _| !is_touched(text));
        found_fates.retain(|text, _| !is_touched(text));
        assert_eq!(found_fates, expected, "flipped at {position}");
        assert!(found.next_number >= last.next_number, "numbers are given twice after a bit at {position}");
        drop(queue);
        running.kill();
    }
}

/// A queue of which half the messages are completed, in a journal with some complete segments, after a close. Gives the
/// texts of those that were not completed.
fn half_completed(disk: &Disk) -> Vec<String> {
    let running = disk.start();
    let queue = running.queue("orders", QueueOptions::default());
    let long = "x".repeat(1_000);
    let mut left = Vec::new();
    for round in 0..100 {
        let texts: Vec<_> = (0..10).map(|number| format!("{round}.{number} {long}")).collect();
        let borrowed: Vec<_> = texts.iter().map(String::as_str).collect();
        send(&queue, 0, &borrowed);
        let received = receive(&queue, 0, 5);
        settle(&queue, 0, &received, &Settlement::Complete);
    }
    left.extend(seen(&peek(&queue, 0)).into_iter().map(|seen| seen.text));
    running.safe(&queue);
    drop(queue);
    running.close();
    left
}

fn left(running: &Running) -> Vec<String> {
    let queue = running.queue("orders", QueueOptions::default());
    let mut deliveries = Vec::new();
    for message in seen(&peek(&queue, 0)) {
        deliveries.push(message.text);
    }
    deliveries
}

#[test]
fn a_bit_near_the_end_of_a_complete_segment_costs_no_more_than_its_own_operation() {
    let disk = Disk::new();
    let expected = half_completed(&disk);
    assert!(disk.segments("orders").len() > 2);
    let segment = disk.segments("orders")[1].clone();
    let sound = fs::read(&segment).unwrap();
    for before_end in [100, 5_000, sound.len() / 2, sound.len() - 10] {
        let mut damaged = sound.clone();
        damaged[sound.len() - before_end] ^= 4;
        fs::write(&segment, damaged).unwrap();
        let running = disk.start();
        let found = left(&running);
        let lost = expected.iter().filter(|text| !found.contains(text)).count();
        let again = found.iter().filter(|text| !expected.contains(text)).count();
        assert!(lost <= 10, "{lost} lost, {before_end} bytes before the end");
        assert!(again <= 5, "{again} completed ones are back, {before_end} bytes before the end");
        running.kill();
    }
}

#[test]
fn whichever_file_of_a_journal_is_missing_it_is_named_or_nothing_is_lost() {
    let disk = Disk::new();
    let expected = half_completed(&disk);
    let folder = disk.directory.path().join("queues/orders");
    let files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    for (path, _) in &files {
        fs::remove_file(path).unwrap();
        let running = disk.start();
        let name = path.file_name().unwrap().to_str().unwrap();
        match path.extension().unwrap() == "log" {
            true => {
                let refused = running.store.create_queue("orders", QueueOptions::default());
                let refused = refused.unwrap_err().to_string();
                assert!(refused.contains(name), "{refused}");
            }
            false => assert!(left(&running) == expected, "without {name}"),
        }
        running.kill();
        for entry in fs::read_dir(&folder).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        for (path, content) in &files {
            fs::write(path, content).unwrap();
        }
    }
}
