//! The law of borders: an event that goes from one place to another and comes back is the event that it was, or the difference is in the
//! table of `docs/relaying.md`, which is generated here.
//!
//! Each way is carried by real relays between the embedded service's ends, with the real clients, or over the lines of `tail`, `peek`,
//! archives and `send`. What is generated has all that an event may have at its place; how the parts of it fare is an
//! [`Outcome`] for each, and the outcomes are the table.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

mod aspects;
mod events;
mod places;

use std::collections::BTreeMap;

use aspects::{AMQP, Aspects, KAFKA, Kind};
use places::{Place, Places};

/// How a part of events fares on a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Kept,
    Lost,
    /// Another value came back.
    Changed,
}

/// A way there and back.
struct Way {
    from: Place,
    over: Over,
    title: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// A relay to a place, and one from there.
    Place(Place),
    /// A line as `tail` or `peek` prints it.
    Lines,
    /// An archive of many events per file, in JSON.
    Archive,
}

/// Outcomes by the names of parts.
type Outcomes = BTreeMap<&'static str, Outcome>;

const WAYS: [Way; 14] = [
    Way { from: Place::Hub, over: Over::Place(Place::Hub), title: "hub → hub" },
    Way { from: Place::Hub, over: Over::Place(Place::Queue), title: "hub → queue → hub" },
    Way { from: Place::Hub, over: Over::Place(Place::Topic), title: HUB_TOPIC_HUB },
    Way { from: Place::Hub, over: Over::Lines, title: "hub → `tail` → `send`" },
    Way { from: Place::Hub, over: Over::Archive, title: "hub → `ndjson` → `send`" },
    Way { from: Place::Queue, over: Over::Place(Place::Hub), title: "queue → hub → queue" },
    Way { from: Place::Queue, over: Over::Place(Place::Queue), title: "queue → queue" },
    Way { from: Place::Queue, over: Over::Place(Place::Topic), title: QUEUE_TOPIC_QUEUE },
    Way { from: Place::Queue, over: Over::Lines, title: "queue → `peek` → `send`" },
    Way { from: Place::Topic, over: Over::Place(Place::Topic), title: "topic → topic" },
    Way { from: Place::Topic, over: Over::Place(Place::Hub), title: "topic → hub → topic" },
    Way { from: Place::Topic, over: Over::Place(Place::Queue), title: TOPIC_QUEUE_TOPIC },
    Way { from: Place::Topic, over: Over::Lines, title: "topic → `tail` → `send`" },
    Way { from: Place::Topic, over: Over::Archive, title: "topic → `ndjson` → `send`" },
];

/// What is changed instead of being kept, in words.
const CHANGES: &[(&str, &str, &str)] = &[
    (HUB_TOPIC_HUB, aspects::OTHER_BODY, ENCODED_BODY),
    (QUEUE_TOPIC_QUEUE, aspects::OTHER_BODY, ENCODED_BODY),
    (HUB_TOPIC_HUB, aspects::TYPED, ENCODED_PROPERTIES),
    (QUEUE_TOPIC_QUEUE, aspects::TYPED, ENCODED_PROPERTIES),
    (HUB_TOPIC_HUB, aspects::PROPERTIES, NAMED_PROPERTIES),
    (QUEUE_TOPIC_QUEUE, aspects::PROPERTIES, NAMED_PROPERTIES),
    (HUB_TOPIC_HUB, aspects::PARTITION_KEY, ONE_KEY),
    (QUEUE_TOPIC_QUEUE, aspects::PARTITION_KEY, ONE_KEY),
    (HUB_TOPIC_HUB, aspects::OF_RECORD, PARTITION_KEY_AS_KEY),
    (QUEUE_TOPIC_QUEUE, aspects::OF_RECORD, PARTITION_KEY_AS_KEY),
    (TOPIC_QUEUE_TOPIC, aspects::HEADERS, "yes, and `message-id`, which the queue gives"),
    ("topic → hub → topic", aspects::TIMESTAMP, "when it came to the hub"),
    (TOPIC_QUEUE_TOPIC, aspects::TIMESTAMP, "when it came to the queue"),
    ("topic → `tail` → `send`", aspects::TIMESTAMP, "when it is sent"),
    ("topic → `ndjson` → `send`", aspects::TIMESTAMP, "when it is sent"),
];

const HUB_TOPIC_HUB: &str = "hub → topic → hub";
const QUEUE_TOPIC_QUEUE: &str = "queue → topic → queue";
const TOPIC_QUEUE_TOPIC: &str = "topic → queue → topic";
const ENCODED_BODY: &str = "one Data section: of several their bytes, of a value its AMQP encoding";
const ENCODED_PROPERTIES: &str = "bytes: their AMQP encoding";
const NAMED_PROPERTIES: &str = "application properties of their names (`message-id`), as bytes";
const ONE_KEY: &str = "the key of the record if it has one that is text, else yes";
const PARTITION_KEY_AS_KEY: &str = "yes; without a key, the partition key is one";

