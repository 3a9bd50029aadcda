//! What processes use: CPU time, memory, threads, context switches and system calls.
//!
//! The orchestrator samples the processes of each role from outside, a few times per second, so that measuring
//! costs the measured nothing. A role may be several processes (relay instances); their figures add up. `/proc` has all
//! but one of them: it counts calls on files (and on the event descriptors by which threads wake one another), not
//! those on sockets, which a role of ours counts itself ([`SocketUse`]).
//!
//! * `hiccup` is how late the machine wakes a thread.
//! * `machine` is about all that runs, whoever started it.
//! * `tree` adds up the processes of a command or of clients that are not ours, which may be many and come and go.

mod hiccup;
mod machine;
mod tree;

use std::time::Duration;

use procfs::process::Process;
use serde::{Deserialize, Serialize};

use crate::{
    clock::RunTime,
    results::{Limit, PerMillionEvents, RoleUsage},
    roles::protocol::SocketUse,
};

pub(crate) use hiccup::scheduling_delays;
pub(crate) use machine::MachineProbe;
pub(crate) use tree::descendants;

/// What a process has used so far and holds at this moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessSample {
    /// CPU time since it started, user and system, to the kernel's clock tick (10 ms as a rule).
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub memory_bytes: u64,
    /// The most that it ever had resident, in bytes.
    pub memory_peak_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Times that a living thread of it gave up its CPU or lost it.
    pub context_switches: u64,
    /// System calls that read or wrote files and event descriptors, not sockets; zero where the kernel does not say.
    pub file_calls: u64,
}

/// Observes the processes of one role through one trial.
#[derive(Debug, Clone)]
pub struct RoleProbe {
    process_ids: Vec<u32>,
    scope: Scope,
    /// The last sample of each process, kept beyond its end.
    last: Vec<ProcessSample>,
    /// What those have used in whose places others came.
    replaced: ProcessSample,
    sampled: RunTime,
    present: Present,
    measurement: Option<Measurement>,
}

/// Which processes a number stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The process itself.
    Itself,
    /// Everything below it, and not itself.
    Below,
    /// Itself and everything below it.
    Whole,
    /// The process itself, on another machine, as it reports.
    Reported,
}

/// What a role uses at this moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Present {
    /// Cores' worth of CPU time since the sample before.
    pub cores: f64,
    /// Resident memory in bytes.
    pub memory_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Measurement {
    began: Totals,
    ended: Option<Totals>,
    memory_sum: u128,
    samples: u64,
}

/// What the processes of a role have used so far.
#[derive(Debug, Clone, Copy)]
struct Totals {
    at: RunTime,
    cpu: Duration,
    context_switches: u64,
    file_calls: u64,
}

/// What the measured phase was about, for the figures that are relative to it.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Events that the pipeline forwarded in it.
    pub events: u64,
    /// What the role did on its sockets in it; `None` for processes that don't tell.
    pub sockets: Option<SocketUse>,
    /// Connections that the role has opened from its start to the end of the phase.
    pub connections: Option<u64>,
}

impl ProcessSample {
    /// A sample of the process, or `None` when it has ended.
    #[must_use]
    pub fn of(process_id: u32) -> Option<Self> {
        let process = Process::new(i32::try_from(process_id).ok()?).ok()?;
        let stat = process.stat().ok()?;
        let status = process.status().ok()?;
        let ticks = stat.utime + stat.stime;
        let context_switches = process.tasks().ok()?.flatten().filter_map(|task| task.status().ok());
        // Another user's process does not show it.
        let file_calls = process.io().map_or(0, |io| io.syscr + io.syscw);
        Some(Self {
            file_calls,
            cpu: Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64),
            memory_bytes: status.vmrss.unwrap_or(0) * 1024,
            memory_peak_bytes: status.vmhwm.unwrap_or(0) * 1024,
            threads: status.threads,
            context_switches: context_switches
                .map(|thread| {
                    thread.voluntary_ctxt_switches.unwrap_or(0)
                        + thread.nonvoluntary_ctxt_switches.unwrap_or(0)
                })
                .sum(),
        })
    }
}

