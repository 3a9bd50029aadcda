//! What the service profile makes of a request to produce.
//!
//! What exceeds the quota is not refused, as over AMQP, but waits, with everything behind it on its connection. If it would wait
//! for longer than the client does, it is refused, as the service has it. The answer says how long it waited (`throttle_time_ms`), and
//! the counters of the partitions that it was kept waiting.
//!
//! The time that the service takes is that of the answer alone: the next request is carried out meanwhile. Answers keep the order of
//! their requests.

use std::time::Duration;

use kafka::ErrorCode;
use kafka::produce::ProduceRequest;
use kafka::record_batch::RecordBatch;
use tokio::time::Instant;

use crate::profile::{Fate, Shaper};

/// What a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shaped {
    /// What becomes of it.
    pub(super) fate: Shaping,
    /// For how long it waited because a quota is used up.
    pub(super) throttled: Duration,
    /// When it may be answered; at once where there is none.
    pub(super) ready_at: Option<Instant>,
}

impl Shaped {
    /// As without a profile.
    pub(super) const UNTOUCHED: Self =
        Self { fate: Shaping::Succeeds, throttled: Duration::ZERO, ready_at: None };
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shaping {
    /// It is carried out and answered.
    Succeeds,
    /// It is not carried out, and answered with the error.
    Refused(ErrorCode),
    /// It is carried out, and answered as if it were not.
    Unacknowledged,
    /// The connection breaks, before or after it is carried out.
    Breaks { stores: bool },
}

/// Waits for as long as the quota has a request wait, and says what becomes of it.
pub(super) async fn shape(shaper: &mut Shaper, request: &ProduceRequest<'_>) -> Shaped {
    let entity = request.partitions.first().map_or("", |first| first.topic);
    let bytes = request.partitions.iter().map(|partition| partition.records.len() as u64).sum();
    let events = || {
        let batches = request.partitions.iter().map(|partition| RecordBatch::read(partition.records));
        batches.flatten().map(|batch| u64::from(batch.record_count())).sum()
    };
    let patience = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let mut waited = Duration::ZERO;
    loop {
        let shaped = shaper.send(Instant::now(), entity, bytes, events);
        let ready_at = shaped.ready_at;
        let fate = match shaped.fate {
            Fate::Throttled(throttled) => {
                let pause = throttled.retry_after.max(SHORTEST_PAUSE);
                waited += pause;
                if waited > patience {
                    let fate = Shaping::Refused(ErrorCode::PolicyViolation);
                    return Shaped { fate, throttled: waited, ready_at };
                }
                tokio::time::sleep(pause).await;
                continue;
            }
            Fate::Succeeds => Shaping::Succeeds,
            Fate::Fails => Shaping::Refused(ErrorCode::RequestTimedOut),
            Fate::Unacknowledged => Shaping::Unacknowledged,
            Fate::Detached => Shaping::Breaks { stores: false },
            Fate::Disconnected => Shaping::Breaks { stores: true },
        };
        return Shaped { fate, throttled: waited, ready_at };
    }
}

/// As short as the runtime's timers go.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
