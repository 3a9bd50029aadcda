//! Several relays share the partitions of a hub.
//!
//! Each relay has a name and claims partitions in the checkpoint store, where every claim carries a time and runs out
//! unless it is renewed. Nobody leads: in every cycle each relay looks at all claims and decides by itself what to claim,
//! as the processors of the official SDKs do, so that both can share a hub.
//!
//! ```text
//!   every `renew`:  list the claims → Balancer::plan → renew, claim, steal → open what was won, close what was lost
//! ```
//!
//! Where the store is told by others who owns what, as a consumer group of Kafka tells its members, the plan follows what it lists.
//!
//! * [`balancer`] is that decision, without clock or store.
//! * [`lease`] is a relay's own view of a claim: valid until `expire` after its last renewal *began*, by a clock that goes
//!   on while the process or the machine sleeps. It ends no later than others see the claim expire.
//!
//! What keeps a relay that wakes up after its time from writing over its successor's checkpoints is told in
//! [`connect::checkpoint`].

use std::time::Duration;

pub mod balancer;
pub mod lease;

pub use balancer::{Balancer, Claim, ClaimKind, Plan};

/// How a relay shares partitions with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnershipOptions {
    /// How much is claimed at once.
    pub mode: OwnershipMode,
    /// This relay's name among the others; no two may have the same.
    pub identity: String,
    /// How long from one cycle to the next.
    pub renew: Duration,
    /// A claim that was not renewed for so long is free for others.
    pub expire: Duration,
}

/// How much is claimed at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnershipMode {
    /// One partition per cycle: shares are reached slowly, and relays that start together hardly disturb one another.
    Balanced,
    /// All that are missing to an equal share.
    #[default]
    Greedy,
    /// What the store says, which is told so by others; nothing is claimed against it, and what it asks back is given up.
    Assigned,
}

/// What is wrong with the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnershipOptionsError {
    /// A relay without a name.
    #[error("the identity is empty")]
    Identity,
    /// Cycles so short that they would be all that a relay does.
    #[error("a renewal every {0:?} is too often: allowed is {RENEW_MIN:?} or more")]
    Renew(Duration),
    /// A claim would expire because of one renewal that fails.
    #[error("an expiry after {expire:?} is too short: allowed is more than twice the renewal, {renew:?}")]
    Expire {
        /// The expiry.
        expire: Duration,
        /// The renewal.
        renew: Duration,
    },
}

impl OwnershipOptions {
    /// Greedy, a cycle every 10 s, expiry after 60 s.
    #[must_use]
    pub fn new(identity: impl Into<String>) -> Self {
        Self {
            mode: OwnershipMode::default(),
            identity: identity.into(),
            renew: RENEW_DEFAULT,
            expire: EXPIRE_DEFAULT,
        }
    }

    /// Whether a relay can work with these.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), OwnershipOptionsError> {
        let &Self { renew, expire, .. } = self;
        if self.identity.is_empty() {
            Err(OwnershipOptionsError::Identity)
        } else if renew < RENEW_MIN {
            Err(OwnershipOptionsError::Renew(renew))
        } else if !outlasts_a_failed_renewal(expire, renew) {
            Err(OwnershipOptionsError::Expire { expire, renew })
        } else {
            Ok(())
        }
    }
}

/// Whether a claim that expires after `expire` is still good when one renewal, every `renew`, has failed.
#[must_use]
pub const fn outlasts_a_failed_renewal(expire: Duration, renew: Duration) -> bool {
    expire.as_nanos() > renew.saturating_mul(2).as_nanos()
}

/// The shortest time from one cycle to the next.
pub const RENEW_MIN: Duration = Duration::from_millis(10);

/// The time from one cycle to the next, where nothing else is said.
pub const RENEW_DEFAULT: Duration = Duration::from_secs(10);

/// After how long a claim that was not renewed is free for others, where nothing else is said.
pub const EXPIRE_DEFAULT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_renewal_may_fail_without_the_loss_of_the_claim() {
        let options = |renew, expire| OwnershipOptions {
            renew: Duration::from_millis(renew),
            expire: Duration::from_millis(expire),
            ..OwnershipOptions::new("me")
        };
        assert_eq!(OwnershipOptions::new("me").check(), Ok(()));
        assert_eq!(OwnershipOptions::new("").check(), Err(OwnershipOptionsError::Identity));
        assert_eq!(options(10, 21).check(), Ok(()));
        assert!(matches!(options(10, 20).check(), Err(OwnershipOptionsError::Expire { .. })));
        assert!(matches!(options(9, 60).check(), Err(OwnershipOptionsError::Renew(_))));
    }
}
