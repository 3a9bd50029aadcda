//! The figures of single destinations, as every report shows them: a row for each.

use crate::figure;
use crate::results::{Case, Delivery, DestinationSummary, LatencySummary};

/// One destination of a case.
#[derive(Debug)]
pub(super) struct DestinationRow {
    /// In the order of [`HEADINGS`]; empty where there is none.
    pub(super) cells: [String; 9],
    /// Something is wrong there.
    pub(super) alarming: bool,
}

/// What the cells of a row are.
pub(super) const HEADINGS: [&str; 9] =
    ["destination", "consumed/s", "p50", "p99", "received", "lost", "duplicated", "reordered", "corrupted"];

/// A row for each destination; none where a case has only one.
pub(super) fn rows(case: &Case) -> Vec<DestinationRow> {
    case.destinations.iter().map(|(name, figures)| row(name, figures)).collect()
}

fn row(name: &str, figures: &DestinationSummary) -> DestinationRow {
    let time = |percentile: fn(&LatencySummary) -> Option<u64>| {
        let latency = figures.latency_us.as_ref().and_then(percentile);
        latency.map(|latency| figure::duration_us(latency as f64)).unwrap_or_default()
    };
    let delivery = figures.delivery.as_ref();
    let count =
        |of: fn(&Delivery) -> Option<u64>| delivery.and_then(of).map(figure::count).unwrap_or_default();
    DestinationRow {
        cells: [
            name.to_owned(),
            figures.consumed_per_s.map(|rate| figure::rate(rate.median)).unwrap_or_default(),
            time(|latency| latency.p50),
            time(|latency| latency.p99),
            count(|delivery| delivery.received),
            count(|delivery| Some(delivery.lost)),
            count(|delivery| delivery.duplicated),
            count(|delivery| delivery.reordered),
            count(|delivery| delivery.corrupted),
        ],
        alarming: delivery.is_some_and(|delivery| delivery.lost > 0 || delivery.corrupted > Some(0)),
    }
}
