//! What single settings of the clients do: pairs of cases that differ in one of them and in nothing else.
//!
//! Whether the two of a pair differ is decided by their trials: if the ranges of a figure over the trials overlap, they do not.
//! Where there is one trial of each, the bounds of its percentiles take their place (those of the median for the mean), and where
//! there are none, a ratio that is above what differs from run to run. That ratio is higher for single runs of bursts, whose
//! records share their luck.

use std::collections::BTreeMap;

use super::{differences, note};
use crate::figure::{duration_us, ratio};
use crate::results::{
    Bounds, Case, ClientShape, CrossCaseFinding, Figure, FindingKind, KafkaShape, LatencySummary,
};
use crate::scenario::LoadMode;

/// A finding for each setting by which cases of the sweep differ alone. The one that the tail depends on most comes first.
pub(super) fn findings(sweep: &str, cases: &[&Case]) -> Vec<CrossCaseFinding> {
    let mut by_setting: BTreeMap<String, Vec<Pair<'_>>> = BTreeMap::new();
    for (index, one) in cases.iter().enumerate() {
        for other in &cases[index + 1..] {
            if let Some((setting, pair)) = Pair::of(one, other) {
                by_setting.entry(setting).or_default().push(pair);
            }
        }
    }
    let (mut matters, mut without) = (Vec::new(), Vec::new());
    for (setting, pairs) in &by_setting {
        match pairs
            .iter()
            .filter(|pair| pair.matters())
            .max_by(|one, other| one.span_us().total_cmp(&other.span_us()))
        {
            Some(widest) => matters.push((setting, widest)),
            None => without.push(without_effect(sweep, setting, pairs)),
        }
    }
    matters.sort_by(|(_, one), (_, other)| other.span_us().total_cmp(&one.span_us()));
    let matters = matters.iter().enumerate();
    let matters = matters.map(|(rank, (setting, pair))| effect(sweep, setting, pair, rank == 0));
    matters.chain(without).collect()
}

/// Two cases that differ in one setting, the one with the longer tail first.
#[derive(Debug, Clone)]
struct Pair<'a> {
    long: Side<'a>,
    short: Side<'a>,
    mean: Difference,
    p99: Difference,
}

#[derive(Debug, Clone)]
struct Side<'a> {
    case: &'a Case,
    /// What it sets; `None` where it leaves the client's default.
    value: Option<String>,
    mean_us: f64,
    p99_us: f64,
}

/// Whether a figure differs by more than it does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    Real,
    Chance,
}

impl<'a> Pair<'a> {
    fn of(one: &'a Case, other: &'a Case) -> Option<(String, Self)> {
        let setting = only_difference(one, other)?;
        // Of the two clients, the one in which they differ; the producer, if it is both.
        let of_producer = |case: &Case| value_of(case, &setting, |kafka| &kafka.producer);
        let end: fn(&KafkaShape) -> &ClientShape = match of_producer(one) == of_producer(other) {
            true => |kafka| &kafka.consumer,
            false => |kafka| &kafka.producer,
        };
        let (one, other) = (Side::of(one, &setting, end)?, Side::of(other, &setting, end)?);
        let mean = difference(&one, &other, Figure::LatencyMean, |latency| latency.precision.as_ref()?.p50);
        let p99 = difference(&one, &other, Figure::LatencyP99, |latency| latency.precision.as_ref()?.p99);
        let (long, short) = if one.p99_us >= other.p99_us { (one, other) } else { (other, one) };
        Some((setting, Self { long, short, mean, p99 }))
    }

    fn matters(&self) -> bool {
        self.p99 == Difference::Real || self.mean == Difference::Real
    }

    /// By how much the tails differ.
    fn span_us(&self) -> f64 {
        self.long.p99_us - self.short.p99_us
    }
}

