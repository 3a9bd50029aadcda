//! Why an event left late: its worker was not there to send it, or it waited for the service.
//!
//! A worker that has nothing to send, or too many unanswered sends, sleeps until an instant that it chose. If it wakes
//! much later, it was not scheduled, and what was due meanwhile is late by its own fault. So it is if much time passes
//! between two looks at the clock while it is awake. The time that it slept as planned while something was due is time
//! that the service took: no place among the unanswered sends, or no credit. So is the time that it took to wake and see
//! that there still was none.
//!
//! Catching up takes time as well, and events that become due meanwhile wait for it. It is counted to what made the
//! worker fall behind: time slept for the service counts for every event until the worker has nothing left to send.

use std::ops::Range;

use super::LATE_AFTER;
use crate::clock::RunTime;

/// When a worker slept, since it last had nothing left to send.
#[derive(Debug, Clone, Default)]
pub struct Attendance {
    asleep: Option<Asleep>,
    /// When it was last known to be awake.
    awake_at: Option<RunTime>,
    /// Since when it is awake, in vain as long as nothing leaves.
    awake_since: Option<RunTime>,
    /// For how long it slept as planned while something was due.
    waited_us: u64,
    /// When it should last have been awake and was not, if nothing has left since.
    absence: Option<Absence>,
    /// When else, if that made events late.
    absences: Vec<Range<RunTime>>,
}

#[derive(Debug, Clone, Copy)]
struct Asleep {
    /// From when on something was due.
    due: RunTime,
    until: RunTime,
}

#[derive(Debug, Clone)]
struct Absence {
    time: Range<RunTime>,
    /// It has woken in vain, and sleeps once more. An answer that came while it was absent is seen by then.
    is_in_vain: bool,
}

impl Attendance {
    /// The worker sleeps at `now` and means to wake at `until`. The next event is or was due at `next_due`.
    pub fn sleep(&mut self, now: RunTime, until: RunTime, next_due: RunTime) {
        let awake_since = self.awake_since.take();
        if next_due > now {
            self.waited_us = 0;
            self.absence = None;
            self.absences.clear();
        } else if let Some(since) = awake_since {
            self.waited_us += micros_between(since.max(next_due), now);
            match self.absence.take() {
                Some(absence) if absence.is_in_vain => {
                    self.waited_us += micros_between(absence.time.start.max(next_due), absence.time.end);
                }
                absence => self.absence = absence.map(|absence| Absence { is_in_vain: true, ..absence }),
            }
        }
        self.asleep = Some(Asleep { due: next_due.max(now), until });
    }

    /// The worker is awake at `now`: it woke, or it has been awake since the last call.
    pub fn awake(&mut self, now: RunTime) {
        let expected = match self.asleep.take() {
            Some(Asleep { due, until }) => {
                self.waited_us += micros_between(due, now.min(until));
                self.awake_since = Some(now.min(until));
                until
            }
            None => self.awake_at.unwrap_or(now),
        };
        self.awake_at = Some(now);
        if now.saturating_since(expected) > LATE_AFTER {
            self.awake_since = self.awake_since.map(|_| now);
            let start = self.absence.take().map_or(expected, |absence| absence.time.start);
            self.absence = Some(Absence { time: start..now, is_in_vain: false });
        }
    }

    /// Something has left.
    pub fn send(&mut self) {
        self.awake_since = None;
        if let Some(Absence { time, .. }) = self.absence.take() {
            if self.absences.len() == MOST_ABSENCES {
                self.absences.remove(0);
            }
            self.absences.push(time);
        }
    }

    /// By how many microseconds an event that was meant for `intended` and leaves at `now` is late by the worker's own
    /// fault.
    #[must_use]
    pub fn own_lateness_us(&self, intended: RunTime, now: RunTime) -> i64 {
        let waited_us = i64::try_from(self.waited_us).unwrap_or(i64::MAX);
        let behind_us = now.micros_since(intended).saturating_sub(waited_us);
        let last = self.absence.as_ref().map(|absence| &absence.time);
        let absence = self.absences.iter().chain(last).find(|absence| absence.contains(&intended));
        let absent_us = absence.map_or(0, |absence| absence.end.micros_since(intended));
        behind_us.max(absent_us).max(0)
    }
}

fn micros_between(earlier: RunTime, later: RunTime) -> u64 {
    later.as_micros().saturating_sub(earlier.as_micros())
}

