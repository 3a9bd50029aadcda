//! What the profile makes of an operation.

use std::time::Duration;

use tokio::time::Instant;
use units::Random;

/// What the profile makes of an operation. To be asked for before the store is touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaped {
    /// What becomes of it.
    pub fate: Fate,
    /// The earliest instant at which it may be answered; at once where there is none.
    pub ready_at: Option<Instant>,
}

impl Shaped {
    /// As without a profile.
    pub const UNTOUCHED: Self = Self { fate: Fate::Succeeds, ready_at: None };
}

/// What becomes of an operation. Which words the client gets for it is up to the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out and answered.
    Succeeds,
    /// It is not carried out, and answered with an error.
    Fails,
    /// The quota is used up: it is not carried out, and answered with a refusal.
    Throttled(Throttled),
    /// It is carried out, and answered with an error all the same.
    Unacknowledged,
    /// It is not carried out, and its link ends, with no outcome for what has none yet.
    Detached,
    /// It is carried out; then the connection breaks without another word.
    Disconnected,
}

/// By how much an operation exceeds the quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttled {
    /// The events that it would have brought.
    pub events: u64,
    /// And their bytes.
    pub bytes: u64,
    /// When there would be room for it if nothing else came.
    pub retry_after: Duration,
}

impl Fate {
    /// One draw decides: the ratios lie side by side between 0 and 1.
    pub(super) fn draw(random: &mut Random, ratios: [f64; 4]) -> Self {
        let mut left = random.unit();
        let fates = [Self::Fails, Self::Unacknowledged, Self::Detached, Self::Disconnected];
        for (fate, ratio) in fates.into_iter().zip(ratios) {
            if left < ratio {
                return fate;
            }
            left -= ratio;
        }
        Self::Succeeds
    }
}
