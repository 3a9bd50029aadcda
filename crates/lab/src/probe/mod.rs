//! What processes use: CPU time, memory, threads and context switches, read from `/proc`.
//!
//! The orchestrator samples the processes of each role from outside, a few times per second, so that measuring
//! costs the measured nothing. A role may be several processes (relay instances); their figures add up.

use std::time::Duration;

use procfs::process::Process;

use crate::{
    clock::RunTime,
    results::{Limit, RoleUsage},
};

/// What a process has used so far and holds at this moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
}

/// Observes the processes of one role through one trial.
#[derive(Debug, Clone)]
pub struct RoleProbe {
    process_ids: Vec<u32>,
    /// The last sample of each process, kept beyond its end.
    last: Vec<ProcessSample>,
    sampled: RunTime,
    present: Present,
    measurement: Option<Measurement>,
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
    began: RunTime,
    began_cpu: Duration,
    ended: Option<(RunTime, Duration)>,
    memory_sum: u128,
    samples: u64,
}

impl ProcessSample {
    /// A sample of the process, or `None` when it has ended.
    #[must_use]
    pub fn of(process_id: u32) -> Option<Self> {
        let process = Process::new(i32::try_from(process_id).ok()?).ok()?;
        let stat = process.stat().ok()?;
        let status = process.status().ok()?;
        let ticks = stat.utime + stat.stime;
        let context_switches = process
            .tasks()
            .ok()?
            .flatten()
            .filter_map(|task| task.status().ok());
        Some(Self {
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
    /// A probe of these processes.
    #[must_use]
    pub fn new(process_ids: Vec<u32>, now: RunTime) -> Self {
        Self {
            last: vec![ProcessSample::default(); process_ids.len()],
            process_ids,
            sampled: now,
            present: Present::default(),
            measurement: None,
        }
    }

    /// Samples the processes now and returns what the role uses.
    pub fn sample(&mut self, now: RunTime) -> Present {
        let cpu_before = self.cpu();
        for (process_id, last) in self.process_ids.iter().zip(&mut self.last) {
            match ProcessSample::of(*process_id) {
                // A process that has ended and was not waited for has CPU time but no memory any more.
                Some(sample) => {
                    let memory_peak_bytes = last.memory_peak_bytes.max(sample.memory_peak_bytes);
                    *last = ProcessSample {
                        memory_peak_bytes,
                        ..sample
                    };
                }
                // What it used remains used; what it held is free.
                None => last.memory_bytes = 0,
            }
        }
        let elapsed = now.saturating_since(self.sampled).as_secs_f64();
        let used = self.cpu().saturating_sub(cpu_before).as_secs_f64();
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
            began: now,
            began_cpu: self.cpu(),
            ended: None,
            memory_sum: u128::from(self.present.memory_bytes),
            samples: 1,
        });
    }

    /// Ends it with another one.
    pub fn end_measurement(&mut self, now: RunTime) {
        self.sample(now);
        let cpu = self.cpu();
        if let Some(measurement) = &mut self.measurement {
            measurement.ended = Some((now, cpu));
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

    /// What the role used in the measurement, under `limit`, on a machine with `machine_cores`; `None` without
    /// a measurement, or without a moment between its beginning and end.
    #[must_use]
    pub fn usage(&self, limit: &Limit, machine_cores: usize) -> Option<RoleUsage> {
        let measurement = self.measurement?;
        let (ended, ended_cpu) = measurement.ended?;
        let elapsed = ended.saturating_since(measurement.began).as_secs_f64();
        let used = ended_cpu
            .saturating_sub(measurement.began_cpu)
            .as_secs_f64();
        let allowed = limit.cores.unwrap_or(machine_cores as f64);
        (elapsed > 0.0 && allowed > 0.0).then(|| RoleUsage {
            cpu_percent: used / elapsed / allowed * 100.0,
            cpu_seconds: used,
            memory_peak_bytes: self
                .last
                .iter()
                .map(|sample| sample.memory_peak_bytes)
                .sum(),
            memory_average_bytes: u64::try_from(
                measurement.memory_sum / u128::from(measurement.samples.max(1)),
            )
            .ok(),
            limit: Some(limit.clone()),
        })
    }

    fn cpu(&self) -> Duration {
        self.last.iter().map(|sample| sample.cpu).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::RunClock, results::LimitMechanism};

    fn limit(cores: Option<f64>) -> Limit {
        Limit {
            mechanism: LimitMechanism::None,
            cores,
            memory_bytes: None,
            note: None,
        }
    }

    /// Keeps the CPU busy until this process has used so much of it.
    fn use_cpu(amount: Duration) {
        let cpu = || {
            ProcessSample::of(std::process::id())
                .expect("this process lives")
                .cpu
        };
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
        let mut probe = RoleProbe::new(vec![std::process::id()], clock.now());
        use_cpu(Duration::from_millis(30));
        let began = clock.now();
        probe.begin_measurement(began);
        use_cpu(Duration::from_millis(50));
        let ended = clock.now();
        probe.end_measurement(ended);
        let half = probe.usage(&limit(Some(0.5)), 8).expect("a measurement");
        let elapsed = ended.saturating_since(began).as_secs_f64();
        assert!(half.cpu_seconds >= 0.049, "{}", half.cpu_seconds);
        assert!((half.cpu_percent - half.cpu_seconds / elapsed * 200.0).abs() < 1e-6);
        let whole = probe.usage(&limit(None), 8).expect("a measurement");
        assert!((whole.cpu_percent * 16.0 - half.cpu_percent).abs() < 1e-6);
        assert!(whole.memory_average_bytes > Some(100_000));
    }

    #[test]
    fn a_process_that_has_ended_holds_nothing_and_keeps_what_it_used() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("`cat` is everywhere");
        let clock = RunClock::starting_now();
        let mut probe = RoleProbe::new(vec![child.id()], clock.now());
        assert!(probe.sample(clock.now()).memory_bytes > 0);
        let peak = probe.samples()[0].memory_peak_bytes;
        drop(child.stdin.take());
        child.wait().expect("it ends with its input");
        assert_eq!(probe.sample(clock.now()).memory_bytes, 0);
        assert_eq!(probe.samples()[0].memory_peak_bytes, peak);
    }

    #[test]
    fn there_is_no_usage_before_a_measurement_has_ended() {
        let mut probe = RoleProbe::new(vec![std::process::id()], RunTime::EPOCH);
        assert_eq!(probe.usage(&limit(None), 2), None);
        probe.begin_measurement(RunTime::EPOCH);
        assert_eq!(probe.usage(&limit(None), 2), None);
        probe.end_measurement(RunTime::EPOCH);
        assert_eq!(probe.usage(&limit(None), 2), None, "no time has passed");
    }
}
