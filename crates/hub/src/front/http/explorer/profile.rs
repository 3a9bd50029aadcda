//! The service profile: what it is, what it did, and another in its place.

use serde::{Deserialize, Serialize};

use super::ExplorerFront;
use super::reply::{self, Refusal, Reply};
use crate::profile::{ProfileConfig, ProfileCounterValues};

/// The profile that is to take the place of the present one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewProfile {
    profile: ProfileConfig,
}

#[derive(Debug, Serialize)]
struct Details {
    /// What is written of it.
    profile: ProfileConfig,
    is_on: bool,
    /// What profiles did since the service began, by what they did; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<[(&'static str, u64); 7]>,
}

impl ExplorerFront {
    pub(super) fn profile(&self) -> Reply {
        let switch = self.namespace.profile();
        let details = Details {
            profile: switch.config(),
            is_on: switch.present().is_some(),
            counters: switch.counters().map(figures),
        };
        reply::json(&details)
    }

    /// Shapes the service in another way from now on. Connections that are open end.
    pub(super) fn set_profile(&self, new: &NewProfile) -> Result<Reply, Refusal> {
        self.namespace.profile().replace(&new.profile).map_err(|error| Refusal::bad(error.to_string()))?;
        tracing::info!(
            is_on = self.namespace.profile().present().is_some(),
            "the service profile was replaced"
        );
        Ok(self.profile())
    }
}

const fn figures(counters: ProfileCounterValues) -> [(&'static str, u64); 7] {
    [
        ("sends throttled", counters.throttled_sends),
        ("deliveries paused", counters.delivery_pauses),
        ("operations queued", counters.queued_operations),
        ("sends failed", counters.failed_sends),
        ("acknowledgements lost", counters.unacknowledged_sends),
        ("links detached", counters.detached_links),
        ("connections broken", counters.disconnects),
    ]
}
