//! Leases on blobs and containers: locks that a client acquires, renews and releases, and that anyone may break.
//!
//! A lease is its id and its end. Its state follows from these and the time, so nothing has to happen when one expires:
//!
//! ```text
//!              acquire                    time
//!  available ───────────▶ leased ──────────────────▶ expired ─┐ acquire, renew
//!      ▲                  │  ▲ └──── break ──▶ breaking ─time─▶ broken ─┐ acquire
//!      └───── release ────┘  └──────────────────────────────────────────┘
//! ```
//!
//! While a lease is *leased* or *breaking*, writes need its id. An expired or broken lease no longer locks anything; its id
//! is remembered until the blob is written or leased again, so that the last holder can renew or release it.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The id of a lease: a GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(u128);

/// A lease as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    id: LeaseId,
    end: End,
}

/// When a lease ends. Times are milliseconds since 1970, so that a lease outlives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum End {
    /// When it is released or broken.
    Never,
    /// At a time, unless it is renewed for the same number of seconds before.
    Expires { seconds: u8, at_unix_ms: u64 },
    /// It was broken, and holds until the break period is over.
    Broken { at_unix_ms: u64 },
}

/// The states of a lease, as the service names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// There is none.
    Available,
    /// A client holds it.
    Leased,
    /// Its duration is over.
    Expired,
    /// It was broken, and its break period lasts.
    Breaking,
    /// It was broken, and its break period is over.
    Broken,
}

/// How long a lease lasts without being renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseDuration {
    /// Until it is released or broken.
    Infinite,
    /// So many seconds, from 15 to 60.
    Fixed(u8),
}

/// What clients do with leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// Take one.
    Acquire {
        /// For how long.
        duration: LeaseDuration,
        /// The id that it is to have; a random one otherwise.
        proposed: Option<LeaseId>,
    },
    /// Restart its duration.
    Renew(LeaseId),
    /// Give it another id.
    Change {
        /// The present one.
        id: LeaseId,
        /// The new one.
        proposed: LeaseId,
    },
    /// End it.
    Release(LeaseId),
    /// End it without knowing its id.
    Break {
        /// Seconds that it goes on at the most, up to 60; by default what is left of a fixed duration.
        period: Option<u8>,
    },
}

/// What an action came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseOutcome {
    /// The id of the lease, for whoever holds it.
    pub id: Option<LeaseId>,
    /// For how many seconds a broken lease goes on.
    pub remaining_s: Option<u64>,
}

/// What a lease is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leased {
    /// A blob.
    Blob,
    /// A container.
    Container,
}

/// Why a lease prevents an operation, or an operation on a lease is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// A write without the id.
    #[error("there is a lease on the {0}, and the request has no lease id")]
    IdMissing(Leased),
    /// A write or read with another lease's id.
    #[error("the lease id of the request is not that of the lease on the {0}")]
    IdMismatch(Leased),
    /// A write or read with an id where there is no lease.
    #[error("there is no lease on the {0}")]
    NotPresent(Leased),
    /// A write or read with the id of a lease that has ended.
    #[error("the lease on the {0} has expired or was broken")]
    Lost(Leased),
    /// Someone else holds it.
    #[error("there is a lease already")]
    AlreadyPresent,
    /// It was broken and is not over yet.
    #[error("the lease is being broken and can't be acquired until that is over")]
    BreakingNotAcquired,
    /// The same, for another id.
    #[error("the lease is being broken and can't get another id")]
    BreakingNotChanged,
    /// It was broken.
    #[error("the lease was broken and can't be renewed")]
    BrokenNotRenewed,
    /// The operation needs the id of the lease.
    #[error("the lease id of the request is not that of the lease")]
    ActionIdMismatch,
    /// The operation needs a lease.
    #[error("there is no lease")]
    ActionNotPresent,
}

