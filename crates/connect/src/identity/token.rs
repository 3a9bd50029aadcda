//! A token and its times.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// A bearer token. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken {
    text: Arc<str>,
    /// From when on it is void.
    pub(super) expires_at: SystemTime,
    /// When the next one is to be asked for.
    pub(super) renew_at: Instant,
}

impl BearerToken {
    /// A token that was just issued.
    pub(super) fn new(text: &str, expires_at: SystemTime) -> Self {
        let life = expires_at.duration_since(SystemTime::now()).unwrap_or_default();
        let margin = (life / 4).clamp(MARGIN_MIN, MARGIN_MAX);
        let renew_at = Instant::now() + life.saturating_sub(margin).max(RENEWED_AFTER);
        // What goes into a head of HTTP must not become two lines. Tokens have no such characters.
        let text: String = text.chars().filter(char::is_ascii_graphic).collect();
        Self { text: text.into(), expires_at, renew_at }
    }

    /// The token itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// From when on it is void.
    #[must_use]
    pub const fn expires_at(&self) -> SystemTime {
        self.expires_at
    }

    /// When the next one is to be asked for.
    pub(crate) const fn renew_at(&self) -> Instant {
        self.renew_at
    }

    /// Whether both are the same token, whenever it is to be renewed.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerToken").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// How long before its end a token is renewed: a quarter of its life, within these. Ends are told in whole seconds, and those who tell
/// them may round them down. The official credentials keep a token until five minutes before its end, so asking any earlier would give the same
/// one.
const MARGIN_MIN: Duration = Duration::from_millis(1500);
const MARGIN_MAX: Duration = Duration::from_secs(290);

/// The least time between two renewals, for an issuer that gives the same token until it ends.
const RENEWED_AFTER: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_minutes_before_its_end_or_after_three_quarters_of_a_short_life() {
        for (life_s, margin_s) in [(3600, 290), (1160, 290), (100, 25), (8, 2)] {
            let token = BearerToken::new("t", SystemTime::now() + Duration::from_secs(life_s));
            let serves = token.renew_at - Instant::now();
            let expected = Duration::from_secs(life_s - margin_s);
            assert!(serves <= expected && expected - serves < Duration::from_secs(1), "{life_s}: {serves:?}");
        }
        let short = BearerToken::new("t", SystemTime::now() + Duration::from_secs(2));
        assert!(short.renew_at - Instant::now() <= Duration::from_millis(500));
        let over = BearerToken::new("t", SystemTime::UNIX_EPOCH);
        assert_eq!(over.renew_at - Instant::now(), RENEWED_AFTER);
    }

    #[test]
    fn a_token_is_one_line_and_is_not_shown() {
        let token = BearerToken::new("hu\r\nsh ", SystemTime::now());
        assert_eq!(token.reveal(), "hush");
        assert!(!format!("{token:?}").contains("hush"));
    }
}
