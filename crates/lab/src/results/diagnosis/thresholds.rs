//! From where on a figure is worth a sentence, and why from there.

/// Below this share of its CPU a pipeline with work to do is waiting for something. The published studies call 82 to 98 %
/// fully used; the rest up to here is what a pipeline loses between two of its own wake-ups.
pub(crate) const LOW_CPU_PERCENT: f64 = 70.0;

/// An open load of which less than this was forwarded while it ran left events behind: more than what is under way at
/// the end of a phase.
pub(super) const CARRIED_PERCENT: f64 = 95.0;

/// Roles that together use this much of a machine leave nothing that a further wake-up could use: the system itself
/// needs the rest.
pub(super) const BUSY_MACHINE_PERCENT: f64 = 90.0;

/// Other processes that take this much of a machine take it from what is measured, or from the lab. What a system does
/// for itself is less.
pub(crate) const SHARED_MACHINE_PERCENT: f64 = 20.0;

/// The kernel counts CPU time in ticks of 10 ms: over less than this, a fifth of a machine is only a few of them.
pub(super) const LEAST_SAMPLED_SECONDS: f64 = 0.5;

/// A service that uses this much of what it may has nothing left for a burst.
pub(super) const BUSY_SERVICE_PERCENT: f64 = 90.0;

/// A loop that could have worked for this much longer than its process had a CPU was kept waiting for one. Less is
/// within what sampling and the start and end of a phase leave open.
pub(super) const STARVED_PERCENT: f64 = 25.0;

/// A cause that took less than this share of the time does not explain why a quarter of the CPU and more is left.
pub(super) const WAITING_PERCENT: f64 = 15.0;

/// So many batches of events that were there and not received: fewer may always be on their way.
pub(super) const LAG_BATCHES_PER_PARTITION: u64 = 1;

/// Batches that are less than half full on average cost twice what they need to per event, or wait in vain to be filled.
pub(super) const FULL_BATCH_PERCENT: f64 = 50.0;

/// A mean of fewer batches or sends than this says more about the beginning of a run than about its course.
pub(super) const LEAST_COUNT: u64 = 100;

/// A tail is long from here on: times that only random queueing makes, which are exponential, have their p99 at 6.6
/// times their median.
pub(super) const TAIL_RATIO: f64 = 10.0;

/// Tails below this are the time slices of the operating system.
pub(super) const LEAST_TAIL_US: u64 = 5_000;

/// One send in a hundred, and the 99th percentile of the processing is that of a retry.
pub(super) const SEND_ERRORS_PERCENT: f64 = 1.0;

/// A round of renewal reads all claims and then writes its own: two requests to the store of the checkpoints, each of
/// which may be tried once more. If one in a hundred takes longer than this part of the interval, a round is likely to
/// outlast it.
pub(super) const REQUESTS_PER_RENEWAL: u64 = 4;

/// Each checkpoint that fails leaves its batches to be sent again after a crash, and one in a hundred is far above what
/// a reachable store answers with an error.
pub(super) const CHECKPOINT_ERRORS_PERCENT: f64 = 1.0;

/// A process that uses this much of the CPU that it may use has nothing left.
pub(crate) const FULL_CPU_PERCENT: f64 = 95.0;

/// Where what passed is within this of what Little's law says, the places and the time of each explain it.
pub(crate) const LITTLE_PERCENT: f64 = 10.0;

/// Above this share of its limit a process is a burst away from being killed: receive buffers and the batches under way
/// breathe by about a tenth.
pub(super) const NEAR_MEMORY_PERCENT: f64 = 90.0;
