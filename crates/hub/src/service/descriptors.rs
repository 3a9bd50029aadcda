//! Which part of the process's file descriptors clients may take.
//!
//! A process without descriptors can neither write what it has to keep nor answer whoever wants to know what is wrong with
//! it. So descriptors for storage and for the health port are set aside, and connections of clients share the rest.

use rustix::process::{Resource, getrlimit};

use crate::namespace::{Namespace, NamespaceConfig};

/// What needs descriptors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// Logs and journals that are kept on a disk.
    pub(super) durable_logs: u64,
    /// Whether there is a data directory.
    pub(super) is_durable: bool,
    /// Whether blobs are served.
    pub(super) serves_blobs: bool,
    /// Whether Kafka is.
    pub(super) serves_kafka: bool,
    /// Whether the explorer page is.
    pub(super) serves_explorer: bool,
    /// How many clients may be connected at once, as it is configured.
    pub(super) connections: u64,
}

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) amqp: u64,
    /// Connections that are told that there is no room.
    pub(super) refusals: u64,
    pub(super) kafka: u64,
    pub(super) blob: u64,
    pub(super) operations: u64,
    pub(super) explorer: u64,
}

impl Needs {
    /// Those of the namespace.
    pub(super) fn of(config: &NamespaceConfig, namespace: &Namespace) -> Self {
        let hubs = namespace.hubs();
        let partitions: usize = hubs.iter().map(|hub| hub.partitions().len()).sum();
        let subscriptions: usize = config.topics.iter().map(|topic| topic.subscriptions.len()).sum();
        let is_durable = config.storage.is_some();
        let logs = partitions + config.queues.len() + config.topics.len() + subscriptions;
        Self {
            durable_logs: if is_durable { logs as u64 } else { 0 },
            is_durable,
            serves_blobs: false,
            serves_kafka: false,
            serves_explorer: false,
            connections: namespace.maximum_connections(),
        }
    }
}

impl Shares {
    /// What there is for a service that has opened its storage and its listeners already.
    pub(super) fn of_process(needs: Needs) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let open = std::fs::read_dir("/proc/self/fd").map_or(OPEN_AT_START, |open| open.count() as u64);
        let shares = Self::of(limit, open, needs);
        if shares.amqp < needs.connections {
            tracing::info!(
                "there is room for {} AMQP connections instead of {}: the process may have {limit} files open \
                 (`ulimit -n`)",
                shares.amqp,
                needs.connections,
            );
        }
        shares
    }

    /// What there is within `limit` descriptors, of which `open` are open.
    fn of(limit: u64, open: u64, needs: Needs) -> Self {
        let operations = (limit / 16).clamp(8, 64);
        let explorer = if needs.serves_explorer { operations } else { 0 };
        let refusals = (limit / 16).clamp(4, 64);
        let storage = match needs.is_durable {
            true => STORAGE + (2 * needs.durable_logs).min(OPEN_FILES_MAX),
            false => 0,
        };
        let clients = limit.saturating_sub(open + operations + explorer + refusals + storage + SPARE);
        let share = |is_served| if is_served { clients / 4 } else { 0 };
        let (blob, kafka) = (share(needs.serves_blobs), share(needs.serves_kafka));
        let amqp = clients - blob - kafka;
        // A request for a blob on a disk opens a file or two.
        let blob = if needs.is_durable { blob / 3 } else { blob };
        // With fewer nobody could work; a process as narrow as that takes from what is spare.
        let bounded = |share: u64| {
            share.clamp(CONNECTIONS_MIN, needs.connections.max(CONNECTIONS_MIN)).min(needs.connections)
        };
        Self {
            amqp: bounded(amqp),
            refusals,
            kafka: bounded(kafka),
            blob: bounded(blob),
            operations,
            explorer,
        }
    }
}

/// Files of the data directory beside those of logs: its lock, the manifest, directories that are synced, segments that
/// are read back.
const STORAGE: u64 = 16;

/// What the committer has open at most, within a round and between rounds.
const OPEN_FILES_MAX: u64 = 512;

/// For what nobody has thought of, and for connections that end while others begin.
const SPARE: u64 = 32;

/// A guess, where the system does not tell.
const OPEN_AT_START: u64 = 64;

/// Connections that there may be in any case.
const CONNECTIONS_MIN: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const IN_MEMORY: Needs = Needs {
        durable_logs: 0,
        is_durable: false,
        serves_blobs: false,
        serves_kafka: false,
        serves_explorer: false,
        connections: 5_000,
    };

    #[test]
    fn what_is_configured_is_allowed_where_there_is_room() {
        let shares = Shares::of(1 << 20, 30, IN_MEMORY);
        assert_eq!((shares.amqp, shares.operations, shares.refusals), (5_000, 64, 64));
        let everything = Needs { durable_logs: 10_000, is_durable: true, serves_blobs: true, ..IN_MEMORY };
        let shares = Shares::of(1 << 20, 300, everything);
        assert_eq!((shares.amqp, shares.blob), (5_000, 5_000));
    }

    #[test]
    fn all_shares_together_stay_within_the_limit() {
        for limit in [128, 256, 1_024, 4_096] {
            for (durable_logs, is_durable) in [(0, false), (4, true), (10, true)] {
                for (serves_blobs, serves_kafka) in [(false, false), (true, false), (true, true)] {
                    let serves_explorer = serves_kafka;
                    let needs = Needs {
                        durable_logs,
                        is_durable,
                        serves_blobs,
                        serves_kafka,
                        serves_explorer,
                        ..IN_MEMORY
                    };
                    let shares = Shares::of(limit, 20, needs);
                    let per_blob = if is_durable { 3 } else { 1 };
                    let blob = if serves_blobs { shares.blob * per_blob } else { 0 };
                    let kafka = if serves_kafka { shares.kafka } else { 0 };
                    let pages = shares.operations + shares.explorer;
                    let taken = shares.amqp + shares.refusals + pages + blob + kafka;
                    let storage = 20 + 2 * durable_logs;
                    assert!(taken + storage <= limit, "{limit}: {shares:?} for {needs:?}");
                    assert!(shares.amqp >= CONNECTIONS_MIN);
                }
            }
        }
    }

    #[test]
    fn a_process_that_is_too_narrow_still_takes_some_clients_but_no_more_than_configured() {
        assert_eq!(Shares::of(40, 30, IN_MEMORY).amqp, CONNECTIONS_MIN);
        let few = Needs { connections: 2, ..IN_MEMORY };
        assert_eq!(Shares::of(40, 30, few).amqp, 2);
        assert_eq!(Shares::of(1 << 20, 30, few).amqp, 2);
    }
}
