//! What the published figures themselves say about how far they can be trusted.
//!
//! The study sent its records in bursts: as many as were due in a second at once, then nothing for the rest of it. All records
//! of a burst share its luck, so that one burst that is held up is 1 % of ten thousand records at 100/s, and 3 % at 300/s.

use super::{differences, note};
use crate::figure::{count, duration_us, percent};
use crate::results::{Case, CrossCaseFinding, Figure, FindingKind};

/// Where the published p99 is the maximum but for a little, it is what one burst took.
pub(super) fn tail(sweep: &str, cases: &[&Case]) -> Option<CrossCaseFinding> {
    let rows: Vec<(&Case, f64)> = cases
        .iter()
        .filter_map(|case| {
            let published = case.published.as_ref()?;
            Some((*case, published.get(Figure::LatencyP99)? / published.get(Figure::LatencyMax)?))
        })
        .collect();
    let of_one_burst: Vec<&(&Case, f64)> = rows.iter().filter(|(_, share)| *share >= NEARLY_ALL).collect();
    let shares: Vec<String> = shares_of_a_burst(cases);
    if rows.len() < LEAST_ROWS || of_one_burst.len() * 2 < rows.len() || shares.is_empty() {
        return None;
    }
    let message = format!(
        "in {} of {} published rows p99 is within {} % of the maximum. The study sent a second's worth of records at once, and a \
         burst is {} of its {} records: such a p99 is what one burst took, a sample of one",
        of_one_burst.len(),
        rows.len(),
        percent((1.0 - NEARLY_ALL) * 100.0),
        shares.join(" or "),
        count(RECORDS),
    );
    let of_one_burst = of_one_burst.into_iter().map(|(case, _)| *case);
    Some(note(FindingKind::PublishedNoise, sweep, of_one_burst, message))
}

/// The share of a burst in all records, by the sizes of bursts.
fn shares_of_a_burst(cases: &[&Case]) -> Vec<String> {
    let mut sizes: Vec<u64> = cases.iter().filter_map(|case| case.shape().burst_events).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter().map(|size| format!("{} %", percent(size as f64 / RECORDS as f64 * 100.0))).collect()
}

/// Rows that were published twice for equal settings say how much the figures differ by themselves.
pub(super) fn repeated(sweep: &str, cases: &[&Case]) -> Option<CrossCaseFinding> {
    let published: Vec<&Case> = cases.iter().copied().filter(|case| case.published.is_some()).collect();
    let pairs = published.iter().enumerate().flat_map(|(index, one)| {
        let later = published[index + 1..].iter();
        later.map(move |other| (*one, *other))
    });
    let pairs: Vec<(&Case, &Case)> =
        pairs.filter(|(one, other)| differences(one, other).is_empty()).collect();
    let sentences: Vec<String> = pairs.iter().filter_map(|(one, other)| twice(one, other)).collect();
    (!sentences.is_empty()).then(|| {
        let message = format!(
            "published twice for equal settings: {}. What rows of the study differ by less than that is chance",
            sentences.join("; ")
        );
        let both = pairs.iter().flat_map(|(one, other)| [*one, *other]);
        note(FindingKind::PublishedNoise, sweep, both, message)
    })
}

fn twice(one: &Case, other: &Case) -> Option<String> {
    let both = |figure: Figure, name: &str| {
        let of = |case: &Case| case.published.as_ref()?.get(figure);
        let (low, high) = of(one).zip(of(other))?;
        let (low, high) = (low.min(high), low.max(high));
        let apart = percent((high / low - 1.0) * 100.0);
        Some(format!("{name} {} and {} ({apart} %)", duration_us(low), duration_us(high)))
    };
    let figures = [
        both(Figure::LatencyMean, "mean"),
        both(Figure::LatencyP99, "p99"),
        both(Figure::LatencyMax, "maximum"),
    ];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    (!figures.is_empty()).then(|| format!("{} and {}: {}", one.name, other.name, figures.join(", ")))
}

/// How many the study sent for each row.
const RECORDS: u64 = 10_000;

/// A p99 that is this much of the maximum.
const NEARLY_ALL: f64 = 0.97;

/// Fewer rows may be so by chance.
const LEAST_ROWS: usize = 4;
