//! What goes wrong when, and how it heals.

use connect::sink::{ErrorClass, SinkError};
use connect::source::SourceError;

use super::{Event, Side, World};
use crate::config::{SILENCE_MAX, between};
use crate::trace::What;

/// Something that goes wrong at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// A process is killed while it waits.
    Crash {
        instance: u32,
    },
    /// A process is killed in the midst of what it does, some calls later.
    CrashAmid {
        instance: u32,
    },
    Pause {
        instance: u32,
    },
    Resume {
        process: u32,
    },
    Restart {
        instance: u32,
    },
    /// Some link of the source hub.
    DetachLink,
    /// Some connection of an instance to the destination hub.
    BreakSomeConnection {
        instance: u32,
    },
    BreakConnection {
        process: u32,
        destination: u32,
    },
    CrashHub {
        side: Side,
    },
    RecoverHub {
        side: Side,
    },
    /// The place of dead letters.
    DeadLettersDown,
    DeadLettersUp,
    /// A source or a sink fails as a whole.
    FailEnd {
        instance: u32,
    },
}

impl World {
    /// Plans everything that goes wrong by itself.
    pub(super) fn plan_faults(&mut self) {
        let config = self.config();
        let faults = &config.faults;
        let instance = |world: &mut Self| {
            let random = &mut world.random.faults;
            random.below(u64::from(config.instances)) as u32
        };
        self.plan(faults.crashes, |world| Fault::Crash { instance: instance(world) });
        self.plan(faults.crashes_amid, |world| Fault::CrashAmid { instance: instance(world) });
        self.plan(faults.pauses, |world| Fault::Pause { instance: instance(world) });
        self.plan(faults.restarts, |world| Fault::Restart { instance: instance(world) });
        self.plan(faults.failed_ends, |world| Fault::FailEnd { instance: instance(world) });
        self.plan(faults.broken_connections, |world| Fault::BreakSomeConnection {
            instance: instance(world),
        });
        self.plan(faults.detached_links, |_| Fault::DetachLink);
        self.plan(faults.hub_crashes, |world| {
            let side = match world.random.faults.below(2) {
                0 => Side::Source,
                _ => Side::Destination,
            };
            Fault::CrashHub { side }
        });
        let outages = config.dead_letters().map_or(0, |dead_letters| dead_letters.outages);
        self.plan(outages, |_| Fault::DeadLettersDown);
        self.at(faults.until_ms, Event::Heal);
    }

