//! Properties of the whole account.
//!
//! Clients set how requests are logged and counted in storage itself before they look there, so this is kept for them. Nothing is
//! logged or counted there.

use serde::{Deserialize, Serialize};

/// Properties of the whole account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceProperties {
    /// Settings of request logging.
    pub logging: Logging,
    /// Settings of hourly metrics.
    pub hour_metrics: Metrics,
    /// Settings of metrics by the minute.
    pub minute_metrics: Metrics,
    /// The version of the protocol for requests that name none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_version: Option<String>,
}

/// Settings of request logging.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logging {
    /// The version of the form of logs.
    pub version: String,
    /// Whether deletions are logged.
    pub delete: bool,
    /// Whether reads are logged.
    pub read: bool,
    /// Whether writes are logged.
    pub write: bool,
    /// For how many days logs are to be kept; `None` for ever.
    pub retention_days: Option<u16>,
}

/// Settings of metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// The version of the form of figures.
    pub version: String,
    /// Whether requests are counted.
    pub is_enabled: bool,
    /// Whether by operation, too.
    pub includes_apis: bool,
    /// For how many days figures are to be kept; `None` for ever.
    pub retention_days: Option<u16>,
}

impl Default for Logging {
    fn default() -> Self {
        Self { version: VERSION.to_owned(), delete: false, read: false, write: false, retention_days: None }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self { version: VERSION.to_owned(), is_enabled: false, includes_apis: false, retention_days: None }
    }
}

const VERSION: &str = "1.0";
