//! One life of a relay, as the world around it sees it: what was sent to it, and whether it runs at all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use connect::event::PartitionId;
use connect::sink::{SendError, SendToken, SinkError};
use connect::source::SourceError;

use crate::durable_log::Stored;

/// A relay process, from its start to its end.
#[derive(Debug)]
pub(crate) struct Process {
    /// Which of the instances it is a life of.
    pub(crate) instance: u32,
    pub(crate) alive: bool,
    /// Standing still: it is not polled, and nobody tells it.
    pub(crate) paused: bool,
    /// By how much its clock is ahead of the store's.
    pub(crate) skew_ms: i64,
    /// Dies after so many calls.
    pub(crate) calls_left: Option<u64>,
    pub(crate) stop_requested: bool,
    /// What its source will find.
    pub(crate) inbound: VecDeque<Inbound>,
    pub(crate) source_failure: Option<SourceError>,
    /// Whether it has found that its source or its sink failed as a whole.
    pub(crate) end_failed: bool,
    /// What its sinks will find.
    pub(crate) sinks: Vec<SinkState>,
    /// Per destination.
    pub(crate) connections: Vec<Connection>,
    pub(crate) source_waker: Option<Waker>,
    pub(crate) stop_waker: Option<Waker>,
    /// Calls to the store that are to be looked at when it goes on.
    pub(crate) resume_wakers: Vec<Waker>,
}

/// One of the sinks of a process.
#[derive(Debug, Default)]
pub(crate) struct SinkState {
    /// What it will find.
    pub(crate) outcomes: VecDeque<Outcome>,
    /// Sends that it has no outcome for.
    pub(crate) unanswered: usize,
    pub(crate) failure: Option<SinkError>,
    pub(crate) waker: Option<Waker>,
}

/// What arrives from the source hub.
#[derive(Debug)]
pub(crate) enum Inbound {
    Records { link: u64, records: Vec<Stored> },
    Detached { link: u64, partition: PartitionId, error: SourceError },
}

/// What arrives from the destination hub.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) send: u64,
    pub(crate) token: SendToken,
    pub(crate) result: Result<(), SendError>,
}

/// The connection of one process to one destination.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// When the last message that was sent arrives; later ones don't overtake it.
    pub(crate) last_arrival_ms: u64,
    pub(crate) last_answer_ms: u64,
    /// Sends without an outcome.
    pub(crate) unanswered: BTreeMap<u64, SendToken>,
}

/// Wakes one relay: notes that it is to be polled, and wakes the one who polls.
#[derive(Debug)]
pub(crate) struct RelayWaker {
    woken: AtomicBool,
    driver: Arc<DriverWaker>,
}

/// Where the one who polls is woken.
#[derive(Debug, Default)]
pub(crate) struct DriverWaker {
    waker: Mutex<Option<Waker>>,
}

impl Process {
    /// With so many sinks, and so many destinations of all of them.
    pub(crate) fn new(instance: u32, sinks: u32, destinations: u32) -> Self {
        Self {
            instance,
            alive: true,
            paused: false,
            skew_ms: 0,
            calls_left: None,
            stop_requested: false,
            inbound: VecDeque::new(),
            source_failure: None,
            end_failed: false,
            sinks: (0..sinks).map(|_| SinkState::default()).collect(),
            connections: (0..destinations).map(|_| Connection::default()).collect(),
            source_waker: None,
            stop_waker: None,
            resume_wakers: Vec::new(),
        }
    }

    pub(crate) fn wake_source(&mut self) {
        if let Some(waker) = self.source_waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn sink_mut(&mut self, sink: u32) -> &mut SinkState {
        &mut self.sinks[sink as usize]
    }

    pub(crate) fn wake_sinks(&mut self) {
        self.sinks.iter_mut().filter_map(|sink| sink.waker.take()).for_each(Waker::wake);
    }
}

impl RelayWaker {
    /// A waker of a relay that is to be polled.
    pub(crate) fn new(driver: &Arc<DriverWaker>) -> Arc<Self> {
        Arc::new(Self { woken: AtomicBool::new(true), driver: Arc::clone(driver) })
    }

    /// Whether the relay is to be polled, and forgets it.
    pub(crate) fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Relaxed)
    }
}

impl Wake for RelayWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::Relaxed) {
            self.driver.wake();
        }
    }
}

impl DriverWaker {
    pub(crate) fn set(&self, waker: &Waker) {
        let mut slot = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *slot {
            Some(present) => present.clone_from(waker),
            None => *slot = Some(waker.clone()),
        }
    }

    fn wake(&self) {
        let slot = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waker) = &*slot {
            waker.wake_by_ref();
        }
    }
}
