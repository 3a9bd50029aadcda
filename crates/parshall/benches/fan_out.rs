//! The relay on one core, from end to end, as `parshall run fan-out` measures it, beside what the machine can do.
//!
//! The reference is a byte pump: a thread on the relay's core that reads from one loopback socket and writes to another,
//! 256 KiB at a time, with the other ends on the other core. It moves as many bytes per event as the relay does, but looks
//! at none of them; the ratio says how much of what the core can carry is left after doing it properly.
//!
//! Also: how long `parshall serve` takes until it is ready, and what it holds in memory then. Prints medians with minimum
//! and maximum. `PARSHALL_BENCH_QUICK=1` runs a token amount.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value;

fn main() {
    let quick = std::env::var_os("PARSHALL_BENCH_QUICK").is_some();
    let trials = if quick { 1 } else { 3 };
    println!(
        "relay on one core, 32 source partitions, batch 128, checkpoint each batch; medians [min-max] of {trials}"
    );
    for case in cases(quick) {
        relay(&case, trials);
    }
    latency(if quick { 1 } else { 5 }, trials);
    serve(trials);
}

struct Backlog {
    name: &'static str,
    payload: &'static str,
    payload_bytes: u64,
    fan_out: u64,
    events: u64,
    settings: &'static [&'static str],
}

fn cases(quick: bool) -> [Backlog; 3] {
    let large = &["embedded.log_per_hub=4 GiB", "embedded.preallocate=true", "load.batch=100"];
    let (small_events, large_events) = if quick { (20_000, 5_000) } else { (12_000_000, 3_000_000) };
    [
        Backlog {
            name: "16 B, fan-out 32",
            payload: "16 B",
            payload_bytes: 16,
            fan_out: 32,
            events: small_events,
            settings: &[],
        },
        Backlog {
            name: "16 B, fan-out 100",
            payload: "16 B",
            payload_bytes: 16,
            fan_out: 100,
            events: small_events,
            settings: &[],
        },
        Backlog {
            name: "1 KiB, fan-out 32",
            payload: "1 KiB",
            payload_bytes: 1024,
            fan_out: 32,
            events: large_events,
            settings: if quick { &["load.batch=100"] } else { large },
        },
    ]
}

/// Backlog: the events lie ready before the relay starts, and the sink reads after it is done.
fn relay(case: &Backlog, trials: usize) {
    let mut settings = vec![
        "load.mode=backlog".to_owned(),
        "relay.failure_ratio=0".to_owned(),
        format!("load.backlog={}", case.events),
        format!("load.payload={}", case.payload),
        format!("relay.fan_out={}", case.fan_out),
    ];
    settings.extend(case.settings.iter().map(|setting| (*setting).to_owned()));
    let result = run(&settings, trials);
    // What the relay reads and writes per event on average: one transfer in, its part of a batch out.
    let bytes = (DELIVERED_OVERHEAD + case.payload_bytes + SENT_OVERHEAD + case.payload_bytes) / 2;
    let pump = spread((0..trials).map(|_| byte_pump(bytes * case.events.min(2_000_000))).collect());
    let forwarded = &result["forwarded_per_s"];
    let median = forwarded["median"].as_f64().unwrap();
    println!(
        "  {:<18} {median:>10.0} events/s [{:.0}-{:.0}], memory peak {:.1} MiB; byte pump {:.2} GB/s = {:.0} events/s; ratio {:.3}",
        case.name,
        forwarded["min"].as_f64().unwrap(),
        forwarded["max"].as_f64().unwrap(),
        result["memory_peak_bytes"]["max"].as_f64().unwrap() / f64::from(1 << 20),
        pump.1 / 1e9,
        pump.1 / bytes as f64,
        median / (pump.1 / bytes as f64),
    );
    assert_eq!(result["delivery"]["lost"], 0, "a fast relay that loses events is worth nothing");
}

/// Open load at a fixed rate: latency from the intended instant of each event until the sink has it.
fn latency(seconds: u64, trials: usize) {
    let settings = [
        "load.mode=open".to_owned(),
        "load.rate=10000/s".to_owned(),
        "load.batch=1".to_owned(),
        "relay.failure_ratio=0".to_owned(),
        "relay.batch.wait=1 ms".to_owned(),
        "relay.fan_out=32".to_owned(),
        format!("phases.measure={seconds} s"),
    ];
    let result = run(&settings, trials);
    // Per trial, so that one trial in which the machine stood still does not speak for all.
    let of_trials = |figure: &str| {
        let trials = result["trials"].as_array().unwrap().iter();
        spread(trials.map(|trial| trial["latency_us"][figure].as_f64().unwrap_or(f64::NAN)).collect())
    };
    let (p50, p99) = (of_trials("p50"), of_trials("p99"));
    let round_trips = spread((0..trials).map(|_| round_trip()).collect());
    println!(
        "  end to end at 10,000 events/s: p50 {:.0} us [{:.0}-{:.0}], p99 {:.0} us [{:.0}-{:.0}]; one loopback round \
         trip between two cores {:.0} us; p50 ratio {:.1}",
        p50.1,
        p50.0,
        p50.2,
        p99.1,
        p99.0,
        p99.2,
        round_trips.1,
        p50.1 / round_trips.1,
    );
}

