//! What recording latencies costs: the same fan-out with it and without, in pairs.
//!
//! Each pair is two runs of the whole pipeline as `parshall run` makes them (hub, load, relay and sink as processes, the
//! relay on one core, saturated), one with every latency recorded in load and sink and one with none; both count and
//! verify every event. Which of the two comes first alternates, so that drift hits both. The difference is stated with its
//! interval (Hodges–Lehmann shift over the pairs, exact signed ranks); the CPU time of the recording roles per event,
//! which shows a cost that the throughput hides while other cores are idle, likewise.
//!
//! `PARSHALL_BENCH_QUICK=1` runs a token amount, which proves nothing but that it runs.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use lab::limits::Limiter;
use lab::progress::Unobserved;
use lab::record::LatencyRecording;
use lab::report::ResultsFolder;
use lab::results::{Case, Role, RunIdentity};
use lab::roles::process::ProcessLauncher;
use lab::run::{RunOptions, cancellation, run};
use lab::scenario::{CaseOptions, Scenario};
use lab::statistics::{Comparison, Design, Question, compare};

fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let (pairs, settings): (usize, &[&str]) = if quick {
        (1, &["phases.warm_up=100 ms", "phases.measure=300 ms", "load.max_lag=20000"])
    } else {
        (12, &["phases.warm_up=2 s", "phases.measure=5 s"])
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut with, mut without) = (Figures::default(), Figures::default());
    for pair in 0..pairs {
        let order = [LatencyRecording::On, LatencyRecording::Off];
        for place in 0..2 {
            let recording = order[(pair + place) % 2];
            let case = runtime.block_on(measured(settings, recording));
            let figures = match recording {
                LatencyRecording::On => &mut with,
                LatencyRecording::Off => &mut without,
            };
            figures.add(&case, recording);
        }
    }
    println!("the recorder, fan-out 32, 16 B, {pairs} pairs of runs in alternating order");
    print("throughput", &without.throughput, &with.throughput, Question::of_throughput(Design::Paired));
    let cost = Question::of_latency(Design::Paired);
    print("load: CPU per event", &without.load_cpu, &with.load_cpu, cost);
    print("sink: CPU per event", &without.sink_cpu, &with.sink_cpu, cost);
    print("all roles: CPU per event", &without.all_cpu, &with.all_cpu, cost);
}

/// One figure per run.
#[derive(Default)]
struct Figures {
    throughput: Vec<f64>,
    load_cpu: Vec<f64>,
    sink_cpu: Vec<f64>,
    all_cpu: Vec<f64>,
}

impl Figures {
    fn add(&mut self, case: &Case, recording: LatencyRecording) {
        let delivery = case.delivery.unwrap();
        assert_eq!((delivery.lost, delivery.corrupted), (0, Some(0)), "{:?}", case.findings);
        assert_eq!(
            case.latency_us.is_some(),
            recording == LatencyRecording::On,
            "the switch does what it says"
        );
        let throughput = case.forwarded_per_s.unwrap().median;
        self.throughput.push(throughput);
        let trial = &case.trials[0];
        let cpu = |role| {
            // A role that hardly works may be charged nothing in a short run.
            (trial.roles[&role].cpu_seconds / (throughput * trial.duration_s)).max(f64::MIN_POSITIVE)
        };
        self.load_cpu.push(cpu(Role::Load));
        self.sink_cpu.push(cpu(Role::Sink));
        self.all_cpu.push(trial.roles.keys().map(|&role| cpu(role)).sum());
    }
}

async fn measured(settings: &[&str], recording: LatencyRecording) -> Case {
    let folder = tempfile::tempdir().unwrap();
    let set = settings.iter().map(|&setting| setting.to_owned());
    let options = CaseOptions {
        set: set
            .chain(["trials=1".to_owned(), "relay.fan_out=32".to_owned(), "relay.failure_ratio=0".to_owned()])
            .collect(),
        ..CaseOptions::default()
    };
    let mut cases = Scenario::load("fan-out").unwrap().cases(&options).unwrap();
    cases.truncate(1);
    cases[0].parameters.latency_recording = recording;
    let options = RunOptions {
        scenario: "fan-out".to_owned(),
        description: None,
        prices: None,
        identity: RunIdentity {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: "the benchmark of the recorder".to_owned(),
            target: "embedded".to_owned(),
            seed: 1,
        },
        folder: ResultsFolder::create(folder.path()).unwrap(),
    };
    let launcher = ProcessLauncher::of(env!("CARGO_BIN_EXE_parshall").into());
    let (_canceller, cancellation) = cancellation();
    let outcome = run(&cases, options, &launcher, &Limiter::detect(), &Unobserved, cancellation).await;
    outcome.results.cases.into_iter().next().unwrap()
}

fn print(name: &str, without: &[f64], with: &[f64], question: Question) {
    let Comparison { difference_percent, interval_percent, verdict } =
        compare(without, with, &question).unwrap();
    let interval = interval_percent.map_or_else(
        || "no interval from so few pairs".to_owned(),
        |interval| {
            format!("{:.0} %: {:+.2} to {:+.2}", interval.confidence * 100.0, interval.low, interval.high)
        },
    );
    println!("  {name:<20} {difference_percent:+.2} % with recording ({interval}): {verdict:?}");
}
