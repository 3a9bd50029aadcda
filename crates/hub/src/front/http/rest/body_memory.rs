//! Memory for the body of a request while it arrives.
//!
//! It grows with what has come, whatever the head has announced: a head costs its sender nothing.

use std::sync::Arc;

use crate::memory::{Memory, Purpose, Share};

/// Memory of one body.
#[derive(Debug)]
pub(super) struct BodyMemory(Share);

impl BodyMemory {
    pub(super) fn new(memory: &Arc<Memory>) -> Self {
        Self(Share::new(memory, Purpose::RestBodies))
    }

    /// Whether there is memory for a body of which so many bytes have come.
    #[must_use]
    pub(super) fn holds(&mut self, bytes: usize) -> bool {
        bytes <= SMALL_BODY || bytes <= self.0.held() || self.0.resize(bytes.next_multiple_of(STEP))
    }
}

/// A body that needs no memory set aside: what every connection may hold anyway.
const SMALL_BODY: usize = 32 * 1024;

/// Memory is set aside in steps of so many bytes.
const STEP: usize = 64 * 1024;

/// Text of the refusal.
pub(super) const NO_MEMORY: &str = "The service has no memory for the body of the request at present.";
