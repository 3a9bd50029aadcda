//! Work on several queues and topics, done as a whole or not at all.

use super::*;

fn two(first: QueueOptions, second: QueueOptions) -> (Arc<QueueStore>, Arc<Queue>, Arc<Queue>) {
    let store = QueueStore::in_memory();
    let first = store.create_queue("first", first).unwrap();
    let second = store.create_queue("second", second).unwrap();
    (store, first, second)
}

fn complete<'a>(queue: &'a Queue, tokens: &'a [LockToken]) -> Work<'a> {
    Work::Settle { queue, tokens, settlement: Settlement::Complete }
}

/// Commits some work, with the sending of these texts before it.
pub(super) fn commit(
    store: &QueueStore,
    now: i64,
    sends: &[(&Entity, &[&str])],
    work: &[Work<'_>],
) -> Result<partition_log::disk::CommitNumber, QueueError> {
    let bodies: Vec<Vec<Vec<u8>>> =
        sends.iter().map(|(_, texts)| texts.iter().map(|text| body(text)).collect()).collect();
    let pieces: Vec<Vec<[&[u8]; 1]>> =
        bodies.iter().map(|bodies| bodies.iter().map(|body| [&body[..]]).collect()).collect();
    let messages: Vec<Vec<NewMessage<'_>>> = pieces
        .iter()
        .map(|pieces| {
            pieces.iter().map(|sections| NewMessage { sections, ..NewMessage::default() }).collect()
        })
        .collect();
    let sent = sends.iter().zip(&messages).map(|((entity, _), messages)| Work::Send { entity, messages });
    let all: Vec<Work<'_>> = sent.chain(work.iter().copied()).collect();
    store.commit(at(now), &all)
}

fn waiting(queue: &Queue, now: i64) -> Vec<String> {
    seen(&peek(queue, now)).into_iter().map(|seen| seen.text).collect()
}

#[test]
fn everything_of_a_transaction_is_done() {
    let (store, first, second) = two(QueueOptions::default(), QueueOptions::default());
    send(&first, 0, &["complete", "abandon", "defer", "dead letter", "release", "stays"]);
    let received = receive(&first, 0, 5);
    let tokens = tokens(&received);
    let settle = |at: usize, settlement| Work::Settle { queue: &first, tokens: &tokens[at..=at], settlement };
    let dead = Settlement::DeadLetter { reason: Some("bad"), description: None, properties: &[] };
    let work = [
        settle(0, Settlement::Complete),
        settle(1, ABANDON),
        settle(2, DEFER),
        settle(3, dead),
        settle(4, Settlement::Release),
    ];
    let (to_first, to_second) = (Entity::Queue(Arc::clone(&first)), Entity::Queue(Arc::clone(&second)));
    let sends: [(&Entity, &[&str]); 3] =
        [(&to_second, &["a"]), (&to_first, &["b"]), (&to_second, &["c", "d"])];
    commit(&store, 1, &sends, &work).unwrap();
    assert_eq!(waiting(&second, 1), ["a", "c", "d"]);
    let left = seen(&peek(&first, 1));
    assert_eq!(texts(&left), ["abandon", "defer", "release", "stays", "b"]);
    let counts: Vec<u32> = left.iter().map(|seen| seen.count).collect();
    assert_eq!(counts, [1, 0, 0, 0, 0]);
    assert_eq!(left[1].state, MessageState::Deferred);
    assert_eq!(dead_letters(&first, 1), [("dead letter".to_owned(), "bad".to_owned())]);
}

#[test]
fn nothing_of_a_transaction_is_done_if_one_lock_is_over() {
    let (store, first, second) = two(QueueOptions::default(), QueueOptions::default());
    send(&first, 0, &["early", "late"]);
    let early = tokens(&receive(&first, 0, 1));
    let late = tokens(&receive(&first, LOCK / 2, 1));
    let to_second = Entity::Queue(Arc::clone(&second));
    let work = [complete(&first, &late), complete(&first, &early)];
    let refused = commit(&store, LOCK, &[(&to_second, &["lost"])], &work);
    assert_eq!(refused, Err(QueueError::MessageLockLost));
    assert_eq!(waiting(&second, LOCK), [""; 0]);
    assert_eq!(waiting(&first, LOCK), ["early", "late"]);
    // The lock that is not over is as good as before.
    commit(&store, LOCK, &[(&to_second, &["kept"])], &[complete(&first, &late)]).unwrap();
    assert_eq!(waiting(&second, LOCK), ["kept"]);
    assert_eq!(waiting(&first, LOCK), ["early"]);
}

#[test]
fn nothing_of_a_transaction_is_done_where_there_is_no_room_for_all_of_it() {
    let small = QueueOptions { size_limit: units::ByteSize::from_bytes(200), ..QueueOptions::default() };
    let (store, first, second) = two(QueueOptions::default(), small);
    send(&first, 0, &["waits"]);
    let locked = tokens(&receive(&first, 0, 1));
    let to_second = Entity::Queue(Arc::clone(&second));
    // Each batch would fit by itself.
    let sends: [(&Entity, &[&str]); 2] = [(&to_second, &["1", "2"]), (&to_second, &["3"])];
    let refused = commit(&store, 0, &sends, &[complete(&first, &locked)]);
    assert!(matches!(refused, Err(QueueError::Full { .. })), "{refused:?}");
    assert_eq!(waiting(&second, 0), [""; 0]);
    settle(&first, 0, &[Seen { token: Some(locked[0]), ..seen(&peek(&first, 0)).remove(0) }], &DEFER);
}

#[test]
fn a_message_is_settled_once_in_a_transaction() {
    let (store, first, _) = two(QueueOptions::default(), QueueOptions::default());
    send(&first, 0, &["once"]);
    let locked = tokens(&receive(&first, 0, 1));
    let work = [complete(&first, &locked), complete(&first, &locked)];
    assert_eq!(store.commit(at(0), &work), Err(QueueError::MessageLockLost));
    assert_eq!(first.counts().locked, 1);
}

#[test]
fn a_transaction_reaches_all_subscriptions_and_wakes_those_who_wait() {
    let store = QueueStore::in_memory();
    let source = store.create_queue("source", QueueOptions::default()).unwrap();
    let subscription = |name: &str| NewSubscription {
        name: name.to_owned(),
        options: QueueOptions::default(),
        rules: rules::RuleSet::default(),
    };
    let topic = store
        .create_topic("topic", TopicOptions::default(), vec![subscription("a"), subscription("b")])
        .unwrap();
    send(&source, 0, &["in"]);
    let locked = tokens(&receive(&source, 0, 1));
    let to_topic = Entity::Topic(Arc::clone(&topic));
    commit(&store, 0, &[(&to_topic, &["out"])], &[complete(&source, &locked)]).unwrap();
    for name in ["a", "b"] {
        assert_eq!(waiting(topic.subscription(name).unwrap().queue(), 0), ["out"], "{name}");
    }
    // A subscription takes part as well as a queue does.
    let subscription = topic.subscription("a").unwrap();
    let queue = subscription.queue();
    let locked = tokens(&receive(queue, 0, 1));
    let to_source = Entity::Queue(Arc::clone(&source));
    commit(&store, 0, &[(&to_source, &["back"])], &[complete(queue, &locked)]).unwrap();
    assert_eq!(waiting(queue, 0), [""; 0]);
    assert_eq!(waiting(&source, 0), ["back"]);
}

#[test]
fn what_may_not_be_sent_is_refused_before_anything_is_done() {
    let (store, first, second) = two(
        QueueOptions::default(),
        QueueOptions { status: EntityStatus::SendDisabled, ..QueueOptions::default() },
    );
    send(&first, 0, &["waits"]);
    let locked = tokens(&receive(&first, 0, 1));
    let to_second = Entity::Queue(second);
    let refused = commit(&store, 0, &[(&to_second, &["no"])], &[complete(&first, &locked)]);
    assert_eq!(refused, Err(QueueError::Disabled(EntityStatus::SendDisabled)));
    assert_eq!(first.counts().locked, 1);
}

#[test]
fn a_transaction_with_something_that_was_deleted_fails_as_a_whole() {
    let (store, first, second) = two(QueueOptions::default(), QueueOptions::default());
    let subscription = NewSubscription {
        name: "a".to_owned(),
        options: QueueOptions::default(),
        rules: rules::RuleSet::default(),
    };
    let topic = store.create_topic("topic", TopicOptions::default(), vec![subscription.clone()]).unwrap();
    let of_topic = Arc::clone(topic.subscription("a").unwrap().queue());
    send(&first, 0, &["waits"]);
    send(&second, 0, &["waits"]);
    send(&topic.queue, 0, &["waits"]);
    let locked = tokens(&receive(&first, 0, 1));
    let locked_in_second = tokens(&receive(&second, 0, 1));
    let locked_in_topic = tokens(&receive(&of_topic, 0, 1));
    let (to_first, to_second) = (Entity::Queue(Arc::clone(&first)), Entity::Queue(Arc::clone(&second)));
    store.delete("second").unwrap();
    let new = store.create_queue("second", QueueOptions::default()).unwrap();
    // Another one has its place from then on.
    store.delete_subscription(&topic, "a", at(0)).unwrap();
    store.create_subscription(&topic, subscription, at(0)).unwrap();
    let of_first = complete(&first, &locked);
    for refused in [
        commit(&store, 0, &[(&to_second, &["no"])], &[of_first]),
        commit(&store, 0, &[(&to_first, &["no"])], &[complete(&second, &locked_in_second), of_first]),
        commit(&store, 0, &[(&to_first, &["no"])], &[complete(&of_topic, &locked_in_topic), of_first]),
    ] {
        assert_eq!(refused, Err(QueueError::Deleted));
    }
    assert_eq!((first.counts().active, first.counts().locked), (1, 1));
    assert_eq!(new.counts().active, 0);
    commit(&store, 0, &[], &[of_first]).unwrap();
    assert_eq!(first.counts().active, 0);
}

#[test]
fn transactions_that_take_the_same_entities_in_any_order_do_not_block_each_other() {
    let (store, first, second) = two(QueueOptions::default(), QueueOptions::default());
    let (to_first, to_second) = (&Entity::Queue(Arc::clone(&first)), &Entity::Queue(Arc::clone(&second)));
    std::thread::scope(|scope| {
        for sends in [[to_first, to_second], [to_second, to_first]] {
            let store = &store;
            scope.spawn(move || {
                for _ in 0..500 {
                    let text: &[&str] = &["x"];
                    commit(store, 0, &[(sends[0], text), (sends[1], text)], &[]).unwrap();
                }
            });
        }
    });
    assert_eq!((first.counts().active, second.counts().active), (1_000, 1_000));
}

/// Reserves numbers for messages of these texts, which become available then, and commits that they are sent under them.
pub(super) fn schedule(
    store: &QueueStore,
    now: i64,
    entity: &Entity,
    (texts, time): (&[&str], i64),
    meanwhile: impl FnOnce(&[u64]),
    work: &[Work<'_>],
) -> Result<Vec<u64>, QueueError> {
    let bodies: Vec<Vec<u8>> = texts.iter().map(|text| body(text)).collect();
    let pieces: Vec<[&[u8]; 1]> = bodies.iter().map(|body| [&body[..]]).collect();
    let messages: Vec<NewMessage<'_>> = pieces
        .iter()
        .map(|sections| NewMessage {
            sections,
            scheduled_enqueue_time: Some(at(time)),
            ..NewMessage::default()
        })
        .collect();
    let sequence_numbers = entity.reserve(at(now), &messages)?;
    meanwhile(&sequence_numbers);
    let own = Work::Schedule { entity, messages: &messages, sequence_numbers: &sequence_numbers };
    let all: Vec<Work<'_>> = std::iter::once(own).chain(work.iter().copied()).collect();
    store.commit(at(now), &all)?;
    Ok(sequence_numbers)
}

#[test]
fn commit_schedules_messages_under_reserved_numbers() {
    let (store, queue, _) = two(QueueOptions::default(), QueueOptions::default());
    let entity = Entity::Queue(Arc::clone(&queue));
    // So many come in between that the page of the numbers is complete, and gone.
    let many: Vec<String> = (0..400).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let meanwhile = |numbers: &[u64]| {
        assert_eq!(
            queue.check_scheduled(at(0), numbers),
            Err(QueueError::MessageNotFound { sequence_number: 2 })
        );
        send(&queue, 0, &many);
        let received = receive(&queue, 0, 400);
        settle(&queue, 0, &received[..399], &Settlement::Complete);
    };
    send(&queue, 0, &["first"]);
    settle(&queue, 0, &receive(&queue, 0, 1), &Settlement::Complete);
    let numbers = schedule(&store, 0, &entity, (&["a", "b"], 100), meanwhile, &[]).unwrap();
    assert_eq!(numbers, [2, 3]);
    let there = seen(&peek(&queue, 0));
    let there: Vec<(u64, &str)> = there.iter().map(|seen| (seen.number, &*seen.text)).collect();
    assert_eq!(there, [(2, "a"), (3, "b"), (403, "399")]);
    queue.cancel_scheduled(at(0), &[2]).unwrap();
    store.advance(at(100));
    assert_eq!(texts(&receive(&queue, 100, 9)), ["b"]);
    // What is due when it is committed is available at once, before what came meanwhile.
    let meanwhile = |_: &[u64]| send(&queue, 100, &["later"]);
    schedule(&store, 100, &entity, (&["due"], 50), meanwhile, &[]).unwrap();
    assert_eq!(texts(&receive(&queue, 100, 9)), ["due", "later"]);
}

#[test]
fn topic_schedules_in_transaction_for_subscriptions() {
    let store = QueueStore::in_memory();
    let subscription = NewSubscription {
        name: "a".to_owned(),
        options: QueueOptions::default(),
        rules: rules::RuleSet::default(),
    };
    let topic = store.create_topic("topic", TopicOptions::default(), vec![subscription]).unwrap();
    let entity = Entity::Topic(Arc::clone(&topic));
    let queue = Arc::clone(topic.subscription("a").unwrap().queue());
    let meanwhile = |_: &[u64]| send(&topic.queue, 0, &["now"]);
    let later = schedule(&store, 0, &entity, (&["later"], 100), meanwhile, &[]).unwrap();
    schedule(&store, 0, &entity, (&["at once"], 0), |_| {}, &[]).unwrap();
    assert_eq!(topic.scheduled(), 1);
    let mut deliveries = Deliveries::new();
    topic.peek(at(0), 0, 9, usize::MAX, None, &mut deliveries);
    assert_eq!(seen(&deliveries)[0].number, later[0]);
    assert_eq!(waiting(&queue, 0), ["now", "at once"]);
    store.advance(at(100));
    assert_eq!(waiting(&queue, 100), ["now", "at once", "later"]);
}

#[test]
fn duplicates_in_transaction_get_number_of_earlier_message() {
    let options =
        QueueOptions { duplicate_detection: Some(Duration::from_millis(1_000)), ..QueueOptions::default() };
    let (store, queue, _) = two(options, QueueOptions::default());
    let entity = Entity::Queue(Arc::clone(&queue));
    let body = body("a");
    let sections = [&body[..]];
    let message = NewMessage {
        sections: &sections,
        message_id: Some(b"id"),
        scheduled_enqueue_time: Some(at(500)),
        ..NewMessage::default()
    };
    let first = entity.reserve(at(0), &[message]).unwrap();
    let second = entity.reserve(at(0), &[message]).unwrap();
    assert_ne!(first, second, "neither is there");
    for sequence_numbers in [&first, &second] {
        let work = Work::Schedule { entity: &entity, messages: &[message], sequence_numbers };
        store.commit(at(0), &[work]).unwrap();
    }
    assert_eq!(queue.counts().scheduled, 1);
    assert_eq!(entity.reserve(at(0), &[message]).unwrap(), first);
}

#[test]
fn commit_cancels_deletes_and_sets_states_atomically() {
    let sessions = QueueOptions { requires_session: true, ..QueueOptions::default() };
    let (store, queue, of_sessions) = two(QueueOptions::default(), sessions);
    let entity = Entity::Queue(Arc::clone(&queue));
    let cancelled = schedule(&store, 0, &entity, (&["cancelled", "stays"], 900), |_| {}, &[]).unwrap();
    send(&queue, 0, &["deleted", "locked", "kept"]);
    let deletable = |messages| DeleteRequest { enqueued_before: at(1), session: None, messages };
    let deleted = queue.deletable(at(0), &deletable(1)).unwrap();
    let lock = of_sessions.accept_session(at(0), Some("s")).unwrap().unwrap();
    let state =
        |session_id| Work::SetSessionState { queue: &of_sessions, session_id, session_state: Some(b"state") };
    let cancel = Work::CancelScheduled { entity: &entity, sequence_numbers: &cancelled[..1] };
    let delete = Work::Delete { queue: &queue, sequence_numbers: &deleted };
    let refusals = [
        (vec![cancel, delete, state("other")], QueueError::SessionLockLost),
        (
            vec![delete, state("s"), cancel, cancel],
            QueueError::MessageNotFound { sequence_number: cancelled[0] },
        ),
        (
            vec![state("s"), cancel, Work::Delete { queue: &queue, sequence_numbers: &cancelled }],
            QueueError::MessageNotFound { sequence_number: cancelled[0] },
        ),
    ];
    for (work, error) in refusals {
        assert_eq!(store.commit(at(0), &work), Err(error));
        assert_eq!((queue.counts().scheduled, queue.counts().active), (2, 3));
        assert_eq!(of_sessions.session_state(at(0), "s"), Ok(None));
    }
    store.commit(at(0), &[cancel, delete, state("s")]).unwrap();
    assert_eq!(waiting(&queue, 0), ["stays", "locked", "kept"]);
    assert_eq!(of_sessions.session_state(at(0), "s"), Ok(Some(b"state".to_vec())));
    of_sessions.release_session(at(0), &lock);
    // What somebody has locked meanwhile is not deleted.
    let numbers = queue.deletable(at(0), &deletable(9)).unwrap();
    assert_eq!(numbers.len(), 2);
    receive(&queue, 0, 1);
    let refused = store.commit(at(0), &[Work::Delete { queue: &queue, sequence_numbers: &numbers }]);
    assert_eq!(refused, Err(QueueError::MessageNotFound { sequence_number: numbers[0] }));
}
