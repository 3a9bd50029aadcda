//! Latencies between two clocks: corrected by what is known of both, with what remains unknown.
//!
//! An event carries the instant of the load's clock; the sink compares it with its own. Where one of the two runs
//! elsewhere, the clock of its machine was aligned with the lab's when it got its configuration and has drifted since.
//! Every second of latencies is moved by the drift until then.

use super::{
    remote::Remote,
    supervisor::{Member, Supervisor},
};
use crate::{
    clock::{RunClock, RunTime},
    figure,
    record::{DecodeError, Recording},
    results::{Finding, FindingKind, IntervalDistribution, LatencyDistribution, RemoteRole, Role, Severity},
};

/// The clocks at both ends of a latency, of which at least one is elsewhere.
pub(super) struct ClockCorrection<'a> {
    load: Option<&'a Remote>,
    sink: Option<&'a Remote>,
    clock: RunClock,
}

/// Latencies by one clock.
#[derive(Debug, Default)]
pub(super) struct Corrected {
    pub(super) total: LatencyDistribution,
    pub(super) seconds: Vec<IntervalDistribution>,
    /// How far each of them may be from the truth because of the clocks, rounded up to microseconds.
    pub(super) bound_us: u64,
}

impl<'a> ClockCorrection<'a> {
    /// Of the latencies at the sink of this number; `None` where both clocks are the lab's.
    pub(super) fn of(supervisor: &'a Supervisor, sink: u32) -> Option<Self> {
        let remote = |role, instance| supervisor.remote(Member { role, instance });
        let (load, sink) = (remote(Role::Load, 0), remote(Role::Sink, sink));
        (load.is_some() || sink.is_some()).then_some(Self { load, sink, clock: supervisor.clock })
    }

    /// The latencies of a recording of the sink, whose seconds count from `begin`.
    pub(super) fn apply(&self, recording: &Recording, begin: RunTime) -> Result<Corrected, DecodeError> {
        let mut corrected = Corrected::default();
        for interval in &recording.intervals {
            let (shift_us, bound_us) = self.between(interval.start, interval.end);
            let latency = interval.latency.decode()?.shifted(shift_us);
            corrected.total.merge(&latency);
            corrected.bound_us = corrected.bound_us.max(bound_us);
            let start = interval.start.saturating_since(begin);
            let length = interval.end.saturating_since(interval.start);
            corrected.seconds.push(IntervalDistribution { start, length, latency });
        }
        Ok(corrected)
    }

    /// What latencies of a time have to be moved by, and how far off they may be then, in microseconds.
    fn between(&self, from: RunTime, to: RunTime) -> (i64, u64) {
        let ahead = |remote: Option<&Remote>| match remote {
            None => Some((0, 0)),
            Some(remote) => {
                let range = remote.ahead(self.clock, from, to)?;
                Some((range.middle_ns(), range.bound_ns()))
            }
        };
        let known = ahead(self.load).zip(ahead(self.sink));
        // Each had its configuration only after it had answered.
        let ((load, load_bound), (sink, sink_bound)) =
            known.unwrap_or(((0, i64::MAX / 2), (0, i64::MAX / 2)));
        let shift_ns = load - sink;
        // Cut to microseconds as latencies are.
        let shift_us = shift_ns.div_euclid(1_000);
        (shift_us, (load_bound + sink_bound).cast_unsigned().div_ceil(1_000) + 1)
    }
}

impl Corrected {
    /// Why the latencies must not be used, if the clocks say less than they do.
    pub(super) fn doubt(&self) -> Option<Finding> {
        let median = self.total.median_us()?;
        if median > i64::try_from(self.bound_us).unwrap_or(i64::MAX) {
            return None;
        }
        let shown = match u64::try_from(median) {
            Ok(median) => figure::duration_us(median as f64),
            Err(_) => format!("below zero ({median} µs)"),
        };
        let message = format!(
            "latency is not stated: the clocks of load and sink together are known to ± {}, and the median would be {shown}",
            figure::duration_us(self.bound_us as f64)
        );
        Some(Finding::new(Severity::Warning, FindingKind::ClockUncertain, message).with_hint(
            "run load and sink on the lab's machine, or closer to it: the bound is half the shortest round trip to each",
        ))
    }
}