/// Carries generated events along a way.
async fn travel(places: &mut Places, way: &Way, count: usize) -> Outcomes {
    let events = events::generate(way.from, count);
    let from = places.new_entity(way.from).await;
    places.write(way.from, &from, &events).await;
    let sent = places.read(way.from, &from, events.len()).await;
    let back = match way.over {
        Over::Place(over) => {
            let (there, back) = (places.new_entity(over).await, places.new_entity(way.from).await);
            places.relay((way.from, &from), (over, &there), events.len()).await;
            if over == way.from {
                places.read(way.from, &there, events.len()).await
            } else {
                places.relay((over, &there), (way.from, &back), events.len()).await;
                places.read(way.from, &back, events.len()).await
            }
        }
        Over::Lines => {
            let back = places.new_entity(way.from).await;
            places.send_lines(way.from, &back, &places.lines(way.from, &from, events.len()).await).await;
            places.read(way.from, &back, events.len()).await
        }
        Over::Archive => {
            let back = places.new_entity(way.from).await;
            places.send_lines(way.from, &back, &places.archive(way.from, &from, events.len()).await).await;
            places.read(way.from, &back, events.len()).await
        }
    };
    compare(way, &sent, &back)
}

fn compare(way: &Way, sent: &[Aspects], back: &[Aspects]) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for sent in sent {
        let number = &sent[aspects::NUMBER];
        let back = back.iter().find(|back| back[aspects::NUMBER] == *number);
        let back = back.unwrap_or_else(|| panic!("{}: event {number:?} did not come back", way.title));
        for (name, value) in sent.iter().filter(|(name, _)| **name != aspects::NUMBER) {
            let outcome = match back.get(name) {
                Some(found) if value.iter().all(|value| found.contains(value)) => Outcome::Kept,
                Some(_) => Outcome::Changed,
                None => Outcome::Lost,
            };
            let worst = outcomes.entry(*name).or_insert(outcome);
            *worst = outcome.max(*worst);
        }
        // What one part has lost another may have gained: but these have nothing to gain.
        let gained = |name: &&&str| aspects::INDEPENDENT.contains(*name) && !sent.contains_key(**name);
        for name in back.keys().filter(gained) {
            outcomes.insert(*name, Outcome::Changed);
        }
    }
    outcomes
}

/// The table of one kind of place.
fn table(kind: Kind, rows: &[&'static str], found: &[(&Way, Outcomes)]) -> String {
    let columns: Vec<_> = found.iter().filter(|(way, _)| way.from.kind() == kind).collect();
    let mut table = String::from("| |");
    columns.iter().for_each(|(way, _)| table += &format!(" {} |", way.title));
    table += &format!("\n|---|{}\n", "---|".repeat(columns.len()));
    for row in rows {
        table += &format!("| {row} |");
        for (way, outcomes) in &columns {
            let change = CHANGES.iter().find(|(title, of, _)| *title == way.title && of == row);
            let text = match (outcomes.get(row), change) {
                (None, _) => "–",
                (Some(Outcome::Kept), None) => "yes",
                (Some(Outcome::Kept), Some(_)) => panic!("{}: {row} is kept after all", way.title),
                (Some(_), Some((_, _, how))) => how,
                (Some(Outcome::Lost), None) => "no",
                (Some(Outcome::Changed), None) => "changed: say how",
            };
            table += &format!(" {text} |");
        }
        table += "\n";
    }
    table
}

async fn check_law(count: usize) {
    let mut places = Places::start().await;
    let mut found = Vec::new();
    for way in &WAYS {
        found.push((way, travel(&mut places, way, count).await));
    }
    places.stop().await;
    let tables = format!("{}\n{}", table(Kind::Amqp, &AMQP, &found), table(Kind::Kafka, &KAFKA, &found));
    let page = include_str!("../../../../docs/relaying.md");
    assert!(
        page.contains(&tables),
        "docs/relaying.md says otherwise; its tables have to be these:\n{tables}"
    );
}

#[tokio::test]
async fn what_crosses_borders_comes_back_or_the_difference_is_in_the_table() {
    check_law(40).await;
}

#[tokio::test]
#[ignore = "a thousand events of each kind on each way"]
async fn what_crosses_borders_a_thousand_times_comes_back_or_the_difference_is_in_the_table() {
    check_law(1_000).await;
}