/// A worker that is not scheduled this often before it has caught up is late by its own fault in any case.
const MOST_ABSENCES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(milliseconds: u64) -> RunTime {
        RunTime::from_micros(milliseconds * 1_000)
    }

    #[test]
    fn a_worker_that_wakes_on_time_is_late_by_no_fault_of_its_own() {
        let mut attendance = Attendance::default();
        attendance.sleep(at(0), at(20), at(20));
        attendance.awake(at(21));
        assert_eq!(attendance.own_lateness_us(at(20), at(21)), 1_000, "the time to wake is its own");
    }

    #[test]
    fn what_was_due_while_a_worker_was_not_scheduled_is_late_by_its_own_fault() {
        let mut attendance = Attendance::default();
        attendance.sleep(at(0), at(20), at(20));
        attendance.awake(at(520));
        attendance.send();
        // It has many sends in flight at once then, and waits for answers before it can catch up.
        attendance.sleep(at(521), at(523), at(120));
        attendance.awake(at(523));
        assert_eq!(attendance.own_lateness_us(at(120), at(523)), 401_000, "without the wait for answers");
        assert_eq!(attendance.own_lateness_us(at(519), at(523)), 2_000);
    }

    #[test]
    fn a_worker_that_is_stopped_while_it_is_awake_was_not_scheduled_either() {
        let mut attendance = Attendance::default();
        attendance.sleep(at(0), at(20), at(20));
        attendance.awake(at(20));
        attendance.awake(at(520));
        attendance.send();
        // It catches up slowly, since it waits for answers.
        for now in (520..900).step_by(2) {
            attendance.sleep(at(now), at(now + 2), at(120));
            attendance.awake(at(now + 2));
        }
        assert_eq!(attendance.own_lateness_us(at(120), at(900)), 400_000);
        assert_eq!(attendance.own_lateness_us(at(519), at(900)), 1_000);
    }

    #[test]
    fn what_waited_for_answers_is_not_and_neither_is_what_became_due_while_the_worker_caught_up() {
        let mut attendance = Attendance::default();
        // A service that stands still for half a second: the worker looks every 5 ms.
        for now in (0..500).step_by(5) {
            attendance.sleep(at(now), at(now + 2), at(1));
            attendance.awake(at(now + 4));
        }
        attendance.sleep(at(500), at(500), at(1));
        attendance.awake(at(500));
        attendance.send();
        assert_eq!(attendance.own_lateness_us(at(1), at(505)), 5_000);
        assert_eq!(attendance.own_lateness_us(at(400), at(520)), 0);
        assert_eq!(attendance.own_lateness_us(at(560), at(580)), 0, "due after the stall, in its wake");
        // It has caught up: what the service took is over.
        attendance.sleep(at(600), at(610), at(610));
        attendance.awake(at(611));
        assert_eq!(attendance.own_lateness_us(at(610), at(650)), 40_000);
    }

    #[test]
    fn an_absence_counts_only_if_something_could_have_left_meanwhile() {
        let absent = || {
            let mut attendance = Attendance::default();
            attendance.sleep(at(0), at(2), at(1));
            attendance.awake(at(302));
            attendance.sleep(at(302), at(304), at(1));
            attendance.awake(at(304));
            attendance
        };
        // The answer had come, and was seen a moment after it woke.
        let mut seen = absent();
        seen.send();
        assert_eq!(seen.own_lateness_us(at(100), at(305)), 202_000);
        assert_eq!(seen.own_lateness_us(at(1), at(305)), 301_000);
        // It had not, so that the absence did no harm.
        let mut in_vain = absent();
        in_vain.sleep(at(304), at(306), at(1));
        in_vain.awake(at(306));
        in_vain.send();
        assert_eq!(in_vain.own_lateness_us(at(100), at(307)), 0);
        assert_eq!(in_vain.own_lateness_us(at(1), at(307)), 1_000);
    }

    #[test]
    fn a_worker_that_can_not_keep_up_is_late_by_its_own_fault_though_it_also_waits() {
        let mut attendance = Attendance::default();
        // Two thirds of the time it waits for answers; without them it would still be a hundred times too slow.
        for now in (0..900).step_by(9) {
            attendance.sleep(at(now), at(now + 6), at(1));
            attendance.awake(at(now + 6));
            attendance.send();
        }
        assert_eq!(attendance.own_lateness_us(at(9), at(900)), 292_000);
    }
}
