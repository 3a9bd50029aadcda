//! Who is connected to a front.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::Protocol;

/// The connections of one front that are open, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Clients(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<u64, ClientDescription>,
    next: u64,
}

/// A connection as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientDescription {
    pub(crate) peer: SocketAddr,
    /// What is spoken at the address that it came to.
    pub(crate) protocol: Protocol,
    pub(crate) since: SystemTime,
}

/// A connection that is open for as long as this lives.
#[derive(Debug)]
pub(super) struct Listed {
    clients: Arc<Clients>,
    number: u64,
}

impl Clients {
    /// Another one has come.
    pub(super) fn list(self: &Arc<Self>, peer: SocketAddr, protocol: Protocol) -> Listed {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.open.insert(number, ClientDescription { peer, protocol, since: SystemTime::now() });
        Listed { clients: Arc::clone(self), number }
    }

    /// How many there are, and the `most` newest of them, newest first.
    pub(crate) fn describe(&self, most: usize) -> (usize, Vec<ClientDescription>) {
        let state = self.lock();
        (state.open.len(), state.open.values().rev().take(most).copied().collect())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Locked sections insert or remove one entry; what is there is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.clients.lock().open.remove(&self.number);
    }
}
