//! A quota with burst credit: a bucket of tokens, one for each event.

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// What a source in memory takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quota {
    /// Events per second, over any long time.
    pub events_per_s: f64,
    /// Events that it takes beyond that; all of them at first.
    pub credit: f64,
}

/// A quota at work. It is full until it is first asked.
#[derive(Debug)]
pub(super) struct Bucket {
    quota: Quota,
    /// The tokens, and when they were counted.
    level: Mutex<Option<(f64, Instant)>>,
}

impl Bucket {
    pub(super) const fn new(quota: Quota) -> Self {
        Self { quota, level: Mutex::new(None) }
    }

    /// Takes so many events or none of them.
    pub(super) fn take(&self, events: u64) -> bool {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let Quota { events_per_s, credit } = self.quota;
        let filled = level.map_or(credit, |(tokens, at)| {
            credit.min(tokens + events_per_s * now.duration_since(at).as_secs_f64())
        });
        let left = filled - events as f64;
        *level = Some((if left >= 0.0 { left } else { filled }, now));
        left >= 0.0
    }
}
