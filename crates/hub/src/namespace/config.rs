//! What a namespace is to consist of, as plain data.
//!
//! Whoever reads files or command lines fills this in; [`Namespace::new`](super::Namespace::new) checks it.

use super::NamespaceError;
use super::capture::CaptureConfig;
use super::queue_config::{QueueConfig, QueueConfigError, TopicConfig};
use super::storage::StorageConfig;
use super::topic_settings::TopicSettings;
use crate::identity::TokenIssuerConfig;
use crate::profile::ProfileConfig;
use access::{DEVELOPMENT_KEY_VALUE, ROOT_KEY_NAME, Right, Secret};
use blob_store::BlobConfig;
use partition_log::LogLimits;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;
use units::{ByteSize, duration};

/// A namespace: its name, its hubs, queues and topics, and who may use them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceConfig {
    /// The host under which clients know it. Default `localhost`.
    #[serde(default = "default_host")]
    pub host: String,
    /// Whether tokens and keys are verified. Default: they are.
    #[serde(default)]
    pub signatures: SignaturePolicy,
    /// The keys. Default: the development emulator's, with all rights.
    #[serde(default = "default_rules")]
    pub authorization_rules: Vec<RuleConfig>,
    /// The issuers whose bearer tokens are accepted beside keys: tenants of Microsoft Entra ID, and others. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub token_issuers: Vec<TokenIssuerConfig>,
    /// The hubs.
    #[serde(default)]
    pub hubs: Vec<HubConfig>,
    /// The queues.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueConfig>,
    /// The topics, with their subscriptions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<TopicConfig>,
    /// Largest message or batch that queues and topics take. It is advertised to clients, and some allocate as much for
    /// each message that they send. From 64 KiB to 100 MiB; default 256 KiB, as in the service's standard tier.
    #[serde(default = "default_largest_message")]
    pub largest_message: ByteSize,
    /// How much memory of dropped segments is kept for new ones. Default 64 MiB.
    #[serde(default = "default_idle_blocks")]
    pub idle_blocks: ByteSize,
    /// How many clients may be connected at once; further ones are told so. Default 5000, as in the service's standard
    /// tier.
    #[serde(default = "default_maximum_connections")]
    pub maximum_connections: NonZeroU32,
    /// Where hubs and their events are kept; in memory alone, if nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<StorageConfig>,
    /// How long a connection may be silent, as clients are told; it ends after twice this, and so does one whose client
    /// takes nothing of what waits for it. From 10 ms to 1 day; default 240 s, as in the service.
    #[serde(default = "default_idle_timeout", with = "duration")]
    pub idle_timeout: Duration,
    /// Whether topics that Kafka's clients ask for are created, within bounds. Default: they are not.
    #[serde(default)]
    pub creates_topics: bool,
    /// How many partitions a topic gets that Kafka's clients ask for, or create without saying how many. From 1 to 32768;
    /// default 4.
    #[serde(default = "default_topic_partitions")]
    pub topic_partitions: u16,
    /// The limits of each log of hubs that declare none. Default: 64 MiB, the oldest events making room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_log: Option<LogLimits>,
    /// Maximum size of all logs together. Default: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_total: Option<ByteSize>,
    /// How it is shaped like the real service. Default: not at all.
    #[serde(default)]
    pub profile: ProfileConfig,
    /// The storage account, where blobs are served. Default: the development emulator's, empty.
    #[serde(default)]
    pub blob: BlobConfig,
}

/// Whether what clients present is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignaturePolicy {
    /// Tokens must be signed, and key values be right.
    #[default]
    Verify,
    /// Everyone may do everything, with any token or none, as in Microsoft's emulator.
    AcceptAny,
}

/// One key and what it allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleConfig {
    /// The key's name.
    pub name: String,
    /// The key's value.
    #[serde(serialize_with = "reveal", deserialize_with = "secret")]
    pub key: Secret,
    /// What its holder may do.
    pub rights: Vec<RightConfig>,
}

/// The name of a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RightConfig {
    /// Publish events.
    Send,
    /// Receive events and read properties.
    Listen,
    /// Everything.
    Manage,
}

/// One hub.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubConfig {
    /// As [`access::NamedEntity::Hub`] has it.
    pub name: String,
    /// How many partitions.
    pub partitions: u16,
    /// Consumer groups besides `$Default`, which is always there.
    #[serde(default)]
    pub consumer_groups: Vec<String>,
    /// The limits of each partition's log. Default: those of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogLimits>,
    /// Settings that a client has given. They are none of a declaration.
    #[serde(skip)]
    pub settings: TopicSettings,
    /// Whether and how its events are kept in files of the storage account. Default: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureConfig>,
}

