use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::report::sample;
use crate::results::{LatencySummary, Published, Stage, Summary};

fn case(name: &str, producer: ProducerShape, per_s: f64, call_us: f64) -> Case {
    let mut case = sample::quick().cases.swap_remove(0);
    name.clone_into(&mut case.name);
    case.published = None;
    let shape =
        Shape { producer: Some(producer), pipeline: None, load: LoadMode::Closed, ..Shape::default() };
    case.shape = Some(shape);
    case.params = BTreeMap::from([("topology.load.protocol".to_owned(), json!("amqp"))]);
    case.produced_per_s = Some(Summary::of_one(per_s));
    case.stages = BTreeMap::from([(Stage::Acknowledge, call(call_us))]);
    case
}

fn call(mean_us: f64) -> LatencySummary {
    LatencySummary { mean: Some(mean_us), p99: Some((mean_us * 2.0) as u64), ..LatencySummary::default() }
}

fn producer(buffering: Buffering, delay_us: Option<u64>) -> ProducerShape {
    ProducerShape { callers: 100, batch: 1, buffering, delay_us, ..ProducerShape::default() }
}

fn over(protocol: &str, mut case: Case) -> Case {
    case.params.insert("topology.load.protocol".to_owned(), json!(protocol));
    case
}

fn found(cases: &[Case]) -> Vec<CrossCaseFinding> {
    Ingestion.cross_case("throughput", &cases.iter().collect::<Vec<_>>())
}

fn said(cases: &[Case]) -> Vec<String> {
    found(cases).into_iter().map(|finding| finding.message).collect()
}

fn of_kind(kind: FindingKind, cases: &[Case]) -> Vec<String> {
    let found = found(cases).into_iter().filter(|finding| finding.kind == kind);
    found.map(|finding| finding.message).collect()
}

#[test]
fn callers_that_wait_for_a_timer_are_bound_by_it_and_adaptive_ones_stand_beside_them() {
    let mut waiting = case("safe", producer(Buffering::Safe, Some(100_000)), 974.0, 102_700.0);
    waiting.published = Some(Published::new("safe", [(Figure::ProducedPerS, 809.0)]));
    let adaptive = case("adaptive", producer(Buffering::Safe, None), 97_400.0, 1_000.0);
    assert_eq!(
        said(&[waiting.clone(), adaptive]),
        [
            "a timer is the bound: 100 callers whose events wait for 100 ms each send at most 1,000 events/s by Little's law, \
             whatever the service does; 974 measured over AMQP, 809 published. Batches that leave when the one before was answered carry \
             100× as many, with the same guarantee, at a p99 of 2.00 ms instead of 205 ms"
        ]
    );
    waiting.produced_per_s = Some(Summary::of_one(500.0));
    assert!(said(&[waiting]).is_empty(), "something else is");
}

#[test]
fn more_callers_and_shorter_waits_stand_beside_the_bound_that_they_lift() {
    let waiting = |callers: u64, delay_us: u64, per_s: f64| {
        let shape = ProducerShape { callers, ..producer(Buffering::Safe, Some(delay_us)) };
        case(&format!("{callers} {delay_us}"), shape, per_s, delay_us as f64 + 1_000.0)
    };
    let mut cases = vec![
        waiting(100, 100_000, 990.0),
        waiting(400, 100_000, 3_960.0),
        waiting(100, 20_000, 4_752.0),
        // Neither has the same number of callers as the first, nor the same wait.
        waiting(400, 20_000, 19_000.0),
    ];
    let messages = said(&cases);
    assert_eq!(messages.len(), 1, "what lifts a bound is not one of its own: {messages:?}");
    assert!(
        messages[0].ends_with(
            "990 measured over AMQP. Measured beside it: 400 callers 3,960 events/s (4.00×) at a p99 of 202 ms; a delay of 20 ms 4,752 \
             events/s (4.80×) at a p99 of 42.0 ms"
        ),
        "{messages:?}"
    );
    for case in &mut cases[1..3] {
        *case = over("http", case.clone());
    }
    assert!(
        said(&cases).iter().all(|message| !message.contains("beside it")),
        "another protocol is another sweep"
    );
}

