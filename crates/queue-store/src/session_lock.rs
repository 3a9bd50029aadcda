//! The right to receive from one session.

use super::lock_end::LockEnd;
use std::sync::Arc;

/// What a receiver has of a session that it has accepted. It ends with
/// [`Queue::release_session`](super::Queue::release_session), or when its time is over.
#[derive(Clone, Debug)]
pub struct SessionLock {
    pub(super) id: Arc<str>,
    /// Where the queue has the session.
    pub(super) place: u32,
    pub(super) nonce: u64,
    pub(super) locked_until: LockEnd,
}

impl SessionLock {
    /// The session.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Until when it was locked when it was accepted; renewals come on top.
    #[must_use]
    pub fn locked_until(&self) -> LockEnd {
        self.locked_until
    }
}
