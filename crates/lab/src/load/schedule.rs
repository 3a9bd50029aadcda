//! The scheduler of a load: which events may leave now.
//!
//! Pure: time comes in as an argument, and events come out as [`Run`]s of one stream, each of which
//! becomes one send. There is no timer per event; the caller asks again at [`Schedule::next_due`], or,
//! while it [waits for answers](Schedule::waits_for_answers), when a send was answered, or when the
//! orchestrator allowed more.
//!
//! A run that is due while too many sends are unanswered stays in the schedule with its intended
//! instants, and leaves late. Nothing is skipped and nothing is re-dated. So it is with a burst that is due while
//! something of the one before is unanswered.

use std::ops::Range;

use super::plan::{LoadPlan, Pace, StreamPlan, Worker, share};
use crate::clock::RunTime;

/// Decides what one worker of a load sends when.
#[derive(Debug, Clone)]
pub struct Schedule {
    plan: LoadPlan,
    worker: Worker,
    streams: Vec<StreamState>,
    /// The index of the stream that is looked at first, so that none is favoured.
    next_stream: usize,
    unanswered: u64,
    may_be_unanswered: u64,
    /// When the burst was due that is being sent; used by [`Pace::Burst`] alone.
    burst: RunTime,
    released: u64,
    /// How many events this worker may have released; bounds only [`Pace::Saturate`].
    allowed: u64,
    held: HeldTime,
}

/// Neighbouring events of one stream that are sent together.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The stream.
    pub stream: u16,
    /// When the schedule gave the run out.
    pub released: RunTime,
    first: u32,
    count: u32,
    /// Where the intended instants come from; without a schedule, it is the release.
    plan: Option<StreamPlan>,
}

#[derive(Debug, Clone)]
struct StreamState {
    number: u16,
    /// The next sequence number.
    sequence: u32,
    /// Where the stream ends.
    end: u32,
    plan: Option<StreamPlan>,
}

/// How long a saturating load stood still because it was far enough ahead.
#[derive(Debug, Clone, Copy, Default)]
struct HeldTime {
    since: Option<RunTime>,
    total_us: u64,
}

impl Schedule {
    /// The schedule of `worker`, from `start` on. A saturating load may send nothing until
    /// [`Self::allow`] is called.
    #[must_use]
    pub fn new(plan: LoadPlan, worker: Worker, start: RunTime) -> Self {
        let streams = worker
            .streams(&plan)
            .map(|number| StreamState {
                number,
                sequence: 0,
                end: match plan.pace {
                    Pace::Backlog { events } => {
                        u32::try_from(share(events, number, plan.streams)).unwrap_or(u32::MAX)
                    }
                    Pace::Open { .. } | Pace::Burst { .. } | Pace::Closed | Pace::Saturate => u32::MAX,
                },
                plan: StreamPlan::new(&plan, number, start),
            })
            .collect();
        Self {
            plan,
            worker,
            streams,
            next_stream: 0,
            unanswered: 0,
            may_be_unanswered: u64::from(plan.in_flight.max(1)),
            burst: RunTime::EPOCH,
            released: 0,
            allowed: match plan.pace {
                Pace::Saturate => 0,
                Pace::Open { .. } | Pace::Burst { .. } | Pace::Closed | Pace::Backlog { .. } => u64::MAX,
            },
            held: HeldTime::default(),
        }
    }

    /// Appends to `runs` what may leave at `now`, at most `budget` events (the last run may exceed it).
    /// Each run counts as unanswered until [`Self::answered`].
    pub fn release(&mut self, now: RunTime, budget: u32, runs: &mut Vec<Run>) {
        let due_by = self.begin_burst(now);
        let mut left = i64::from(budget);
        let mut fruitless = 0;
        while left > 0
            && fruitless < self.streams.len()
            && self.unanswered < self.may_be_unanswered
            && self.released < self.allowed
        {
            let most = self.allowed - self.released;
            let most = u32::try_from(most).unwrap_or(u32::MAX).min(self.plan.batch.max(1));
            let index = self.next_stream;
            self.next_stream = (index + 1) % self.streams.len();
            let stream = &mut self.streams[index];
            let Some(run) = stream.release(now, due_by, most) else {
                fruitless += 1;
                continue;
            };
            fruitless = 0;
            left -= i64::from(run.count);
            self.released += u64::from(run.count);
            self.unanswered += 1;
            runs.push(run);
        }
        let is_held = self.released >= self.allowed && self.unanswered < self.may_be_unanswered;
        self.held.note(is_held, now);
    }

