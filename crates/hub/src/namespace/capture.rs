//! Which hubs are captured: kept in files of the storage account, as the service's Capture keeps them.
//!
//! This is what is wanted, as plain data. Whoever runs the service carries it out with a relay from the hub to the container, so that what
//! is captured is written, stored and begun again like any other archive.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::{ByteSize, duration};

use super::hub::HubError;

/// How a hub is captured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureConfig {
    /// The container of the storage account; created if missing.
    pub container: String,
    /// A file is complete when its first event has been in it for so long. From 1 s to 15 min; default 5 min. The service has no less than
    /// 1 min.
    #[serde(default = "default_every", with = "duration")]
    pub every: Duration,
    /// Or when it is this large. From 1 MiB to 500 MiB; default 300 MiB. The service has no less than 10 MiB.
    #[serde(default = "default_size")]
    pub size: ByteSize,
    /// The names of the files, without their `.avro`: a template with `{namespace}`, `{hub}`, `{partition}`, `{sequence_number}` and the
    /// parts of the time.
    #[serde(default = "default_name")]
    pub name: String,
}

impl CaptureConfig {
    /// The consumer group that captured hubs have, so that capturing takes no reader from anyone.
    pub const CONSUMER_GROUP: &str = "capture";

    /// Whether a hub can be captured like this.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), HubError> {
        let mistake = |field, reason: String| Err(HubError::Capture { field, reason });
        if !blob_store::names::is_container(&self.container) {
            let name = &self.container;
            let reason = format!(
                "{name:?} is not a name; allowed are 3 to 63 lower-case letters, digits and single hyphens"
            );
            return mistake("container", reason);
        }
        if !(EVERY_MIN..=EVERY_MAX).contains(&self.every) {
            let (least, most) = (duration::text(EVERY_MIN), duration::text(EVERY_MAX));
            return mistake("every", format!("{} is not from {least} to {most}", duration::text(self.every)));
        }
        if !(SIZE_MIN..=SIZE_MAX).contains(&self.size) {
            return mistake("size", format!("{} is not from {SIZE_MIN} to {SIZE_MAX}", self.size));
        }
        Ok(())
    }
}

const fn default_every() -> Duration {
    Duration::from_secs(5 * 60)
}

const fn default_size() -> ByteSize {
    ByteSize::from_mebibytes(300)
}

/// The service's, and the number of the first event: here files of one partition can begin within the same second.
fn default_name() -> String {
    "{namespace}/{hub}/{partition}/{year}/{month}/{day}/{hour}/{minute}/{second}-{sequence_number}".to_owned()
}

const EVERY_MIN: Duration = Duration::from_secs(1);
const EVERY_MAX: Duration = Duration::from_secs(15 * 60);
const SIZE_MIN: ByteSize = ByteSize::from_mebibytes(1);
const SIZE_MAX: ByteSize = ByteSize::from_mebibytes(500);