impl<'a> Side<'a> {
    fn of(case: &'a Case, setting: &str, end: fn(&KafkaShape) -> &ClientShape) -> Option<Self> {
        Some(Self {
            case,
            value: value_of(case, setting, end),
            mean_us: Figure::LatencyMean.of_case(case)?,
            p99_us: Figure::LatencyP99.of_case(case)?,
        })
    }

    fn setting(&self) -> &str {
        self.value.as_deref().unwrap_or("its default")
    }

    fn number(&self) -> Option<f64> {
        self.value.as_ref()?.parse().ok()
    }
}

/// What one of the clients of a case is told; `None` where it keeps its default.
fn value_of(case: &Case, setting: &str, end: fn(&KafkaShape) -> &ClientShape) -> Option<String> {
    let shape = case.shape();
    end(shape.kafka.as_ref()?).properties.get(setting).cloned()
}

/// The property in which two cases differ, if they differ in nothing else. Both clients may have it.
fn only_difference(one: &Case, other: &Case) -> Option<String> {
    let (one_shape, other_shape) = (one.shape(), other.shape());
    let (of_one, of_other) = (one_shape.kafka.as_ref()?, other_shape.kafka.as_ref()?);
    let ends = [(&of_one.producer, &of_other.producer), (&of_one.consumer, &of_other.consumer)];
    let mut changed: Vec<&String> = ends
        .iter()
        .flat_map(|(one, other)| {
            let names = one.properties.keys().chain(other.properties.keys());
            names.filter(|name| one.properties.get(*name) != other.properties.get(*name))
        })
        .collect();
    changed.sort_unstable();
    changed.dedup();
    let [only] = changed.as_slice() else {
        return None;
    };
    let is_explained = differences(one, other).iter().all(|path| path.ends_with(only.as_str()));
    is_explained.then(|| (*only).clone())
}

fn difference(
    one: &Side<'_>,
    other: &Side<'_>,
    figure: Figure,
    bounds: fn(&LatencySummary) -> Option<Bounds>,
) -> Difference {
    let trials = |side: &Side<'_>| {
        let many = side.case.completed_trials().count() > 1;
        figure.over_trials(side.case).filter(|_| many).map(|all| (all.min, all.max))
    };
    let within = |side: &Side<'_>| {
        let Bounds { low, high } = bounds(side.case.latency_us.as_ref()?)?;
        Some((low as f64, high as f64))
    };
    let overlap = |(one, other): ((f64, f64), (f64, f64))| one.0 <= other.1 && other.0 <= one.1;
    let is_alike = trials(one).zip(trials(other)).or_else(|| within(one).zip(within(other))).map(overlap);
    let values = figure.of_case(one.case).zip(figure.of_case(other.case));
    let is_one_run_of_bursts =
        |side: &Side<'_>| side.case.shape().load == LoadMode::Burst && trials(side).is_none();
    let by_itself = match is_one_run_of_bursts(one) || is_one_run_of_bursts(other) {
        true => FROM_BURST_TO_BURST,
        false => FROM_RUN_TO_RUN,
    };
    let is_near = values.is_none_or(|(one, other)| one.max(other) < one.min(other) * by_itself);
    match is_alike.unwrap_or(false) || is_near {
        true => Difference::Chance,
        false => Difference::Real,
    }
}

fn effect(sweep: &str, setting: &str, pair: &Pair<'_>, is_most: bool) -> CrossCaseFinding {
    let Pair { long, short, .. } = pair;
    let what = match is_most && pair.p99 == Difference::Real {
        true => "bounds the tail",
        false => "matters",
    };
    let mut message = format!(
        "`{setting}` {what}: p99 is {} with {} and {} with {} ({} less, {}), the mean {} and {}",
        duration_us(long.p99_us),
        long.setting(),
        duration_us(short.p99_us),
        short.setting(),
        duration_us(long.p99_us - short.p99_us),
        ratio(long.p99_us / short.p99_us),
        duration_us(long.mean_us),
        duration_us(short.mean_us),
    );
    if let Some(reason) = reason_for_effect(setting, pair) {
        message.push_str(". ");
        message.push_str(&reason);
    }
    note(FindingKind::SettingMatters, sweep, [long.case, short.case], message)
}

