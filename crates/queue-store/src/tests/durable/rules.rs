//! Rules that clients have changed: what of them is there after the process has ended.

use super::super::super::rules::{CorrelationFilter, Filter, Rule, RuleSet, SqlAction, SqlFilter};
use super::*;

fn sql(name: &str, filter: &str) -> Rule {
    Rule {
        name: name.to_owned(),
        filter: Filter::Sql(SqlFilter::parse(filter).unwrap()),
        action: Some(SqlAction::parse("SET seen = TRUE").unwrap()),
        created_at_unix_ms: None,
    }
}

fn correlation(name: &str) -> Rule {
    let properties = vec![("weight".to_owned(), Value::Double(0.1 + 0.2))];
    Rule {
        name: name.to_owned(),
        filter: Filter::Correlation(CorrelationFilter { properties, ..CorrelationFilter::default() }),
        action: None,
        created_at_unix_ms: None,
    }
}

/// A topic with subscriptions of these names and rules.
fn topic(running: &Running, subscriptions: &[(&str, RuleSet)]) -> Arc<Topic> {
    let subscriptions = subscriptions
        .iter()
        .map(|(name, rules)| NewSubscription {
            name: (*name).to_owned(),
            options: QueueOptions::default(),
            rules: rules.clone(),
        })
        .collect();
    let options = TopicOptions::default();
    running.store.create_topic("news", options, subscriptions).unwrap()
}

fn names(topic: &Topic, subscription: &str) -> Vec<String> {
    let rules = topic.subscription(subscription).unwrap().rules();
    rules.iter().map(|rule| rule.name.clone()).collect()
}

/// Sends so much that the journal drops what it began with.
fn push_through(running: &Running, topic: &Topic) {
    let queue = &Arc::clone(topic.subscription("other").unwrap().queue());
    let first = |queue: &Queue| queue.entity.lock().journal.as_ref().unwrap().begin();
    let begin = first(queue);
    let sections = body(&"x".repeat(10_000));
    let message = NewMessage { sections: &[&sections], ..NewMessage::default() };
    while first(queue) == begin {
        topic.enqueue(at(0), &[message; 20]).unwrap();
        for name in ["some", "other"] {
            let queue = &Arc::clone(topic.subscription(name).unwrap().queue());
            let received = receive(queue, 0, 20);
            settle(queue, 0, &received, &Settlement::Complete);
        }
        running.safe(queue);
    }
}

#[test]
fn rules_that_clients_have_changed_are_there_again_however_the_process_ended() {
    let disk = Disk::new();
    let declared = [("some", RuleSet::default()), ("other", RuleSet::default())];
    let running = disk.start();
    let news = topic(&running, &declared);
    let some = news.subscription("some").unwrap();
    some.add_rule(at(0), sql("red", "color = 'red'")).unwrap();
    some.remove_rule(at(0), "$default").unwrap();
    let commit = some.add_rule(at(0), correlation("heavy")).unwrap();
    assert_eq!(running.outcome(commit), CommitState::Done);
    let rules = some.rules();
    drop((news, some));
    running.kill();

    for (round, end) in [Running::close, Running::kill, Running::kill].into_iter().enumerate() {
        let running = disk.start();
        let news = topic(&running, &declared);
        assert_eq!(news.subscription("some").unwrap().rules(), rules);
        assert_eq!(names(&news, "other"), ["$Default"]);
        if round == 1 {
            push_through(&running, &news);
        }
        drop(news);
        end(running);
    }
    // One change more, and none at all in the end.
    let running = disk.start();
    let news = topic(&running, &declared);
    let some = news.subscription("some").unwrap();
    for name in ["RED", "heavy"] {
        some.remove_rule(at(0), name).unwrap();
    }
    running.safe(some.queue());
    drop((news, some));
    running.kill();
    let running = disk.start();
    assert!(names(&topic(&running, &declared), "some").is_empty());
}

