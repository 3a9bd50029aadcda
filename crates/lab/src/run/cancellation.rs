//! The wish to end a run early, as by Ctrl-C.

use tokio::sync::watch;

/// Heard by the run.
#[derive(Debug, Clone)]
pub struct Cancellation {
    wished: watch::Receiver<bool>,
}

/// Kept by whoever may want to end the run. Dropping it is not a wish.
#[derive(Debug)]
pub struct Canceller {
    wish: watch::Sender<bool>,
}

/// A canceller and what it cancels.
#[must_use]
pub fn cancellation() -> (Canceller, Cancellation) {
    let (wish, wished) = watch::channel(false);
    (Canceller { wish }, Cancellation { wished })
}

impl Canceller {
    /// Wishes the run to end. Once is enough, and more does no harm.
    pub fn cancel(&self) {
        self.wish.send_replace(true);
    }
}

impl Cancellation {
    /// Whether the run is to end.
    #[must_use]
    pub fn is_wished(&self) -> bool {
        *self.wished.borrow()
    }

    /// Ready when the run is to end. Safe to cancel.
    pub async fn wished(&mut self) {
        if self.wished.wait_for(|wished| *wished).await.is_err() {
            // The canceller has gone without a wish, so there never will be one.
            std::future::pending::<()>().await;
        }
    }
}