impl RoleProbe {
    /// A probe of these processes, or of what is below them. It counts from now on: what they used before has no part
    /// in what they use.
    #[must_use]
    pub fn new(process_ids: Vec<u32>, scope: Scope, now: RunTime) -> Self {
        let mut probe = Self {
            last: vec![ProcessSample::default(); process_ids.len()],
            process_ids,
            replaced: ProcessSample::default(),
            scope,
            sampled: now,
            present: Present::default(),
            measurement: None,
        };
        probe.sample(now);
        probe
    }

    /// A probe of processes on another machine, from what they tell. It counts from the first reading on.
    #[must_use]
    pub fn reported(readings: &[(RunTime, ProcessSample)]) -> Self {
        Self {
            process_ids: Vec::new(),
            scope: Scope::Reported,
            last: readings.iter().map(|(_, sample)| *sample).collect(),
            replaced: ProcessSample::default(),
            sampled: last_of(readings).unwrap_or_default(),
            present: Present::default(),
            measurement: None,
        }
    }

    /// A process has ended, and another one has come in its place. What the first had used remains used, and the most that
    /// it held counts for both, since they were never there together.
    pub fn replace(&mut self, ended: u32, successor: u32) {
        let Some(place) = self.process_ids.iter().position(|process_id| *process_id == ended) else {
            return;
        };
        self.process_ids[place] = successor;
        let last = std::mem::take(&mut self.last[place]);
        self.replaced.cpu += last.cpu;
        self.replaced.context_switches += last.context_switches;
        self.replaced.file_calls += last.file_calls;
        self.last[place].memory_peak_bytes = last.memory_peak_bytes;
    }

    /// Samples the processes now and returns what the role uses. Of those elsewhere, the last report stands.
    pub fn sample(&mut self, now: RunTime) -> Present {
        let of: fn(u32) -> Option<ProcessSample> = match self.scope {
            Scope::Itself => ProcessSample::of,
            Scope::Below => tree::sample_below,
            Scope::Whole => tree::sample_whole,
            Scope::Reported => return self.present,
        };
        let samples = self.process_ids.iter().map(|process_id| of(*process_id)).collect();
        self.take(now, samples)
    }

    /// Takes what each process reported last, and when. Only what is new counts.
    pub fn note(&mut self, readings: &[(RunTime, ProcessSample)]) -> Present {
        match last_of(readings).filter(|last| *last > self.sampled) {
            Some(last) => self.take(last, readings.iter().map(|(_, sample)| Some(*sample)).collect()),
            None => self.present,
        }
    }

    fn take(&mut self, now: RunTime, samples: Vec<Option<ProcessSample>>) -> Present {
        let cpu_before = self.totals().cpu;
        for (sample, last) in samples.into_iter().zip(&mut self.last) {
            match sample {
                // A process that has ended and was not waited for has CPU time but no memory any more.
                Some(sample) => {
                    *last = ProcessSample {
                        // What of a tree ended between two readings of this sample is in the next one.
                        cpu: last.cpu.max(sample.cpu),
                        memory_peak_bytes: last.memory_peak_bytes.max(sample.memory_peak_bytes),
                        ..sample
                    };
                }
                // What it used remains used; what it held is free.
                None => last.memory_bytes = 0,
            }
        }
        let elapsed = now.saturating_since(self.sampled).as_secs_f64();
        let used = self.totals().cpu.saturating_sub(cpu_before).as_secs_f64();
        self.sampled = now;
        self.present = Present {
            cores: if elapsed > 0.0 { used / elapsed } else { 0.0 },
            memory_bytes: self.last.iter().map(|sample| sample.memory_bytes).sum(),
        };
        if let Some(measurement) = &mut self.measurement
            && measurement.ended.is_none()
        {
            measurement.memory_sum += u128::from(self.present.memory_bytes);
            measurement.samples += 1;
        }
        self.present
    }

