//! Clients, archives and checkpoints against the embedded service and against scripted peers.

mod archive;
mod embedded_hub;
mod embedded_namespace;
mod event_hubs;
mod event_hubs_allocations;
mod identity;
mod kafka;
mod kafka_members;
mod kafka_offsets;
#[cfg(feature = "librdkafka")]
mod librdkafka;
mod producer;
mod producer_http;
mod service_bus;
mod service_profile;
mod web_socket;

use counting_allocator::CountingAllocator;

/// Counts per thread, so that tests of allocations run beside all others.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
