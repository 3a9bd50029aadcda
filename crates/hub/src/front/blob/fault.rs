//! What goes wrong on purpose, so that clients can be watched while it does: for every request what a service profile says,
//! and from one moment to another what a switch is set to.
//!
//! The profile is for users, and shapes a run as a whole. The switch is for tests in the service's own process, which must
//! know when a fault begins and ends.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use units::Random;

use crate::profile::{Distribution, ProfileConfig};

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
    profile: Option<Profile>,
}

/// What of a service profile is about requests for blobs.
#[derive(Debug)]
struct Profile {
    service_time: Option<Distribution>,
    failure_ratio: f64,
    /// One for both, drawn from once each per request: the n-th request has the same fate in every run.
    random: Mutex<Random>,
}

impl BlobFaults {
    /// A switch that is off, and what `profile` says of requests for blobs.
    pub(super) fn new(profile: &ProfileConfig) -> Self {
        Self {
            fault: watch::Sender::new(BlobFault::None),
            injected: AtomicU64::new(0),
            profile: Profile::new(profile),
        }
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

    /// Lets happen to a request what is set and what the profile says. Whether it is to be carried out.
    pub(super) async fn pass(&self) -> bool {
        if let Some(profile) = &self.profile {
            let (time, fails) = profile.draw();
            if fails || !time.is_zero() {
                self.injected.fetch_add(1, Ordering::Relaxed);
            }
            if !time.is_zero() {
                tokio::time::sleep(time).await;
            }
            if fails {
                return false;
            }
        }
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

impl Profile {
    /// None if it says nothing of blobs.
    fn new(profile: &ProfileConfig) -> Option<Self> {
        let service_time = profile.service_time.blob.filter(|time| !time.is_zero());
        let failure_ratio = profile.failures.blob_ratio.value();
        (service_time.is_some() || failure_ratio > 0.0).then(|| Self {
            service_time,
            failure_ratio,
            random: Mutex::new(Random::for_concern(profile.seed, BLOB_REQUESTS)),
        })
    }

    /// How long the next request takes, and whether it fails.
    fn draw(&self) -> (Duration, bool) {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let fails = random.chance(self.failure_ratio);
        let time = self.service_time.map(|time| time.sample(&mut random));
        (time.unwrap_or_default(), fails)
    }
}

/// The concern of the random numbers that requests for blobs are shaped by, apart from those of connections.
const BLOB_REQUESTS: u64 = 0xb10b;

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(text: &str) -> Option<Profile> {
        let config: ProfileConfig = serde_json::from_str(text).expect("a profile");
        Profile::new(&config)
    }

    #[test]
    fn the_same_seed_gives_requests_the_same_times_and_fates() {
        let draw = |seed: u64| {
            let text = format!(
                r#"{{"service_time": {{"blob": {{"mean": "5 ms"}}}}, "failures": {{"blob_ratio": 0.2}}, "seed": {seed}}}"#
            );
            let profile = profile(&text).expect("it is about blobs");
            (0..500).map(|_| profile.draw()).collect::<Vec<_>>()
        };
        let drawn = draw(1);
        assert_eq!(drawn, draw(1));
        assert_ne!(drawn, draw(2));
        let failed = drawn.iter().filter(|(_, fails)| *fails).count();
        assert!((60..140).contains(&failed), "{failed} of 500");
    }

    #[test]
    fn a_profile_of_hubs_alone_leaves_blobs_as_they_are() {
        assert!(profile("{}").is_none());
        assert!(profile(r#"{"service_time": {"send": "2 ms", "blob": "0 ms"}}"#).is_none());
        assert!(profile(r#"{"failures": {"send_ratio": 1}}"#).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_take_the_time_of_the_profile_and_fail_as_often_as_it_says() {
        let config = |text| serde_json::from_str(text).expect("a profile");
        let slow = BlobFaults::new(&config(r#"{"service_time": {"blob": "2 s"}}"#));
        let began = tokio::time::Instant::now();
        assert!(slow.pass().await);
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        assert_eq!(slow.injected(), 1);
        let busy = BlobFaults::new(&config(r#"{"failures": {"blob_ratio": 1}}"#));
        assert!(!busy.pass().await);
        assert_eq!(busy.injected(), 1);
        let free = BlobFaults::new(&ProfileConfig::default());
        assert!(free.pass().await);
        assert_eq!(free.injected(), 0);
    }
}
