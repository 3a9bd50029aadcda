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
//! ```text
//!   connection ─┬─ session "control" ─┬─ $cbs         put-token, again and again before the token expires
//!               │                     └─ $management  properties, when asked for
//!               └─ session "data" ────── one link per partition
//! ```
//!
//! Both sessions are there so that the deliveries of the data session, and only those, are numbered consecutively: what
//! became of a send is found by counting. Source and publisher make a broken connection again by themselves, with a
//! growing delay; a token that is refused, or a hub that is gone, ends them.

mod connection;
mod delivered;
mod endpoint;
mod error;
mod management;
mod namespace;
mod options;
mod outstanding;
mod publisher;
mod reconnecting;
mod request;
mod selector;
mod sink;
mod source;
mod token;

pub use error::EventHubsError;
pub use management::{HubProperties, ManagementClient, PartitionProperties};
pub use namespace::{HubSummary, NamespaceClient};
pub use options::{EventHubsOptions, HubNameError, Transport};
pub use publisher::{Destination, Publisher};
pub use sink::EventHubsSink;
pub use source::EventHubsSource;
