//! The keys of one issuer, and when they are fetched again: after an hour, and when a token names one that is not here.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use access::token::KeySet;
use hyper::Uri;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::config::read_keys;
use super::fetch::fetch;

/// Keys, and where newer ones come from.
#[derive(Debug)]
pub(super) struct IssuerKeys {
    source: KeySource,
    state: Mutex<State>,
    asked: Notify,
    failures: AtomicU64,
}

/// Where keys come from.
#[derive(Clone, Debug)]
pub(super) enum KeySource {
    /// They stay as they are.
    Fixed,
    /// A file, which is read again.
    File(PathBuf),
    /// A document, which is fetched again.
    Url(Uri),
}

#[derive(Debug, Default)]
struct State {
    keys: Option<Arc<KeySet>>,
    /// Why the last attempt to get newer ones failed, if it did.
    failure: Option<String>,
    last_attempt: Option<Instant>,
    /// Whether newer ones are asked for and have not come yet.
    is_asked: bool,
}

impl IssuerKeys {
    pub(super) fn of(source: KeySource, keys: Option<KeySet>) -> Arc<Self> {
        let last_attempt = keys.is_some().then(Instant::now);
        let state = State { keys: keys.map(Arc::new), last_attempt, ..State::default() };
        Arc::new(Self { source, state: Mutex::new(state), asked: Notify::new(), failures: AtomicU64::new(0) })
    }

    pub(super) fn fixed(keys: KeySet) -> Arc<Self> {
        Self::of(KeySource::Fixed, Some(keys))
    }

    pub(super) const fn can_change(&self) -> bool {
        !matches!(self.source, KeySource::Fixed)
    }

    /// The keys as they are now; `None` if they have never been fetched.
    pub(super) fn current(&self) -> Option<Arc<KeySet>> {
        self.state().keys.clone()
    }

    /// Asks for newer keys. Whether there may be some soon: not if they have just been fetched, since anyone may ask.
    pub(super) fn asks_for_newer(&self) -> bool {
        let mut state = self.state();
        let is_allowed = state.is_asked
            || self.can_change() && state.last_attempt.is_none_or(|last| last.elapsed() >= MINIMUM_INTERVAL);
        if is_allowed && !state.is_asked {
            state.is_asked = true;
            self.asked.notify_one();
        }
        is_allowed
    }

    /// Why there are no keys, if there are none.
    pub(super) fn missing_because(&self) -> Option<String> {
        let state = self.state();
        match state.keys {
            Some(_) => None,
            None => {
                Some(state.failure.clone().unwrap_or_else(|| "they have not been fetched yet".to_owned()))
            }
        }
    }

    /// Attempts since the start to get newer keys that failed.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    async fn load(&self) {
        let loaded = match &self.source {
            KeySource::Fixed => return,
            KeySource::Url(url) => fetch(url).await,
            KeySource::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_keys(&path)).await;
                read.unwrap_or_else(|error| Err(error.to_string()))
            }
        };
        let mut state = self.state();
        state.last_attempt = Some(Instant::now());
        state.is_asked = false;
        match loaded {
            Ok(keys) => {
                tracing::debug!(source = ?self.source, keys = keys.len(), "the keys of a token issuer were loaded");
                state.keys = Some(Arc::new(keys));
                state.failure = None;
            }
            Err(reason) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                // Once, and again when it is another reason.
                if state.failure.as_ref() != Some(&reason) {
                    tracing::warn!(source = ?self.source, reason, "the keys of a token issuer can't be loaded");
                }
                state.failure = Some(reason);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Locked sections replace whole values.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps `keys` fresh until `stop` becomes true.
pub(super) async fn renew(keys: Arc<IssuerKeys>, mut stop: watch::Receiver<bool>) {
    loop {
        let pause = match (keys.current(), keys.state().last_attempt) {
            (Some(_), _) => PERIOD,
            (None, Some(_)) => RETRY,
            (None, None) => Duration::ZERO,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = keys.asked.notified() => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
        tokio::select! {
            () = keys.load() => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

/// Issuers publish a key long before they sign with it.
const PERIOD: Duration = Duration::from_secs(3600);

/// After a failure, while there are no keys at all.
const RETRY: Duration = Duration::from_secs(5);

/// Between two attempts that tokens cause.
const MINIMUM_INTERVAL: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> KeySet {
        let key = access::token::SigningKey::generate().unwrap();
        KeySet::parse(key.key_set().to_string().as_bytes()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn newer_keys_are_asked_for_once_and_then_not_for_a_while() {
        let path = PathBuf::from("/no/such/file");
        let issuer = IssuerKeys::of(KeySource::File(path), Some(keys()));
        assert!(!issuer.asks_for_newer(), "they have just been read");
        tokio::time::advance(MINIMUM_INTERVAL).await;
        assert!(issuer.asks_for_newer());
        assert!(issuer.asks_for_newer(), "the same attempt is under way");
        issuer.load().await;
        assert_eq!(issuer.failures(), 1);
        assert!(issuer.current().is_some(), "the old ones are kept");
        assert!(!issuer.asks_for_newer());
        assert!(!IssuerKeys::fixed(keys()).asks_for_newer());
    }
}
