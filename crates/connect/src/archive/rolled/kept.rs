//! Blocks that wait in memory until their file is complete, since it is stored as a whole, and how many of them there may be.
//!
//! ```text
//!   memory  ├── files that are open: at most half ──┼── files that are being stored: the rest ──┤
//! ```
//!
//! With more than half of the memory in files that are open the longest of them is complete, however long it should have been. With all of the
//! memory taken nothing more is accepted until a file is stored. What a file has is given back with its last user, which may be a request whose
//! outcome is of no account any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use object_store::PutPayload;

/// How much is kept, and how much may be. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    kept: Arc<AtomicUsize>,
    max: usize,
}

/// The blocks of a file.
#[derive(Debug)]
pub(super) struct KeptBlocks {
    memory: Memory,
    blocks: Vec<Bytes>,
    bytes: usize,
}

impl Memory {
    pub(super) fn new(max: usize) -> Self {
        Self { kept: Arc::default(), max }
    }

    /// Whether no more may be kept.
    pub(super) fn is_full(&self) -> bool {
        self.kept.load(Ordering::Relaxed) >= self.max
    }

    /// How much open files may have together.
    pub(super) const fn open_max(&self) -> usize {
        self.max / 2
    }
}

impl KeptBlocks {
    pub(super) const fn new(memory: Memory) -> Self {
        Self { memory, blocks: Vec::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, mut block: Vec<u8>) {
        // What was reserved for it and is not needed would not be counted.
        block.shrink_to_fit();
        self.bytes += block.len();
        self.memory.kept.fetch_add(block.len(), Ordering::Relaxed);
        self.blocks.push(block.into());
    }

    /// The length of all of them.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The content of the file.
    pub(super) fn payload(&self) -> PutPayload {
        self.blocks.iter().cloned().collect()
    }
}

impl Drop for KeptBlocks {
    fn drop(&mut self) {
        self.memory.kept.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_counted_until_its_last_user_has_gone() {
        let memory = Memory::new(10);
        let mut file = KeptBlocks::new(memory.clone());
        file.push(vec![1; 4]);
        let mut other = KeptBlocks::new(memory.clone());
        other.push(vec![2; 5]);
        assert!(!memory.is_full());
        file.push(vec![3; 1]);
        assert!(memory.is_full());
        assert_eq!((file.bytes(), Bytes::from(file.payload())), (5, Bytes::from_static(&[1, 1, 1, 1, 3])));
        let request = Arc::new(file);
        let forgotten = Arc::clone(&request);
        drop(forgotten);
        assert!(memory.is_full());
        drop(request);
        assert!(!memory.is_full());
    }
}
