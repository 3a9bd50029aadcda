//! How many events are worked on at once, and what keeps more of them from passing.

use super::stopwatches::Stopwatches;
use super::{awaits_checkpoint, note};
use crate::figure::{bytes, count, duration_us, percent, rate, ratio, significant};
use crate::results::{
    ArchivingShape, Case, CrossCaseFinding, FULL_CPU_PERCENT, Figure, Finding, FindingKind, LITTLE_PERCENT,
    Severity, is_used_up,
};
use crate::studies::Observation;

/// What bounds a trial whose rate its stopwatches explain: the events at once, the service, or the checkpoint in the loop.
pub(super) fn bound(observation: &Observation<'_>) -> Option<Finding> {
    let Observation { shape, measured, trial, .. } = *observation;
    let pipeline = shape.pipeline.as_ref()?;
    let archiving = pipeline.archiving.as_ref()?;
    let usage = observation.usage()?;
    if usage.cpu_percent >= FULL_CPU_PERCENT || is_used_up(pipeline, usage, trial) {
        return None;
    }
    let stopwatches = Stopwatches::of(&trial.stages, trial.forwarded_per_s)?;
    if !archiving.awaits_checkpoint || stopwatches.off_percent() > LITTLE_PERCENT {
        return by_capacity(archiving, stopwatches.per_s, &measured.to_string());
    }
    let each_us = stopwatches.each_us(archiving.one_by_one);
    let mut message = format!(
        "concurrency-bound: {measured} works on an event for {} ({} until forwarded, {} until archived{}), on {} at once while it works, \
         and takes {} per event with the checkpoint; 1 / {} = {}/s expected, {}/s measured ({:.1} % off)",
        duration_us(each_us),
        duration_us(stopwatches.forward_us),
        duration_us(stopwatches.archive_us),
        if archiving.one_by_one { "" } else { ", at the same time" },
        significant(stopwatches.at_once(archiving.one_by_one)),
        duration_us(stopwatches.total_us),
        duration_us(stopwatches.total_us),
        rate(stopwatches.expected_per_s()),
        rate(stopwatches.per_s),
        stopwatches.off_percent(),
    );
    if let Some(queueing) = queueing(archiving, &stopwatches) {
        message.push_str(". ");
        message.push_str(&queueing);
    }
    if stopwatches.checkpoint_percent() >= MUCH_CHECKPOINT_PERCENT {
        message.push_str(&format!(
            ". For {} % of the time it waits for its checkpoint and does nothing else",
            percent(stopwatches.checkpoint_percent())
        ));
    }
    let hint = "let more events go at once (`relay.dispatch.events`, with larger batches), and do not wait for the checkpoint \
                (`relay.checkpoint_wait: false`)";
    Some(Finding::new(Severity::Note, FindingKind::LimitedByConcurrency, message).with_hint(hint))
}

/// Sends that take longer than the service takes for one wait for the others there.
fn queueing(archiving: &ArchivingShape, stopwatches: &Stopwatches) -> Option<String> {
    let (capacity, time_us) = (archiving.forward_capacity?, archiving.forward_us?);
    (stopwatches.forward_us >= time_us * QUEUED).then(|| {
        format!(
            "Forwarding takes {} as long as the service takes for one ({}): it carries out {} at once, the others wait",
            ratio(stopwatches.forward_us / time_us),
            duration_us(time_us),
            count(capacity)
        )
    })
}

/// A destination that carries out so many sends at once passes no more than them over the time of each.
fn by_capacity(archiving: &ArchivingShape, per_s: f64, measured: &str) -> Option<Finding> {
    let (capacity, time_us) = (archiving.forward_capacity?, archiving.forward_us?);
    let most_per_s = capacity as f64 * 1e6 / time_us;
    ((1.0 - per_s / most_per_s).abs() * 100.0 <= LITTLE_PERCENT).then(|| {
        let message = format!(
            "bound by the destination: it carries out {} sends at once, {} each, so that {}/s pass; {measured} forwarded {}/s",
            count(capacity),
            duration_us(time_us),
            rate(most_per_s),
            rate(per_s)
        );
        Finding::new(Severity::Note, FindingKind::LimitedByConcurrency, message)
            .with_hint("send several events at once (`relay.send: batch`)")
    })
}

/// What bounds each case that waits for its checkpoints, side by side.
pub(super) fn bounds(sweep: &str, cases: &[&Case]) -> Option<CrossCaseFinding> {
    let is_bound = |case: &Case| case.has(FindingKind::LimitedByConcurrency);
    let known: Vec<(&Case, String)> = cases
        .iter()
        .filter(|case| is_bound(case))
        .filter_map(|case| {
            let archiving = case.shape().pipeline.as_ref()?.archiving.clone()?;
            let row = Row::of(case, &archiving)?;
            let stopwatches = row.measured;
            let mut parts = vec![format!(
                "{} at once for {} each",
                significant(row.at_once()),
                duration_us(stopwatches.each_us(row.one_by_one))
            )];
            parts.extend(queueing(&archiving, &stopwatches));
            parts
                .push(format!("{} % of the time for checkpoints", percent(stopwatches.checkpoint_percent())));
            Some((*case, format!("{}: {}", case.name, parts.join(". "))))
        })
        .collect();
    let texts: Vec<&str> = known.iter().map(|(_, text)| text.as_str()).collect();
    let message = format!("events at once are the bound: {}", texts.join("; "));
    let hint = known.iter().flat_map(|(case, _)| &case.findings);
    let hint = hint.filter(|finding| finding.kind == FindingKind::LimitedByConcurrency);
    let hint = hint.filter_map(|finding| finding.hint.clone()).next();
    let found = note(FindingKind::LimitedByConcurrency, sweep, known.iter().map(|(case, _)| *case), message);
    (known.len() > 1).then_some(CrossCaseFinding { hint, ..found })
}

