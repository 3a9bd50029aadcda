//! Whether the number of messages worked on at once is what bounds the rate, in a trial and over the cases of a sweep.

use super::Occupancy;
use crate::figure::{count, counted, duration_us, percent, rate};
use crate::results::{
    Case, CrossCaseFinding, FULL_CPU_PERCENT, Figure, Finding, FindingKind, LITTLE_PERCENT, LOW_CPU_PERCENT,
    MeasuredComponent, PipelineShape, Severity, is_used_up, lag_events,
};
use crate::studies::Observation;

/// The places are the bound if they account for what passed, and nothing else was used up: not the CPU of what is
/// measured, not the service, not the machine, not the messages.
pub(super) fn bound(observation: &Observation<'_>) -> Option<Finding> {
    let Observation { shape, measured, trial, .. } = *observation;
    let usage = observation.usage()?;
    let pipeline = shape.pipeline.as_ref()?;
    let occupancy =
        Occupancy::of(shape, measured.is_ours(), &trial.stages, trial.received_per_s, trial.forwarded_per_s)?;
    if is_used_up(pipeline, usage, trial) || lag_events(trial).is_some_and(|lag| lag < occupancy.places) {
        return None;
    }
    let most_cpu_percent = match measured.is_ours() {
        true => FULL_CPU_PERCENT,
        // Its garbage collector and its compiler leave no process quite idle.
        false => LOW_CPU_PERCENT,
    };
    let is_accounted_for = occupancy.off_percent().is_none_or(|off| off <= LITTLE_PERCENT);
    (usage.cpu_percent < most_cpu_percent && is_accounted_for).then(|| {
        let sentence = sentence(measured, usage.cpu_percent, &occupancy);
        Finding::new(Severity::Note, FindingKind::LimitedByConcurrency, sentence)
            .with_hint(advice(measured, &occupancy, pipeline))
    })
}

fn sentence(measured: &MeasuredComponent, cpu_percent: f64, occupancy: &Occupancy) -> String {
    let messages = |places| counted(places, "message", "messages");
    match &occupancy.parts {
        Some(parts) => format!(
            "concurrency-bound: {measured} works on {} at once, {} each ({}); by Little's law {}",
            messages(occupancy.places),
            duration_us(parts.whole_us()),
            parts.sentence(),
            occupancy.equation()
        ),
        None => {
            let places = match occupancy.messages {
                Some(all) => {
                    format!("{} for {}", counted(occupancy.places, "thread", "threads"), messages(all))
                }
                None => messages(occupancy.places),
            };
            format!(
                "possibly concurrency-bound: {measured} used {} % of its CPU; if {places} are always busy, by Little's law {}",
                percent(cpu_percent),
                occupancy.equation()
            )
        }
    }
}

fn advice(measured: &MeasuredComponent, occupancy: &Occupancy, pipeline: &PipelineShape) -> &'static str {
    match (measured, occupancy.messages, pipeline.prefetch) {
        (_, Some(_), _) => "raise `relay.threads` above `relay.concurrency`",
        (MeasuredComponent::Other(_), None, _) => "raise `relay.concurrency`, and `relay.threads` with it",
        (_, None, Some(0)) => {
            "raise `relay.concurrency`, or `relay.prefetch` so that the next message is there when one is done"
        }
        (_, None, _) => "raise `relay.concurrency`",
    }
}

