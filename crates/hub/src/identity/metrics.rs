//! The metrics of bearer tokens.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use access::token::TokenError;
use listen::MetricsWriter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::Identity;

/// Collects what became of the tokens that were presented.
#[derive(Debug)]
pub(crate) struct IdentityMetrics(pub(crate) Arc<Identity>);

impl Collector for IdentityMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(identity) = self;
        let mut metrics = MetricsWriter::new(encoder);
        metrics.counter(
            "parshall_hub_bearer_tokens_accepted",
            "Bearer tokens accepted, each time that one was presented.",
            identity.accepted.load(Ordering::Relaxed),
        )?;
        let refused = TokenError::REASONS.iter().zip(&identity.refused);
        metrics.counters(
            "parshall_hub_bearer_tokens_refused",
            "Bearer tokens refused, by reason.",
            refused.map(|(reason, count)| ([("reason", *reason)], count.load(Ordering::Relaxed))),
        )?;
        metrics.counter(
            "parshall_hub_token_key_failures",
            "Failed attempts to load the keys of a token issuer.",
            identity.issuers.iter().map(|issuer| issuer.keys.failures()).sum::<u64>(),
        )
    }
}
