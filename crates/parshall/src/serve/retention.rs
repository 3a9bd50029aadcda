//! Retention of hubs that declare no limits, and the total size of all hubs.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use hub::namespace::{Bound, NamespaceConfig};
use partition_log::LogLimits;
use units::{ByteSize, duration};

/// The arguments for retention.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct RetentionArguments {
    /// Time for which hubs without limits of their own retain events, such as topics that Kafka clients create: a duration
    /// or `unlimited` [default: 168 h (7 days) with --data-dir, otherwise unlimited]
    ///
    /// Example: --retention-time '24 h'
    #[arg(long, value_name = "DURATION|unlimited", value_parser = time, help_heading = "Data")]
    retention_time: Option<Bound<Duration>>,

    /// Bytes that each partition of such hubs retains: a size or `unlimited` [default: unlimited with --data-dir,
    /// otherwise 64 MiB]
    ///
    /// The oldest events make room. Example: --retention-bytes '10 GiB'
    #[arg(long, value_name = "SIZE|unlimited", value_parser = bytes, help_heading = "Data")]
    retention_bytes: Option<Bound<ByteSize>>,

    /// Bytes that all hubs retain together [default: half the capacity of the file system of --data-dir, otherwise half
    /// of the memory]
    ///
    /// Before it is reached, the oldest events of all hubs make room. Events of topics that are unlimited or compacted by
    /// a setting of their own stay; when nothing else is left, publishing is refused. Example: --retention-total '200 GiB'
    #[arg(long, value_name = "SIZE", help_heading = "Data")]
    retention_total: Option<ByteSize>,
}

impl RetentionArguments {
    /// Completes what the namespace does not say itself. Arguments replace what it says.
    pub(super) fn apply(self, config: &mut NamespaceConfig) {
        let builtin = match &config.storage {
            Some(_) => LogLimits {
                bytes: LogLimits::UNLIMITED,
                retention: Some(DURABLE_RETENTION),
                ..LogLimits::default()
            },
            None => LogLimits::default(),
        };
        let mut limits = config.default_log.unwrap_or(builtin);
        match self.retention_time {
            None => {}
            Some(Bound::Unlimited) => limits.retention = None,
            Some(Bound::At(time)) => limits.retention = Some(time),
        }
        match self.retention_bytes {
            None => {}
            Some(Bound::Unlimited) => limits.bytes = LogLimits::UNLIMITED,
            Some(Bound::At(bytes)) => limits.bytes = bytes,
        }
        config.default_log = Some(limits);
        let storage = config.storage.as_ref().map(|storage| storage.directory.as_path());
        let total = self.retention_total.or(config.log_total).or_else(|| match storage {
            Some(directory) => half_of_disk(directory),
            None => Some(half_of_memory()),
        });
        config.log_total = total;
    }
}

/// Half the capacity of the file system that a directory is on, or will be on.
fn half_of_disk(directory: &Path) -> Option<ByteSize> {
    let directory = std::path::absolute(directory).ok()?;
    let found = directory.ancestors().find_map(|directory| rustix::fs::statvfs(directory).ok())?;
    Some(ByteSize::from_bytes(found.f_blocks.saturating_mul(found.f_frsize) / 2))
}

/// Half of the memory that the process may use.
fn half_of_memory() -> ByteSize {
    let system = rustix::system::sysinfo();
    let installed = (system.totalram as u64).saturating_mul(u64::from(system.mem_unit));
    let outer = lab::limits::outer_limits().and_then(|limits| limits.memory_bytes);
    ByteSize::from_bytes(outer.map_or(installed, |outer| outer.min(installed)) / 2)
}

fn time(text: &str) -> Result<Bound<Duration>, String> {
    match text {
        UNLIMITED => Ok(Bound::Unlimited),
        text => duration::parse(text).map(Bound::At).map_err(|error| format!("{error}; or `{UNLIMITED}`")),
    }
}

fn bytes(text: &str) -> Result<Bound<ByteSize>, String> {
    match text {
        UNLIMITED => Ok(Bound::Unlimited),
        text => text.parse::<ByteSize>().map(Bound::At).map_err(|error| format!("{error}; or `{UNLIMITED}`")),
    }
}

const UNLIMITED: &str = "unlimited";

/// As in Apache Kafka.
const DURABLE_RETENTION: Duration = Duration::from_secs(7 * 24 * 3_600);

#[cfg(test)]
mod tests {
    use hub::namespace::StorageConfig;
    use partition_log::WhenFull;
    use partition_log::disk::StorageOptions;

    use super::*;

    const NONE: RetentionArguments =
        RetentionArguments { retention_time: None, retention_bytes: None, retention_total: None };

    fn namespace(directory: Option<&Path>) -> NamespaceConfig {
        NamespaceConfig {
            storage: directory.map(|directory| StorageConfig {
                directory: directory.join("not/there/yet"),
                options: StorageOptions::default(),
            }),
            ..NamespaceConfig::with_hubs(Vec::new())
        }
    }

    #[test]
    fn disk_retains_by_time_and_memory_by_bytes_both_within_a_total() {
        let folder = tempfile::tempdir().unwrap();
        let mut durable = namespace(Some(folder.path()));
        NONE.apply(&mut durable);
        let expected = LogLimits {
            bytes: LogLimits::UNLIMITED,
            when_full: WhenFull::Retention,
            retention: Some(DURABLE_RETENTION),
        };
        assert_eq!(durable.default_log, Some(expected));
        let mut in_memory = namespace(None);
        NONE.apply(&mut in_memory);
        assert_eq!(in_memory.default_log, Some(LogLimits::default()));
        for config in [durable, in_memory] {
            assert!(config.log_total.is_some_and(|total| total > ByteSize::from_mebibytes(16)), "{config:?}");
        }
    }

    #[test]
    fn arguments_replace_what_the_file_says_one_by_one() {
        let mebibytes = ByteSize::from_mebibytes;
        let mut config = namespace(None);
        config.default_log =
            Some(LogLimits { retention: Some(Duration::from_secs(1)), ..LogLimits::default() });
        config.log_total = Some(mebibytes(500));
        let arguments = RetentionArguments { retention_bytes: Some(Bound::Unlimited), ..NONE };
        arguments.apply(&mut config);
        let limits = config.default_log.unwrap();
        assert_eq!((limits.bytes, limits.retention), (LogLimits::UNLIMITED, Some(Duration::from_secs(1))));
        assert_eq!(config.log_total, Some(mebibytes(500)));
        let arguments = RetentionArguments {
            retention_time: Some(Bound::Unlimited),
            retention_bytes: Some(Bound::At(mebibytes(8))),
            retention_total: Some(mebibytes(100)),
        };
        arguments.apply(&mut config);
        let expected = LogLimits { bytes: mebibytes(8), ..LogLimits::default() };
        assert_eq!((config.default_log, config.log_total), (Some(expected), Some(mebibytes(100))));
    }
}
