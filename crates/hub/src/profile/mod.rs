//! The service profile: what makes the embedded service behave as slowly, as stingily and as unreliably as the real
//! one.
//!
//! Without it the service answers at once, takes what the machine can take, and never fails; that is right for finding
//! out what a client can do, and wrong for finding out how it will fare. Everything is off unless it is written in the
//! [`ProfileConfig`]; a service whose profile is off has none at all.
//!
//! * `config` is the profile as written, `named` what names stand for, `distribution` how long something takes, `capacity` how much of
//!   it is done at once, `fate` what becomes of an operation.
//! * [`ServiceProfile`] is the profile at work, shared by all connections: the `quota` (of `token_bucket`s) and the
//!   `counters` are the namespace's. [`Shaper`] is its part for one connection. [`ProfileSwitch`] puts another in its place.
//! * `delay_line` is the network: bytes arrive and leave half a round trip late. Its timers (`precise_timer`) are finer than the
//!   runtime's timers.
//!
//! Nothing here belongs to a protocol: the profile says what becomes of an operation and when it may be answered. Each front
//! has the words for it, which are those of the real service. What is refused is not stored.

mod capacity;
mod config;
mod counters;
mod delay_line;
mod distribution;
mod fate;
mod named;
mod precise_timer;
mod quota;
mod shaper;
mod switch;
mod token_bucket;

pub use config::{
    CapacityConfig, EntityTimeConfig, FailureConfig, ProfileConfig, ProfileError, QuotaConfig, Ratio,
    RatioError, ServiceTimeConfig,
};
pub use counters::ProfileCounterValues;
pub use delay_line::DelayLine;
pub use distribution::{Distribution, DistributionError};
pub use fate::{Fate, Shaped, Throttled};
pub use named::{NamedProfile, TlsVersion};
pub(crate) use precise_timer::PreciseTimer;
pub use shaper::{ServiceProfile, Shaper, Traffic};
pub use switch::ProfileSwitch;
pub(crate) use switch::Replacements;