fn run(settings: &[String], trials: usize) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_parshall"));
    command.args(["run", "fan-out", "--quick", "--format", "json", "--trials", &trials.to_string(), "--out"]);
    command.arg(folder.path());
    for setting in settings {
        command.args(["--set", setting]);
    }
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    results["cases"][0].clone()
}

/// Bytes per second through one core.
fn byte_pump(total: u64) -> f64 {
    let (into_pump, mut pump_in) = pair();
    let (mut pump_out, out_of_pump) = pair();
    let source = std::thread::spawn(move || {
        pin(1);
        let (mut socket, buffer) = (into_pump, vec![7; PUMP_BUFFER]);
        let mut left = total;
        while left > 0 {
            let part = left.min(PUMP_BUFFER as u64);
            socket.write_all(&buffer[..part as usize]).unwrap();
            left -= part;
        }
    });
    let drain = std::thread::spawn(move || {
        pin(1);
        let (mut socket, mut buffer) = (out_of_pump, vec![0; PUMP_BUFFER]);
        while socket.read(&mut buffer).unwrap() > 0 {}
    });
    let pump = std::thread::spawn(move || {
        pin(0);
        let mut buffer = vec![0; PUMP_BUFFER];
        let started = Instant::now();
        loop {
            let length = pump_in.read(&mut buffer).unwrap();
            if length == 0 {
                break;
            }
            pump_out.write_all(&buffer[..length]).unwrap();
        }
        started.elapsed()
    });
    source.join().unwrap();
    let elapsed = pump.join().unwrap();
    drain.join().unwrap();
    total as f64 / elapsed.as_secs_f64()
}

/// Median microseconds of one byte there and back between two cores.
fn round_trip() -> f64 {
    let (mut here, mut there) = pair();
    here.set_nodelay(true).unwrap();
    there.set_nodelay(true).unwrap();
    let echo = std::thread::spawn(move || {
        pin(1);
        let mut byte = [0];
        while there.read(&mut byte).unwrap() > 0 {
            there.write_all(&byte).unwrap();
        }
    });
    let pinger = std::thread::spawn(move || {
        pin(0);
        let mut byte = [0];
        let mut times: Vec<f64> = (0..2_000)
            .map(|_| {
                let started = Instant::now();
                here.write_all(&byte).unwrap();
                here.read_exact(&mut byte).unwrap();
                started.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let median = pinger.join().unwrap();
    echo.join().unwrap();
    median
}

/// Milliseconds from the start of `parshall serve` until it says that it is ready, and its memory then.
fn serve(trials: usize) {
    let mut memory = 0;
    let times = (0..trials)
        .map(|_| {
            let started = Instant::now();
            let mut child = Command::new(env!("CARGO_BIN_EXE_parshall"))
                .args(["serve", "--amqp", "127.0.0.1:0", "--http", "127.0.0.1:0"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            let elapsed = started.elapsed();
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
            let resident = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
            memory = memory.max(resident.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap());
            child.kill().unwrap();
            child.wait().unwrap();
            elapsed.as_secs_f64() * 1e3
        })
        .collect();
    // The reference: what the system takes to start a program at all.
    let program = spread(
        (0..trials)
            .map(|_| {
                let started = Instant::now();
                Command::new("true").status().unwrap();
                started.elapsed().as_secs_f64() * 1e3
            })
            .collect(),
    );
    let (min, median, max) = spread(times);
    println!(
        "  serve: ready after {median:.1} ms [{min:.1}-{max:.1}], {:.1} MiB; starting `true` takes {:.1} ms; ratio {:.1}",
        memory as f64 / 1024.0,
        program.1,
        median / program.1,
    );
}

/// Minimum, median, maximum.
fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[0], values[values.len() / 2], values[values.len() - 1])
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    here.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    (here, listener.accept().unwrap().0)
}

/// Keeps the calling thread on one CPU, if there are that many.
fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // On a machine of one core everything is on it anyway.
    let _ = sched_setaffinity(None, &set);
}

const PUMP_BUFFER: usize = 256 * 1024;

/// Bytes around the payload of an event as it is delivered: frame, performative, annotations, Data section.
const DELIVERED_OVERHEAD: u64 = 8 + 30 + 91 + 5;

/// Bytes around it as it is sent on: two Data sections, and its part of the frame and performative of a batch of four.
const SENT_OVERHEAD: u64 = 5 + 5 + 10;
