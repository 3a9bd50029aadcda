//! Properties of the account, and user delegation keys.

use std::time::SystemTime;

use units::date::http_date;

use super::Document;
use blob_store::{Metrics, ServiceProperties};

/// Properties of the whole account.
pub(in super::super) fn service_properties(properties: &ServiceProperties) -> String {
    fn retention(document: &mut Document, days: Option<u16>) {
        document.parent("RetentionPolicy", |document| {
            document.element("Enabled", flag(days.is_some()));
            if let Some(days) = days {
                document.element("Days", &days.to_string());
            }
        });
    }
    fn metrics(document: &mut Document, name: &str, metrics: &Metrics) {
        document.parent(name, |document| {
            document.element("Version", &metrics.version);
            document.element("Enabled", flag(metrics.is_enabled));
            if metrics.is_enabled {
                document.element("IncludeAPIs", flag(metrics.includes_apis));
            }
            retention(document, metrics.retention_days);
        });
    }
    Document::text("StorageServiceProperties", &[], |document| {
        document.parent("Logging", |document| {
            let logging = &properties.logging;
            document.element("Version", &logging.version);
            document.element("Read", flag(logging.read));
            document.element("Write", flag(logging.write));
            document.element("Delete", flag(logging.delete));
            retention(document, logging.retention_days);
        });
        metrics(document, "HourMetrics", &properties.hour_metrics);
        metrics(document, "MinuteMetrics", &properties.minute_metrics);
        document.parent("Cors", |_none| {});
        if let Some(version) = &properties.default_version {
            document.element("DefaultServiceVersion", version);
        }
        document.parent("DeleteRetentionPolicy", |document| document.element("Enabled", flag(false)));
        document.parent("StaticWebsite", |document| document.element("Enabled", flag(false)));
    })
}

/// Writes statistics of replication: everything up to `synced` is at the secondary endpoint.
pub(in super::super) fn statistics(synced: SystemTime) -> String {
    Document::text("StorageServiceStats", &[], |document| {
        document.parent("GeoReplication", |document| {
            document.element("Status", "live");
            document.element("LastSyncTime", &http_date(synced));
        });
    })
}

/// Writes the fields of a user delegation key.
pub(in super::super) fn user_delegation_key(fields: &[(&str, &str)]) -> String {
    Document::text("UserDelegationKey", &[], |document| {
        fields.iter().for_each(|(name, value)| document.element(name, value));
    })
}

const fn flag(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
