//! The present, which comes with each call.

use std::time::SystemTime;

/// The present, by two clocks that tests may set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Versions are dated by this. It is the clock of clients, who subtract what they are told from their own present: so they judge, for example,
    /// whether the host that owns a partition is still there.
    pub time_of_day: SystemTime,
    /// Leases end by this.
    pub lease_time: SystemTime,
}

impl From<SystemTime> for Now {
    /// Both clocks show the same.
    fn from(time: SystemTime) -> Self {
        Self { time_of_day: time, lease_time: time }
    }
}