    fn plan(&mut self, count: u32, draw: impl Fn(&mut Self) -> Fault) {
        for _ in 0..count {
            let at = self.random.faults.below(self.config.faults.until_ms);
            let fault = draw(self);
            self.at(at, Event::Fault(fault));
        }
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::Crash { instance } => {
                if let Some(process) = self.life(instance) {
                    self.kill(process);
                }
            }
            Fault::CrashAmid { instance } => {
                let calls = self.random.faults.below(60);
                if let Some(process) = self.life(instance) {
                    self.process_mut(process).calls_left = Some(calls);
                }
            }
            Fault::Pause { instance } => {
                let longest = self.config.longest_pause_ms();
                let pause = between(&mut self.random.faults, 1, longest);
                if let Some(process) = self.life(instance)
                    && !self.process(process).paused
                {
                    self.process_mut(process).paused = true;
                    self.note(Some(process), What::Paused);
                    self.after(pause, Event::Fault(Fault::Resume { process }));
                }
            }
            Fault::Resume { process } => self.resume(process),
            Fault::Restart { instance } => {
                if let Some(process) = self.life(instance) {
                    self.request_stop(process);
                }
            }
            Fault::DetachLink => {
                let links = self.open_links();
                let chosen = self.random.faults.below(links.len() as u64);
                if let Some(&link) = links.get(chosen as usize) {
                    self.detach(link, "amqp:link:detach-forced");
                }
            }
            Fault::BreakSomeConnection { instance } => {
                let destinations = u64::from(self.config.all_destinations());
                let destination = self.random.faults.below(destinations) as u32;
                if let Some(process) = self.life(instance) {
                    self.break_connection(process, destination);
                }
            }
            Fault::BreakConnection { process, destination } => {
                if self.process(process).alive {
                    self.break_connection(process, destination);
                }
            }
            Fault::CrashHub { side } => self.crash_hub(side),
            Fault::RecoverHub { side } => self.recover_hub(side),
            Fault::DeadLettersDown => {
                let outage = between(&mut self.random.faults, 1, 3_000);
                self.dead_letters_up = false;
                self.after(outage, Event::Fault(Fault::DeadLettersUp));
            }
            Fault::DeadLettersUp => self.raise_dead_letters(),
            Fault::FailEnd { instance } => self.fail_end(instance),
        }
    }

    /// From now on nothing fails any more.
    pub(super) fn heal(&mut self) {
        self.healed = true;
        self.healed_at = self.number();
        self.note(None, What::Healed);
        self.recover_hub(Side::Source);
        self.recover_hub(Side::Destination);
        self.raise_dead_letters();
        for process in 0..self.processes.len() as u32 {
            let state = self.process_mut(process);
            state.calls_left = None;
            state.source_failure = None;
            state.sinks.iter_mut().for_each(|sink| sink.failure = None);
            self.resume(process);
        }
    }

    /// A process dies: what it has is lost, what it sent is not.
    pub(super) fn kill(&mut self, process: u32) {
        self.note(Some(process), What::Crashed);
        self.crashes += 1;
        self.bury(process);
        self.start_again(process);
    }

    /// Nothing comes from a process or reaches it any more.
    pub(super) fn bury(&mut self, process: u32) {
        self.process_mut(process).alive = false;
        self.links.retain(|_, link| link.process != process);
        self.lose_sends_of(process);
        self.end_calls_of(process);
    }

    pub(super) fn start_again(&mut self, process: u32) {
        let instance = self.process(process).instance;
        let delay = between(&mut self.random.faults, 1, 300);
        self.after(delay, Event::Start { instance });
    }

    /// The connection is found out to be dead some time after something was lost on it.
    pub(super) fn break_soon(&mut self, process: u32, destination: u32) {
        let delay = between(&mut self.random.faults, 1, SILENCE_MAX.as_millis() as u64);
        self.after(delay, Event::Fault(Fault::BreakConnection { process, destination }));
    }

    fn resume(&mut self, process: u32) {
        let state = self.process_mut(process);
        if !state.paused {
            return;
        }
        state.paused = false;
        std::mem::take(&mut state.resume_wakers).into_iter().for_each(std::task::Waker::wake);
        if state.alive {
            self.note(Some(process), What::Resumed);
        }
    }

    fn crash_hub(&mut self, side: Side) {
        let up = self.up(side);
        if !std::mem::replace(up, false) {
            return;
        }
        self.crashes += 1;
        let name = side.name();
        self.note(None, What::HubCrashed { side: name });
        let topics = match side {
            Side::Source => &mut self.source,
            Side::Destination => &mut self.destination,
        };
        for topic in topics {
            let random = &mut self.random.hub;
            let kept = between(random, topic.log.committed(), topic.log.end());
            topic.log.crash(kept);
            topic.crashes += 1;
            topic.committing = None;
            topic.waiting.clear();
        }
        match side {
            Side::Source => {
                for link in self.open_links() {
                    self.detach(link, "amqp:connection:forced");
                }
            }
            Side::Destination => {
                for process in 0..self.processes.len() as u32 {
                    if self.process(process).alive {
                        self.lose_sends_of(process);
                    }
                }
            }
        }
        let delay = between(&mut self.random.faults, 1, 1_500);
        self.after(delay, Event::Fault(Fault::RecoverHub { side }));
    }

    fn recover_hub(&mut self, side: Side) {
        if std::mem::replace(self.up(side), true) {
            return;
        }
        let name = side.name();
        self.note(None, What::HubRecovered { side: name });
        let partitions = match side {
            Side::Source => self.config.partitions,
            Side::Destination => self.config.all_destinations(),
        };
        for partition in 0..partitions {
            // What was found on disk is committed.
            let topic = self.topic(side, partition);
            topic.committing = Some(topic.log.end());
            let crashes = topic.crashes;
            self.commit(side, partition, crashes);
        }
    }

    fn fail_end(&mut self, instance: u32) {
        let source = self.random.faults.chance(0.5);
        let sink = match self.config.dead_letters() {
            // The first one stands for all of them.
            Some(_) if self.random.faults.chance(0.3) => self.config.sinks,
            _ => 0,
        };
        let Some(process) = self.life(instance) else {
            return;
        };
        let (condition, description) =
            ("amqp:unauthorized-access".to_owned(), "as the seed has it".to_owned());
        let state = self.process_mut(process);
        if source {
            state.source_failure = Some(SourceError { class: ErrorClass::Fatal, condition, description });
            state.wake_source();
        } else {
            state.sink_mut(sink).failure = Some(SinkError { condition, description });
            state.wake_sinks();
        }
    }

    /// The place of dead letters is there again, unless it never is.
    fn raise_dead_letters(&mut self) {
        self.dead_letters_up = self.config.dead_letters().is_some_and(|dead_letters| !dead_letters.never_up);
    }

    /// The process that an instance is now, if it lives.
    fn life(&self, instance: u32) -> Option<u32> {
        let process = self.lives[instance as usize]?;
        self.process(process).alive.then_some(process)
    }

    fn up(&mut self, side: Side) -> &mut bool {
        match side {
            Side::Source => &mut self.source_up,
            Side::Destination => &mut self.destination_up,
        }
    }
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Destination => "destination",
        }
    }
}
