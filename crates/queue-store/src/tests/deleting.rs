//! Messages that clients delete without receiving them.

use super::*;

fn delete(queue: &Queue, now: i64, before: i64, messages: usize) -> usize {
    let request = DeleteRequest { enqueued_before: at(before), session: None, messages };
    queue.delete(at(now), &request).unwrap().0
}

fn left(queue: &Queue, now: i64) -> Vec<String> {
    seen(&peek(queue, now)).into_iter().map(|seen| seen.text).collect()
}

#[test]
fn delete_removes_oldest_available_messages() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["locked", "deferred"]);
    let received = receive(&queue, 0, 2);
    settle(&queue, 0, &received[1..], &DEFER);
    send_with(&queue, 0, &["scheduled"], |message| NewMessage {
        scheduled_enqueue_time: Some(at(900)),
        ..message
    })
    .unwrap();
    send(&queue, 1, &["a", "b", "c"]);
    send(&queue, 5, &["late"]);
    assert_eq!(delete(&queue, 5, 1, 9), 0, "nothing was enqueued before");
    assert_eq!(delete(&queue, 5, 5, 2), 2);
    assert_eq!(left(&queue, 5), ["locked", "deferred", "scheduled", "c", "late"]);
    assert_eq!(delete(&queue, 5, 5, 9), 1);
    assert_eq!(delete(&queue, 6, 6, 9), 1);
    assert_eq!(left(&queue, 6), ["locked", "deferred", "scheduled"]);
    settle(&queue, 6, &received[..1], &ABANDON);
    assert_eq!(delete(&queue, 6, 6, 9), 1);
    let request = DeleteRequest { enqueued_before: at(6), session: None, messages: 9 };
    let dead_letters = queue.dead_letters().unwrap();
    assert_eq!(dead_letters.delete(at(6), &request).unwrap().0, 0);
}

#[test]
fn delete_selects_locked_session_or_all_unlocked_ones() {
    let (_store, queue) = queue(QueueOptions { requires_session: true, ..QueueOptions::default() });
    for session in ["one", "two"] {
        let with = |message| NewMessage { session_id: Some(session), ..message };
        send_with(&queue, 0, &["a", "b"], with).unwrap();
    }
    let lock = queue.accept_session(at(0), Some("one")).unwrap().unwrap();
    assert_eq!(delete(&queue, 0, 1, 9), 2, "those of the other");
    let request = DeleteRequest { enqueued_before: at(1), session: Some(&lock), messages: 1 };
    assert_eq!(queue.delete(at(0), &request).unwrap().0, 1);
    assert_eq!(queue.delete(at(LOCK), &request), Err(QueueError::SessionLockLost));
    assert_eq!(left(&queue, LOCK), ["b"]);
    let (_store, plain) = super::queue(QueueOptions::default());
    assert_eq!(plain.delete(at(0), &request), Err(QueueError::NoSessions));
}
