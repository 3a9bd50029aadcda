//! Runs one history: lets what is due happen, polls the relays that were woken, and looks whether it is over.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use connect::sink::Sink;
use partition_log::BlockPool;
use relay::{Ended, Relay, RelayError, Summary};
use tokio::time::{Instant, Sleep};
use units::{ByteSize, Random};

use crate::archive::SimulatedArchive;
use crate::audit::Violation;
use crate::concern;
use crate::config::Config;
use crate::process::{DriverWaker, RelayWaker};
use crate::sink::SimulatedSink;
use crate::source::SimulatedSource;
use crate::store::SimulatedStore;
use crate::trace::{Line, What};
use crate::world::SharedWorld;

/// What a history came to, in which every invariant held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// A hash of everything that happened: equal for equal histories.
    pub hash: u64,
    /// How many things happened.
    pub steps: u64,
    /// Milliseconds that passed in the history.
    pub virtual_ms: u64,
    /// Milliseconds that it took to carry everything once nothing failed any more.
    pub recovery_ms: u64,
    /// Events that were carried.
    pub events: u64,
    /// Events that came more than once, counted each time.
    pub duplicates: u64,
    /// Kills of relays and hubs.
    pub crashes: u64,
    /// Checkpoints that the store refused because another relay had written one.
    pub refused_writes: u64,
    /// How often a relay made a partition its own that another had.
    pub takeovers: u64,
    /// Events that were put aside, at each sink that refused them.
    pub dead_letters: u64,
    /// How many of those are at their sinks as well.
    pub both: u64,
    /// Events that came to a destination after one behind them, where the order of each key is kept.
    pub overtakings: u64,
}

/// A history in which an invariant was broken.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The history.
    pub config: Config,
    /// What was broken.
    pub violation: Violation,
    /// The newest lines of what happened, the last one that of the violation.
    pub lines: Vec<Line>,
}

/// Runs the history, keeping so many lines of what happens for the case that something is wrong.
///
/// # Errors
/// The first invariant that did not hold.
pub fn simulate(config: &Config, trace_lines: usize) -> Result<Report, Box<Failure>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without sockets takes nothing from the system");
    let pool = POOL.with_borrow(Arc::clone);
    let world = {
        let _entered = runtime.enter();
        SharedWorld::new(config, &pool, trace_lines)
    };
    let ran = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let mut driver = Driver::new(&world);
            poll_fn(|context| driver.poll(context)).await
        })
    }));
    let failed = |violation| {
        let lines = world.lock().take_trace().into_lines();
        Box::new(Failure { config: config.clone(), violation, lines })
    };
    match ran {
        Ok(Ok(report)) => Ok(report),
        Ok(Err(violation)) => Err(failed(violation)),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(failed(Violation::Panicked { message: text.unwrap_or_default() }))
        }
    }
}

/// The one who polls: world and relays in turn.
struct Driver {
    world: SharedWorld,
    waker: Arc<DriverWaker>,
    /// Per instance.
    relays: Vec<Option<Running>>,
    /// Decides who is polled first, and who has to wait.
    random: Random,
    sleep: Pin<Box<Sleep>>,
    start: Instant,
    stage: Stage,
    /// How often each relay was polled at the present instant.
    polls: u64,
    polls_at: Instant,
}

struct Running {
    process: u32,
    woken: Arc<RelayWaker>,
    waker: Waker,
    future: Pin<Box<dyn Future<Output = Result<Summary, RelayError>>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    /// Everything is carried at this many milliseconds; the relays end.
    Stopping {
        done_ms: u64,
    },
}

impl Driver {
    fn new(world: &SharedWorld) -> Self {
        let config = world.lock().config();
        let now = Instant::now();
        Self {
            world: world.clone(),
            waker: Arc::default(),
            relays: (0..config.instances).map(|_| None).collect(),
            random: Random::for_concern(config.seed, concern::SCHEDULE),
            sleep: Box::pin(tokio::time::sleep_until(now)),
            start: now,
            stage: Stage::Running,
            polls: 0,
            polls_at: now,
        }
    }