/// The roles elsewhere, with their clocks in the measured phase if that has come to its end.
pub(super) fn remote_roles(supervisor: &Supervisor, phase: Option<(RunTime, RunTime)>) -> Vec<RemoteRole> {
    let remote = supervisor.all().filter_map(|(Member { role, instance }, running)| {
        let remote = running.remote.as_ref()?;
        Some(RemoteRole {
            role,
            instance: instance + 1,
            machine: remote.machine.clone()?,
            clock: phase.and_then(|(from, to)| remote.offset(supervisor.clock, from, to)),
        })
    });
    remote.collect()
}

/// What a reader has to know of the clock of a role elsewhere.
pub(super) fn clock_finding(called: &str, remote: &RemoteRole) -> Option<Finding> {
    let clock = remote.clock?;
    let direction = if clock.offset_us < 0.0 { "behind" } else { "ahead of" };
    let mut message = format!(
        "the clock of {called} was {} {direction} the lab's, ± {} ({} exchanges, shortest round trip {}); it drifted by {} \
         in the measured phase",
        offset(clock.offset_us),
        figure::duration_us(clock.bound_us),
        figure::count(clock.exchanges),
        figure::duration_us(clock.round_trip_us),
        figure::duration_us(clock.drift_us.abs()),
    );
    if let Some(chrony) = &remote.machine.chrony {
        message.push_str(&format!(
            "; chrony there takes the wall clock to be off by {}, and its reference by {} (stratum {})",
            figure::duration_us(chrony.offset_us),
            figure::duration_us(chrony.root_distance_us),
            chrony.stratum,
        ));
    }
    Some(Finding::new(Severity::Note, FindingKind::ClockOffset, message))
}

/// Machines that were not started at the same time are far apart.
fn offset(microseconds: f64) -> String {
    let offset_us = microseconds.abs();
    match offset_us > 100e6 {
        true => format!("{} s", figure::count((offset_us / 1e6) as u64)),
        false => figure::duration_us(offset_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(latencies_us: &[i64], bound_us: u64) -> Corrected {
        let mut total = LatencyDistribution::new();
        latencies_us.iter().for_each(|latency| total.record(*latency));
        Corrected { total, seconds: Vec::new(), bound_us }
    }

    #[test]
    fn latencies_are_in_doubt_if_the_clocks_say_less_than_their_median() {
        assert_eq!(latencies(&[900, 1_000, 1_100], 999).doubt(), None);
        assert_eq!(latencies(&[], 999).doubt(), None, "there is nothing to doubt");
        let finding = latencies(&[900, 1_000, 1_100], 1_000).doubt().expect("a doubt");
        assert_eq!(finding.kind, FindingKind::ClockUncertain);
        assert!(
            finding.message.contains("known to ± 1.00 ms, and the median would be 1.00 ms"),
            "{finding:?}"
        );
        let finding = latencies(&[-70, -60, 1_000], 1).doubt().expect("a doubt");
        assert!(finding.message.ends_with("the median would be below zero (-70 µs)"), "{finding:?}");
    }

    #[test]
    fn the_clock_of_a_machine_is_described_by_its_offset_bound_and_drift() {
        let remote = |offset_us| RemoteRole {
            role: Role::Sink,
            instance: 1,
            machine: crate::results::Machine { chrony: None, ..crate::results::Machine::of_this_process() },
            clock: Some(crate::results::ClockOffset {
                offset_us,
                bound_us: 21.5,
                drift_us: -3.0,
                round_trip_us: 40.0,
                exchanges: 600,
            }),
        };
        let message = |offset_us| clock_finding("the sink", &remote(offset_us)).expect("a finding").message;
        assert_eq!(
            message(-50_000.0),
            "the clock of the sink was 50.0 ms behind the lab's, ± 21.5 µs (600 exchanges, shortest round trip 40 µs); \
             it drifted by 3 µs in the measured phase"
        );
        let mut disciplined = remote(1.0);
        disciplined.machine.chrony =
            Some(crate::results::Chrony { stratum: 3, offset_us: 21.5, root_distance_us: 12_300.0 });
        let message_of = clock_finding("the sink", &disciplined).expect("a finding").message;
        let expected = "; chrony there takes the wall clock to be off by 21.5 µs, and its reference by 12.3 ms (stratum 3)";
        assert!(message_of.ends_with(expected), "{message_of}");
        assert!(message(86_400e6).contains("was 86,400 s ahead of the lab's"), "{}", message(86_400e6));
    }
}
