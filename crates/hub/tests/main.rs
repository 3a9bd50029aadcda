//! The embedded service as clients see it, over real sockets and in its data directory.

mod administered_directory;
mod allocations;
mod blob;
mod budgets;
mod data_directory;
mod explorer;
mod front;
mod identity;
mod instants;
mod kafka;
mod kafka_admin;
mod kafka_compressed;
mod kafka_coordinator;
mod kafka_fetch_sessions;
mod kafka_groups;
mod kafka_memory;
mod kafka_offsets;
mod kafka_peer;
mod kafka_rights;
mod kafka_rights_table;
mod kafka_topic_settings;
mod kafka_transactions;
mod kafka_versions;
mod rest;
mod rights_table;
mod service_bus;
mod tls_client;

use counting_allocator::CountingAllocator;

/// Counts per thread, so that tests of allocations run beside all others.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;