    /// One step: the next event that is due, then the relays that were woken.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Report, Violation>> {
        self.waker.set(context.waker());
        let stepped = self.world.lock().step();
        self.bury();
        self.start_relays();
        self.poll_relays()?;
        self.bury();
        if let Some(violation) = self.world.lock().violation() {
            return Poll::Ready(Err(violation.clone()));
        }
        if let Some(report) = self.look_for_the_end()? {
            return Poll::Ready(Ok(report));
        }
        let woken =
            self.relays.iter().flatten().any(|running| {
                running.woken.is_woken() && !self.world.lock().process(running.process).paused
            });
        if stepped || woken {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = self.world.lock().next_instant();
        let deadline = self.deadline();
        self.sleep.as_mut().reset(next.map_or(deadline, |next| next.min(deadline)));
        if self.sleep.as_mut().poll(context).is_ready() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Drops the relays whose processes have died, wherever they stand.
    fn bury(&mut self) {
        for running in &mut self.relays {
            let dead =
                running.as_ref().is_some_and(|running| !self.world.lock().process(running.process).alive);
            if dead {
                *running = None;
            }
        }
    }

    fn start_relays(&mut self) {
        let starts = self.world.lock().take_starts();
        for instance in starts {
            if self.stage == Stage::Running && self.relays[instance as usize].is_none() {
                let running = Running::start(&self.world, &self.waker, instance);
                self.relays[instance as usize] = Some(running);
            }
        }
    }

    /// Polls the relays that were woken, each with some luck, in any order.
    fn poll_relays(&mut self) -> Result<(), Violation> {
        let count = self.relays.len();
        let first = self.random.below(count as u64) as usize;
        for index in 0..count {
            let instance = (first + index) % count;
            let Some(running) = &mut self.relays[instance] else {
                continue;
            };
            let process = running.process;
            if self.world.lock().process(process).paused {
                continue;
            }
            if !running.woken.is_woken() || self.random.chance(0.2) || !running.woken.take_woken() {
                continue;
            }
            if self.polls_at != Instant::now() {
                self.polls_at = Instant::now();
                self.polls = 0;
            }
            self.polls += 1;
            if self.polls > POLLS_MAX {
                return Err(Violation::Restless { instance: instance as u32, polls: self.polls });
            }
            let mut context = Context::from_waker(&running.waker);
            if let Poll::Ready(ended) = running.future.as_mut().poll(&mut context) {
                self.relays[instance] = None;
                self.ended(instance as u32, process, ended)?;
            }
        }
        Ok(())
    }

    /// A relay has ended by itself.
    fn ended(
        &mut self,
        instance: u32,
        process: u32,
        ended: Result<Summary, RelayError>,
    ) -> Result<(), Violation> {
        let how = match &ended {
            Ok(summary) => match summary.ended {
                Ended::Finished => "finished",
                Ended::TimedOut { .. } => "its time for stopping is over",
            },
            Err(RelayError::Source(_)) => "the source failed",
            Err(RelayError::Sink { .. } | RelayError::DeadLetterSink { .. }) => "the sink failed",
            Err(RelayError::Store(_)) => "the store failed",
            Err(_) => "in an error",
        };
        let mut world = self.world.lock();
        let stopping = self.stage != Stage::Running;
        // A process that died in this very poll has not ended by itself.
        let alive = world.process(process).alive;
        let end_failed = world.process(process).end_failed;
        if let Ok(summary) = &ended {
            world.take_summary(process, &summary.metrics);
        }
        world.end_process(process, how, !stopping);
        // What ends it may have failed before everything healed: a store's answer comes late, and a relay that stops for an
        // error finishes what is under way first.
        let well = match &ended {
            Ok(summary) => summary.ended == Ended::Finished,
            Err(RelayError::Store(_)) => true,
            Err(RelayError::Source(_) | RelayError::Sink { .. } | RelayError::DeadLetterSink { .. }) => {
                end_failed
            }
            Err(_) => false,
        };
        if alive && stopping && !well {
            return Err(Violation::NotStopped { instance, how: how.to_owned() });
        }
        Ok(())
    }

    /// Goes to the next stage when its time has come; the report, when all is over.
    fn look_for_the_end(&mut self) -> Result<Option<Report>, Violation> {
        let mut world = self.world.lock();
        match self.stage {
            Stage::Running if world.is_done() => {
                world.note(None, What::Done);
                self.stage = Stage::Stopping { done_ms: world.now_ms() };
                for running in self.relays.iter().flatten() {
                    world.request_stop(running.process);
                }
            }
            Stage::Stopping { done_ms } if self.relays.iter().all(Option::is_none) => {
                world.finish();
                if let Some(violation) = world.violation() {
                    return Err(violation.clone());
                }
                return Ok(Some(world.report(done_ms)));
            }
            _ => {}
        }
        drop(world);
        if Instant::now() < self.deadline() {
            return Ok(None);
        }
        match (self.stage, self.relays.iter().position(Option::is_some)) {
            (Stage::Stopping { .. }, Some(instance)) => {
                Err(Violation::NotStopped { instance: instance as u32, how: "it does not end".to_owned() })
            }
            _ => Err(self.world.lock().stuck()),
        }
    }

    /// When the present stage must be over.
    fn deadline(&self) -> Instant {
        let config = self.world.lock().config();
        match self.stage {
            Stage::Running => {
                self.start + Duration::from_millis(config.faults.until_ms) + config.recovery_max()
            }
            Stage::Stopping { done_ms } => self.start + Duration::from_millis(done_ms) + STOPPING_MAX,
        }
    }
}

impl Running {
    fn start(world: &SharedWorld, driver: &Arc<DriverWaker>, instance: u32) -> Self {
        let process = world.lock().start_process(instance);
        let options = world.lock().config().relay_options(instance);
        let stopped = world.clone();
        let shutdown = poll_fn(move |context| {
            let mut world = stopped.lock();
            let state = world.process_mut(process);
            if state.stop_requested {
                return Poll::Ready(());
            }
            state.stop_waker = Some(context.waker().clone());
            Poll::Pending
        });
        let sinks = (0..world.lock().config().sinks).collect::<Vec<_>>().into_iter();
        let sinks = sinks.map(|sink| Box::new(SimulatedSink::new(world, process, sink)) as Box<dyn Sink>);
        let mut sinks: Vec<_> = sinks.collect();
        let archive = world.lock().config().archive;
        if let Some(archive) = archive {
            let place = if archive.comes_first { 0 } else { sinks.len() };
            sinks.insert(place, Box::new(SimulatedArchive::new(world, process, archive)));
        }
        let relay = Relay::new(
            options,
            Box::new(SimulatedSource::new(world, process)),
            sinks,
            Arc::new(SimulatedStore::new(world, process)),
        )
        .expect("a history has as many destinations as its fan-out");
        let relay = with_dead_letters(relay, world, process);
        let woken = RelayWaker::new(driver);
        Self { process, waker: Waker::from(Arc::clone(&woken)), woken, future: Box::pin(relay.run(shutdown)) }
    }
}

/// Gives a relay a place for what sinks refuse for good, if there is one.
fn with_dead_letters(mut relay: Relay, world: &SharedWorld, process: u32) -> Relay {
    let options = world.lock().config().dead_letters();
    if let Some(options) = options {
        let sink = SimulatedSink::of_dead_letters(world, process, options);
        relay.send_dead_letters_to(Box::new(sink)).expect("the events are no records of Kafka");
    }
    relay
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { seed, sharing, defect, .. } = &self.config;
        writeln!(f, "{:#?}\n", self.config)?;
        for line in &self.lines {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "\nseed {seed}: {}", self.violation)?;
        write!(f, "to see it again: cargo run -p simulator -- --seed {seed} --trace")?;
        if sharing.is_some() {
            f.write_str(" --shared")?;
        }
        match defect {
            Some(defect) => write!(f, " --defect {defect:?}"),
            None => Ok(()),
        }
    }
}

/// How long a stop may take where nothing fails: what is under way has to be answered, or to time out.
const STOPPING_MAX: Duration = Duration::from_secs(30);

/// Far more polls at one instant than events of a whole history explain.
const POLLS_MAX: u64 = 100_000;

thread_local! {
    /// Blocks of memory that the histories of one thread use one after the other.
    static POOL: RefCell<Arc<BlockPool>> = RefCell::new(BlockPool::new(ByteSize::from_mebibytes(4)));
}
