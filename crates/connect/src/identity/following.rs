//! A token for those who can't wait for one: heads of requests are written in one go.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::{BearerToken, Identity, IdentityError, RETRY_MAX, RETRY_MIN};

/// The newest token for a scope. It is renewed in the background until this and its clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct FollowedToken {
    newest: watch::Receiver<BearerToken>,
    _renewing: Arc<Renewing>,
}

/// The task that renews, which ends with this.
#[derive(Debug)]
struct Renewing(JoinHandle<()>);

impl FollowedToken {
    /// Asks for the first one.
    pub(super) async fn new(identity: Identity, scope: &str) -> Result<Self, IdentityError> {
        let first = identity.token(scope).await?;
        let renew_at = first.renew_at();
        let (sender, newest) = watch::channel(first);
        let scope = scope.to_owned();
        let renewing = tokio::spawn(async move { renew(&identity, &scope, renew_at, &sender).await });
        Ok(Self { newest, _renewing: Arc::new(Renewing(renewing)) })
    }

    /// The newest token.
    pub(crate) fn current(&mut self) -> BearerToken {
        self.newest.borrow_and_update().clone()
    }

    /// The newest token if it is another one than what was last returned. Costs one atomic read otherwise.
    #[inline]
    pub(crate) fn changed(&mut self) -> Option<BearerToken> {
        match self.newest.has_changed() {
            Ok(true) => Some(self.newest.borrow_and_update().clone()),
            Ok(false) | Err(_) => None,
        }
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn renew(identity: &Identity, scope: &str, mut renew_at: Instant, newest: &watch::Sender<BearerToken>) {
    let mut wait = RETRY_MIN;
    loop {
        sleep_until(renew_at).await;
        renew_at = match identity.token(scope).await {
            Ok(token) => {
                wait = RETRY_MIN;
                let renew_at = token.renew_at();
                newest.send_if_modified(|held| {
                    let is_new = !held.is(&token);
                    *held = token;
                    is_new
                });
                renew_at
            }
            // There is none that is valid any more, and the services refuse the old one: what is left is to try.
            Err(_told_already) => {
                wait = (wait * 2).min(RETRY_MAX);
                Instant::now() + wait
            }
        };
    }
}