/// Which cases of a sweep are bound by their concurrency, by what times, and which others are not.
pub(super) fn finding(sweep: &str, cases: &[&Case]) -> Option<CrossCaseFinding> {
    let known: Vec<(&Case, Occupancy)> =
        cases.iter().filter_map(|case| Some((*case, occupancy(case)?))).collect();
    if known.len() < 2 {
        return None;
    }
    let shortest_us = shortest_us(&known);
    let is_bound = |(case, occupancy): &(&Case, Occupancy)| {
        let is_alone = shortest_us.is_none_or(|least| occupancy.each_us() <= least * CROWDED);
        is_alone && bound_of(case).is_some()
    };
    let (bound, free): (Vec<_>, Vec<_>) = known.iter().copied().partition(is_bound);
    let (last, most) = bound.iter().max_by_key(|(_, occupancy)| occupancy.places)?;
    let mut sentences = vec![law(&bound)];
    sentences.extend(parts(&bound));
    sentences.extend(not_bound(&free, shortest_us));
    sentences.extend(scaling(&known));
    sentences.extend(published(&known));
    // More places only help where they have not been tried in vain.
    let is_exhausted = free.iter().any(|(_, free)| free.places > most.places);
    let hint = bound_of(last).and_then(|finding| finding.hint.clone());
    // The findings of crowded cases are part of this one as well.
    let crowded = known.iter().filter(|(case, _)| bound_of(case).is_some());
    Some(CrossCaseFinding {
        severity: Severity::Note,
        kind: FindingKind::LimitedByConcurrency,
        sweep: sweep.to_owned(),
        cases: crowded.map(|(case, _)| case.name.clone()).collect(),
        message: sentences.join(". "),
        hint: hint.filter(|_| !is_exhausted),
    })
}

/// The shortest time that a message takes a place, where cases have different numbers of places.
fn shortest_us(known: &[(&Case, Occupancy)]) -> Option<f64> {
    let places = |(_, occupancy): &(&Case, Occupancy)| occupancy.places;
    let (least, most) = (known.iter().map(places).min()?, known.iter().map(places).max()?);
    let times = known.iter().map(|(_, occupancy)| occupancy.each_us());
    times.reduce(f64::min).filter(|_| least < most)
}

fn law(bound: &[(&Case, Occupancy)]) -> String {
    // Of a system that does not tell, nobody knows whether it always has as many as it may.
    let is = match bound.iter().all(|(_, occupancy)| occupancy.parts.is_some()) {
        true => "is",
        false => "may be",
    };
    let equations = bound.iter().map(|(case, occupancy)| format!("{}: {}", case.name, occupancy.equation()));
    format!(
        "concurrency {is} the bound, by Little's law (messages at once / time of each): {}",
        equations.collect::<Vec<_>>().join("; ")
    )
}

fn parts(bound: &[(&Case, Occupancy)]) -> Option<String> {
    let mut bound = bound.iter();
    let (case, parts) = bound.find_map(|(case, occupancy)| Some((case, occupancy.parts?)))?;
    Some(format!("{}: {}", case.name, parts.sentence()))
}

/// Where messages wait for one another, each takes longer the more there are, and more of them at once gain nothing.
fn not_bound(free: &[(&Case, Occupancy)], shortest_us: Option<f64>) -> Option<String> {
    let others = free.iter().map(|(case, occupancy)| {
        let times = shortest_us.map(|least| occupancy.each_us() / least);
        let times = times.map(|times| format!("each takes {times:.1} times as long"));
        let cpu = case.cpu_percent.map(|cpu| format!("{} % CPU", percent(cpu.median)));
        let figures: Vec<String> = times.into_iter().chain(cpu).collect();
        format!("{} ({})", case.name, figures.join(", "))
    });
    let others: Vec<String> = others.collect();
    (!others.is_empty()).then(|| format!("not the bound at {}", others.join(", ")))
}

fn bound_of(case: &Case) -> Option<&Finding> {
    let mut findings = case.findings.iter();
    findings.find(|finding| finding.kind == FindingKind::LimitedByConcurrency)
}

fn occupancy(case: &Case) -> Option<Occupancy> {
    Occupancy::of(
        &case.shape(),
        MeasuredComponent::of(case.system.as_ref(), case.measured_role).is_ours(),
        &case.stages,
        case.received_per_s.map(|rate| rate.median),
        case.forwarded_per_s.map(|rate| rate.median),
    )
}

/// What more places gave, where cases have different numbers of them.
fn scaling(known: &[(&Case, Occupancy)]) -> Option<String> {
    let by_places =
        |one: &&(&Case, Occupancy), other: &&(&Case, Occupancy)| one.1.places.cmp(&other.1.places);
    let (_, least) = known.iter().min_by(by_places)?;
    let (_, most) = known.iter().max_by(by_places)?;
    (least.places < most.places).then(|| {
        format!(
            "{} at once instead of {} ({:.0} times as many) carried {:.1} times as many messages",
            count(most.places),
            count(least.places),
            most.places as f64 / least.places as f64,
            most.measured_per_s / least.measured_per_s
        )
    })
}