#[test]
fn events_without_a_payload_are_as_slow_behind_a_timer() {
    let mut cases =
        ["safe", "empty"].map(|name| case(name, producer(Buffering::Safe, Some(100_000)), 990.0, 101_000.0));
    cases[0].params.insert("load.payload".to_owned(), json!("person"));
    cases[1].params.insert("load.payload".to_owned(), json!("nothing"));
    cases[1].produced_per_s = Some(Summary::of_one(995.0));
    let found = found(&cases);
    let [timer, payload] = &found[..] else { panic!("{found:?}") };
    assert_eq!((timer.kind, timer.cases.len()), (FindingKind::LimitedByConcurrency, 1));
    assert_eq!(payload.kind, FindingKind::SettingWithoutEffect);
    assert_eq!(
        payload.message,
        "events without a payload, as the buffer of the published study sends them, are no faster: 995 events/s instead of 990 \
         over AMQP"
    );
    cases[1].produced_per_s = Some(Summary::of_one(1_200.0));
    assert_eq!(of_kind(FindingKind::SettingMatters, &cases).len(), 1);
}

fn isolated(callers: u64) -> ProducerShape {
    let connections = Connections::PerEvent;
    ProducerShape { callers, connections, ..producer(Buffering::None, None) }
}

fn kept(callers: u64, batch: u64) -> ProducerShape {
    ProducerShape { callers, batch, ..producer(Buffering::None, None) }
}

#[test]
fn a_connection_for_each_event_is_compared_with_one_that_is_kept() {
    let cases =
        [case("isolated", isolated(100), 400.0, 250_000.0), case("pooled", kept(100, 1), 80_000.0, 1_250.0)];
    assert_eq!(
        said(&cases),
        [
            "a connection for each event over AMQP: a call takes 250 ms on average instead of 1.25 ms over connections that are kept, and \
             400 events get through per second instead of 80,000 (200×): to open and close it takes as long as 199 calls"
        ]
    );
    let mut other = cases.clone();
    other[1] = over("kafka", other[1].clone());
    assert!(said(&other).is_empty());
    let of_client = |case: &mut Case| {
        let producer = case.shape.as_mut().and_then(|shape| shape.producer.as_mut());
        producer.expect("it has one").client = Some("java".to_owned());
    };
    let mut others = cases.clone();
    of_client(&mut others[0]);
    assert!(said(&others).is_empty(), "another program is another thing");
    of_client(&mut others[1]);
    assert!(
        said(&others)[0].starts_with("a connection for each event over AMQP (java): "),
        "{:?}",
        said(&others)
    );
    let mut open = cases;
    for case in &mut open {
        case.shape.as_mut().expect("it has one").load = LoadMode::Open;
    }
    assert!(said(&open).is_empty(), "rates that were chosen are not compared");
}

/// One caller, by the means of its calls in microseconds.
fn one_caller(protocol: &str, isolated_us: f64, kept_us: f64, batch_us: f64) -> [Case; 3] {
    [
        (format!("isolated {protocol}"), isolated(1), isolated_us),
        (format!("one by one {protocol}"), kept(1, 1), kept_us),
        (format!("batch {protocol}"), kept(1, 50), batch_us),
    ]
    .map(|(name, shape, us)| over(protocol, case(&name, shape.clone(), shape.batch as f64 * 1e6 / us, us)))
}