impl NamespaceConfig {
    /// What is wrong with one of all queues and topics: at its place, if it is declared here; those that are kept besides
    /// follow the declared ones.
    pub(super) fn blame(
        &self,
        error: QueueConfigError,
        queues: &[QueueConfig],
        topics: &[TopicConfig],
    ) -> NamespaceError {
        let place = |list: &str| {
            let rest = error.path.strip_prefix(list)?.strip_prefix('[')?;
            rest.split_once(']')?.0.parse::<usize>().ok()
        };
        let kept_queue = place("queues").filter(|index| *index >= self.queues.len());
        let kept_topic = place("topics").filter(|index| *index >= self.topics.len());
        let name = match (kept_queue, kept_topic) {
            (Some(index), _) => queues.get(index).map(|queue| queue.name.clone()),
            (None, Some(index)) => topics.get(index).map(|topic| topic.name.clone()),
            (None, None) => None,
        };
        match name {
            Some(name) => NamespaceError::KeptQueue { name, reason: error.reason },
            None => NamespaceError::Queue(error),
        }
    }

    /// The data directory; the empty path where there is none.
    pub(super) fn storage_directory(&self) -> PathBuf {
        let storage = self.storage.as_ref();
        storage.map_or_else(PathBuf::new, |storage| storage.directory.clone())
    }

    /// The default namespace, with `hubs`.
    #[must_use]
    pub fn with_hubs(hubs: Vec<HubConfig>) -> Self {
        Self {
            host: default_host(),
            signatures: SignaturePolicy::default(),
            authorization_rules: default_rules(),
            token_issuers: Vec::new(),
            hubs,
            queues: Vec::new(),
            topics: Vec::new(),
            largest_message: default_largest_message(),
            idle_blocks: default_idle_blocks(),
            maximum_connections: default_maximum_connections(),
            storage: None,
            idle_timeout: default_idle_timeout(),
            creates_topics: false,
            topic_partitions: default_topic_partitions(),
            default_log: None,
            log_total: None,
            profile: ProfileConfig::default(),
            blob: BlobConfig::default(),
        }
    }
}

impl HubConfig {
    /// The limits of each of its logs, where `defaults` apply if it declares none.
    #[must_use]
    pub fn limits(&self, defaults: LogLimits) -> LogLimits {
        self.settings.limits(self.log.unwrap_or(defaults))
    }

    /// A hub with no consumer group but `$Default`, and default limits.
    pub fn new(name: impl Into<String>, partitions: u16) -> Self {
        Self {
            name: name.into(),
            partitions,
            consumer_groups: Vec::new(),
            log: None,
            settings: TopicSettings::default(),
            capture: None,
        }
    }
}

/// How many partitions a hub gets where nobody says so.
pub const DEFAULT_PARTITIONS: u16 = 4;

impl From<RightConfig> for Right {
    fn from(right: RightConfig) -> Self {
        match right {
            RightConfig::Send => Self::Send,
            RightConfig::Listen => Self::Listen,
            RightConfig::Manage => Self::Manage,
        }
    }
}

fn default_host() -> String {
    "localhost".to_owned()
}

fn default_rules() -> Vec<RuleConfig> {
    vec![RuleConfig {
        name: ROOT_KEY_NAME.to_owned(),
        key: DEVELOPMENT_KEY_VALUE.into(),
        rights: vec![RightConfig::Send, RightConfig::Listen, RightConfig::Manage],
    }]
}

fn default_largest_message() -> ByteSize {
    ByteSize::from_kibibytes(256)
}

fn default_idle_blocks() -> ByteSize {
    ByteSize::from_mebibytes(64)
}

const fn default_topic_partitions() -> u16 {
    DEFAULT_PARTITIONS
}

const fn default_idle_timeout() -> Duration {
    Duration::from_secs(240)
}

const fn default_maximum_connections() -> NonZeroU32 {
    NonZeroU32::new(5000).expect("it is not zero")
}

/// The configuration is handed to other processes of ours, which need the key.
pub(super) fn reveal<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(secret.reveal())
}

pub(super) fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
    String::deserialize(deserializer).map(Secret::from)
}
