//! The first lines of every report: did it work, and can the figures be believed.

use crate::figure::{bytes, count, counted, ratio as ratio_text};
use crate::results::{
    Case, Delivery, Figure, Finding, FindingKind, Limit, LimitMechanism, Noun, Paced, PublishedRatio,
    Results, Role, Severity, Status,
};
use crate::statistics::{CONFIDENCE, trials_for_median_interval};

/// The verdict on a run in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The weightiest status of all cases.
    pub(super) status: Status,
    /// How many cases passed, as in `4 of 4 cases passed`.
    pub(super) headline: String,
    /// What became of the events, as in `0 lost, 0 corrupted, …`; `None` if no case counted them.
    pub(super) delivery: Option<String>,
    /// What is missing of a run that is not complete.
    pub(super) missing: Option<String>,
}

impl Verdict {
    pub(super) fn on(results: &Results) -> Self {
        let cases = &results.cases;
        let planned = cases.len() + results.missing.len();
        let passed = cases.iter().filter(|case| case.passed).count();
        let others = [Status::Failed, Status::Invalid, Status::Incomplete, Status::Skipped].map(|status| {
            let affected = cases.iter().filter(|case| case.status == status).count();
            (affected > 0).then(|| format!("{affected} {}", status.name()))
        });
        let headline = [format!("{passed} of {} passed", counted(planned as u64, "case", "cases"))];
        let headline: Vec<String> = headline.into_iter().chain(others.into_iter().flatten()).collect();
        let status = overall(results);
        let nothing = if status == Status::Skipped { ": nothing was measured" } else { "" };
        Self {
            status,
            headline: format!("{}{nothing}", headline.join(", ")),
            delivery: Delivery::sum(cases.iter().filter_map(|case| case.delivery.as_ref()))
                .map(|delivery| delivery_line(&delivery, results.shape().noun)),
            missing: missing(results),
        }
    }
}

/// A finding as the reports show it, once for all the places where it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) severity: Severity,
    /// The cases, with their trials where only some of them are meant.
    pub(super) place: String,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

/// The findings of all cases, heaviest first.
///
/// Warnings and notes are shown once per class and advice, in the words of the first trial that has them, with all cases that
/// have them. What fails or invalidates a case is shown in full.
pub(super) fn remarks(results: &Results) -> Vec<Remark> {
    let mut shown: Vec<(&Finding, Vec<Place<'_>>)> = Vec::new();
    for (case, finding) in by_severity(results) {
        let is_of_sweep = results
            .findings
            .iter()
            .any(|cross_case| cross_case.kind == finding.kind && cross_case.cases.contains(&case.name));
        if is_of_sweep {
            continue;
        }
        let trials: Vec<u32> = finding.trial.into_iter().collect();
        let same_of_case = shown.iter_mut().find(|(first, places)| {
            let class = finding.severity > Severity::Invalid && first.kind == finding.kind;
            class && places.iter().any(|place| std::ptr::eq(place.case, case))
        });
        if let Some((_, places)) = same_of_case {
            let place = places.iter_mut().find(|place| std::ptr::eq(place.case, case));
            place.into_iter().for_each(|place| place.trials.extend(&trials));
            continue;
        }
        let place = Place { case, trials };
        let alike = |first: &Finding| {
            let is_same =
                (first.severity, first.kind, &first.hint) == (finding.severity, finding.kind, &finding.hint);
            is_same && (says_the_same(finding) || first.message == finding.message)
        };
        match shown.iter_mut().find(|(first, _)| alike(first)) {
            Some((_, places)) => places.push(place),
            None => shown.push((finding, vec![place])),
        }
    }
    let cross_case = results.findings.iter().map(|finding| Remark {
        severity: finding.severity,
        place: format!("sweep {}", finding.sweep),
        message: finding.message.clone(),
        hint: finding.hint.clone(),
    });
    let remark = |(finding, places): (&Finding, Vec<Place<'_>>)| Remark {
        severity: finding.severity,
        place: place_names(results, &places),
        message: match places.first() {
            Some(first) if places.iter().any(|place| !place.has(finding)) => {
                format!("{} (the figures are those of {})", finding.message, first.case.name)
            }
            _ => finding.message.clone(),
        },
        hint: finding.hint.clone(),
    };
    let of_cases = shown.into_iter().map(remark);
    let mut remarks: Vec<Remark> = cross_case.chain(of_cases).chain(below_delays(results)).collect();
    remarks.sort_by_key(|remark| remark.severity);
    remarks
}

/// Whether a finding of that kind, with that advice, says the same in another case, though its figures differ.
fn says_the_same(finding: &Finding) -> bool {
    finding.severity > Severity::Invalid
        && finding.kind != FindingKind::Other
        && finding.kind != FindingKind::CaseSkipped
}

/// A case in which a finding was made, and the trials; none if it concerns the case as a whole.
struct Place<'a> {
    case: &'a Case,
    trials: Vec<u32>,
}