/// Why a setting matters, as far as the figures say so.
fn reason_for_effect(setting: &str, pair: &Pair<'_>) -> Option<String> {
    let Pair { long, short, .. } = pair;
    match setting {
        "linger.ms" => {
            let waits_us = (long.number()? - short.number()?) * 1_000.0;
            let longer_us = long.mean_us - short.mean_us;
            let is_whole = waits_us > 0.0 && (WHOLE..=1.0 / WHOLE).contains(&(longer_us / waits_us));
            is_whole.then(|| {
                format!(
                    "A record waits for it whether another one follows or not: the mean is {} longer for {} more",
                    duration_us(longer_us),
                    duration_us(waits_us)
                )
            })
        }
        "socket.nagle.disable" => (long.value.as_deref() == Some("false")).then(|| {
            "With Nagle's algorithm a small request waits for the acknowledgement of the one before it, which the other side may \
             delay by 40 ms; librdkafka had it on by default until version 2.10, the published study's among them"
                .to_owned()
        }),
        _ => None,
    }
}

fn without_effect(sweep: &str, setting: &str, pairs: &[Pair<'_>]) -> CrossCaseFinding {
    let widest = pairs.iter().max_by(|one, other| one.span_us().total_cmp(&other.span_us()));
    let figures = widest.map_or_else(String::new, |Pair { long, short, .. }| {
        format!(
            ": p99 is {} with {} and {} with {}, the mean {} and {}, which is within what they differ by themselves",
            duration_us(long.p99_us),
            long.setting(),
            duration_us(short.p99_us),
            short.setting(),
            duration_us(long.mean_us),
            duration_us(short.mean_us),
        )
    });
    let mut message = format!("`{setting}` does nothing here{figures}");
    if let Some(reason) = reason_for_none(setting, pairs) {
        message.push_str(". ");
        message.push_str(&reason);
    }
    let cases = pairs.iter().flat_map(|pair| [pair.long.case, pair.short.case]);
    note(FindingKind::SettingWithoutEffect, sweep, cases, message)
}

/// Why a setting does nothing, as far as the figures say so.
fn reason_for_none(setting: &str, pairs: &[Pair<'_>]) -> Option<String> {
    let sides = || pairs.iter().flat_map(|pair| [&pair.long, &pair.short]);
    match setting {
        // Nobody waited for it, since nobody waited that long.
        "fetch.wait.max.ms" => {
            let longest_ms = sides().filter_map(Side::number).reduce(f64::max)?;
            let p99_us = sides().map(|side| side.p99_us).reduce(f64::max)?;
            (p99_us < longest_ms * 1_000.0 / 2.0).then(|| {
                format!(
                    "It is how long a fetch waits that finds nothing. With {longest_ms:.0} ms a record would wait for half of that \
                     on average if it had to, and 99 % take less than {}: the service answers a waiting fetch as soon as there \
                     is a record",
                    duration_us(p99_us)
                )
            })
        }
        "socket.nagle.disable" => {
            let is_own_default = sides().any(|side| side.value.is_none());
            let is_on = sides().any(|side| side.value.as_deref() == Some("true"));
            (is_own_default && is_on).then(|| {
                "librdkafka has disabled Nagle's algorithm by itself since version 2.10, so that the advice of the published study, \
                 whose version did not, changes nothing any more"
                    .to_owned()
            })
        }
        _ => None,
    }
}

/// What differs by less from one run to another says nothing, whatever the bounds of a single run are.
const FROM_RUN_TO_RUN: f64 = 1.15;

/// Records of a burst share its luck, so that the bounds of a single run, which count them one by one, are too narrow: rows with
/// the same settings have differed by nearly twice.
const FROM_BURST_TO_BURST: f64 = 3.0;

/// A mean that grows by at least this share of what a wait grows by waits for all of it, and for nothing else.
const WHOLE: f64 = 0.7;
