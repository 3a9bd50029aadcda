//! Azure Event Hubs, or the embedded service, over AMQP.
//!
//! Four clients, each with one connection of its own, driven by whoever polls it:
//!
//! * [`EventHubsSource`] receives: one link per open partition, whose credit is what the user has not yet taken up.
//! * [`Publisher`] sends batches to partitions or by partition key; [`EventHubsSink`] is a publisher whose
//!   destinations are the partitions of the hub.
//! * [`ManagementClient`] asks for the properties of a hub and its partitions.
//! * [`NamespaceClient`] lists, creates and deletes hubs and consumer groups, of the embedded service alone.
//!
//! How they connect is in [`service`](crate::service). Source and publisher make a broken connection again by themselves,
//! with a growing delay; a token that is refused, or a hub that is gone, ends them.

mod delivered;
mod management;
mod namespace;
mod options;
mod publisher;
mod selector;
mod sink;
mod source;

pub use management::{HubProperties, ManagementClient, PartitionProperties};
pub use namespace::{HubSummary, NamespaceClient};
pub use options::{EventHubsOptions, HubNameError};
pub use publisher::{Destination, Publisher};
pub use sink::EventHubsSink;
pub use source::EventHubsSource;
