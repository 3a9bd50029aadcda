//! What remains in memory of messages that are gone.

use super::*;

/// Slots and bytes that the pages of a queue hold.
fn held(queue: &Queue) -> (usize, usize) {
    let state = queue.entity.lock();
    let pages = state.queues[queue.place].pages.from(0);
    pages.fold((0, 0), |(slots, bytes), (_, page)| {
        let (more_slots, more_bytes) = page.capacity();
        (slots + more_slots, bytes + more_bytes)
    })
}

fn send_many(queue: &Queue, count: usize, text: &str) {
    let sections = body(text);
    let pieces = [&sections[..]];
    let message = NewMessage { sections: &pieces, ..NewMessage::default() };
    for _ in 0..count / 1000 {
        queue.enqueue(at(0), &[message; 1000]).unwrap();
    }
}

#[test]
fn what_millions_of_completed_messages_took_is_given_back_though_an_old_one_stays() {
    let (_store, queue) = queue(QueueOptions::default());
    send(&queue, 0, &["deferred", "locked"]);
    let old = receive(&queue, 0, 2);
    settle(&queue, 0, &old[..1], &DEFER);
    let mut most = 0;
    for _ in 0..20 {
        send_many(&queue, 10_000, "some text of some length");
        most = most.max(held(&queue).0);
        let received = receive(&queue, 0, usize::MAX);
        settle(&queue, 0, &received, &Settlement::Complete);
    }
    assert!(most >= 10_000);
    let (slots, bytes) = held(&queue);
    assert!(slots <= 3 * 128, "{slots} slots");
    assert!(bytes <= 64 * 1024, "{bytes} bytes");
    assert_eq!(queue.counts().deferred, 1);
    settle(&queue, 0, &old[1..], &Settlement::Complete);
}

#[test]
fn a_few_that_stay_everywhere_keep_little_more_than_themselves() {
    let (_store, queue) = queue(QueueOptions::default());
    send_many(&queue, 50_000, &"x".repeat(300));
    let received = receive(&queue, 0, usize::MAX);
    let (stay, go): (Vec<_>, Vec<_>) = received.into_iter().partition(|seen| seen.number % 100 == 0);
    settle(&queue, 0, &go, &Settlement::Complete);
    let (slots, bytes) = held(&queue);
    assert!(slots <= stay.len() + 3 * 128, "{slots} slots for {}", stay.len());
    assert!(bytes <= 2 * 310 * stay.len() + 128 * 1024, "{bytes} bytes");
    settle(&queue, 0, &stay, &ABANDON);
    assert_eq!(receive(&queue, 0, usize::MAX).len(), stay.len());
}

#[test]
fn an_emptied_queue_keeps_one_page() {
    let (_store, queue) = queue(QueueOptions::default());
    send_many(&queue, 100_000, "x");
    let received = receive(&queue, 0, usize::MAX);
    settle(&queue, 0, &received, &Settlement::Complete);
    assert_eq!(queue.counts(), QueueCounts::default());
    assert!(held(&queue).0 <= 128);
}
