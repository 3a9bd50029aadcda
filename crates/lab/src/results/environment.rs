//! Where and how the figures were taken.

use std::fmt;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::date::iso_date;

use super::{Chrony, LatencySummary};
use crate::limits::{available_cores, outer_limits};

/// The machine, the build and the command. No host name, no user, no credential.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// Version of Parshall.
    pub version: String,
    /// How it was built: the compiler and the profile, such as `rustc 1.95.0, release`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// The command that repeats the run, ready to paste.
    pub command: String,
    /// What was measured against: `embedded`, or the address of a namespace or cluster without its key.
    pub target: String,
    /// Seed of everything random in the run.
    pub seed: u64,
    /// When the run began, as RFC 3339 in UTC.
    pub started: Timestamp,
    /// When the last case ended, in the same form; absent while the run goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// The processor, as it calls itself.
    pub cpu_model: String,
    /// Logical cores.
    #[schemars(range(min = 1))]
    pub cores: u32,
    /// Memory of the machine in bytes.
    pub memory_bytes: u64,
    /// Operating system and kernel release.
    pub kernel: String,
    /// Load averages over 1, 5 and 15 minutes when the run began: what else the machine was doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(inner(range(min = 0.0)))]
    pub load_average: Option<[f64; 3]>,
    /// Whether the system gives out memory in huge pages: `always`, `madvise` or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge_pages: Option<String>,
    /// What the system's clock is read from, such as `tsc`; others than that make every look at the clock dear.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<String>,
    /// Its wall clock, where chrony runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chrony: Option<Chrony>,
    /// How late the machine woke a thread that slept for a millisecond at a time before the first trial, in microseconds. A latency
    /// that is shorter can't be told from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_delay_us: Option<LatencySummary>,
    /// What bounded the whole run from outside, all roles together; absent where nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<OuterLimits>,
}

/// A moment to the second, as RFC 3339 in UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("pattern" = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"))]
pub struct Timestamp(String);

/// The bounds that a run was under itself: of its container, or of whoever started it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OuterLimits {
    /// Cores that the CPU quota allows, in fractions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub cores: Option<f64>,
    /// Memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// What the caller of a run knows about it and the machine does not.
#[derive(Debug, Clone)]
pub struct RunIdentity {
    /// Version of Parshall.
    pub version: String,
    /// The command that repeats the run.
    pub command: String,
    /// What is measured against, without its key.
    pub target: String,
    /// Seed of everything random in the run.
    pub seed: u64,
}

impl Environment {
    /// The environment of a run that begins now on this machine. Facts that `/proc` does not give are called
    /// unknown (or zero, for memory), since a missing fact must not stop a measurement.
    #[must_use]
    pub fn of_this_machine(run: RunIdentity) -> Self {
        Self {
            version: run.version,
            build: Some(format!("{}, {}", env!("PARSHALL_COMPILER"), env!("PARSHALL_PROFILE"))),
            command: run.command,
            target: run.target,
            seed: run.seed,
            started: Timestamp::now(),
            finished: None,
            cpu_model: own_cpu_model(),
            cores: available_cores(),
            memory_bytes: own_memory_bytes(),
            kernel: own_kernel(),
            load_average: load_average(&text("/proc/loadavg")),
            huge_pages: chosen(&text("/sys/kernel/mm/transparent_hugepage/enabled")),
            clock_source: Some(text(CLOCK_SOURCE).trim().to_owned()).filter(|source| !source.is_empty()),
            chrony: Chrony::of_this_machine(),
            scheduling_delay_us: None,
            limits: outer_limits(),
        }
    }

    /// Notes that the run has ended now.
    pub fn finish(&mut self) {
        self.finished = Some(Timestamp::now());
    }
}

impl Timestamp {
    /// This moment.
    #[must_use]
    pub fn now() -> Self {
        Self::of(SystemTime::now())
    }

    /// A moment, without its fraction of a second.
    #[must_use]
    pub fn of(time: SystemTime) -> Self {
        Self(iso_date(time))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The processor of this machine; unknown, if the kernel does not say.
pub(super) fn own_cpu_model() -> String {
    cpu_model(&text("/proc/cpuinfo")).unwrap_or_else(|| "unknown".to_owned())
}

/// The memory of this machine; zero, if the kernel does not say.
pub(super) fn own_memory_bytes() -> u64 {
    memory_bytes(&text("/proc/meminfo")).unwrap_or(0)
}

/// Operating system and kernel release of this machine.
pub(super) fn own_kernel() -> String {
    let words = [text("/proc/sys/kernel/ostype"), text("/proc/sys/kernel/osrelease")];
    words.map(|line| line.trim().to_owned()).join(" ")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    let (_, name) = line.split_once(':')?;
    Some(name.trim().to_owned())
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn load_average(loadavg: &str) -> Option<[f64; 3]> {
    let mut fields = loadavg.split_whitespace().map(|field| field.parse().ok());
    Some([fields.next()??, fields.next()??, fields.next()??])
}

/// The word in brackets, in a file that lists all choices.
fn chosen(choices: &str) -> Option<String> {
    let word = choices.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))?;
    Some(word.to_owned())
}

const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_read_as_they_are_written() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.60GHz\n";
        assert_eq!(cpu_model(cpuinfo).as_deref(), Some("Some CPU @ 2.60GHz"));
        assert_eq!(memory_bytes("MemTotal:       24603016 kB\nMemFree: 1 kB\n"), Some(25_193_488_384));
        assert_eq!(chosen("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(load_average("0.52 0.58 1.59 2/345 6789\n"), Some([0.52, 0.58, 1.59]));
    }

    #[test]
    fn what_the_kernel_does_not_say_is_not_invented() {
        assert_eq!(cpu_model(""), None);
        assert_eq!(memory_bytes("MemTotal: many kB"), None);
        assert_eq!(load_average("0.5 0.6"), None);
        assert_eq!(chosen(""), None);
    }

    #[test]
    fn this_machine_has_cores_and_memory() {
        let environment = Environment::of_this_machine(RunIdentity {
            version: "0".to_owned(),
            command: "parshall run fan-out".to_owned(),
            target: "embedded".to_owned(),
            seed: 1,
        });
        assert!(environment.cores > 0 && environment.memory_bytes > 0);
        assert!(environment.started.to_string().ends_with('Z'));
        let build = environment.build.expect("known to the compiler");
        assert!(build.starts_with("rustc 1."), "{build}");
    }
}