    /// Begins the measurement with a sample of this moment.
    pub fn begin_measurement(&mut self, now: RunTime) {
        self.sample(now);
        self.measurement = Some(Measurement {
            began: self.totals(),
            ended: None,
            memory_sum: u128::from(self.present.memory_bytes),
            samples: 1,
        });
    }

    /// Ends it with another one.
    pub fn end_measurement(&mut self, now: RunTime) {
        self.sample(now);
        let totals = self.totals();
        if let Some(measurement) = &mut self.measurement {
            measurement.ended = Some(totals);
        }
    }

    /// What the role uses, as of the last sample.
    #[must_use]
    pub const fn present(&self) -> Present {
        self.present
    }

    /// The last samples of its processes.
    #[must_use]
    pub fn samples(&self) -> &[ProcessSample] {
        &self.last
    }

    /// What the role used in the measurement for `work`, under `limit`, on a machine with `machine_cores`; `None`
    /// without a measurement, or without a moment between its beginning and end.
    #[must_use]
    pub fn usage(&self, limit: &Limit, machine_cores: u32, work: &Work) -> Option<RoleUsage> {
        let measurement = self.measurement?;
        let (began, ended) = (measurement.began, measurement.ended?);
        let elapsed = ended.at.saturating_since(began.at).as_secs_f64();
        let used = ended.cpu.saturating_sub(began.cpu).as_secs_f64();
        let allowed = limit.cores.unwrap_or_else(|| f64::from(machine_cores));
        // Those of a thread that has ended meanwhile are gone.
        let context_switches = ended.context_switches.saturating_sub(began.context_switches);
        let file_calls = ended.file_calls.saturating_sub(began.file_calls);
        (elapsed > 0.0 && allowed > 0.0).then(|| RoleUsage {
            cpu_percent: used / elapsed / allowed * 100.0,
            cpu_seconds: used,
            memory_peak_bytes: self.last.iter().map(|sample| sample.memory_peak_bytes).sum(),
            memory_average_bytes: u64::try_from(
                measurement.memory_sum / u128::from(measurement.samples.max(1)),
            )
            .ok(),
            per_million_events: work.per_million(used, context_switches, file_calls),
            connections_opened: work.connections,
            limit: Some(limit.clone()),
        })
    }

    fn samples_so_far(&self) -> impl Iterator<Item = &ProcessSample> {
        self.last.iter().chain(std::iter::once(&self.replaced))
    }

    fn totals(&self) -> Totals {
        Totals {
            at: self.sampled,
            cpu: self.samples_so_far().map(|sample| sample.cpu).sum(),
            context_switches: self.samples_so_far().map(|sample| sample.context_switches).sum(),
            file_calls: self.samples_so_far().map(|sample| sample.file_calls).sum(),
        }
    }
}

/// When the last of them was taken.
fn last_of(readings: &[(RunTime, ProcessSample)]) -> Option<RunTime> {
    readings.iter().map(|(at, _)| *at).max()
}

