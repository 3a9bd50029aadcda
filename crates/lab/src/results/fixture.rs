//! Parts of trials for the tests of what is read from them.

use super::{Interval, Limit, LimitMechanism, RoleUsage};

/// How long a trial lasts.
pub(crate) const SECONDS: u64 = 10;

/// A role that is limited to one core and 1 GiB.
pub(crate) fn usage(cpu_percent: f64) -> RoleUsage {
    RoleUsage {
        cpu_percent,
        cpu_seconds: cpu_percent / 100.0 * SECONDS as f64,
        memory_peak_bytes: 100 << 20,
        memory_average_bytes: None,
        per_million_events: None,
        connections_opened: None,
        limit: Some(Limit {
            mechanism: LimitMechanism::CgroupV2,
            cores: Some(1.0),
            memory_bytes: Some(1 << 30),
            note: None,
        }),
    }
}

/// A trial's readings, each with so many events that wait.
pub(crate) fn intervals(lag_events: u64) -> Vec<Interval> {
    let interval =
        |second| Interval { at_s: second as f64, lag_events: Some(lag_events), ..Interval::default() };
    (1..=SECONDS).map(interval).collect()
}