    /// Up to when events have to be due to leave at `now`. The next burst begins only when all of the last one was answered.
    fn begin_burst(&mut self, now: RunTime) -> RunTime {
        if !matches!(self.plan.pace, Pace::Burst { .. }) {
            return now;
        }
        if self.unanswered == 0
            && let Some(due) = self.next_due().filter(|due| *due <= now)
        {
            self.burst = due;
        }
        self.burst.min(now)
    }

    /// `sends` runs were answered, well or badly.
    pub const fn answered(&mut self, sends: u64) {
        self.unanswered = self.unanswered.saturating_sub(sends);
    }

    /// A run was divided: it becomes one send more, which counts as unanswered, too.
    pub const fn divided(&mut self) {
        self.unanswered += 1;
    }

    /// How many sends may wait for an answer.
    #[must_use]
    pub const fn may_be_unanswered(&self) -> u64 {
        self.may_be_unanswered
    }

    /// Lets a saturating load offer `events` in total, of all workers together; less than before has no
    /// effect. Other paces ignore it.
    pub fn allow(&mut self, events: u64) {
        if matches!(self.plan.pace, Pace::Saturate) {
            self.allowed = self.allowed.max(self.worker.share_of(events));
        }
    }

    /// Whether as many sends are unanswered as may be, or all of a burst was sent: nothing leaves before an answer comes.
    #[must_use]
    pub fn waits_for_answers(&self) -> bool {
        let has_sent_burst = || {
            let is_burst = matches!(self.plan.pace, Pace::Burst { .. });
            is_burst && self.unanswered > 0 && self.next_due().is_some_and(|due| due > self.burst)
        };
        self.unanswered >= self.may_be_unanswered || has_sent_burst()
    }

    /// When the next event is or was due; `None` without a plan in time.
    #[must_use]
    pub fn next_due(&self) -> Option<RunTime> {
        self.streams
            .iter()
            .filter(|stream| stream.sequence < stream.end)
            .filter_map(|stream| stream.plan.as_ref())
            .map(StreamPlan::intended)
            .min()
    }

    /// Whether everything has been released: only a backlog ever ends by itself.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.streams.iter().all(|stream| stream.sequence >= stream.end)
    }

    /// Events released so far.
    #[must_use]
    pub const fn released(&self) -> u64 {
        self.released
    }

    /// Sends that wait for an answer.
    #[must_use]
    pub const fn unanswered(&self) -> u64 {
        self.unanswered
    }

    /// Whether events have intended instants of their own.
    #[must_use]
    pub const fn has_plan(&self) -> bool {
        self.plan.pace.has_plan()
    }

    /// Events that were due from `begin` on and before `end`, and have not been released. At the end of a load they are
    /// the events that were never sent.
    #[must_use]
    pub fn overdue(&self, (begin, end): (RunTime, RunTime)) -> u64 {
        let plans = self.streams.iter().filter_map(|stream| stream.plan.as_ref());
        plans.map(|plan| plan.due_before(end).saturating_sub(plan.due_before(begin))).sum()
    }

    /// For how many microseconds up to `now` the load stood still because it was as far ahead as it was
    /// allowed to be. More than none proves that it could have offered more.
    #[must_use]
    pub fn held_us(&self, now: RunTime) -> u64 {
        let open = self.held.since.map_or(0, |since| now.micros_since(since).max(0) as u64);
        self.held.total_us + open
    }
}

impl Run {
    /// How many events it has.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Its sequence numbers.
    #[must_use]
    pub const fn sequences(&self) -> Range<u32> {
        self.first..self.first + self.count
    }