/// How long each message took a place in the published study, if it had as many.
fn published(known: &[(&Case, Occupancy)]) -> Option<String> {
    let of_study = known.iter().filter_map(|(case, occupancy)| {
        let published = case.published.as_ref()?.get(Figure::ForwardedPerS)?;
        let each_us = occupancy.places as f64 / published * 1e6;
        Some(format!(
            "{} / {} messages/s = {}",
            count(occupancy.places),
            rate(published),
            duration_us(each_us)
        ))
    });
    let of_study: Vec<String> = of_study.collect();
    (!of_study.is_empty()).then(|| format!("In the published study each took {}", of_study.join(", ")))
}

/// A message that takes its place for longer than this many times the shortest time waits for others.
const CROWDED: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::super::occupancy::tests::{shape, stages};
    use super::*;
    use crate::report::sample;
    use crate::results::{Published, Stage, Summary};

    fn case(concurrency: u64, forwarded: f64, is_bound: bool) -> Case {
        let bound =
            Finding::new(Severity::Note, FindingKind::LimitedByConcurrency, "it is").with_hint("raise it");
        Case {
            name: format!("concurrency={concurrency}"),
            sweep: Some("concurrency".to_owned()),
            shape: Some(shape(concurrency, None)),
            received_per_s: None,
            forwarded_per_s: Some(Summary::of_one(forwarded)),
            cpu_percent: Some(Summary::of_one(61.0)),
            stages: stages(&[
                (Stage::Process, 3_000.0),
                (Stage::BatchSend, 3_000.0),
                (Stage::Send, 3_000.0),
                (Stage::Settle, 2_000.0),
                (Stage::Vacant, 3_000.0),
            ]),
            published: Some(Published::new("", [(Figure::ForwardedPerS, 120.0)])),
            findings: is_bound.then_some(bound).into_iter().collect(),
            ..sample::complete().cases.swap_remove(0)
        }
    }

    #[test]
    fn a_sweep_has_one_sentence_with_the_law_of_each_case_and_what_more_places_gave() {
        let mut cases = [case(8, 980.0, true), case(256, 10_000.0, true)];
        cases[1].stages = stages(&[
            (Stage::Process, 10_000.0),
            (Stage::BatchSend, 10_000.0),
            (Stage::Send, 10_000.0),
            (Stage::Settle, 8_000.0),
            (Stage::Vacant, 7_600.0),
        ]);
        let cases: Vec<&Case> = cases.iter().collect();
        let found = finding("concurrency", &cases).expect("one is bound by it");
        assert_eq!(found.cases, ["concurrency=8", "concurrency=256"]);
        assert_eq!(found.hint, None, "more has been tried in vain");
        for part in [
            "concurrency=8: 8 / 8.00 ms = 1,000 messages/s expected, 980 measured (2.0 % off)",
            "2.00 ms until its completion was confirmed, 3.00 ms until the next one arrived",
            "not the bound at concurrency=256 (each takes 3.2 times as long, 61.0 % CPU)",
            "256 at once instead of 8 (32 times as many) carried 10.2 times as many messages",
            "In the published study each took 8 / 120 messages/s = 66.7 ms",
        ] {
            assert!(found.message.contains(part), "{part}\n{}", found.message);
        }
    }

    #[test]
    fn cases_that_are_all_concurrency_bound_are_advised_to_raise_it() {
        let cases = [case(8, 980.0, true), case(16, 1_960.0, true)];
        let found = finding("s", &cases.iter().collect::<Vec<_>>()).expect("both are");
        assert_eq!(found.hint.as_deref(), Some("raise it"));
        assert!(!found.message.contains("not the bound"), "{}", found.message);
    }

    #[test]
    fn nothing_is_said_of_a_sweep_that_something_else_bounds_nor_of_a_single_case() {
        let free = [case(8, 500.0, false), case(256, 10_000.0, false)];
        assert_eq!(finding("s", &free.iter().collect::<Vec<_>>()), None);
        let single = [case(8, 980.0, true)];
        assert_eq!(finding("s", &single.iter().collect::<Vec<_>>()), None);
    }
}
