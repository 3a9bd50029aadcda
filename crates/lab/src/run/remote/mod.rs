//! What the orchestrator knows of a role that a command of the scenario started elsewhere.

use tokio::time::Instant;

use super::clock_track::{ClockTrack, OffsetRange};
use crate::{
    clock::{RunClock, RunTime},
    probe::ProcessSample,
    results::{ClockOffset, Machine, Role},
    roles::{
        SILENCE,
        protocol::{Build, ClockAnswer, ClockQuestion, Hello},
    },
    scenario::Launch,
};

/// A role elsewhere.
#[derive(Debug)]
pub(super) struct Remote {
    role: Role,
    launch: Launch,
    /// Known from its first report on.
    pub(super) machine: Option<Machine>,
    clock: ClockTrack,
    /// By how much its clock was taken to be ahead when it got its configuration.
    aligned_ns: i64,
    questions: u64,
    answers: u64,
    /// What its process used, and when that was asked for.
    usage: Option<(RunTime, ProcessSample)>,
    usages: u64,
    heard: Instant,
}

impl Remote {
    pub(super) fn new(role: Role, launch: &Launch) -> Self {
        Self {
            role,
            launch: launch.clone(),
            machine: None,
            clock: ClockTrack::default(),
            aligned_ns: 0,
            questions: 0,
            answers: 0,
            usage: None,
            usages: 0,
            heard: Instant::now(),
        }
    }

    /// The command that started it, as one would type it.
    pub(super) fn command(&self) -> String {
        self.launch.command(self.role).join(" ")
    }

    pub(super) fn greeted(&mut self, hello: Hello) {
        self.machine = Some(hello.machine);
        self.heard = Instant::now();
    }

    /// The next question, unless so many are unanswered already that the way there may be blocked.
    pub(super) fn question(&mut self, asked_ns: i64, with_usage: bool) -> Option<ClockQuestion> {
        let is_open = self.machine.is_some() && self.questions - self.answers < UNANSWERED_MAX;
        is_open.then(|| {
            self.questions += 1;
            // What a process uses takes longer to find out than what its clock shows.
            let with_usage = with_usage || self.questions.is_multiple_of(USAGE_EVERY);
            ClockQuestion { asked_ns, with_usage }
        })
    }

    /// An answer that was heard at `heard_ns`.
    pub(super) fn answered(&mut self, answer: &ClockAnswer, heard_ns: i64, now: RunTime) {
        self.answers += 1;
        self.heard = Instant::now();
        self.clock.note(answer, heard_ns);
        if let Some(usage) = answer.usage {
            self.usage = Some((now, usage));
            self.usages += 1;
        }
    }

    pub(super) const fn answers(&self) -> u64 {
        self.answers
    }

    pub(super) const fn usages(&self) -> u64 {
        self.usages
    }

    pub(super) const fn usage(&self) -> Option<(RunTime, ProcessSample)> {
        self.usage
    }

    /// Whether nothing has been heard of it for so long that it, or the way to it, must be gone.
    pub(super) fn is_silent(&self) -> bool {
        self.machine.is_some() && self.heard.elapsed() > SILENCE
    }

    /// The clock of the run as the role's machine shows it. Later offsets are relative to this.
    pub(super) fn align(&mut self, clock: RunClock, now_ns: i64) -> RunClock {
        self.aligned_ns = self.clock.at(now_ns).map_or(0, OffsetRange::middle_ns);
        clock.as_shown_by(self.aligned_ns)
    }

    /// What the role's instants of this time are ahead of those of the run.
    pub(super) fn ahead(&self, clock: RunClock, from: RunTime, to: RunTime) -> Option<OffsetRange> {
        let range = self.clock.between(clock.monotonic_ns(from), clock.monotonic_ns(to))?;
        Some(OffsetRange { low_ns: range.low_ns - self.aligned_ns, high_ns: range.high_ns - self.aligned_ns })
    }

    /// The offset in the measured phase, for the results.
    pub(super) fn offset(&self, clock: RunClock, from: RunTime, to: RunTime) -> Option<ClockOffset> {
        let [from_ns, to_ns] = [from, to].map(|at| clock.monotonic_ns(at));
        let middle = self.clock.at(from_ns.midpoint(to_ns))?;
        let [began, ended] = [self.clock.at(from_ns)?, self.clock.at(to_ns)?];
        let seconds = std::iter::successors(Some(from_ns), |start| Some(start + NANOSECONDS_PER_SECOND));
        let seconds = seconds.take_while(|start| *start < to_ns);
        let bounds =
            seconds.filter_map(|start| self.clock.between(start, to_ns.min(start + NANOSECONDS_PER_SECOND)));
        let (exchanges, round_trip) = self.clock.exchanges(from_ns, to_ns);
        Some(ClockOffset {
            offset_us: microseconds(middle.middle_ns()),
            bound_us: microseconds(
                bounds.map(OffsetRange::bound_ns).max().unwrap_or_else(|| middle.bound_ns()),
            ),
            drift_us: microseconds(ended.middle_ns() - began.middle_ns()),
            round_trip_us: microseconds(round_trip.unwrap_or_else(|| middle.bound_ns() * 2)),
            exchanges,
        })
    }

    /// Why it has not started, if `hello` is of another program.
    pub(super) fn stranger(&self, hello: &Hello) -> Option<[String; 2]> {
        let ours = Build::of_this_program();
        (hello.build != ours).then(|| {
            let reason = format!("is {}, and this is {ours}", hello.build);
            [reason, "install the same build on both machines".to_owned()]
        })
    }

    /// What can be done about one that ended, or said something else, instead of greeting.
    pub(super) fn advice(&self, exit_code: Option<i32>) -> String {
        let (program, role) = (&self.launch.program, self.role);
        match exit_code {
            Some(126 | 127) => format!(
                "there may be no `{program}` there: install this build on that machine, or set `roles.{role}.program` \
                 to its path"
            ),
            _ => "run the command by hand: its first line has to be `{\"hello\":…}`. It must not ask for a password, \
                  and nothing on the way, such as a shell's profile, may write to standard output"
                .to_owned(),
        }
    }
}

fn microseconds(nanoseconds: i64) -> f64 {
    nanoseconds as f64 / 1e3
}

const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

/// At ten questions a second.
const UNANSWERED_MAX: u64 = 50;

const USAGE_EVERY: u64 = 5;

#[cfg(test)]
mod tests;
