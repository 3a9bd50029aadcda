//! The recommendations of the published study, as the figures of a run have them: which protocol for one event and which for
//! many, from which size on a batch pays, and whether it pays to let events gather.

use super::{Way, note};
use crate::figure::{compact_duration_us, count, counted, duration_us, rate, ratio};
use crate::results::{CrossCaseFinding, FindingKind};
use crate::scenario::Buffering;

/// All that the cases of a sweep give reason for.
pub(super) fn findings(sweep: &str, all: &[Way<'_>]) -> Vec<CrossCaseFinding> {
    let all: Vec<Way<'_>> = all.iter().filter(|way| way.is_ours()).cloned().collect();
    let all = &all[..];
    let mut findings: Vec<CrossCaseFinding> = callers(all)
        .into_iter()
        .filter_map(|callers| {
            let of_these: Vec<&Way<'_>> = all.iter().filter(|way| way.producer.callers == callers).collect();
            protocols(sweep, &of_these)
        })
        .collect();
    findings.extend(batches(sweep, all));
    findings.extend(gathering(sweep, all));
    findings
}

/// Which protocol is the fastest for an event with a connection of its own, which for events over connections that are kept,
/// and how many of them a connection must carry until the second one is ahead.
fn protocols(sweep: &str, ways: &[&Way<'_>]) -> Option<CrossCaseFinding> {
    let isolated =
        fastest_first(ways.iter().copied().filter(|way| way.is_isolated() && way.producer.batch == 1));
    let kept = fastest_first(ways.iter().copied().filter(|way| is_kept_single(way)));
    if isolated.len() < 2 || kept.len() < 2 {
        return None;
    }
    let (alone, together) = (isolated[0], kept[0]);
    let mut message = format!(
        "an event with a connection of its own is acknowledged soonest over {}, one over a connection that is kept over {}",
        ranking(&isolated),
        ranking(&kept),
    );
    let kept_of = |way: &Way<'_>| kept.iter().find(|other| other.protocol() == way.protocol()).copied();
    let isolated_of =
        |way: &Way<'_>| isolated.iter().find(|other| other.protocol() == way.protocol()).copied();
    if alone.protocol() == together.protocol() {
        message += &format!(": {} is ahead for few events and for many", alone.protocol().name());
    } else if let (Some(few), Some(many)) = (kept_of(alone), isolated_of(together)) {
        // A connection costs what its first event takes longer; then each event has its price.
        let set_up_us = (many.call_mean_us - together.call_mean_us) - (alone.call_mean_us - few.call_mean_us);
        let saved_us = few.call_mean_us - together.call_mean_us;
        if saved_us > 0.0 {
            let events = (set_up_us / saved_us).ceil().max(1.0);
            message += &format!(
                ": with what it takes to open one, {} is ahead of {} from {} per connection on",
                together.protocol().name(),
                alone.protocol().name(),
                counted(events as u64, "event", "events"),
            );
        }
    }
    let most_per_s = 1e6 / alone.call_mean_us;
    message += &format!(
        ". A caller with more than {} events/s has to keep its connection, whatever it speaks",
        rate(most_per_s)
    );
    let cases = isolated.iter().chain(&kept).map(|way| way.case);
    Some(note(FindingKind::Recommendation, sweep, cases, message))
}

/// From which size on a batch is sent sooner than its events one by one.
fn batches(sweep: &str, all: &[Way<'_>]) -> Option<CrossCaseFinding> {
    let mut cases = Vec::new();
    let mut sentences = Vec::new();
    let kept: Vec<&Way<'_>> = all.iter().filter(|way| way.is_plain() && !way.is_isolated()).collect();
    for batch in kept.iter().filter(|way| way.producer.batch > 1) {
        let events = batch.producer.batch;
        let mut others = kept.iter().filter(|other| other.is_like(batch));
        let single = others.clone().find(|other| other.producer.batch == 1);
        let Some(single) = single.filter(|_| !others.any(|other| other.producer.batch > events)) else {
            continue;
        };
        let sends = batch.call_mean_us / single.call_mean_us;
        let takes = format!(
            "one of {} takes {}, one event {}",
            count(events),
            duration_us(batch.call_mean_us),
            duration_us(single.call_mean_us)
        );
        let over = batch.protocol().name();
        sentences.push(match sends < events as f64 {
            true => format!(
                "from {} on over {over} ({takes}: {} less for each)",
                counted((sends.floor() as u64 + 1).max(2), "event", "events"),
                ratio(events as f64 / sends)
            ),
            false => format!("not at all over {over} ({takes})"),
        });
        cases.extend([batch, single].map(|way| way.case));
    }
    let message = format!("events that come together are worth a batch {}", sentences.join(", "));
    (!sentences.is_empty()).then(|| note(FindingKind::Recommendation, sweep, cases, message))
}

/// What buffers carry beside sends by themselves, for the protocol over which these carry the most.
fn gathering(sweep: &str, all: &[Way<'_>]) -> Option<CrossCaseFinding> {
    let single = all
        .iter()
        .filter(|way| is_kept_single(way))
        .max_by(|one, other| one.per_s.total_cmp(&other.per_s))?;
    let mut buffers: Vec<&Way<'_>> = all
        .iter()
        .filter(|way| way.producer.buffering == Buffering::Safe && way.is_beside(single))
        .filter(|way| way.payload() == single.payload())
        .collect();
    // The slowest first: what to avoid, then what to choose.
    buffers.sort_by(|one, other| one.per_s.total_cmp(&other.per_s));
    let [worst, .., best] = buffers[..] else { return None };
    let waits = |way: &Way<'_>| {
        let until = match way.producer.delay_us {
            Some(delay_us) => compact_duration_us(delay_us as f64),
            None => "the answer to the batch before".to_owned(),
        };
        let full =
            way.producer.max_events.map(|events| format!(" or {}", counted(events, "event", "events")));
        format!("waits for {until}{}", full.unwrap_or_default())
    };
    let beside = |way: &Way<'_>| format!("{} at a p99 of {}", rate(way.per_s), duration_us(way.call_p99_us));
    let message = format!(
        "events that come one by one, from {} over {}: sent by themselves {} events/s at a p99 of {}; through a buffer that {}, {}; \
         through one that {}, {}",
        counted(single.producer.callers, "caller", "callers"),
        single.protocol().name(),
        rate(single.per_s),
        duration_us(single.call_p99_us),
        waits(worst),
        beside(worst),
        waits(best),
        beside(best),
    );
    let cases = [single, worst, best].map(|way| way.case);
    Some(note(FindingKind::Recommendation, sweep, cases, message))
}

/// How many callers the cases have, each number once.
fn callers(all: &[Way<'_>]) -> Vec<u64> {
    let mut callers: Vec<u64> = all.iter().map(|way| way.producer.callers).collect();
    callers.sort_unstable();
    callers.dedup();
    callers
}

/// Whether each event is a send of its own, over a connection that is kept.
fn is_kept_single(way: &Way<'_>) -> bool {
    way.is_plain() && way.producer.batch == 1 && !way.is_isolated()
}

/// One way of each protocol, by the mean of its calls.
fn fastest_first<'a, 'w>(ways: impl Iterator<Item = &'a Way<'w>>) -> Vec<&'a Way<'w>> {
    let mut fastest: Vec<&Way<'_>> = Vec::new();
    let mut sorted: Vec<&Way<'_>> = ways.collect();
    sorted.sort_by(|one, other| one.call_mean_us.total_cmp(&other.call_mean_us));
    for way in sorted {
        if fastest.iter().all(|other| other.protocol() != way.protocol()) {
            fastest.push(way);
        }
    }
    fastest
}

/// `HTTP (253 µs on average; AMQP 675 µs, Kafka 1.21 ms)`.
fn ranking(ways: &[&Way<'_>]) -> String {
    let Some((first, others)) = ways.split_first() else {
        return String::new();
    };
    let others: Vec<String> = others
        .iter()
        .map(|way| format!("{} {}", way.protocol().name(), duration_us(way.call_mean_us)))
        .collect();
    format!(
        "{} ({} on average; {})",
        first.protocol().name(),
        duration_us(first.call_mean_us),
        others.join(", ")
    )
}
