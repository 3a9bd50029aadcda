//! What is traced of a pipeline, and under which names.
//!
//! ```text
//!   process orders             from the receipt of a batch until every sink has accepted it; linked to the spans of its producers
//!     ├─ send orders-by-region   each send that has events of it, from the hand-over to the sink until the outcome
//!     ├─ send archive
//!     └─ checkpoint orders       the writing that covers it; where it covers several, a part of the first and linked to the others
//! ```
//!
//! The batch is the unit, as everywhere: one that is not sampled costs a look at its first event. That one stands for
//! the others: where producers decide what is sampled, its decision is that of the batch.

use std::sync::Arc;

use telemetry::Tracer;
use telemetry::span::Operation;

/// Traces of one relay.
#[derive(Debug)]
pub struct Tracing {
    /// Makes its spans.
    pub tracer: Tracer,
    /// A batch is carried.
    pub process: Arc<Operation>,
    /// Something is sent to each sink, in their order.
    pub sends: Vec<SendOperation>,
    /// A checkpoint is written.
    pub checkpoint: Arc<Operation>,
}

/// Something is sent to a sink.
#[derive(Clone, Debug)]
pub struct SendOperation {
    /// What all sends to it have in common.
    pub operation: Arc<Operation>,
    /// Whether its destinations are the partitions of a log, in their order.
    pub to_partitions: bool,
}