impl Work {
    /// `None` where no event was forwarded, and nothing can be said per event.
    fn per_million(
        &self,
        cpu_seconds: f64,
        context_switches: u64,
        file_calls: u64,
    ) -> Option<PerMillionEvents> {
        let millions = self.events as f64 / 1e6;
        let sockets = self.sockets;
        (self.events > 0).then(|| PerMillionEvents {
            cpu_seconds: cpu_seconds / millions,
            context_switches: context_switches as f64 / millions,
            system_calls: sockets
                .map(|sockets| (sockets.reads + sockets.writes + file_calls) as f64 / millions),
            bytes_received: sockets.map(|sockets| sockets.bytes_read as f64 / millions),
            bytes_sent: sockets.map(|sockets| sockets.bytes_written as f64 / millions),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::RunClock, results::LimitMechanism};
    use std::io::Read as _;

    fn limit(cores: Option<f64>) -> Limit {
        Limit { mechanism: LimitMechanism::None, cores, memory_bytes: None, note: None }
    }

    const NO_WORK: Work = Work { events: 0, sockets: None, connections: None };

    /// Keeps the CPU busy until this process has used so much of it.
    fn use_cpu(amount: Duration) {
        let cpu = || ProcessSample::of(std::process::id()).expect("this process lives").cpu;
        let start = cpu();
        while cpu() - start < amount {
            std::hint::black_box((0..100_000_u64).sum::<u64>());
        }
    }

    #[test]
    fn a_process_has_memory_threads_and_a_past() {
        let sample = ProcessSample::of(std::process::id()).expect("this process lives");
        assert!(sample.memory_bytes > 100_000);
        assert!(sample.memory_peak_bytes >= sample.memory_bytes / 2);
        assert!(sample.threads >= 1 && sample.context_switches >= 1);
        assert_eq!(ProcessSample::of(u32::MAX), None);
    }

    #[test]
    fn a_measurement_counts_what_was_used_in_it_relative_to_what_is_allowed() {
        let clock = RunClock::starting_now();
        let mut probe = RoleProbe::new(vec![std::process::id()], Scope::Itself, clock.now());
        use_cpu(Duration::from_millis(30));
        let began = clock.now();
        probe.begin_measurement(began);
        use_cpu(Duration::from_millis(50));
        let ended = clock.now();
        probe.end_measurement(ended);
        let half = probe.usage(&limit(Some(0.5)), 8, &NO_WORK).expect("a measurement");
        let elapsed = ended.saturating_since(began).as_secs_f64();
        assert!(half.cpu_seconds >= 0.049, "{}", half.cpu_seconds);
        assert!((half.cpu_percent - half.cpu_seconds / elapsed * 200.0).abs() < 1e-6);
        let whole = probe.usage(&limit(None), 8, &NO_WORK).expect("a measurement");
        assert!((whole.cpu_percent * 16.0 - half.cpu_percent).abs() < 1e-6);
        assert!(whole.memory_average_bytes > Some(100_000));
    }

    #[test]
    fn what_was_used_before_the_probe_is_not_what_is_used_now() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", BUSY_THEN_IDLE])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell is everywhere");
        let mut told = [0];
        let stdout = child.stdout.as_mut().expect("it is piped");
        stdout.read_exact(&mut told).expect("it tells");
        let mut probe = RoleProbe::new(vec![child.id()], Scope::Itself, RunTime::EPOCH);
        let before = probe.samples()[0].cpu;
        assert!(before > Duration::ZERO);
        let within = Duration::from_millis(1);
        let used = probe.sample(RunTime::EPOCH.plus(within)).cores * within.as_secs_f64();
        assert!(used < before.as_secs_f64() / 2.0, "{used} of {before:?}");
        drop(child.stdin.take());
        child.wait().expect("it ends with its input");
    }

    /// Uses about a tenth of a second of CPU, tells so, and waits for the end of its input.
    const BUSY_THEN_IDLE: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; read -r end";

