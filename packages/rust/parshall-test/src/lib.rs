//! Event Hubs, Service Bus, Kafka and blob storage for tests, in the process of the test.
//!
//! ```no_run
//! # async fn test() -> Result<(), parshall_test::StartError> {
//! let service = parshall_test::Service::builder().hub("orders", 4).queue("jobs").start().await?;
//! let string = service.event_hubs_connection_string();
//! // … unmodified clients connect with it …
//! # Ok(())
//! # }
//! ```
//!
//! * [`Builder`] says what is served; [`NamespaceConfig`] has all that there is.
//! * [`Service`] has what clients connect with. It runs on a thread of its own, so it answers while the test blocks.
//! * `log` keeps what the service logs, for tests that fail.

mod builder;
mod log;
mod service;

pub use builder::Builder;
pub use hub::namespace::{HubConfig, NamespaceConfig, QueueConfig, SubscriptionConfig, TopicConfig};
pub use service::{Service, StartError};