#[test]
fn rules_of_clients_are_forgotten_for_good_when_the_configuration_says_something_else() {
    let disk = Disk::new();
    let declared = [("some", RuleSet::default()), ("other", RuleSet::default())];
    let running = disk.start();
    let news = topic(&running, &declared);
    let some = news.subscription("some").unwrap();
    some.add_rule(at(0), sql("red", "color = 'red'")).unwrap();
    running.safe(some.queue());
    drop((news, some));
    running.kill();

    let blue = RuleSet::of([sql("blue", "color = 'blue'")]).unwrap();
    let running = disk.start();
    let news = topic(&running, &[("some", blue), ("other", RuleSet::default())]);
    assert_eq!(names(&news, "some"), ["blue"]);
    running.safe(&news.queue);
    drop(news);
    running.kill();
    let running = disk.start();
    let news = topic(&running, &declared);
    assert_eq!(names(&news, "some"), ["$Default"]);
}

#[test]
fn a_torn_end_leaves_the_rules_of_before_or_after_the_change() {
    let disk = Disk::new();
    let declared = [("some", RuleSet::default())];
    let running = disk.start();
    let news = topic(&running, &declared);
    let some = news.subscription("some").unwrap();
    running.safe(some.queue());
    let before = disk.bytes("news");
    some.add_rule(at(0), sql("red", "color = 'red'")).unwrap();
    running.safe(some.queue());
    let whole = disk.bytes("news");
    drop((news, some));
    running.kill();
    cut_at_every_byte(&disk, "news", before, |running, length| {
        let news = topic(running, &declared);
        let expected: &[&str] = match length == whole {
            true => &["$Default", "red"],
            false => &["$Default"],
        };
        assert_eq!(names(&news, "some"), expected);
    });
}

#[test]
fn subscriptions_that_came_and_went_are_kept_as_they_were_at_the_end() {
    let disk = Disk::new();
    let running = disk.start();
    let store = &running.store;
    let first = topic(&running, &[("gone", RuleSet::default())]);
    let publish = |topic: &Topic| {
        let sections = body("a");
        let message = NewMessage { sections: &[&sections], ..NewMessage::default() };
        topic.enqueue(at(0), &[message; 3]).unwrap()
    };
    publish(&first);
    store.delete_subscription(&first, "gone", at(0)).unwrap();
    // It gets the place of the one before, and then one goes whose name comes again.
    for name in ["some", "again"] {
        let options = QueueOptions::default();
        let new = NewSubscription { name: name.to_owned(), options, rules: RuleSet::default() };
        store.create_subscription(&first, new, at(0)).unwrap();
    }
    publish(&first);
    store.delete_subscription(&first, "again", at(0)).unwrap();
    let some = Arc::clone(first.subscription("some").unwrap().queue());
    let received = receive(&some, 0, 1);
    settle(&some, 0, &received, &Settlement::Complete);
    running.safe(&some);
    drop((first, some));
    running.kill();
    let running = disk.start();
    let second = topic(&running, &[("again", RuleSet::default()), ("some", RuleSet::default())]);
    let count = |name: &str| second.subscription(name).unwrap().queue().counts().active;
    assert_eq!((count("some"), count("again")), (2, 0));
    publish(&second);
    assert_eq!((count("some"), count("again")), (5, 3));
}

#[test]
fn a_queue_that_was_deleted_leaves_nothing_to_one_of_its_name_once_its_folder_is_gone() {
    let disk = Disk::new();
    let running = disk.start();
    let queue = running.store.create_queue("orders", QueueOptions::default()).unwrap();
    send(&queue, 0, &["a"]);
    running.safe(&queue);
    assert!(!disk.segments("orders").is_empty());
    running.store.delete("orders").unwrap();
    fs::remove_dir_all(disk.directory.path().join("queues").join("orders")).unwrap();
    let again = running.store.create_queue("orders", QueueOptions::default()).unwrap();
    assert_eq!(again.counts(), QueueCounts::default());
    send(&again, 0, &["b"]);
    running.safe(&again);
    drop((queue, again));
    running.kill();
    let running = disk.start();
    let queue = running.store.create_queue("orders", QueueOptions::default()).unwrap();
    assert_eq!(texts(&seen(&peek(&queue, 0))), ["b"]);
}