    /// Takes all but the first `count` events out of it; `None` if there are no more.
    #[must_use]
    pub fn split_off(&mut self, count: u32) -> Option<Self> {
        let rest = self.count.checked_sub(count).filter(|rest| *rest > 0)?;
        self.count = count;
        let mut plan = self.plan.clone();
        if let Some(plan) = &mut plan {
            (0..count).for_each(|_| plan.advance());
        }
        Some(Self { first: self.first + count, count: rest, plan, ..*self })
    }

    /// Its events in order: sequence number and intended instant.
    pub fn events(&self) -> impl Iterator<Item = (u32, RunTime)> + use<> {
        let released = self.released;
        let mut plan = self.plan.clone();
        self.sequences().map(move |sequence| {
            let intended = plan.as_mut().map_or(released, |plan| {
                let intended = plan.intended();
                plan.advance();
                intended
            });
            (sequence, intended)
        })
    }
}

impl StreamState {
    /// What is due by `due_by` and leaves at `now`.
    fn release(&mut self, now: RunTime, due_by: RunTime, most: u32) -> Option<Run> {
        let most = most.min(self.end - self.sequence);
        let (plan, count) = match &mut self.plan {
            None => (None, most),
            Some(plan) if most == 0 || plan.intended() > due_by => return None,
            Some(plan) => {
                let start = plan.clone();
                let mut count = 0;
                while count < most && plan.intended() <= due_by {
                    plan.advance();
                    count += 1;
                }
                (Some(start), count)
            }
        };
        if count == 0 {
            return None;
        }
        let first = self.sequence;
        self.sequence += count;
        Some(Run { stream: self.number, released: now, first, count, plan })
    }
}

