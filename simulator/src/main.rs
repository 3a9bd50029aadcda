//! Histories by the thousand, or one of them line by line.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use simulator::{Config, Defect, simulate};

/// Relays, hubs and a checkpoint store on virtual time, with everything going wrong that can.
#[derive(Debug, Parser)]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many histories to run, each with the seed after that of the one before.
    #[arg(long, default_value_t = 1)]
    histories: u64,
    /// Histories in which several relays share the partitions.
    #[arg(long)]
    shared: bool,
    /// Break something on purpose, by its name in the source.
    #[arg(long)]
    defect: Option<Defect>,
    /// Show all of a history in which something is wrong, not only its end.
    #[arg(long)]
    trace: bool,
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let lines = if arguments.trace { usize::MAX } else { 60 };
    let start = Instant::now();
    let mut sums = [0_u64; 9];
    let mut slowest = (0, 0);
    for seed in (arguments.seed..).take(usize::try_from(arguments.histories).unwrap_or(usize::MAX)) {
        let mut config = match arguments.shared {
            true => Config::shared_from_seed(seed),
            false => Config::from_seed(seed),
        };
        config.defect = arguments.defect;
        match simulate(&config, lines) {
            Ok(report) => {
                let counts = [
                    report.steps,
                    report.events,
                    report.duplicates,
                    report.crashes,
                    report.takeovers,
                    report.refused_writes,
                    report.dead_letters,
                    report.both,
                    report.overtakings,
                ];
                sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                slowest = slowest.max((report.recovery_ms, seed));
            }
            Err(failure) => {
                writeln!(io::stderr(), "{failure}")?;
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    let elapsed = start.elapsed().as_secs_f64();
    let [steps, events, duplicates, crashes, takeovers, refused, dead_letters, both, overtakings] = sums;
    writeln!(
        io::stdout(),
        "{} histories in {elapsed:.1} s ({:.0} per s): {steps} steps, {events} events, {duplicates} duplicates, {crashes} \
         crashes, {takeovers} takeovers, {refused} refused checkpoints, {dead_letters} dead letters, {both} of what is at its \
         sink too, {overtakings} overtakings; the slowest recovery took {} ms (seed {})",
        arguments.histories,
        arguments.histories as f64 / elapsed,
        slowest.0,
        slowest.1,
    )?;
    Ok(ExitCode::SUCCESS)
}
