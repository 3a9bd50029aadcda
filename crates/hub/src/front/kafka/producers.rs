//! The ids of producers that number their records.
//!
//! An id must never be given out twice, not even by a service that was killed and started again. So ids are drawn from a clock
//! that no restart turns back: microseconds since 1970 when the service started, and counted up from there. A service would
//! have to give out a million ids each second to overtake itself.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

use kafka::ErrorCode;
use kafka::messages::producer_id::InitProducerIdRequest;

/// Gives out ids.
#[derive(Debug)]
pub(super) struct ProducerIds {
    next: AtomicI64,
}

impl ProducerIds {
    pub(super) fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { next: AtomicI64::new(i64::try_from(now.as_micros()).unwrap_or(0)) }
    }

    /// Id and epoch for a producer. One that has both already gets the next epoch, and a new id when there is none left.
    pub(super) fn answer(&self, request: &InitProducerIdRequest<'_>) -> Result<(i64, i16), ErrorCode> {
        if request.transactional_id.is_some() {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        match (request.producer_id, request.producer_epoch.checked_add(1)) {
            (id @ 0.., Some(epoch @ 0..)) => Ok((id, epoch)),
            _ => Ok((self.next.fetch_add(1, Ordering::Relaxed), 0)),
        }
    }
}
