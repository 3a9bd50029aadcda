//! Which hubs, queues and topics a data directory holds.
//!
//! The manifest is the truth about them. It is replaced as a whole, and so that after a crash at any instant either the
//! old or the new one is there; what clients do to queues and topics is appended to the log of [`changes`](super::changes) instead
//! (`entities`), and is part of the manifest from the next replacement on. A folder with data that neither names proves that it is
//! not the manifest that this directory had last; so hubs whose deletion was granted stay in it until their folders are gone.

mod entities;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::namespace::cluster_id;
use crate::namespace::hub::Creation;
use crate::namespace::{EntityFacts, HubConfig, QueueConfig, TopicConfig, TopicSettings};
pub(super) use entities::EntityChange;
use partition_log::LogLimits;
use partition_log::UnixTime;
use partition_log::durable_file::{self, ReplaceError, ReplaceStep};
use queue_store::{QueueOptions, QueueStore};

/// The entities of a data directory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// The number of the hub that was created last; numbers are never given again.
    last_number: u64,
    hubs: Vec<KeptHub>,
    /// The numbers of hubs that clients have deleted, and whose folders may still be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deleted_hubs: Vec<u64>,
    /// By their names in lower case; the file has a list of them.
    #[serde(default, with = "entities::listed", skip_serializing_if = "BTreeMap::is_empty")]
    queues: BTreeMap<String, QueueConfig>,
    #[serde(default, with = "entities::listed", skip_serializing_if = "BTreeMap::is_empty")]
    topics: BTreeMap<String, TopicConfig>,
    /// What is known of queues, topics and subscriptions besides, by their paths in lower case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    facts: BTreeMap<String, KeptFacts>,
    /// The names, in lower case, of queues and topics that clients have deleted, and whose folders may still be there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    deleted_queues: BTreeSet<String>,
    /// What the namespace is called as a cluster of Kafka.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cluster_id: Option<String>,
    /// The number of the last change of the log that is in here.
    #[serde(default, skip_serializing_if = "is_zero")]
    last_change: u64,
}

/// What is known of a queue, a topic or a subscription besides its options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KeptFacts {
    #[serde(flatten)]
    facts: EntityFacts,
    /// Its options before clients changed them. As with hubs: what they have changed holds for as long as the declaration does
    /// not change itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    declared: Option<QueueOptions>,
}

/// A hub as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::namespace) struct KeptHub {
    /// Tells this hub from any other that ever had its name.
    number: u64,
    pub(in crate::namespace) name: String,
    pub(in crate::namespace) partitions: u16,
    pub(in crate::namespace) consumer_groups: Vec<String>,
    created_at_unix_ms: i64,
    /// The limits of each log before the settings of clients.
    log: LogLimits,
    /// Whether the hub declares no limits, so that `log` has the service's default of the latest start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    has_default_log: bool,
    /// The settings that clients have given.
    #[serde(default, skip_serializing_if = "TopicSettings::is_empty")]
    settings: TopicSettings,
    /// How it was declared before clients changed it.
    #[serde(default, skip_serializing_if = "Declared::is_empty")]
    declared: Declared,
}

/// How a hub was declared before clients changed it. What they have changed holds for as long as the declaration does not
/// change itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Declared {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partitions: Option<u16>,
    /// Written by older programs, whose `log` had what clients changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    log: Option<LogLimits>,
}

impl Declared {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Manifest {
    /// Reads the manifest of a data directory, if there is one.
    ///
    /// # Errors
    /// It can't be read, or is not one.
    pub(super) fn read(directory: &Path) -> io::Result<Option<Self>> {
        let manifest: Self = match fs::read(directory.join(FILE)) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let (mut names, mut numbers) = (HashSet::new(), HashSet::new());
        for hub in &manifest.hubs {
            let is_new = names.insert(hub.name.to_ascii_lowercase()) && numbers.insert(hub.number);
            if !is_new || hub.number > manifest.last_number {
                let reason = format!("its entries for the hub {:?} contradict each other", hub.name);
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        }
        Ok(Some(manifest))
    }

    /// Puts this manifest in the place of the one that is there. It is on the device when this returns, which is its length in
    /// bytes.
    ///
    /// # Errors
    /// It can't be written. The one that was there is still there, unless the error [says otherwise](Self::is_in_place).
    pub(super) fn write(&self, directory: &Path) -> io::Result<u64> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        durable_file::replace(&directory.join(FILE), &text)?;
        Ok(text.len() as u64)
    }

    /// Whether a manifest whose [writing](Self::write) ended with this error is in its place, though a power cut may undo that.
    pub(super) fn is_in_place(error: &io::Error) -> bool {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<ReplaceError>());
        cause.is_some_and(|cause| cause.step == ReplaceStep::SyncFolder)
    }

    pub(super) fn hubs(&self) -> &[KeptHub] {
        &self.hubs
    }

    /// The hub at a place in [`hubs`](Self::hubs).
    pub(super) fn hub_mut(&mut self, place: usize) -> &mut KeptHub {
        &mut self.hubs[place]
    }

