//! Looks now and then whether a topic has got more partitions. The library knows, and tells nobody.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::client::{blocking, service_error};
use super::context::ClientEar;
use crate::service::ServiceError;

/// See the module.
#[derive(Debug)]
pub(super) struct Growth {
    /// Partitions that were added, when it was looked last.
    pub(super) added: u32,
    /// None where nobody is to look.
    interval: Option<Duration>,
    look: Look,
}

#[derive(Debug)]
enum Look {
    Due(Option<Instant>),
    /// A broker is being asked for the number of partitions.
    Asked(JoinHandle<Result<usize, ServiceError>>),
}

impl Growth {
    pub(super) fn looked_for_every(interval: Option<Duration>) -> Self {
        let mut growth = Self { added: 0, interval, look: Look::Due(None) };
        growth.rest();
        growth
    }

    /// When the next look is due; `None` while one is under way, which wakes by itself.
    pub(super) const fn due(&self) -> Option<Instant> {
        match &self.look {
            Look::Due(due) => *due,
            Look::Asked(_) => None,
        }
    }

    /// Goes on with it: a topic had so many partitions before.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        consumer: &Arc<BaseConsumer<ClientEar>>,
        topic: &str,
        before: usize,
        patience: Duration,
    ) {
        if self.due().is_some_and(|due| due <= Instant::now()) {
            let (consumer, topic) = (Arc::clone(consumer), topic.to_owned());
            self.look = Look::Asked(tokio::spawn(blocking(move || {
                let metadata = consumer.fetch_metadata(Some(&topic), patience);
                let metadata = metadata.map_err(|error| service_error(&error, "asking for the topic"))?;
                let found = metadata.topics().iter().find(|found| found.name() == topic);
                Ok(found.map_or(0, |found| found.partitions().len()))
            })));
        }
        let Look::Asked(asked) = &mut self.look else { return };
        let Poll::Ready(answer) = Pin::new(asked).poll(context) else { return };
        match answer {
            // A topic that is gone for a moment has no fewer than before.
            Ok(Ok(partitions)) => {
                let added = u32::try_from(partitions.saturating_sub(before)).unwrap_or(u32::MAX);
                self.added = self.added.max(added);
            }
            Ok(Err(error)) => tracing::debug!(%error, "whether the topic has grown is not known"),
            Err(error) => tracing::debug!(%error, "whether the topic has grown is not known"),
        }
        self.rest();
    }

    fn rest(&mut self) {
        self.look = Look::Due(self.interval.map(|interval| Instant::now() + interval));
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        if let Look::Asked(asked) = &self.look {
            asked.abort();
        }
    }
}