#[test]
fn the_protocols_of_few_and_of_many_events_are_those_of_the_run() {
    let mut cases = one_caller("amqp", 600.0, 80.0, 80.0).to_vec();
    cases.extend(one_caller("http", 250.0, 100.0, 160.0));
    cases.extend(one_caller("kafka", 1_200.0, 96.0, 5_000.0));
    let said_of = |cases: &[Case]| of_kind(FindingKind::Recommendation, cases);
    assert_eq!(
        said_of(&cases),
        [
            // To open costs 520 and 150 µs, and each event 80 and 100.
            "an event with a connection of its own is acknowledged soonest over HTTP (250 µs on average; AMQP 600 µs, Kafka \
             1.20 ms), one over a connection that is kept over AMQP (80 µs on average; Kafka 96 µs, HTTP 100 µs): with what it \
             takes to open one, AMQP is ahead of HTTP from 19 events per connection on. A caller with more than 4,000 events/s \
             has to keep its connection, whatever it speaks",
            "events that come together are worth a batch from 2 events on over AMQP (one of 50 takes 80 µs, one event 80 µs: \
             50.0× less for each), from 2 events on over HTTP (one of 50 takes 160 µs, one event 100 µs: 31.2× less for each), \
             not at all over Kafka (one of 50 takes 5.00 ms, one event 96 µs)",
        ]
    );
    // The same protocol leads both times.
    let mut cases = one_caller("amqp", 200.0, 80.0, 560.0).to_vec();
    cases.extend(one_caller("http", 250.0, 100.0, 160.0));
    let messages = said_of(&cases);
    assert!(messages[0].contains("HTTP 100 µs): AMQP is ahead for few events and for many."), "{messages:?}");
    assert!(messages[1].contains("from 8 events on over AMQP (one of 50 takes 560 µs"), "{messages:?}");
    assert!(said_of(&one_caller("amqp", 200.0, 80.0, 560.0)[..2]).is_empty(), "there is nothing beside it");
}

#[test]
fn buffers_stand_beside_sends_by_themselves() {
    let adaptive = ProducerShape { max_events: Some(50), ..producer(Buffering::Safe, None) };
    let cases = [
        case("pooled", kept(100, 1), 50_000.0, 2_000.0),
        case("safe", producer(Buffering::Safe, Some(100_000)), 1_000.0, 100_000.0),
        case("until-50", producer(Buffering::Safe, Some(10_000)), 400_000.0, 200.0),
        case("adaptive", adaptive, 500_000.0, 160.0),
    ];
    assert_eq!(
        of_kind(FindingKind::Recommendation, &cases),
        [
            "events that come one by one, from 100 callers over AMQP: sent by themselves 50,000 events/s at a p99 of 4.00 ms; \
             through a buffer that waits for 100 ms, 1,000 at a p99 of 200 ms; through one that waits for the answer to \
             the batch before or 50 events, 500,000 at a p99 of 320 µs"
        ]
    );
}

#[test]
fn the_stages_of_a_call_show_what_set_up_is_of_it() {
    let mut cases =
        [case("amqp", isolated(1), 1_500.0, 660.0), over("http", case("http", isolated(1), 4_000.0, 250.0))];
    let stages = [
        (Stage::Turn, 60.0),
        (Stage::Connect, 100.0),
        (Stage::Sasl, 80.0),
        (Stage::Open, 120.0),
        (Stage::Claims, 100.0),
        (Stage::Attach, 80.0),
        (Stage::Send, 90.0),
        (Stage::Close, 30.0),
    ];
    cases[0].stages.extend(stages.map(|(stage, us)| (stage, call(us))));
    let stages = [(Stage::Turn, 20.0), (Stage::Connect, 80.0), (Stage::Send, 140.0), (Stage::Close, 10.0)];
    cases[1].stages.extend(stages.map(|(stage, us)| (stage, call(us))));
    assert_eq!(
        of_kind(FindingKind::SetUpDominates, &cases),
        [
            "a call with a connection of its own is set-up before it is a send: 80 % of it over AMQP (connect 100 µs, SASL 80 µs, \
             open 120 µs, claims 100 µs, attach 80 µs; the send takes 90 µs)"
        ]
    );
    assert!(of_kind(FindingKind::SetUpDominates, &cases[1..]).is_empty(), "over HTTP it is the request");
}