impl LeaseId {
    /// Reads a GUID in any of its usual forms: 32 digits, with or without hyphens, with or without braces or parentheses.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let enclosed = |open, close| text.strip_prefix(open)?.strip_suffix(close);
        let inner = enclosed('{', '}').or_else(|| enclosed('(', ')'));
        let inner = inner.unwrap_or(text);
        let digits = match inner.len() {
            32 => inner.to_owned(),
            36 if HYPHENS.iter().all(|at| inner.as_bytes()[*at] == b'-') => inner.replace('-', ""),
            _ => return None,
        };
        let is_number = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_number {
            true => u128::from_str_radix(&digits, 16).ok().map(Self),
            false => None,
        }
    }

    /// One that nobody can guess.
    fn random() -> Self {
        // Each has keys of its own, which come from the system's randomness.
        let word = || u128::from(RandomState::new().hash_one(0));
        let bits = word() << 64 | word();
        let version = 4 << 76;
        let variant = 2 << 62;
        Self(bits & !(0xf << 76) & !(0x3 << 62) | version | variant)
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        let (a, b, c, d, e) = (&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]);
        write!(f, "{a}-{b}-{c}-{d}-{e}")
    }
}

impl Serialize for LeaseId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for LeaseId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("a lease id is a GUID"))
    }
}

impl fmt::Display for Leased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Blob => "blob",
            Self::Container => "container",
        })
    }
}

impl LeaseState {
    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Leased => "leased",
            Self::Expired => "expired",
            Self::Breaking => "breaking",
            Self::Broken => "broken",
        }
    }

    /// Whether writes need the id of the lease.
    #[must_use]
    pub const fn is_locked(self) -> bool {
        matches!(self, Self::Leased | Self::Breaking)
    }
}

impl Lease {
    fn new(id: LeaseId, duration: LeaseDuration, now: SystemTime) -> Self {
        let end = match duration {
            LeaseDuration::Infinite => End::Never,
            LeaseDuration::Fixed(seconds) => {
                End::Expires { seconds, at_unix_ms: unix_ms(now).saturating_add(u64::from(seconds) * 1000) }
            }
        };
        Self { id, end }
    }

    /// Its state at `now`.
    #[must_use]
    pub fn state(&self, now: SystemTime) -> LeaseState {
        let now = unix_ms(now);
        match self.end {
            End::Never => LeaseState::Leased,
            End::Expires { at_unix_ms, .. } if now < at_unix_ms => LeaseState::Leased,
            End::Expires { .. } => LeaseState::Expired,
            End::Broken { at_unix_ms } if now < at_unix_ms => LeaseState::Breaking,
            End::Broken { .. } => LeaseState::Broken,
        }
    }

    /// Whether it lasts until it is ended, which only a lease that is held tells.
    #[must_use]
    pub const fn is_infinite(&self) -> bool {
        matches!(self.end, End::Never)
    }
}

/// The state of what has this lease, or none.
#[must_use]
pub fn state_of(lease: Option<&Lease>, now: SystemTime) -> LeaseState {
    lease.map_or(LeaseState::Available, |lease| lease.state(now))
}

/// Whether something on which there may be a lease may be written with an id, or without one.
///
/// # Errors
/// The lease prevents it.
pub(super) fn check_write(
    lease: Option<&Lease>,
    given: Option<LeaseId>,
    leased: Leased,
    now: SystemTime,
) -> Result<(), LeaseError> {
    match given {
        Some(_) => check_read(lease, given, leased, now),
        None if state_of(lease, now).is_locked() => Err(LeaseError::IdMissing(leased)),
        None => Ok(()),
    }
}

/// Whether it may be read. Leases lock writes alone; but an id that is given must be right.
///
/// # Errors
/// It is wrong.
pub(super) fn check_read(
    lease: Option<&Lease>,
    given: Option<LeaseId>,
    leased: Leased,
    now: SystemTime,
) -> Result<(), LeaseError> {
    let Some(given) = given else {
        return Ok(());
    };
    match lease {
        None => Err(LeaseError::NotPresent(leased)),
        Some(lease) => match (lease.state(now).is_locked(), lease.id == given) {
            (true, true) => Ok(()),
            (true, false) => Err(LeaseError::IdMismatch(leased)),
            (false, true) => Err(LeaseError::Lost(leased)),
            (false, false) => Err(LeaseError::NotPresent(leased)),
        },
    }
}

/// The lease that remains when its blob is written. The write takes away the claim of a holder whose lease has ended.
pub(super) fn after_write(lease: Option<&Lease>, now: SystemTime) -> Option<Lease> {
    lease.copied().filter(|lease| lease.state(now).is_locked())
}

