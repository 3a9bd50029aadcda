//! How busy the CPUs of a run are in its measured phase, with processes of the run and with others.

use std::time::Duration;

use crate::{clock::RunTime, limits::CpuList, results::CpuSampling};

/// Observes the CPUs that a run may use through one trial.
#[derive(Debug)]
pub(crate) struct MachineProbe {
    cpus: CpuList,
    began: Option<Sample>,
    ended: Option<Sample>,
}

/// What the CPUs did between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MachineUsage {
    /// CPU time of everything that ran on them.
    pub(crate) cpu_seconds: f64,
    /// Over how long that was counted, and of how many CPUs.
    pub(crate) sampling: CpuSampling,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: RunTime,
    busy: Duration,
}

impl MachineProbe {
    pub(crate) const fn new(cpus: CpuList) -> Self {
        Self { cpus, began: None, ended: None }
    }

    pub(crate) fn begin_measurement(&mut self, now: RunTime) {
        self.began = self.sample(now);
        self.ended = None;
    }

    pub(crate) fn end_measurement(&mut self, now: RunTime) {
        self.ended = self.sample(now);
    }

    /// What was used in the measurement; `None` without one, or where the system does not say.
    pub(crate) fn usage(&self) -> Option<MachineUsage> {
        let (began, ended) = (self.began?, self.ended?);
        let seconds = ended.at.saturating_since(began.at).as_secs_f64();
        let cpus = u32::try_from(self.cpus.count()).unwrap_or(u32::MAX);
        // The kernel counts in ticks, so that a short time may seem to have more of them than there is room for.
        let most = seconds * f64::from(cpus);
        let cpu_seconds = ended.busy.saturating_sub(began.busy).as_secs_f64().min(most);
        (most > 0.0).then_some(MachineUsage { cpu_seconds, sampling: CpuSampling { seconds, cpus } })
    }

    fn sample(&self, at: RunTime) -> Option<Sample> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        Some(Sample { at, busy: busy_in(&text, &self.cpus, procfs::ticks_per_second())? })
    }
}

/// The CPU time that these CPUs have spent on anything but waiting, since the machine started; what a hypervisor gave
/// to other machines included. Those that are offline spend none.
fn busy_in(stat: &str, cpus: &CpuList, ticks_per_second: u64) -> Option<Duration> {
    let mut busy = None;
    for line in stat.lines() {
        let Some((cpu, ticks)) = line.strip_prefix("cpu").and_then(|line| line.split_once(' ')) else {
            continue;
        };
        let is_ours = cpu.parse().is_ok_and(|cpu: usize| cpus.iter().any(|own| own == cpu));
        if is_ours {
            busy = Some(busy.unwrap_or(0) + busy_ticks(ticks)?);
        }
    }
    Some(Duration::from_secs_f64(busy? as f64 / ticks_per_second as f64))
}

fn busy_ticks(text: &str) -> Option<u64> {
    let ticks: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    // user, nice, system, idle, waiting for devices, interrupts, soft interrupts, stolen; guests are in user and nice.
    let [user, nice, system, _, _, interrupts, soft, stolen] = ticks.get(..8)?.try_into().ok()?;
    Some(user + nice + system + interrupts + soft + stolen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(numbers: &[usize]) -> CpuList {
        numbers.iter().copied().collect()
    }

    #[test]
    fn waiting_is_not_work_stolen_time_is_and_other_cpus_do_not_count() {
        let stat = "cpu  999 10 50 9000 700 3 7 30 99 0\n\
                    cpu0 100 10 50 9000 700 3 7 30 99 0\n\
                    cpu1 1 1 1 1 1 1 1 1 1 1\n\
                    cpu10 50 0 0 9000 700 0 0 0 0 0\nbtime 5\n";
        assert_eq!(busy_in(stat, &cpus(&[0]), 100), Some(Duration::from_secs(2)));
        assert_eq!(busy_in(stat, &cpus(&[0, 10, 11]), 100), Some(Duration::from_millis(2_500)));
        assert_eq!(busy_in(stat, &cpus(&[11]), 100), None);
        assert_eq!(busy_in("cpu0 1 2\n", &cpus(&[0]), 100), None);
        assert_eq!(busy_in("", &cpus(&[0]), 100), None);
    }

    #[test]
    fn cpus_are_never_busier_than_they_can_be_and_between_two_samples_without_time_nothing_is_known() {
        let at = |milliseconds| RunTime::EPOCH.plus(Duration::from_millis(milliseconds));
        let probe = |began: (u64, u64), ended: (u64, u64)| {
            let sample =
                |(at_ms, busy_ms)| Some(Sample { at: at(at_ms), busy: Duration::from_millis(busy_ms) });
            MachineProbe { cpus: cpus(&[0, 1]), began: sample(began), ended: sample(ended) }
        };
        let usage = probe((1_000, 500), (3_000, 1_500)).usage().expect("two seconds");
        assert_eq!((usage.cpu_seconds, usage.sampling), (1.0, CpuSampling { seconds: 2.0, cpus: 2 }));
        let usage = probe((1_000, 500), (1_002, 530)).usage().expect("two milliseconds");
        assert!((usage.cpu_seconds - 0.004).abs() < 1e-9, "{usage:?}");
        assert_eq!(probe((1_000, 500), (1_000, 530)).usage(), None);
    }

    #[test]
    fn this_machine_says_what_it_does() {
        let mut probe = MachineProbe::new(CpuList::available().expect("the system tells"));
        assert_eq!(probe.usage(), None);
        probe.begin_measurement(RunTime::EPOCH);
        assert_eq!(probe.usage(), None);
        assert!(probe.began.is_some_and(|began| began.busy > Duration::ZERO));
        probe.end_measurement(RunTime::EPOCH.plus(Duration::from_secs(1)));
        assert!(probe.usage().is_some());
    }
}
