//! One direction of a delay line: bytes in bursts, each with the instant at which it is due.

use std::collections::VecDeque;

use tokio::time::{Duration, Instant};
use units::Random;

use crate::profile::distribution::Distribution;

/// One direction.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) bytes: VecDeque<u8>,
    /// How many of the bytes, from the front, are known to be due.
    due: usize,
    /// The others, in order.
    pub(super) bursts: VecDeque<Burst>,
    /// Bytes that come earlier are taken to have come then.
    pub(super) not_before: Option<Instant>,
    /// When the last burst is due.
    last_due: Instant,
    round_trip: Option<Distribution>,
    random: Random,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Burst {
    pub(super) due: Instant,
    length: usize,
}

impl Lane {
    pub(super) const fn new(now: Instant, round_trip: Option<Distribution>, random: Random) -> Self {
        Self {
            bytes: VecDeque::new(),
            due: 0,
            bursts: VecDeque::new(),
            not_before: None,
            last_due: now,
            round_trip,
            random,
        }
    }

    /// How many bytes may come.
    pub(super) fn room(&self) -> usize {
        if self.bursts.len() < BURSTS_MAX { BYTES_MAX.saturating_sub(self.bytes.len()) } else { 0 }
    }

    pub(super) fn push(&mut self, now: Instant, bytes: &[u8]) {
        let due = self.next_due(now);
        self.bytes.extend(bytes);
        match self.bursts.back_mut() {
            Some(last) if last.due == due => last.length += bytes.len(),
            _ => self.bursts.push_back(Burst { due, length: bytes.len() }),
        }
    }

    /// When something is due that comes now.
    pub(super) fn next_due(&mut self, now: Instant) -> Instant {
        let came = self.not_before.map_or(now, |at| at.max(now));
        self.last_due = self.last_due.max(came + self.one_way());
        self.last_due
    }

    /// When the last bytes are due.
    pub(super) const fn last_due(&self) -> Instant {
        self.last_due
    }

    pub(super) fn one_way(&mut self) -> Duration {
        let sample = |round_trip: Distribution| round_trip.sample(&mut self.random) / 2;
        self.round_trip.map_or(Duration::ZERO, sample)
    }

    /// Counts the bursts that are due at `now` as due.
    pub(super) fn advance(&mut self, now: Instant) {
        while let Some(burst) = self.bursts.pop_front_if(|burst| burst.due <= now) {
            self.due += burst.length;
        }
    }

    /// The bytes that are due, or those of them that lie in one piece.
    pub(super) fn due_bytes(&self) -> &[u8] {
        let (first, _) = self.bytes.as_slices();
        &first[..first.len().min(self.due)]
    }

    pub(super) fn consume(&mut self, length: usize) {
        self.bytes.drain(..length);
        self.due -= length;
    }
}

/// What may be under way in one direction, in bytes: like a TCP window of twice that size over the whole round trip.
pub(super) const BYTES_MAX: usize = 1024 * 1024;

/// Bursts that may be under way in one direction, so that a client cannot make us keep more about its bytes than bytes.
const BURSTS_MAX: usize = 4096;
