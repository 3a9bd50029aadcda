//! A relay's own view of a claim that it has won.
//!
//! Others see the time at which the store wrote the claim. The owner counts from when it *asked* for that, which is no
//! later, and by clocks of its own machine that nobody sets. Two of them: tokio's, which tests can pause, and the kernel's
//! time since boot, which unlike the former goes on while the machine is suspended. The one that says more counts.

use std::time::Duration;

use connect::checkpoint::ETag;
use tokio::time::Instant;

/// A claim that was won.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The newest writing of the claim, under which it is renewed.
    pub etag: ETag,
    /// When the last successful renewal began.
    pub renewed_at: LeaseInstant,
    /// Whether a later renewal has failed, or was refused. A listing tells whose the partition is.
    pub is_unsure: bool,
}

/// An instant to which the sleep of process and machine counts.
#[derive(Clone, Copy, Debug)]
pub struct LeaseInstant {
    monotonic: Instant,
    since_boot: Duration,
}

impl Lease {
    /// Whether the claim has been renewed within this time.
    #[must_use]
    pub fn is_valid(&self, expire: Duration) -> bool {
        self.renewed_at.elapsed() < expire
    }
}

impl LeaseInstant {
    /// The present.
    #[must_use]
    pub fn now() -> Self {
        Self { monotonic: Instant::now(), since_boot: since_boot() }
    }

    /// How long ago this was, at least.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let slept = since_boot().saturating_sub(self.since_boot);
        self.monotonic.elapsed().max(slept)
    }

    /// This instant by the clock that timers go by.
    #[must_use]
    pub fn monotonic(&self) -> Instant {
        self.monotonic
    }
}

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // The kernel counts from 0 and keeps the nanoseconds below a second.
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lease_ends_when_its_time_is_over_and_not_before() {
        let expire = Duration::from_secs(60);
        let mut lease =
            Lease { etag: ETag("0x1".to_owned()), renewed_at: LeaseInstant::now(), is_unsure: false };
        tokio::time::advance(Duration::from_millis(59_900)).await;
        assert!(lease.is_valid(expire));
        lease.renewed_at = LeaseInstant::now();
        tokio::time::advance(Duration::from_millis(59_900)).await;
        assert!(lease.is_valid(expire));
        tokio::time::advance(Duration::from_millis(100)).await;
        assert!(!lease.is_valid(expire));
    }
}
