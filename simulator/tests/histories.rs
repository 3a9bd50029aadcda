//! Thousands of histories, each a seed. `SIMULATOR_SEED=n` runs that one alone; `SIMULATOR_HISTORIES=n` runs so many from
//! the first seed of each test on.

use std::env;

use simulator::{Config, Report, simulate};

#[test]
fn one_relay_keeps_every_invariant_in_the_first_half_of_its_histories() {
    run(Config::from_seed, 0, HISTORIES_OF_ONE);
}

#[test]
fn one_relay_keeps_every_invariant_in_the_second_half_of_its_histories() {
    run(Config::from_seed, HISTORIES_OF_ONE, HISTORIES_OF_ONE);
}

#[test]
fn relays_that_share_keep_every_invariant_in_the_first_half_of_their_histories() {
    run(Config::shared_from_seed, 0, HISTORIES_OF_MANY);
}

#[test]
fn relays_that_share_keep_every_invariant_in_the_second_half_of_their_histories() {
    run(Config::shared_from_seed, HISTORIES_OF_MANY, HISTORIES_OF_MANY);
}

/// Runs the histories, and sees to it that they were worth it.
fn run(config: impl Fn(u64) -> Config, first: u64, count: u64) {
    if let Some(seed) = from_environment("SIMULATOR_SEED") {
        history(&config(seed), usize::MAX);
        return;
    }
    let count = from_environment("SIMULATOR_HISTORIES").unwrap_or(count);
    let reports: Vec<Report> =
        (first..first + count).map(|seed| history(&config(seed), TRACE_LINES)).collect();
    if count < 100 {
        return;
    }
    let sum = |of: fn(&Report) -> u64| reports.iter().map(of).sum::<u64>();
    assert!(sum(|report| report.crashes) > count, "hardly anything crashed");
    assert!(sum(|report| report.duplicates) > count, "hardly anything was sent again");
    assert!(sum(|report| report.dead_letters) > count, "hardly anything was put aside");
    assert!(sum(|report| report.both) > 0, "nothing was taken after it had been put aside");
    assert!(sum(|report| report.overtakings) > count, "hardly any key was overtaken");
    if config(first).instances > 1 {
        assert!(sum(|report| report.takeovers) > count, "hardly any partition changed hands");
        assert!(sum(|report| report.refused_writes) > 0, "no owner wrote after its time");
    }
}

fn history(config: &Config, trace_lines: usize) -> Report {
    match simulate(config, trace_lines) {
        Ok(report) => report,
        Err(failure) => panic!("{failure}"),
    }
}

fn from_environment(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().expect("a whole number"))
}

const HISTORIES_OF_ONE: u64 = 1_500;
const HISTORIES_OF_MANY: u64 = 750;

/// Enough to see what led to a broken invariant, and little enough to be read.
const TRACE_LINES: usize = 80;
