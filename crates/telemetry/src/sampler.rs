//! Which batches are traced. The decision is made when a batch is taken up, and everything that belongs to it goes by that.

use crate::context::{SpanContext, TraceId};

/// Decides whether something is traced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampler {
    /// Whether the decision of whoever made a message holds.
    pub(crate) respects_parent: bool,
    /// The part of all others that are traced, from 0 to 1.
    pub(crate) ratio: f64,
}

impl Sampler {
    /// Whether a new trace is sampled, if the message that it begins with has this context.
    pub(crate) fn samples(&self, trace: TraceId, parent: Option<SpanContext>) -> bool {
        match parent {
            Some(parent) if self.respects_parent => parent.sampled,
            _ => self.samples_root(trace),
        }
    }

    /// By the trace alone, so that all who trace it with this ratio decide alike.
    fn samples_root(&self, trace: TraceId) -> bool {
        if self.ratio >= 1.0 {
            return true;
        }
        let mut low = [0; 8];
        low.copy_from_slice(&trace.0[8..]);
        let drawn = u64::from_be_bytes(low) >> 1;
        // 2^63 times the ratio; a ratio that is no number samples nothing.
        drawn < (self.ratio * 9_223_372_036_854_775_808.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use units::Random;

    use super::*;
    use crate::context::SpanId;

    fn sampled(sampler: Sampler, parent: Option<SpanContext>) -> usize {
        let mut random = Random::from_seed(1);
        let mut trace = [0; 16];
        let draw = |_| {
            random.fill(&mut trace);
            sampler.samples(TraceId(trace), parent)
        };
        (0..10_000).map(draw).filter(|sampled| *sampled).count()
    }

    #[test]
    fn a_part_of_all_traces_is_sampled() {
        let sampler = |ratio| Sampler { respects_parent: true, ratio };
        assert_eq!(sampled(sampler(0.0), None), 0);
        assert_eq!(sampled(sampler(f64::NAN), None), 0);
        assert_eq!(sampled(sampler(1.0), None), 10_000);
        let one_percent = sampled(sampler(0.01), None);
        assert!((70..=130).contains(&one_percent), "{one_percent}");
    }

    #[test]
    fn what_was_decided_before_holds_if_it_is_to() {
        let parent = |sampled| Some(SpanContext { trace: TraceId([1; 16]), span: SpanId([1; 8]), sampled });
        let respectful = Sampler { respects_parent: true, ratio: 0.0 };
        assert_eq!(sampled(respectful, parent(true)), 10_000);
        assert_eq!(sampled(Sampler { ratio: 1.0, ..respectful }, parent(false)), 0);
        let alone = Sampler { respects_parent: false, ratio: 0.0 };
        assert_eq!(sampled(alone, parent(true)), 0);
    }
}
