//! What goes wrong on purpose, so that clients can be watched while it does: for every request what a service profile says,
//! and from one moment to another what a switch is set to.
//!
//! The profile is for users, and shapes a run as a whole. The switch is for tests in the service's own process, which must
//! know when a fault begins and ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::profile::{ProfileSwitch, Shaped};

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

/// The switch and the profile.
#[derive(Debug)]
pub struct BlobFaults {
    fault: watch::Sender<BlobFault>,
    injected: AtomicU64,
    profile: Arc<ProfileSwitch>,
}

impl BlobFaults {
    /// A switch that is off, and what `profile` says of requests for blobs.
    pub(super) fn new(profile: Arc<ProfileSwitch>) -> Self {
        Self { fault: watch::Sender::new(BlobFault::None), injected: AtomicU64::new(0), profile }
    }

    /// Sets what happens to requests from now on; those that hang go on if it is something else.
    pub fn set(&self, fault: BlobFault) {
        self.fault.send_replace(fault);
    }

    /// To how many requests something happened.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.injected.load(Ordering::Relaxed)
    }

    /// What the profile makes of a request that came just now, for this container if it is about one.
    pub(super) fn shape(&self, container: Option<&str>) -> Shaped {
        let Some(profile) = self.profile.present() else {
            return Shaped::UNTOUCHED;
        };
        let shaped = profile.storage_request(Instant::now(), container);
        if shaped != Shaped::UNTOUCHED {
            self.injected.fetch_add(1, Ordering::Relaxed);
        }
        shaped
    }

    /// Waits until a request may be answered.
    pub(super) async fn until_ready(&self, shaped: &Shaped) {
        // Whoever waits for a profile that was switched off meanwhile has waited long enough.
        if let (Some(at), Some(profile)) = (shaped.ready_at, self.profile.present()) {
            profile.timer().wait_until(at).await;
        }
    }

    /// Lets happen to a request what the switch is set to. Whether it is to be carried out.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Fate, ProfileConfig};

    fn faults(profile: &str) -> BlobFaults {
        let config: ProfileConfig = serde_json::from_str(profile).expect("a profile");
        BlobFaults::new(ProfileSwitch::new(&config).expect("it makes sense"))
    }

    #[tokio::test]
    async fn a_profile_delays_requests_and_lets_them_fail_as_it_says() {
        let time = Duration::from_millis(3);
        let slow = faults(r#"{"service_time": {"blob": "3 ms"}}"#);
        let began = Instant::now();
        let shaped = slow.shape(None);
        assert_eq!(shaped.fate, Fate::Succeeds);
        slow.until_ready(&shaped).await;
        assert!(began.elapsed() >= time);
        assert_eq!(slow.injected(), 1);
        let busy = faults(r#"{"failures": {"blob_ratio": 1}}"#);
        assert_eq!(busy.shape(None).fate, Fate::Fails);
        assert_eq!(busy.injected(), 1);
    }

    #[tokio::test]
    async fn a_profile_of_hubs_alone_leaves_blobs_as_they_are() {
        for text in ["{}", r#"{"service_time": {"send": "2 ms"}}"#, r#"{"failures": {"send_ratio": 1}}"#] {
            let free = faults(text);
            assert_eq!(free.shape(None), Shaped::UNTOUCHED);
            assert_eq!(free.injected(), 0);
            assert!(free.pass().await);
        }
    }
}
