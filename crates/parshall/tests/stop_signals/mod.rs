//! The signals that ask a process of these tests to stop.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use rustix::process::Signal;

/// SIGHUP is one of them, unless the tests themselves were started with it ignored, as by `nohup`: their children inherit that, and
/// respect it.
pub(crate) fn stop_signals() -> Vec<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap();
    let mut signals = vec![Signal::TERM, Signal::INT];
    if ignored & 1 == 0 {
        signals.push(Signal::HUP);
    }
    signals
}
