//! Time slices of long requests, between which the other connections of a thread are served.
//!
//! A request may name thousands of things, each of which takes little time. They are handled on the thread of the connection.

use std::time::{Duration, Instant};

/// The time slice of a request.
#[derive(Debug)]
pub(crate) struct TimeSlice {
    began: Instant,
}

impl TimeSlice {
    /// Starts a slice.
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now() }
    }

    /// Lets other tasks run if the slice is over. Call it after each piece of the work.
    pub(crate) async fn pause_if_over(&mut self) {
        if self.began.elapsed() >= LENGTH {
            tokio::task::yield_now().await;
            self.began = Instant::now();
        }
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