impl Place<'_> {
    /// Whether the case has the finding word by word.
    fn has(&self, finding: &Finding) -> bool {
        self.case.findings.iter().any(|own| own.kind == finding.kind && own.message == finding.message)
    }

    /// Whether every trial is meant, so that none needs to be named.
    fn is_whole_case(&self) -> bool {
        self.trials.is_empty() || self.trials.len() >= self.case.planned_trials as usize
    }
}

fn place_names(results: &Results, places: &[Place<'_>]) -> String {
    let everywhere = places.len() == results.cases.len() && places.iter().all(Place::is_whole_case);
    if everywhere && places.len() > 1 {
        return "all cases".to_owned();
    }
    let names = places.iter().map(|place| match &place.trials[..] {
        _ if place.is_whole_case() => place.case.name.clone(),
        [trial] => format!("{}, trial {trial}", place.case.name),
        trials => {
            let trials: Vec<String> = trials.iter().map(u32::to_string).collect();
            format!("{}, trials {}", place.case.name, trials.join(" and "))
        }
    });
    names.collect::<Vec<_>>().join("; ")
}

fn by_severity(results: &Results) -> impl Iterator<Item = (&Case, &Finding)> {
    const ORDER: [Severity; 4] = [Severity::Failure, Severity::Invalid, Severity::Warning, Severity::Note];
    ORDER.into_iter().flat_map(|severity| {
        let all =
            results.cases.iter().flat_map(|case| case.findings.iter().map(move |finding| (case, finding)));
        all.filter(move |(_, finding)| finding.severity == severity)
    })
}

/// What has to be known of the figures in the table, a line each: how they were taken, and what was published instead of them.
pub(super) fn footnotes(results: &Results) -> Vec<String> {
    let lines = basis(results).into_iter().chain(paced(results)).chain(scheduling_delays(results));
    lines.chain(published(results)).collect()
}

/// How the figures of a run were taken, in one line.
fn basis(results: &Results) -> Option<String> {
    let trials = results.cases.iter().map(|case| case.completed_trials().count()).max()?;
    let lengths = results.cases.iter().flat_map(|case| case.completed_trials());
    let length = lengths.map(|trial| trial.duration_s).reduce(f64::max)?;
    let summaries = results.cases.iter().flat_map(|case| [case.received_per_s, case.forwarded_per_s]);
    let interval = summaries.filter_map(|summary| Some(summary?.interval?.confidence)).reduce(f64::min);
    Some(match trials {
        1 => format!("One trial of {length:.0} s per case, so no spread."),
        _ => format!(
            "Median of {trials} trials of {length:.0} s per case; {} where they differ.{}",
            match interval {
                Some(_) => "min–max, then (interval of the median),",
                None => "min–max below",
            },
            match interval {
                Some(confidence) =>
                    format!(" The true median is in its interval with {:.0} %.", confidence * 100.0),
                None => format!(
                    " An interval of the median needs {} trials.",
                    trials_for_median_interval(CONFIDENCE)
                ),
            }
        ),
    })
}

/// How the latency beside a throughput was measured.
fn paced(results: &Results) -> Option<String> {
    let paced = results
        .cases
        .iter()
        .find_map(|case| case.paced.as_ref().filter(|paced| paced.latency_us().is_some()))?;
    let failures = match results.shape().pipeline.is_some_and(|pipeline| pipeline.fails_on_purpose) {
        true => ", without injected failures",
        false => "",
    };
    Some(format!(
        "Latency: one more trial of {:.0} s at {} % of the throughput of each case{failures}.",
        paced.trial.duration_s, paced.share_percent
    ))
}

/// What the machine alone adds to latencies.
fn scheduling_delays(results: &Results) -> Option<String> {
    let delays = results.environment.scheduling_delay_us.as_ref()?;
    let figures =
        [Figure::LatencyP50, Figure::LatencyP99, Figure::LatencyMax].into_iter().filter_map(|figure| {
            let name = figure.definition().heading[1];
            Some(format!("{name} {}", figure.text(figure.of_latency(delays)?)))
        });
    let figures: Vec<String> = figures.collect();
    (!figures.is_empty())
        .then(|| format!("Scheduling delays of the machine before the run: {}.", figures.join(", ")))
}

/// Percentiles of the latency that are not longer than those of the machine's own delays.
fn below_delays(results: &Results) -> Option<Remark> {
    let delays = results.environment.scheduling_delay_us.as_ref()?;
    let figures = [Figure::LatencyP50, Figure::LatencyP99, Figure::LatencyP999];
    let below = results.cases.iter().filter_map(|case| {
        let paced = case.paced.as_ref().and_then(Paced::latency_us);
        let latency =
            paced.or_else(|| case.latency_us.as_ref().filter(|_| !case.shape().always_offers_more()))?;
        let is_below = |figure: &Figure| match (figure.of_latency(latency), figure.of_latency(delays)) {
            (Some(latency), Some(delay)) => latency <= delay,
            _ => false,
        };
        let names: Vec<&str> = figures
            .iter()
            .filter(|figure| is_below(figure))
            .map(|figure| figure.definition().heading[1])
            .collect();
        (!names.is_empty()).then(|| format!("{} ({})", case.name, names.join(", ")))
    });
    let below: Vec<String> = below.collect();
    (!below.is_empty()).then(|| Remark {
        severity: Severity::Note,
        place: "latency".to_owned(),
        message: format!(
            "not longer than the machine's own scheduling delays, and so not to be told from them: {}",
            below.join("; ")
        ),
        hint: Some("measure on a machine that is idle and not shared".to_owned()),
    })
}

/// The published throughputs and the ratios to them, a line for each way in which they were measured: without that, a ratio
/// would be taken for one between equals.
fn published(results: &Results) -> Vec<String> {
    let mut sources: Vec<(&str, Vec<String>)> = Vec::new();
    for case in &results.cases {
        let Some(PublishedRatio { figure, ratio, published, source }) = case.ratio_to_published() else {
            continue;
        };
        let text = format!("{} {} ({})", case.name, figure.text(published), ratio_text(ratio));
        match sources.iter_mut().find(|(known, _)| *known == source) {
            Some((_, texts)) => texts.push(text),
            None => sources.push((source, vec![text])),
        }
    }
    let line = |(source, texts): (&str, Vec<String>)| {
        format!("Published by a study, measured elsewhere ({source}): {}.", texts.join(", "))
    };
    sources.into_iter().map(line).collect()
}

/// What the figures are based on: trials, machine and build, limits; a line each.
pub(super) fn provenance(results: &Results) -> Vec<String> {
    let environment = &results.environment;
    let machine = format!(
        "{} · {} · {} · {} · parshall {} · target {}",
        environment.started,
        environment.cpu_model,
        counted(environment.cores.into(), "core", "cores"),
        environment.kernel,
        environment.version,
        environment.target
    );
    footnotes(results).into_iter().chain([machine]).chain(limits(results)).collect()
}

/// The limits of all roles that had one, with every limit that a role had in any case.
fn limits(results: &Results) -> Option<String> {
    let mut shown: Vec<String> = Vec::new();
    for trial in results.cases.iter().flat_map(|case| &case.trials) {
        for (role, usage) in &trial.roles {
            let limit = usage.limit.as_ref().and_then(|limit| limit_text(*role, limit));
            shown.extend(limit.filter(|limit| !shown.contains(limit)));
        }
    }
    (!shown.is_empty()).then(|| format!("Limits: {}", shown.join("; ")))
}

fn limit_text(role: Role, limit: &Limit) -> Option<String> {
    let cores =
        limit.cores.map(|cores| if cores == 1.0 { "1 core".to_owned() } else { format!("{cores} cores") });
    let memory = limit.memory_bytes.map(|memory| bytes(memory as f64));
    let bounds: Vec<String> = cores.into_iter().chain(memory).collect();
    (!bounds.is_empty()).then(|| match limit.mechanism {
        LimitMechanism::None => format!("{role} {}, not enforced", bounds.join(", ")),
        mechanism => format!("{role} {} by {mechanism}", bounds.join(", ")),
    })
}

fn overall(results: &Results) -> Status {
    let has = |status| results.cases.iter().any(|case| case.status == status);
    if has(Status::Failed) {
        Status::Failed
    } else if has(Status::Invalid) {
        Status::Invalid
    } else if !results.complete {
        Status::Incomplete
    } else if has(Status::Passed) || results.cases.is_empty() {
        Status::Passed
    } else {
        Status::Skipped
    }
}

fn delivery_line(delivery: &Delivery, noun: Noun) -> String {
    let mut parts = vec![format!("{} lost", count(delivery.lost))];
    let known = [
        ("corrupted", delivery.corrupted),
        ("reordered", delivery.reordered),
        ("duplicated", delivery.duplicated),
        ("done", delivery.done),
    ];
    for (name, value) in known {
        parts.extend(value.map(|value| format!("{} {name}", count(value))));
    }
    let rare = [
        ("unknown", delivery.unknown),
        ("unexpected", delivery.unexpected),
        ("foreign", delivery.foreign),
        ("misplaced", delivery.misplaced),
        ("dead-lettered", delivery.dead_lettered),
        ("redelivered", delivery.redelivered),
    ];
    for (name, value) in rare {
        parts.extend(value.filter(|value| *value > 0).map(|value| format!("{} {name}", count(value))));
    }
    format!("{} of {}", parts.join(", "), noun.counted(delivery.sent))
}

fn missing(results: &Results) -> Option<String> {
    if results.complete {
        return None;
    }
    let mut parts = Vec::new();
    if !results.missing.is_empty() {
        parts.push(format!(
            "{} did not run: {}",
            counted(results.missing.len() as u64, "case", "cases"),
            results.missing.join(", ")
        ));
    }
    for case in results.cases.iter().filter(|case| !case.is_complete()) {
        let (done, planned) = (case.completed_trials().count(), u64::from(case.planned_trials));
        parts.push(format!("{} has {done} of {}", case.name, counted(planned, "trial", "trials")));
    }
    Some(format!("The run is not complete: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::results::LatencySummary;

    #[test]
    fn a_ratio_to_a_published_figure_has_its_condition_in_the_same_line() {
        let lines = footnotes(&sample::complete());
        let line = lines.iter().find(|line| line.contains('×')).unwrap();
        assert!(line.contains("(A study of a Java client, 1 core, 1 GB)"), "{line}");
        assert!(line.contains("fan_out=1 16,119 (181×), fan_out=32 11,859 (203×)"), "{line}");
    }

    #[test]
    fn of_a_consumer_nothing_is_said_but_what_it_has_done() {
        let results = sample::consumed();
        let line = Verdict::on(&results).delivery.unwrap();
        let sent: u64 = results.cases.iter().map(|case| case.delivery.unwrap().sent).sum();
        let sent = count(sent);
        assert_eq!(line, format!("0 lost, {sent} done of {sent} events"));
    }

    #[test]
    fn a_percentile_that_is_not_longer_than_the_machines_own_is_named() {
        let mut results = sample::complete();
        let latency = results.cases[0].paced.as_ref().and_then(Paced::latency_us).unwrap().clone();
        let delays = LatencySummary { p50: Some(1), p999: Some(1), ..latency.clone() };
        results.environment.scheduling_delay_us = Some(delays);
        let remark = below_delays(&results).unwrap();
        // The first is the fastest of the sample's cases.
        assert!(remark.message.ends_with(": fan_out=1 (p99)"), "{remark:?}");
        assert!(footnotes(&results).iter().any(|line| line.contains("before the run: p50 1 µs, p99 ")));
        results.environment.scheduling_delay_us =
            Some(LatencySummary { p50: Some(1), p99: Some(1), p999: Some(1), ..latency });
        assert_eq!(below_delays(&results), None);
    }

    #[test]
    fn notes_of_one_kind_with_one_advice_are_shown_once_for_all_cases_that_have_them() {
        let mut results = sample::quick();
        for (index, case) in results.cases.iter_mut().enumerate() {
            let hint = if index == 3 { "lower it" } else { "raise it" };
            let note = |kind| Finding::new(Severity::Note, kind, format!("{index}0 % of the time"));
            case.findings = vec![note(FindingKind::SmallBatches).with_hint(hint), note(FindingKind::Other)];
        }
        let remarks = remarks(&results);
        let shown: Vec<(&str, &str)> =
            remarks.iter().map(|remark| (remark.place.as_str(), remark.message.as_str())).collect();
        assert_eq!(
            shown[0],
            ("fan_out=1; fan_out=32; fan_out=64", "00 % of the time (the figures are those of fan_out=1)")
        );
        assert!(shown.contains(&("fan_out=100", "30 % of the time")), "another advice is another remark");
        assert_eq!(shown.len(), 2 + 4, "findings of the other kind are all different");
    }
}
