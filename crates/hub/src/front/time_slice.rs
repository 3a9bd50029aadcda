//! Long work in slices, so that the other connections of a thread go on in between.
//!
//! What a request asks for is done on the thread that serves its connection, which serves others, too. A request may name thousands of
//! things, each of them quickly done.

use std::time::{Duration, Instant};

/// How long a request has kept its thread.
#[derive(Debug)]
pub(crate) struct TimeSlice {
    began: Instant,
}

impl TimeSlice {
    /// A slice that begins now.
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now() }
    }

    /// Lets others go on if the slice is over. To be called after each piece of the work.
    pub(crate) async fn pause_if_over(&mut self) {
        if self.began.elapsed() >= LENGTH {
            tokio::task::yield_now().await;
            self.began = Instant::now();
        }
    }
}

/// Short beside what clients notice, and long beside the switch to another task.
const LENGTH: Duration = Duration::from_millis(2);
