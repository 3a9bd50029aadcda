//! Rate and stopwatches: one over the total per event is the rate that they expect.

use std::collections::BTreeMap;

use super::{awaits_checkpoint, note};
use crate::figure::{duration_us, rate, ratio};
use crate::results::{Case, CrossCaseFinding, Figure, FindingKind, LatencySummary, Stage};

/// The stopwatches of a trial, a case or a published row, in microseconds of an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stopwatches {
    /// At the destination that is no archive.
    pub(super) forward_us: f64,
    pub(super) archive_us: f64,
    /// Its share of the checkpoint that is waited for; 0 without one.
    pub(super) checkpoint_us: f64,
    /// Its share of all that its batch takes.
    pub(super) total_us: f64,
    /// What came through.
    pub(super) per_s: f64,
}

impl Stopwatches {
    /// As they were measured.
    pub(super) fn of(stages: &BTreeMap<Stage, LatencySummary>, forwarded_per_s: Option<f64>) -> Option<Self> {
        let mean = |stage: Stage| stages.get(&stage)?.mean;
        let found = Self {
            forward_us: mean(Stage::Forward)?,
            archive_us: mean(Stage::Archive)?,
            checkpoint_us: mean(Stage::CheckpointShare).unwrap_or(0.0),
            total_us: mean(Stage::Total)?,
            per_s: forwarded_per_s?,
        };
        (found.total_us > found.checkpoint_us && found.per_s > 0.0).then_some(found)
    }

    /// Of a case.
    pub(super) fn of_case(case: &Case) -> Option<Self> {
        Self::of(&case.stages, Figure::ForwardedPerS.of_case(case))
    }

    /// As they were published for it.
    pub(super) fn published(case: &Case) -> Option<Self> {
        let published = case.published.as_ref()?;
        Some(Self {
            forward_us: published.get(Figure::ForwardMean)?,
            archive_us: published.get(Figure::ArchiveMean)?,
            checkpoint_us: published.get(Figure::CheckpointShareMean)?,
            total_us: published.get(Figure::TotalMean)?,
            per_s: published.get(Figure::ForwardedPerS)?,
        })
    }

    /// Events per second, by the total.
    pub(super) fn expected_per_s(&self) -> f64 {
        1e6 / self.total_us
    }

    /// How far the rate is from that, in percent of it.
    pub(super) fn off_percent(&self) -> f64 {
        (self.per_s / self.expected_per_s() - 1.0).abs() * 100.0
    }

    /// For how long an event is worked on.
    pub(super) const fn each_us(&self, one_by_one: bool) -> f64 {
        match one_by_one {
            true => self.forward_us + self.archive_us,
            false => self.forward_us.max(self.archive_us),
        }
    }

    /// How many are worked on at once while any is, by Little's law: not while the checkpoint is written.
    pub(super) fn at_once(&self, one_by_one: bool) -> f64 {
        self.each_us(one_by_one) / (self.total_us - self.checkpoint_us)
    }

    /// The part of the time in which the checkpoint is written, and nothing else is done.
    pub(super) fn checkpoint_percent(&self) -> f64 {
        self.checkpoint_us / self.total_us * 100.0
    }

    /// `1 / 30.9 ms = 32.4/s, 32.3/s measured (0.3 % off)`.
    fn equation(&self, is: &str) -> String {
        format!(
            "1 / {} = {}/s, {}/s {is} ({:.1} % off)",
            duration_us(self.total_us),
            rate(self.expected_per_s()),
            rate(self.per_s),
            self.off_percent()
        )
    }
}

/// The study's verification: whether the rate of each strategy is one over its total. Where batches do not wait for one another,
/// several of them share the time.
pub(super) fn one_story(sweep: &str, cases: &[&Case]) -> Option<CrossCaseFinding> {
    let known: Vec<(&Case, Stopwatches)> = cases
        .iter()
        .filter(|case| awaits_checkpoint(case))
        .filter_map(|case| Some((*case, Stopwatches::of_case(case)?)))
        .collect();
    if known.is_empty() {
        return None;
    }
    let sentences = known.iter().map(|(case, measured)| {
        let published = Stopwatches::published(case);
        let published = published.map(|published| format!("; {}", published.equation("published")));
        format!("{} {}{}", case.name, measured.equation("measured"), published.unwrap_or_default())
    });
    let worst = known.iter().map(|(_, measured)| measured.off_percent()).fold(0.0, f64::max);
    let verdict = match worst <= AGREES_PERCENT {
        true => "rate and stopwatches tell one story",
        false => "rate and stopwatches do not tell one story: something takes time that no stopwatch has",
    };
    let message = format!("{verdict}: {}", sentences.collect::<Vec<_>>().join(". "));
    Some(note(FindingKind::RateExplained, sweep, known.into_iter().map(|(case, _)| case), message))
}

/// How near a service with the study's durations comes to its rates.
pub(super) fn twin(sweep: &str, cases: &[&Case]) -> Option<CrossCaseFinding> {
    let rows: Vec<(&Case, f64, f64)> = cases
        .iter()
        .filter_map(|case| {
            let shape = case.shape();
            shape.pipeline.as_ref()?.archiving.as_ref()?.forward_us?;
            let published = case.published.as_ref()?.get(Figure::ForwardedPerS)?;
            Some((*case, Figure::ForwardedPerS.of_case(case)?, published))
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let is_near = |(_, measured, published): &&(&Case, f64, f64)| {
        (measured / published - 1.0).abs() <= TOLERANCE_PERCENT / 100.0
    };
    let near = rows.iter().filter(is_near).count();
    let texts = rows.iter().map(|(case, measured, published)| {
        format!(
            "{} {}/s instead of {}/s ({})",
            case.name,
            rate(*measured),
            rate(*published),
            ratio(measured / published)
        )
    });
    let message = format!(
        "the service has the study's durations: {near} of {} published rates are met within {TOLERANCE_PERCENT:.0} %: {}",
        rows.len(),
        texts.collect::<Vec<_>>().join("; ")
    );
    Some(note(FindingKind::PublishedTwin, sweep, rows.into_iter().map(|(case, ..)| case), message))
}

/// The study calls 31.95/s and 30.69 ms (2 % off) the same, and 43.93/s and 21.14 ms (7 %).
const AGREES_PERCENT: f64 = 10.0;

/// By how much a rate may differ that is met.
const TOLERANCE_PERCENT: f64 = 10.0;