impl HeldTime {
    fn note(&mut self, is_held: bool, now: RunTime) {
        match (self.since, is_held) {
            (None, true) => self.since = Some(now),
            (Some(since), false) => {
                self.total_us += now.micros_since(since).max(0) as u64;
                self.since = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use units::Rate;

    use super::*;
    use crate::load::{Arrivals, Lead};

    fn plan(pace: Pace) -> LoadPlan {
        LoadPlan { seed: 9, streams: 6, batch: 10, in_flight: 4, pace }
    }

    fn open(rate: f64, arrivals: Arrivals) -> Pace {
        Pace::Open { rate: Rate::per_second(rate).expect("a positive rate"), arrivals, lead: None }
    }

    const fn at(microseconds: u64) -> RunTime {
        RunTime::from_micros(microseconds)
    }

    fn release(schedule: &mut Schedule, now: u64) -> Vec<Run> {
        let mut runs = Vec::new();
        schedule.release(at(now), u32::MAX, &mut runs);
        runs
    }

    /// Every event that `workers` workers offer up to `end`, waking at odd moments, answered at once.
    fn offered(plan: LoadPlan, workers: u16, end: u64) -> BTreeMap<(u16, u32), RunTime> {
        let mut events = BTreeMap::new();
        for index in 0..workers {
            let worker = Worker { index, count: workers };
            let mut schedule = Schedule::new(plan, worker, at(0));
            for now in (0..=end).step_by(97 + usize::from(index)).chain([end]) {
                loop {
                    let runs = release(&mut schedule, now);
                    if runs.is_empty() {
                        break;
                    }
                    schedule.answered(runs.len() as u64);
                    for run in runs {
                        for (sequence, intended) in run.events() {
                            assert!(intended <= run.released);
                            let previous = events.insert((run.stream, sequence), intended);
                            assert_eq!(previous, None, "offered once");
                        }
                    }
                }
            }
            assert_eq!(schedule.overdue((at(0), at(end))), 0);
        }
        events
    }

    #[test]
    fn one_worker_and_eight_offer_the_same_plan() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let plan = LoadPlan { in_flight: 100, ..plan(open(50_000.0, arrivals)) };
            let alone = offered(plan, 1, 100_000);
            assert!(alone.len() > 4_500, "{}", alone.len());
            assert_eq!(alone, offered(plan, 8, 100_000));
            assert_eq!(alone, offered(plan, 3, 100_000));
        }
    }

    #[test]
    fn any_number_of_workers_offers_the_same_lead() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let rate = |rate| Rate::per_second(rate).expect("a positive rate");
            let lead = Some(Lead { rate: rate(80_000.0), length: Duration::from_millis(40) });
            let pace = Pace::Open { rate: rate(20_000.0), arrivals, lead };
            let plan = LoadPlan { in_flight: 100, ..plan(pace) };
            let alone = offered(plan, 1, 100_000);
            assert!((4_000..4_800).contains(&alone.len()), "{}", alone.len());
            assert_eq!(alone, offered(plan, 8, 100_000));
        }
    }

    #[test]
    fn the_parts_of_a_divided_run_have_its_events_at_their_instants() {
        for pace in [open(50_000.0, Arrivals::Poisson), Pace::Closed] {
            let mut schedule = Schedule::new(plan(pace), Worker::ONLY, at(0));
            let whole = release(&mut schedule, 10_000).remove(0);
            assert_eq!(whole.count(), 10);
            for count in 1..10 {
                let mut first = whole.clone();
                let rest = first.split_off(count).expect("there are more");
                assert_eq!((first.count(), rest.count()), (count, 10 - count));
                assert!(first.events().chain(rest.events()).eq(whole.events()));
            }
            assert_eq!(whole.clone().split_off(10), None);
            let before = schedule.unanswered();
            schedule.divided();
            assert_eq!(schedule.unanswered(), before + 1);
        }
    }

    #[test]
    fn a_late_run_keeps_its_intended_instants() {
        let mut schedule = Schedule::new(plan(open(1_000.0, Arrivals::Constant)), Worker::ONLY, at(0));
        // 1,000/s over 6 streams: event 0 of stream 0 is due at 0, event 1 at 6 ms.
        let runs = release(&mut schedule, 8_000);
        assert_eq!(runs.len(), 4, "as many sends as may be unanswered");
        let first: Vec<_> = runs[0].events().collect();
        assert_eq!(first, [(0, at(0)), (1, at(6_000))]);
        assert!(schedule.waits_for_answers());
        assert_eq!(schedule.next_due(), Some(at(4_000)));
        assert_eq!(schedule.overdue((at(0), at(8_000))), 2);
        assert_eq!(schedule.overdue((at(5_000), at(8_000))), 1);
        schedule.answered(4);
        assert!(!schedule.waits_for_answers());
        assert_eq!(release(&mut schedule, 9_000).len(), 3);
    }

    #[test]
    fn a_run_is_at_most_a_batch_and_waits_for_no_other_event() {
        let mut schedule = Schedule::new(
            LoadPlan { streams: 1, in_flight: 100, ..plan(open(1e6, Arrivals::Constant)) },
            Worker::ONLY,
            at(0),
        );
        let counts: Vec<_> = release(&mut schedule, 24).iter().map(Run::count).collect();
        assert_eq!(counts, [10, 10, 5]);
    }

    #[test]
    fn a_closed_load_sends_again_only_when_a_send_was_answered() {
        let mut schedule = Schedule::new(plan(Pace::Closed), Worker::ONLY, at(0));
        let runs = release(&mut schedule, 5);
        let streams: Vec<_> = runs.iter().map(|run| (run.stream, run.sequences())).collect();
        assert_eq!(streams, [(0, 0..10), (1, 0..10), (2, 0..10), (3, 0..10)]);
        assert!(release(&mut schedule, 6).is_empty());
        schedule.answered(1);
        let runs = release(&mut schedule, 7);
        assert_eq!((runs.len(), runs[0].stream), (1, 4), "the next stream in turn");
        assert!(runs[0].events().all(|(_, intended)| intended == at(7)));
    }

    /// 1,000/s in bursts of 10 over 6 streams, one event in a send.
    fn bursts() -> LoadPlan {
        let pace = Pace::Burst { rate: Rate::per_second(1_000.0).expect("a positive rate"), burst: 10 };
        LoadPlan { batch: 1, in_flight: 10, ..plan(pace) }
    }

    #[test]
    fn a_burst_leaves_event_by_event_and_the_next_one_waits_for_all_its_answers() {
        let mut schedule = Schedule::new(bursts(), Worker::ONLY, at(0));
        let first = release(&mut schedule, 0);
        let streams: Vec<_> = first.iter().map(|run| (run.stream, run.sequences())).collect();
        let expected = [0, 1, 2, 3, 4, 5].map(|stream| (stream, 0..1));
        assert_eq!((&streams[..6], streams.len()), (&expected[..], 10));
        assert!(schedule.waits_for_answers());
        schedule.answered(9);
        // Due since 10 and 20 ms, and one event of the first burst is unanswered.
        assert!(release(&mut schedule, 25_000).is_empty());
        assert!(schedule.waits_for_answers());
        assert_eq!(schedule.next_due(), Some(at(10_000)));
        schedule.answered(1);
        let second = release(&mut schedule, 26_000);
        assert_eq!(second.len(), 10, "one burst, though two are due");
        assert!(
            second.iter().flat_map(Run::events).all(|(_, intended)| intended == at(10_000)),
            "{second:?}"
        );
        assert_eq!(schedule.overdue((at(0), at(26_000))), 10);
    }

    #[test]
    fn a_burst_that_may_not_be_unanswered_as_a_whole_is_sent_to_its_end_before_the_next() {
        let mut schedule = Schedule::new(LoadPlan { in_flight: 4, ..bursts() }, Worker::ONLY, at(0));
        let mut sizes = Vec::new();
        for _ in 0..4 {
            let runs = release(&mut schedule, 15_000);
            schedule.answered(runs.len() as u64);
            sizes.push(runs.len());
        }
        assert_eq!(sizes, [4, 4, 2, 4], "the fourth is of the second burst");
    }

    #[test]
    fn any_number_of_workers_offers_the_same_bursts() {
        let alone = offered(bursts(), 1, 100_000);
        assert_eq!(alone.len(), 110, "those of 0, 10, …, 100 ms");
        assert_eq!(alone, offered(bursts(), 4, 100_000));
    }

    #[test]
    fn a_saturating_load_stops_exactly_where_it_is_held_and_counts_the_time() {
        let plan = LoadPlan { in_flight: 100, ..plan(Pace::Saturate) };
        let mut schedule = Schedule::new(plan, Worker::ONLY, at(0));
        assert!(release(&mut schedule, 0).is_empty());
        schedule.allow(35);
        let sent: u32 = release(&mut schedule, 10).iter().map(Run::count).sum();
        assert_eq!(sent, 35);
        schedule.allow(20);
        assert!(release(&mut schedule, 20).is_empty(), "an allowance is never taken back");
        schedule.allow(36);
        assert_eq!(release(&mut schedule, 110).len(), 1);
        // Held from 0 to 10 before the first allowance took effect, and from 10 to 110 and on.
        assert_eq!(schedule.held_us(at(150)), 150);
    }

    #[test]
    fn a_backlog_is_exact_and_then_exhausted() {
        for workers in [1, 4, 6] {
            let plan = plan(Pace::Backlog { events: 1_003 });
            let events = offered(plan, workers, 10_000);
            assert_eq!(events.len(), 1_003, "{workers} workers");
        }
        let mut schedule = Schedule::new(plan(Pace::Backlog { events: 3 }), Worker::ONLY, at(0));
        assert!(!schedule.is_exhausted());
        assert_eq!(release(&mut schedule, 0).len(), 3);
        assert!(schedule.is_exhausted());
        assert_eq!(schedule.unanswered(), 3);
    }

    #[test]
    fn the_budget_bounds_one_round() {
        let plan = LoadPlan { in_flight: 100, ..plan(Pace::Backlog { events: 600 }) };
        let mut schedule = Schedule::new(plan, Worker::ONLY, at(0));
        let mut runs = Vec::new();
        schedule.release(at(0), 25, &mut runs);
        assert_eq!(runs.iter().map(Run::count).sum::<u32>(), 30);
        assert_eq!(schedule.released(), 30);
    }
}