    pub(super) fn find_mut(&mut self, name: &str) -> Option<&mut KeptHub> {
        self.hubs.iter_mut().find(|hub| hub.has_name(name))
    }

    /// What the namespace is called as a cluster of Kafka.
    pub(super) fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// Gives the namespace a name as a cluster of Kafka, unless it has one.
    pub(super) fn name_cluster(&mut self) {
        if !self.cluster_id.as_deref().is_some_and(cluster_id::is_valid) {
            self.cluster_id = Some(cluster_id::random());
        }
    }

    /// Adds a hub that is created at `now`.
    pub(super) fn add(&mut self, config: &HubConfig, now: UnixTime) -> KeptHub {
        self.last_number += 1;
        let hub = KeptHub {
            number: self.last_number,
            name: config.name.clone(),
            partitions: config.partitions,
            consumer_groups: config.consumer_groups.clone(),
            created_at_unix_ms: now.milliseconds(),
            log: config.log.unwrap_or_default(),
            has_default_log: config.log.is_none(),
            settings: config.settings.clone(),
            declared: Declared::default(),
        };
        self.hubs.push(hub.clone());
        hub
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<KeptHub> {
        let place = self.hubs.iter().position(|hub| hub.has_name(name))?;
        let removed = self.hubs.remove(place);
        self.deleted_hubs.push(removed.number);
        Some(removed)
    }

    /// Notes the limits of hubs that declare none, for older programs.
    pub(super) fn set_default_log(&mut self, log: LogLimits) {
        for hub in self.hubs.iter_mut().filter(|hub| hub.has_default_log) {
            hub.log = log;
        }
    }

    /// The folders of a deleted hub are gone.
    pub(super) fn forget_deleted(&mut self, is_gone: impl Fn(u64) -> bool) {
        self.deleted_hubs.retain(|number| !is_gone(*number));
    }

    /// Whether a hub of this number was deleted by a client.
    pub(super) fn is_deleted(&self, number: u64) -> bool {
        self.deleted_hubs.contains(&number)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl KeptHub {
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    pub(in crate::namespace) fn creation(&self) -> Creation {
        Creation { number: self.number, at: UnixTime::from_milliseconds(self.created_at_unix_ms) }
    }

    /// What the hub is made of.
    pub(in crate::namespace) fn config(&self) -> HubConfig {
        HubConfig {
            name: self.name.clone(),
            partitions: self.partitions,
            consumer_groups: self.consumer_groups.clone(),
            log: (!self.has_default_log).then_some(self.log),
            settings: self.settings.clone(),
            capture: None,
        }
    }

    /// Gives it more partitions, `count` in all. The number of the first one that is new.
    pub(super) fn grow(&mut self, count: u16) -> u16 {
        self.declared.partitions.get_or_insert(self.partitions);
        std::mem::replace(&mut self.partitions, count)
    }

    /// Whether a declaration with so many partitions may be one of it: with those that it has, or those that it had before
    /// clients gave it more.
    pub(super) fn is_declared_as(&self, partitions: u16) -> bool {
        self.partitions == partitions || self.declared.partitions == Some(partitions)
    }

    /// The settings that clients have given.
    pub(super) const fn settings(&self) -> &TopicSettings {
        &self.settings
    }

    /// Replaces the settings that clients have given.
    pub(super) fn set_settings(&mut self, settings: TopicSettings) {
        self.settings = settings;
    }

    /// Sets the declared limits of each log. Settings that clients have given since the hub was declared like this stay.
    pub(super) fn declare_limits(&mut self, log: Option<LogLimits>) {
        let before = self.declared.log.or_else(|| (!self.has_default_log).then_some(self.log));
        // Older programs wrote this where nothing was declared.
        let was_not_declared = before == Some(LogLimits::default());
        if log == before || (log.is_none() && was_not_declared) {
            return;
        }
        self.declared.log = None;
        self.has_default_log = log.is_none();
        self.log = log.unwrap_or_default();
        self.settings.forget_limits();
    }

    /// The name of a partition's folder: the hub's, for people, its number, for which it is unlike any other's, and that
    /// of the partition.
    ///
    /// Lower case, since some file systems know no other difference; a slash becomes a plus sign, which no name has; cut, since
    /// file systems take 255 bytes; and it does not begin as the folders of what was deleted.
    pub(super) fn folder(&self, partition: u16) -> String {
        let mut name = self.name.to_ascii_lowercase().replace('/', "+");
        name.truncate(LONGEST_PART);
        if name.starts_with(QueueStore::DELETED) {
            name.replace_range(..1, "=");
        }
        format!("{name}~{}.{partition}", self.number)
    }

    /// The number of the hub whose partition has a folder of this name, if it is such a name.
    pub(super) fn number_of_folder(folder: &str) -> Option<u64> {
        let (number, partition) = folder.rsplit_once('~')?.1.split_once('.')?;
        partition.parse::<u16>().ok()?;
        number.parse().ok()
    }

    fn has_name(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// The manifest itself.
pub(super) const FILE: &str = "manifest.json";

/// One that is about to take its place.
pub(super) const NEW_FILE: &str = "manifest.json.new";

/// The part of a hub's name in its folder's; names are ASCII, so any cut is between characters.
const LONGEST_PART: usize = 200;

#[cfg(test)]
mod tests {
    use units::ByteSize;

    use super::*;
    use crate::namespace::Bound;

    #[test]
    fn a_manifest_reads_what_it_wrote_and_is_empty_where_there_is_none() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(directory.path()).unwrap(), None);
        let mut manifest = Manifest::default();
        let config = HubConfig { consumer_groups: vec!["billing".into()], ..HubConfig::new("Orders", 32) };
        let kept = manifest.add(&config, UnixTime::from_milliseconds(77));
        assert_eq!(kept.config(), config);
        assert_eq!(kept.creation().at.milliseconds(), 77);
        manifest.write(directory.path()).unwrap();
        assert_eq!(Manifest::read(directory.path()).unwrap(), Some(manifest));
        assert!(!directory.path().join(NEW_FILE).exists());
    }

    #[test]
    fn what_clients_have_changed_holds_until_the_declaration_changes() {
        let mut manifest = Manifest::default();
        let declared = HubConfig::new("orders", 4);
        let mut kept = manifest.add(&declared, UnixTime::default());
        assert!(!serde_json::to_string(&kept).unwrap().contains("declared"));
        let bytes = ByteSize::from_mebibytes;
        let given = |mebibytes| TopicSettings {
            retention_bytes: Some(Bound::At(bytes(mebibytes))),
            without_effect: [("segment.ms".to_owned(), "1".to_owned())].into(),
            ..TopicSettings::default()
        };
        kept.set_settings(given(2));
        kept.set_settings(given(3));
        assert_eq!((kept.grow(8), kept.grow(16)), (4, 8));
        let text = serde_json::to_string(&kept).unwrap();
        let mut kept: KeptHub = serde_json::from_str(&text).unwrap();
        let limits = |kept: &KeptHub| kept.config().limits(LogLimits::default());
        kept.declare_limits(declared.log);
        assert_eq!((limits(&kept).bytes, kept.partitions), (bytes(3), 16));
        assert!(kept.is_declared_as(4) && kept.is_declared_as(16));
        assert!(!kept.is_declared_as(8) && !kept.is_declared_as(17));
        kept.declare_limits(Some(LogLimits { bytes: bytes(5), ..LogLimits::default() }));
        assert_eq!((limits(&kept).bytes, kept.settings().without_effect.len()), (bytes(5), 1));
        kept.declare_limits(declared.log);
        assert_eq!(kept.config().log, None, "it is not the one that was changed");
    }

    #[test]
    fn limits_that_an_older_program_wrote_hold_until_the_declaration_changes() {
        let read = |log: &str, declared: &str| -> KeptHub {
            let text = format!(
                r#"{{"number": 1, "name": "orders", "partitions": 1, "consumer_groups": [], "created_at_unix_ms": 0,
                "log": {log}{declared}}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let (ordinary, full) = (
            r#"{"bytes": "64 MiB", "when_full": "retention"}"#,
            r#"{"bytes": "1 GiB", "when_full": "throttle"}"#,
        );
        let defaults = LogLimits { bytes: LogLimits::UNLIMITED, ..LogLimits::default() };
        for kept in [read(full, ""), read(full, &format!(r#", "declared": {{"log": {ordinary}}}"#))] {
            assert_eq!(kept.config().limits(defaults).bytes, ByteSize::from_mebibytes(1024));
        }
        let mut kept = read(full, &format!(r#", "declared": {{"log": {ordinary}}}"#));
        kept.declare_limits(None);
        assert_eq!(kept.config().limits(defaults).bytes, ByteSize::from_mebibytes(1024));
        let mut kept = read(ordinary, "");
        kept.declare_limits(None);
        assert_eq!(kept.config().limits(defaults), LogLimits::default());
        let declared = LogLimits { bytes: ByteSize::from_mebibytes(5), ..LogLimits::default() };
        kept.declare_limits(Some(declared));
        kept.declare_limits(None);
        assert_eq!(kept.config().limits(defaults), defaults);
    }

    #[test]
    fn no_two_hubs_ever_have_one_folder() {
        let mut manifest = Manifest::default();
        let mut folder = |name: &str| manifest.add(&HubConfig::new(name, 1), UnixTime::default()).folder(0);
        assert_eq!(folder("Orders/2026"), "orders+2026~1.0");
        let long = "x".repeat(256);
        assert_eq!(folder(&long).len(), 204);
        assert_ne!(folder(&long), folder(&long));
        let deleted = folder("_deleted-a~b");
        assert_eq!((&*deleted, KeptHub::number_of_folder(&deleted)), ("=deleted-a~b~5.0", Some(5)));
        manifest.remove("ORDERS/2026").unwrap();
        let again = manifest.add(&HubConfig::new("orders/2026", 1), UnixTime::default());
        assert_eq!(again.folder(7), "orders+2026~6.7");
    }
}
