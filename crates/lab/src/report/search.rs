//! The rates that a search for the highest sustainable one tried, as rows for every report that shows them.

use crate::figure;
use crate::results::{Capacity, Probe, ProbeOutcome};

/// The headings above [`rows`].
pub(super) const HEADINGS: [&str; 9] =
    ["probe", "for", "rate/s", "achieved/s", "p50", "p99", "lag growth/s", "throttled", "lost"];

/// One probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProbeRow {
    /// As many as [`HEADINGS`].
    pub(super) cells: [String; 9],
    /// `passed`, or what else it was.
    pub(super) verdict: &'static str,
    /// Why it did not pass.
    pub(super) reason: String,
    pub(super) alarming: bool,
}

/// The probes in the order in which they were tried.
pub(super) fn rows(capacity: &Capacity) -> Vec<ProbeRow> {
    let duration = |microseconds: Option<u64>| {
        microseconds.map_or_else(String::new, |time| figure::duration_us(time as f64))
    };
    let rate = |rate: Option<f64>| rate.map_or_else(String::new, figure::rate);
    let count = |count: Option<u64>| count.map_or_else(String::new, figure::count);
    let row = |probe: &Probe| ProbeRow {
        cells: [
            probe.number.to_string(),
            purpose(probe),
            figure::rate(probe.rate_per_s),
            rate(probe.achieved_per_s),
            duration(probe.p50_us),
            duration(probe.p99_us),
            probe.lag_growth_per_s.map_or_else(String::new, signed),
            count(probe.throttled),
            count(probe.lost),
        ],
        verdict: probe.outcome.map_or("interrupted", ProbeOutcome::name),
        reason: probe.reasons.join("; "),
        alarming: probe.outcome == Some(ProbeOutcome::Failed),
    };
    capacity.probes.iter().map(row).collect()
}

/// What it was tried for, and what its load began with.
fn purpose(probe: &Probe) -> String {
    let name = probe.purpose.name();
    match probe.lead {
        Some(lead) => format!(
            "{name} after {}/s for {}",
            figure::rate(lead.rate_per_s),
            figure::duration_us(lead.length_s * 1e6)
        ),
        None => name.to_owned(),
    }
}

/// A lag may shrink as well.
fn signed(growth: f64) -> String {
    let size = figure::rate(growth.abs());
    if growth < 0.0 && size != "0.0" { format!("−{size}") } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;
    use crate::results::Lead;

    #[test]
    fn a_probe_says_what_its_load_began_with() {
        let results = sample::searched();
        let mut capacity = results.cases[0].capacity.clone().unwrap();
        capacity.probes[1].lead = Some(Lead { rate_per_s: 40_000.0, length_s: 1.25 });
        let purposes: Vec<_> = rows(&capacity).into_iter().map(|row| row.cells[1].clone()).collect();
        assert_eq!(purposes[..2], ["bracket", "bracket after 40,000/s for 1.25 s"]);
    }
}