    #[test]
    fn a_process_that_has_ended_holds_nothing_and_keeps_what_it_used() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("`cat` is everywhere");
        let clock = RunClock::starting_now();
        let mut probe = RoleProbe::new(vec![child.id()], Scope::Itself, clock.now());
        assert!(probe.sample(clock.now()).memory_bytes > 0);
        let peak = probe.samples()[0].memory_peak_bytes;
        drop(child.stdin.take());
        child.wait().expect("it ends with its input");
        assert_eq!(probe.sample(clock.now()).memory_bytes, 0);
        assert_eq!(probe.samples()[0].memory_peak_bytes, peak);
    }

    #[test]
    fn what_a_process_used_remains_used_when_another_comes_in_its_place() {
        let nobody = u32::MAX;
        let mut probe = RoleProbe::new(vec![nobody], Scope::Itself, RunTime::EPOCH);
        let cpu = Duration::from_secs(3_600);
        probe.last[0] = ProcessSample { cpu, memory_peak_bytes: u64::MAX, ..ProcessSample::default() };
        probe.replace(nobody, std::process::id());
        probe.sample(RunTime::EPOCH);
        assert!(probe.totals().cpu >= cpu + probe.samples()[0].cpu);
        assert!(probe.samples()[0].memory_bytes > 100_000, "it is the successor that is looked at");
        assert_eq!(probe.samples()[0].memory_peak_bytes, u64::MAX, "they were never there together");
    }

    #[test]
    fn costs_are_reported_per_million_events_as_far_as_they_are_known() {
        let mut work = Work {
            events: 2_000_000,
            sockets: Some(SocketUse {
                reads: 100,
                writes: 200,
                bytes_read: 64_000_000,
                bytes_written: 32_000_000,
                connections: 0,
            }),
            connections: None,
        };
        let known = work.per_million(3.0, 50, 10).expect("there were events");
        assert_eq!((known.cpu_seconds, known.context_switches), (1.5, 25.0));
        assert_eq!(known.system_calls, Some(155.0));
        assert_eq!((known.bytes_received, known.bytes_sent), (Some(32e6), Some(16e6)));
        work.sockets = None;
        let foreign = work.per_million(3.0, 50, 10).expect("there were events");
        assert_eq!((foreign.system_calls, foreign.bytes_sent), (None, None));
        assert_eq!(NO_WORK.per_million(3.0, 50, 10), None);
    }

    #[test]
    fn calls_on_files_are_counted() {
        let before = ProcessSample::of(std::process::id()).expect("this process lives");
        for _ in 0..50 {
            std::fs::read("/proc/self/comm").expect("the kernel knows its name");
        }
        let after = ProcessSample::of(std::process::id()).expect("this process lives");
        assert!(after.file_calls >= before.file_calls + 50);
    }

    #[test]
    fn processes_elsewhere_are_measured_by_what_they_tell_between_their_own_readings() {
        let at = |seconds: u64| RunTime::EPOCH.plus(Duration::from_secs(seconds));
        let reading = |seconds: u64, cpu_ms: u64, memory_bytes: u64| {
            let cpu = Duration::from_millis(cpu_ms);
            let sample =
                ProcessSample { cpu, memory_bytes, memory_peak_bytes: 9, ..ProcessSample::default() };
            (at(seconds), sample)
        };
        let mut probe = RoleProbe::reported(&[reading(1, 5_000, 1), reading(1, 7_000, 1)]);
        let present = probe.note(&[reading(3, 6_000, 4), reading(3, 7_500, 6)]);
        assert_eq!((present.cores, present.memory_bytes), (0.75, 10));
        probe.begin_measurement(at(4));
        assert_eq!(probe.note(&[reading(3, 9_000, 0), reading(3, 9_000, 0)]), present, "nothing new");
        probe.note(&[reading(5, 7_000, 4), reading(5, 8_500, 6)]);
        probe.end_measurement(at(6));
        let usage = probe.usage(&limit(None), 4, &NO_WORK).expect("a measurement");
        assert_eq!((usage.cpu_seconds, usage.cpu_percent), (2.0, 25.0));
        assert_eq!((usage.memory_peak_bytes, usage.memory_average_bytes), (18, Some(10)));
    }

    #[test]
    fn there_is_no_usage_before_a_measurement_has_ended() {
        let mut probe = RoleProbe::new(vec![std::process::id()], Scope::Itself, RunTime::EPOCH);
        assert_eq!(probe.usage(&limit(None), 2, &NO_WORK), None);
        probe.begin_measurement(RunTime::EPOCH);
        assert_eq!(probe.usage(&limit(None), 2, &NO_WORK), None);
        probe.end_measurement(RunTime::EPOCH);
        assert_eq!(probe.usage(&limit(None), 2, &NO_WORK), None, "no time has passed");
    }
}
