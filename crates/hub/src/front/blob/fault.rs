//! What goes wrong on purpose, so that clients can be watched while it does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// What happens to every request from the moment that it is set on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlobFault {
    /// Nothing: requests are answered.
    #[default]
    None,
    /// It is carried out after a while.
    Slow(Duration),
    /// It is answered with 503 (`ServerBusy`) and not carried out.
    Unavailable,
    /// It gets no answer as long as this is set, and is carried out then, if its client is still there.
    Hanging,
}

/// The switch.
#[derive(Debug)]
pub struct BlobFaults {
    fault: watch::Sender<BlobFault>,
    injected: AtomicU64,
}

impl Default for BlobFaults {
    fn default() -> Self {
        Self {
            fault: watch::Sender::new(BlobFault::None),
            injected: AtomicU64::new(0),
        }
    }
}

impl BlobFaults {
    /// Sets what happens to requests from now on; those that hang go on if it is something else.
    pub fn set(&self, fault: BlobFault) {
        self.fault.send_replace(fault);
    }

    /// To how many requests something happened.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.injected.load(Ordering::Relaxed)
    }

    /// Lets happen to a request what is set. Whether it is to be carried out.
    pub(super) async fn pass(&self) -> bool {
        let mut fault = self.fault.subscribe();
        loop {
            let present = *fault.borrow_and_update();
            if present == BlobFault::None {
                return true;
            }
            self.injected.fetch_add(1, Ordering::Relaxed);
            match present {
                BlobFault::None => return true,
                BlobFault::Slow(time) => {
                    tokio::time::sleep(time).await;
                    return true;
                }
                BlobFault::Unavailable => return false,
                BlobFault::Hanging => {
                    // The switch lives as long as the service.
                    if fault.changed().await.is_err() {
                        return false;
                    }
                }
            }
        }
    }
}
