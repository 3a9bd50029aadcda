//! How far the partitions of a topic reach, for those who watch how far behind a reader is.

use std::sync::Arc;

use super::native::{Endpoint, Ends, PartitionExtent};
use super::options::KafkaOptions;
use super::settings::Settings;
use crate::service::ServiceError;

/// Asks how far the partitions of a topic reach. It connects by itself, through the native client whatever reads the topic, when it is
/// asked, and again after an error.
#[derive(Debug)]
pub struct TopicExtents {
    options: KafkaOptions,
    ends: Option<Ends>,
}

impl TopicExtents {
    /// Of this topic. Nothing is connected yet.
    #[must_use]
    pub const fn of(options: KafkaOptions) -> Self {
        Self { options, ends: None }
    }

    /// How far each partition reaches that has a leader. Where the options have a reader see committed records alone, that is where it
    /// ends.
    ///
    /// # Errors
    /// No broker can be reached, the login is refused, there is no such topic, or the native client does not know the login.
    pub async fn ask(&mut self) -> Result<Vec<PartitionExtent>, ServiceError> {
        let mut ends = match self.ends.take() {
            Some(ends) => ends,
            None => {
                let settings = Settings::of_connections(&self.options.properties, &["isolation.level"])?;
                let endpoint = Endpoint::new(settings, &self.options.topic)?;
                Ends::find(Arc::clone(&endpoint)).await?
            }
        };
        let extents = ends.ask().await?;
        self.ends = Some(ends);
        Ok(extents)
    }
}
