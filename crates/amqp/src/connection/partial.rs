//! Messages of which not all frames have come, and the bounds on the memory that they take.
//!
//! A peer decides how long a message stays unfinished, so every byte of one is charged: to its connection, and to a bound
//! that any number of connections share. A charge is given back when the message is finished, refused or dropped with
//! its link.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::{BufMut, BytesMut};

use super::ConnectionError;
use crate::TransactionId;

/// A bound on the bytes of unfinished messages, for any number of connections.
#[derive(Debug)]
pub struct PartialBytes {
    maximum: usize,
    held: AtomicUsize,
    refused: AtomicU64,
}

/// A delivery that comes in several frames.
#[derive(Debug)]
pub(super) struct PartialDelivery {
    pub(super) id: u32,
    pub(super) format: u32,
    pub(super) settled: bool,
    /// The transaction that it is part of, if it is.
    pub(super) transaction: Option<TransactionId>,
    pub(super) tag_length: u8,
    /// The tag, then as much of the message as has come.
    pub(super) bytes: BytesMut,
    /// Bytes of the message that have come.
    pub(super) size: u64,
    /// Why it will be refused at its end; until then the rest is only counted.
    pub(super) refusal: Option<Refusal>,
    charge: Charge,
}

/// Why a message is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is larger than the link takes.
    TooLarge,
    /// The shared bound had no room for it.
    NoRoom,
}

/// What one message holds of its connection's bound and of the shared one.
#[derive(Debug)]
struct Charge {
    own: Arc<PartialBytes>,
    shared: Option<Arc<PartialBytes>>,
    bytes: usize,
}

impl PartialBytes {
    /// A bound of `maximum` bytes.
    pub fn new(maximum: usize) -> Arc<Self> {
        Arc::new(Self { maximum, held: AtomicUsize::new(0), refused: AtomicU64::new(0) })
    }

    /// Bytes of unfinished messages that are held now.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Messages refused since the start because there was no room.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.maximum);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl PartialDelivery {
    pub(super) fn new(
        (id, format): (u32, u32),
        tag: &[u8],
        tag_length: u8,
        own: &Arc<PartialBytes>,
        shared: Option<&Arc<PartialBytes>>,
    ) -> Self {
        Self {
            id,
            format,
            settled: false,
            transaction: None,
            tag_length,
            bytes: BytesMut::from(tag),
            size: 0,
            refusal: None,
            charge: Charge { own: Arc::clone(own), shared: shared.map(Arc::clone), bytes: 0 },
        }
    }

    /// Adds what a frame brought. Where the message exceeds `maximum` bytes, or the shared bound has no room for it, it is
    /// refused and what it held is free.
    ///
    /// # Errors
    /// The connection's own bound has no room.
    pub(super) fn extend(&mut self, payload: &[u8], maximum: u64) -> Result<(), ConnectionError> {
        self.size += payload.len() as u64;
        if self.size > maximum {
            // Whether there would have been room is of no interest any more: it never can be taken.
            self.refuse(Refusal::TooLarge);
        }
        if self.refusal.is_some() {
            return Ok(());
        }
        let Charge { own, shared, bytes } = &mut self.charge;
        if !own.take(payload.len()) {
            return Err(ConnectionError::PartialMessages(own.maximum));
        }
        *bytes += payload.len();
        if let Some(shared) = shared
            && !shared.take(payload.len())
        {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            own.give_back(payload.len());
            *bytes -= payload.len();
            self.refuse(Refusal::NoRoom);
            return Ok(());
        }
        self.bytes.put_slice(payload);
        Ok(())
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.refusal = Some(refusal);
        self.bytes = BytesMut::new();
        self.charge.free();
    }
}

impl Charge {
    fn free(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.own.give_back(bytes);
        if let Some(shared) = &self.shared {
            shared.give_back(bytes);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.free();
    }
}
