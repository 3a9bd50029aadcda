//! Time slices of long requests, between which the other connections of a thread are served.
//!
//! A request may name thousands of things, each of which takes little time. They are handled on the thread of the connection.

use std::time::{Duration, Instant};

/// The time slice of a request.
#[derive(Debug)]
pub(crate) struct TimeSlice {
    /// None until the clock was read.
    began: Option<Instant>,
    /// Pieces of work per look at the clock.
    pieces_per_look: u32,
    /// Pieces since the last look.
    pieces: u32,
}

impl TimeSlice {
    /// Starts a slice.
    pub(crate) fn begin() -> Self {
        Self { began: Some(Instant::now()), pieces_per_look: 1, pieces: 0 }
    }

    /// Starts a slice of pieces that take some microseconds at most. For a few of them the clock is not read.
    pub(crate) const fn of_short_pieces() -> Self {
        Self { began: None, pieces_per_look: 64, pieces: 0 }
    }

    /// Lets other tasks run if the slice is over. Call it after each piece of the work.
    #[inline]
    pub(crate) async fn pause_if_over(&mut self) {
        if self.is_over() {
            tokio::task::yield_now().await;
            self.began = Some(Instant::now());
        }
    }

    /// Whether the slice is over, so that other tasks have to run. Call it after each piece of the work.
    #[inline]
    pub(crate) fn is_over(&mut self) -> bool {
        self.pieces += 1;
        if self.pieces < self.pieces_per_look {
            return false;
        }
        self.pieces = 0;
        self.began.get_or_insert_with(Instant::now).elapsed() >= LENGTH
    }
}

/// Applies `answer` to each item, in slices.
pub(crate) async fn map_in_slices<T, R>(
    items: impl IntoIterator<Item = T>,
    mut answer: impl FnMut(T) -> R,
) -> Vec<R> {
    let mut slice = TimeSlice::begin();
    let mut answers = Vec::new();
    for item in items {
        answers.push(answer(item));
        slice.pause_if_over().await;
    }
    answers
}

/// Length of a slice: well below the latencies that clients notice, and well above the cost of a task switch.
const LENGTH: Duration = Duration::from_millis(2);
