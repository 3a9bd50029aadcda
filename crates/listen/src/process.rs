//! What there is to say of any process: what it was built from, and what it uses. The names are those of Prometheus's own
//! client libraries, so that dashboards for any process work for this one.

use std::fmt;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use procfs::Current as _;
use procfs::process::{LimitValue, Process};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Registry;

use crate::metrics::{MetricsWriter, open_metrics as text_of};

/// What a program is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// The commit, or nothing where that is not known.
    pub revision: &'static str,
    /// What it was built with, separated by commas.
    pub features: &'static str,
}

/// Says once what this program is built from. Without that, metrics tell the version of this library.
pub fn declare_build(build: Build) {
    // Whoever said it first is right.
    let _ = BUILD.set(build);
}

static BUILD: OnceLock<Build> = OnceLock::new();

/// Writes metrics of a part of the process.
pub type WritePart = Box<dyn Fn(&mut MetricsWriter<'_>) -> fmt::Result + Send + Sync>;

/// Says once that there is something more to tell of this process than what the system knows.
pub fn declare_part(write: WritePart) {
    // There is one such part.
    let _ = PART.set(write);
}

static PART: OnceLock<WritePart> = OnceLock::new();

/// Collects what there is to say of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessMetrics;

impl Collector for ProcessMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut metrics = MetricsWriter::new(encoder);
        if let Some(write) = PART.get() {
            write(&mut metrics)?;
        }
        let Build { version, revision, features } =
            *BUILD.get_or_init(|| Build { version: env!("CARGO_PKG_VERSION"), revision: "", features: "" });
        let labels = [("version", version), ("revision", revision), ("features", features)];
        let help = "What the program is built from, as labels; always 1";
        metrics.gauges("parshall_build_info", help, [(labels, 1)])?;
        // What the system does not tell is left out.
        let Some(Usage { cpu_seconds, resident, virtual_memory, threads, open, most, started }) =
            Usage::now()
        else {
            return Ok(());
        };
        metrics.counter(
            "process_cpu_seconds",
            "CPU time used, in the kernel and outside of it",
            cpu_seconds,
        )?;
        metrics.gauge("process_resident_memory_bytes", "Memory in use", resident)?;
        metrics.gauge("process_virtual_memory_bytes", "Address space in use", virtual_memory)?;
        metrics.gauge("process_threads", "Threads of the process", threads)?;
        metrics.gauge("process_open_fds", "Open file descriptors", open)?;
        if let Some(most) = most {
            metrics.gauge("process_max_fds", "How many file descriptors may be open", most)?;
        }
        let help = "When the process started, in seconds since the Unix epoch";
        metrics.gauge("process_start_time_seconds", help, started)
    }
}

/// What a process uses at one moment.
#[derive(Clone, Copy, Debug)]
struct Usage {
    cpu_seconds: f64,
    resident: u64,
    virtual_memory: u64,
    threads: i64,
    open: u64,
    most: Option<u64>,
    started: f64,
}

impl Usage {
    fn now() -> Option<Self> {
        let process = Process::myself().ok()?;
        let stat = process.stat().ok()?;
        let ticks = procfs::ticks_per_second() as f64;
        let most = process.limits().ok().and_then(|limits| match limits.max_open_files.soft_limit {
            LimitValue::Value(most) => Some(most),
            LimitValue::Unlimited => None,
        });
        Some(Self {
            cpu_seconds: (stat.utime + stat.stime) as f64 / ticks,
            resident: stat.rss * procfs::page_size(),
            virtual_memory: stat.vsize,
            threads: stat.num_threads,
            open: process.fd_count().ok()? as u64,
            most,
            started: started(stat.starttime as f64 / ticks)?,
        })
    }
}

/// When this process started, which was so long after the system. Found out once: it must not move with the clock, for
/// a start that changes is a restart.
fn started(after_boot: f64) -> Option<f64> {
    static STARTED: OnceLock<Option<f64>> = OnceLock::new();
    *STARTED.get_or_init(|| {
        let up = procfs::Uptime::current().ok()?.uptime;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        Some(now - up + after_boot)
    })
}

/// What there is to say of this process, in the OpenMetrics text format.
pub(crate) fn open_metrics() -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(ProcessMetrics));
    text_of(&registry)
}