/// Why stopwatches rise where the rate does: more events are under way, which the published study never states.
pub(super) fn unstated(sweep: &str, cases: &[&Case]) -> Option<CrossCaseFinding> {
    let archiving = |case: &Case| case.shape().pipeline.as_ref()?.archiving.clone();
    let rows: Vec<Row<'_>> = cases.iter().filter_map(|case| Row::of(case, &archiving(case)?)).collect();
    let least = rows.iter().min_by(|one, other| one.at_once().total_cmp(&other.at_once()))?;
    let most = rows.iter().max_by(|one, other| one.measured.per_s.total_cmp(&other.measured.per_s))?;
    if most.at_once() < least.at_once() * MORE_AT_ONCE {
        return None;
    }
    let mut sentences = vec![format!(
        "an event takes longer and more of them pass, because more are worked on at once (time of each / time per event, by Little's law): \
         {} forwards in {} at {}/s, {} in {} at {}/s",
        least.case.name,
        duration_us(least.measured.forward_us),
        rate(least.measured.per_s),
        most.case.name,
        duration_us(most.measured.forward_us),
        rate(most.measured.per_s),
    )];
    sentences.extend(rows.iter().map(Row::text));
    let published: Vec<String> = rows.iter().filter_map(Row::published).collect();
    if !published.is_empty() {
        sentences.push(format!(
            "The published study does not say how many it works on at once; its own figures do: {}",
            published.join(", ")
        ));
    }
    let message = sentences.join(". ");
    Some(note(FindingKind::ConcurrencyInferred, sweep, rows.iter().map(|row| row.case), message))
}

/// A case with its stopwatches.
struct Row<'a> {
    case: &'a Case,
    one_by_one: bool,
    measured: Stopwatches,
}

impl<'a> Row<'a> {
    fn of(case: &'a Case, archiving: &ArchivingShape) -> Option<Self> {
        let measured = Stopwatches::of_case(case).filter(|_| archiving.awaits_checkpoint)?;
        Some(Self { case, one_by_one: archiving.one_by_one, measured })
    }

    fn at_once(&self) -> f64 {
        self.measured.at_once(self.one_by_one)
    }

    fn text(&self) -> String {
        format!(
            "{}: {} / {} = {} at once",
            self.case.name,
            duration_us(self.measured.each_us(self.one_by_one)),
            duration_us(self.measured.total_us - self.measured.checkpoint_us),
            significant(self.at_once())
        )
    }

    fn published(&self) -> Option<String> {
        let published = Stopwatches::published(self.case)?;
        Some(format!(
            "{} {} / {} = {}",
            self.case.name,
            duration_us(published.each_us(self.one_by_one)),
            duration_us(published.total_us - published.checkpoint_us),
            significant(published.at_once(self.one_by_one))
        ))
    }
}

/// What the fastest case whose events arrive in order gives, beside the fastest of the others, and in how much memory.
pub(super) fn ordered(sweep: &str, cases: &[&Case]) -> Option<CrossCaseFinding> {
    let fastest = |wanted: &dyn Fn(&Case) -> bool| {
        let wanted = cases.iter().copied().filter(|case| wanted(case));
        let rates = wanted.filter_map(|case| Some((case, Figure::ForwardedPerS.of_case(case)?)));
        rates.max_by(|one, other| one.1.total_cmp(&other.1))
    };
    let is_ours = |case: &Case| case.system.as_ref().is_none_or(|system| system.ours);
    let in_order = |case: &Case| {
        let reordered = Figure::Reordered.of_case(case);
        is_ours(case) && !awaits_checkpoint(case) && reordered == Some(0.0)
    };
    let (best, best_per_s) = fastest(&in_order)?;
    let (other, other_per_s) = fastest(&|case: &Case| awaits_checkpoint(case) || !is_ours(case))?;
    let memory = Figure::MemoryPeakBytes.of_case(best).map(|peak| format!(", in {} of memory", bytes(peak)));
    let message = format!(
        "in order, without waiting for its checkpoints, {} forwards and archives {}/s{}: {} as many as {} ({}/s)",
        best.name,
        rate(best_per_s),
        memory.unwrap_or_default(),
        ratio(best_per_s / other_per_s),
        other.name,
        rate(other_per_s)
    );
    Some(note(FindingKind::SettingMatters, sweep, [best, other], message))
}

/// A send that takes this many times as long as the service takes for one has waited for others.
const QUEUED: f64 = 1.25;

/// From this part of the time on the checkpoint is worth a sentence.
const MUCH_CHECKPOINT_PERCENT: f64 = 5.0;

/// How many times as many at once explain a longer time of each.
const MORE_AT_ONCE: f64 = 2.0;