impl LeaseAction {
    /// What becomes of a lease, and what the client is told.
    ///
    /// # Errors
    /// The lease does not allow it; it is as it was.
    pub(super) fn apply(
        self,
        lease: Option<&Lease>,
        now: SystemTime,
    ) -> Result<(Option<Lease>, LeaseOutcome), LeaseError> {
        let held = |lease: Lease| {
            let outcome = LeaseOutcome { id: Some(lease.id), remaining_s: None };
            (Some(lease), outcome)
        };
        match self {
            Self::Acquire { duration, proposed } => acquire(lease, duration, proposed, now).map(held),
            Self::Renew(id) => renew(lease, id, now).map(held),
            Self::Change { id, proposed } => change(lease, id, proposed, now).map(held),
            Self::Release(id) => match lease {
                Some(lease) if lease.id == id => Ok((None, LeaseOutcome::default())),
                _ => Err(LeaseError::ActionIdMismatch),
            },
            Self::Break { period } => {
                let lease = lease.ok_or(LeaseError::ActionNotPresent)?;
                let (lease, remaining_s) = broken(lease, period, now);
                let outcome = LeaseOutcome { id: None, remaining_s: Some(remaining_s) };
                Ok((Some(lease), outcome))
            }
        }
    }
}

fn acquire(
    lease: Option<&Lease>,
    duration: LeaseDuration,
    proposed: Option<LeaseId>,
    now: SystemTime,
) -> Result<Lease, LeaseError> {
    if let Some(lease) = lease {
        let is_holder = proposed == Some(lease.id);
        match (lease.state(now), is_holder) {
            (LeaseState::Breaking, true) => return Err(LeaseError::BreakingNotAcquired),
            (LeaseState::Leased | LeaseState::Breaking, false) => {
                return Err(LeaseError::AlreadyPresent);
            }
            _ => {}
        }
    }
    let id = proposed.unwrap_or_else(LeaseId::random);
    Ok(Lease::new(id, duration, now))
}

fn renew(lease: Option<&Lease>, id: LeaseId, now: SystemTime) -> Result<Lease, LeaseError> {
    let lease = lease.filter(|lease| lease.id == id).ok_or(LeaseError::ActionIdMismatch)?;
    match lease.end {
        End::Never => Ok(*lease),
        End::Expires { seconds, .. } => Ok(Lease::new(id, LeaseDuration::Fixed(seconds), now)),
        End::Broken { .. } => Err(LeaseError::BrokenNotRenewed),
    }
}

fn change(
    lease: Option<&Lease>,
    id: LeaseId,
    proposed: LeaseId,
    now: SystemTime,
) -> Result<Lease, LeaseError> {
    let lease = lease.ok_or(LeaseError::ActionNotPresent)?;
    let state = lease.state(now);
    if !state.is_locked() {
        return Err(LeaseError::ActionNotPresent);
    }
    // A client that did not hear that its change was done asks again, with the id that was.
    if lease.id != id && lease.id != proposed {
        return Err(LeaseError::ActionIdMismatch);
    }
    match state {
        LeaseState::Breaking => Err(LeaseError::BreakingNotChanged),
        _ => Ok(Lease { id: proposed, end: lease.end }),
    }
}

/// The broken lease, and for how many seconds it goes on.
fn broken(lease: &Lease, period: Option<u8>, now: SystemTime) -> (Lease, u64) {
    let now = unix_ms(now);
    let wished = period.map(|seconds| now.saturating_add(u64::from(seconds) * 1000));
    let ends_at = match lease.end {
        End::Never => wished.unwrap_or(now),
        End::Expires { at_unix_ms, .. } | End::Broken { at_unix_ms } => {
            wished.map_or(at_unix_ms, |wished| wished.min(at_unix_ms))
        }
    };
    let broken = Lease { id: lease.id, end: End::Broken { at_unix_ms: ends_at } };
    (broken, ends_at.saturating_sub(now).div_ceil(1000))
}

fn unix_ms(instant: SystemTime) -> u64 {
    let since = instant.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Where the hyphens of a GUID are.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

#[cfg(test)]
mod tests;
