//! What chrony says of a machine's wall clock, where it runs.
//!
//! Latencies do not go by it: the lab compares monotonic clocks itself, with a bound of its own. But dates that a service gives to events
//! are wall-clock times, and whoever repeats a run on two machines wants to know how well those were set.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The wall clock of a machine, by `chronyc tracking`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chrony {
    /// How many machines are between this one and a reference clock; 0 if it follows none.
    pub stratum: u32,
    /// How far chrony takes the clock to be off, in microseconds, either way.
    pub offset_us: f64,
    /// How far its reference may be off, in microseconds: half the round trip to the reference clock, and its dispersion.
    pub root_distance_us: f64,
}

impl Chrony {
    /// That of this machine; nothing where chrony does not run.
    pub(crate) fn of_this_machine() -> Option<Self> {
        let mut command = Command::new("chronyc");
        command.args(["-n", "-c", "tracking"]);
        Self::told_by(command)
    }

    fn told_by(mut command: Command) -> Option<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        let give_up = Instant::now() + PATIENCE;
        let status = loop {
            match child.try_wait().ok()? {
                Some(status) => break status,
                None if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(1)),
                None => {
                    // A daemon that does not answer says nothing.
                    let _gone = child.kill();
                    let _ended = child.wait();
                    return None;
                }
            }
        };
        let mut told = String::new();
        child.stdout.take()?.take(LONGEST).read_to_string(&mut told).ok()?;
        status.success().then(|| Self::read(&told)).flatten()
    }

    /// Reads the line of `chronyc -c tracking`: reference, its name, stratum, time of the last update, offset, last and RMS offset, frequency,
    /// residual frequency, skew, root delay, root dispersion, interval, leap status; times in seconds.
    fn read(line: &str) -> Option<Self> {
        let fields: Vec<&str> = line.trim().split(',').collect();
        let microseconds = |index: usize| {
            let seconds: f64 = fields.get(index)?.parse().ok()?;
            Some((seconds * 1e6).abs()).filter(|time| time.is_finite())
        };
        Some(Self {
            stratum: fields.get(2)?.parse().ok()?,
            offset_us: microseconds(4)?,
            root_distance_us: microseconds(10)? / 2.0 + microseconds(11)?,
        })
    }
}

/// How long chrony may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// More than the line of fourteen figures has.
const LONGEST: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "C0A80001,192.168.0.1,3,1718000000.123456789,-0.000001501,-0.000001632,0.000002360,-331.898,0.004,0.154,\
                        0.000373000,0.000024780,64.2,Normal\n";

    #[test]
    fn a_line_says_how_far_off_the_clock_may_be() {
        let chrony = Chrony::read(LINE).expect("whole");
        assert_eq!(chrony.stratum, 3);
        assert!((chrony.offset_us - 1.501).abs() < 1e-9, "{chrony:?}");
        assert!((chrony.root_distance_us - (186.5 + 24.78)).abs() < 1e-9, "{chrony:?}");
    }

    #[test]
    fn what_is_no_such_line_says_nothing() {
        for line in
            ["", "506 Cannot talk to daemon", "a,b,c,d", &LINE.replace("0.000373000", "nan"), &LINE[..60]]
        {
            assert_eq!(Chrony::read(line), None, "{line}");
        }
    }

    #[test]
    fn a_program_that_is_missing_or_fails_says_nothing() {
        assert_eq!(Chrony::told_by(Command::new("/nowhere/chronyc")), None);
        let told = |script: String| {
            let mut command = Command::new("sh");
            command.args(["-c", &script]);
            Chrony::told_by(command)
        };
        assert_eq!(told(format!("echo '{}'", LINE.trim())).map(|it| it.stratum), Some(3));
        assert_eq!(told(format!("echo '{}'; exit 1", LINE.trim())), None);
    }
}
