//! The present, for tokens.

use std::time::SystemTime;

/// The present time by the clock that tokens and claims end by.
///
/// Not a [`SystemTime`]: where time is under control this clock is not advanced with that of the service unless tokens are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenNow(SystemTime);

impl TokenNow {
    /// When that clock shows this.
    #[inline]
    #[must_use]
    pub const fn at(time: SystemTime) -> Self {
        Self(time)
    }

    /// What that clock shows.
    #[inline]
    #[must_use]
    pub const fn time(self) -> SystemTime {
        self.0
    }
}
