//! Bounds of the output that a connection gathers while its client does not take it.
//!
//! Every connection may have [`FREE_OUTPUT`]. More is held as a share of the budget of all connections, until the client has taken all
//! of it. A connection for which nothing is left gathers and reads on as soon as its client has taken so much that the rest is free.

use std::sync::Arc;

use super::proof::Proof;
use crate::memory::{Memory, Purpose, Share};

/// Memory of the output of one connection.
#[derive(Debug)]
pub(super) struct OutputShare(Share);

impl OutputShare {
    pub(super) fn new(memory: &Arc<Memory>) -> Self {
        Self(Share::new(memory, Purpose::AmqpOutput))
    }

    /// Whether events and replies may be added to output of so many bytes. A connection that has proven nothing gets no share.
    #[inline]
    pub(super) fn has_room(&mut self, bytes: usize, proof: &Proof) -> bool {
        bytes < OUTPUT_BUDGET && (bytes < FREE_OUTPUT || !proof.is_missing() && self.admits(bytes))
    }

    /// Whether output of so many bytes may grow.
    #[inline]
    pub(super) fn admits(&mut self, bytes: usize) -> bool {
        bytes < FREE_OUTPUT + self.0.held() || self.grow(bytes)
    }

    /// Takes note that `bytes` of output wait when there is nothing to do.
    #[inline]
    pub(super) fn rest(&mut self, bytes: usize) {
        if bytes == 0 {
            self.0.release();
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) -> bool {
        let bytes = (bytes + 1).next_multiple_of(OUTPUT_BUDGET);
        self.0.resize(bytes - FREE_OUTPUT)
    }
}

/// Output that is gathered before it is written, in bytes: a few large writes, still within the second-level cache.
pub(super) const OUTPUT_BUDGET: usize = 256 * 1024;

/// Output of a connection that has no share.
pub(super) const FREE_OUTPUT: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_grows_while_the_budget_lasts_and_gives_it_back_when_all_of_it_is_taken() {
        let memory = Arc::<Memory>::default();
        let used = || memory.usage(Purpose::AmqpOutput).0 as usize;
        let each = OUTPUT_BUDGET - FREE_OUTPUT;
        let count = Purpose::AmqpOutput.limit() as usize / each;
        let mut shares: Vec<_> = (0..count).map(|_| OutputShare::new(&memory)).collect();
        assert!(shares.iter_mut().all(|share| share.admits(FREE_OUTPUT - 1)));
        assert_eq!(used(), 0);
        assert!(shares.iter_mut().all(|share| share.admits(FREE_OUTPUT) && share.admits(OUTPUT_BUDGET - 1)));
        assert_eq!(used(), count * each);
        let mut late = OutputShare::new(&memory);
        assert!(late.admits(FREE_OUTPUT - 1) && !late.admits(FREE_OUTPUT));
        assert!(!shares[0].admits(OUTPUT_BUDGET), "input has made more of it");
        shares[0].rest(1);
        assert!(!late.admits(FREE_OUTPUT), "the client has not taken all");
        shares[0].rest(0);
        assert!(late.admits(FREE_OUTPUT));
        drop((shares, late));
        assert_eq!(used(), 0);
    }
}
