//! Who this process is to Microsoft Entra ID, and the bearer tokens that prove it.
//!
//! ```text
//!   AMQP: put-token ───┐                      ┌─ environment: an application with a secret
//!   HTTP: header ──────┤                      ├─ workload identity
//!   Kafka: login ──────┼─▶ Identity ─▶ chain ─┼─ managed identity
//!   blobs: header ─────┘   a token per scope, ├─ Azure CLI
//!                          renewed before     └─ Azure Developer CLI
//!                          it ends
//! ```
//!
//! Everything that connects asks one [`Identity`], so a token is asked for once for each scope, however many connections use it. One
//! that is renewed is asked for early enough that several attempts fit into what is left of it; while they fail, the old one serves.
//!
//! The members of the chain are those of the official crate `azure_identity`; order and selection are those of `DefaultAzureCredential`
//! in the other languages, which the crate does not have.

mod chain;
mod environment;
mod error;
mod following;
mod token;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use chain::Chain;

pub use environment::Environment;
pub use error::{IdentityError, MemberFailure};
pub use token::BearerToken;

pub(crate) use following::FollowedToken;

/// An identity, and the tokens that are held for it. Clones share them. Two are equal if they do.
#[derive(Clone)]
pub struct Identity(Arc<Shared>);

/// What an identity is found by.
#[derive(Clone, Debug, Default)]
pub struct IdentityOptions {
    /// The variables that say which identity it is.
    pub environment: Environment,
    /// A PEM file of the certificate authorities to trust instead of the system's where tokens are asked for.
    pub certificate_authority: Option<PathBuf>,
}

/// An identity whose tokens are not renewed at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewalTrouble {
    /// What the token is for.
    pub scope: String,
    /// Why it is not renewed.
    pub reason: String,
    /// When the token ends that still serves; in the past if none does.
    pub ends_at: SystemTime,
}

struct Shared {
    options: IdentityOptions,
    /// Made when the first token is asked for.
    chain: OnceLock<Chain>,
    scopes: Mutex<HashMap<String, Arc<Scope>>>,
}

/// The token for one scope.
#[derive(Default)]
struct Scope {
    /// Locked while a token is asked for: whoever else wants one waits for the same answer.
    held: tokio::sync::Mutex<Option<BearerToken>>,
    trouble: Mutex<Option<RenewalTrouble>>,
}

/// What tokens of Event Hubs are for.
pub const EVENT_HUBS_SCOPE: &str = "https://eventhubs.azure.net/.default";

/// What tokens of Service Bus are for.
pub const SERVICE_BUS_SCOPE: &str = "https://servicebus.azure.net/.default";

/// What tokens of storage accounts are for.
pub const STORAGE_SCOPE: &str = "https://storage.azure.com/.default";

impl Identity {
    /// An identity that is found by these options once a token is asked for.
    #[must_use]
    pub fn new(options: IdentityOptions) -> Self {
        let scopes = Mutex::default();
        Self(Arc::new(Shared { options, chain: OnceLock::new(), scopes }))
    }

    /// The identity of this process: one for all that asks.
    #[must_use]
    pub fn of_process() -> Self {
        static PROCESS: OnceLock<Identity> = OnceLock::new();
        PROCESS.get_or_init(|| Self::new(IdentityOptions::default())).clone()
    }

    /// A token for a scope such as [`EVENT_HUBS_SCOPE`]: the one that is held, or, if it is time, a new one. If there is no new one the
    /// old one is given as long as it is valid, with a later time for the next attempt, and the [trouble](Self::troubles) is kept.
    ///
    /// Made within a tokio runtime with time.
    ///
    /// # Errors
    /// There is no valid token: what each member of the chain says.
    pub async fn token(&self, scope: &str) -> Result<BearerToken, IdentityError> {
        let slot = self.scope(scope);
        let mut held = slot.held.lock().await;
        if let Some(token) = &*held
            && Instant::now() < token.renew_at
        {
            return Ok(token.clone());
        }
        let chain = self.0.chain.get_or_init(|| Chain::of(&self.0.options));
        match chain.token(scope).await {
            Ok(token) => {
                if locked(&slot.trouble).take().is_some() {
                    tracing::info!(scope, "tokens are renewed again");
                }
                *held = Some(token.clone());
                Ok(token)
            }
            Err(error) => {
                let (now, reason) = (SystemTime::now(), error.to_string());
                let ends_at = held.as_ref().map_or(now, |token| token.expires_at);
                let left = ends_at.duration_since(now).unwrap_or_default();
                tracing::warn!(scope, valid_for = ?left, %reason, "a token was not renewed");
                *locked(&slot.trouble) = Some(RenewalTrouble { scope: scope.to_owned(), reason, ends_at });
                match &mut *held {
                    Some(token) if !left.is_zero() => {
                        token.renew_at = Instant::now() + (left / 4).clamp(RETRY_MIN, RETRY_MAX);
                        Ok(token.clone())
                    }
                    _ => Err(error),
                }
            }
        }
    }

    /// Forgets a token that a service has refused because it is over, though it should not be: clocks differ.
    pub(crate) fn discard(&self, scope: &str, token: &BearerToken) {
        // Where it is locked, a new one is being asked for.
        if let Ok(mut held) = self.scope(scope).held.try_lock()
            && held.as_ref().is_some_and(|held| held.is(token))
        {
            *held = None;
        }
    }

    /// A token that is renewed in the background for as long as what is returned lives: for those who can't wait when they need one.
    pub(crate) async fn follow(&self, scope: &str) -> Result<FollowedToken, IdentityError> {
        FollowedToken::new(self.clone(), scope).await
    }

    /// Which tokens are not renewed at the moment, by scope.
    #[must_use]
    pub fn troubles(&self) -> Vec<RenewalTrouble> {
        let mut troubles: Vec<_> =
            locked(&self.0.scopes).values().filter_map(|scope| locked(&scope.trouble).clone()).collect();
        troubles.sort_by(|one, other| one.scope.cmp(&other.scope));
        troubles
    }

    fn scope(&self, scope: &str) -> Arc<Scope> {
        let mut scopes = locked(&self.0.scopes);
        match scopes.get(scope) {
            Some(slot) => Arc::clone(slot),
            None => Arc::clone(scopes.entry(scope.to_owned()).or_default()),
        }
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Identity {}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("chain", &self.0.chain.get()).finish_non_exhaustive()
    }
}

impl fmt::Display for RenewalTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.ends_at.duration_since(SystemTime::now()).unwrap_or_default();
        match left.is_zero() {
            true => write!(f, "there is no token for {}: {}", self.scope, self.reason),
            false => {
                let seconds = left.as_secs();
                write!(
                    f,
                    "the token for {} ends in {seconds} s and is not renewed: {}",
                    self.scope, self.reason
                )
            }
        }
    }
}

/// What is locked stays whole: nothing that holds a lock can panic halfway.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long after a failed renewal the next attempt is made: a quarter of what is left, within these.
const RETRY_MIN: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(30);
