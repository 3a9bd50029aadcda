//! The section of a pipeline file that is about archives, and its rules.
//!
//! ```yaml
//! archive:
//!   to: {blob: {connection_string: "${STORAGE}", container: archive, create: true}}     # or {bucket: {url: s3://archive}}, {folder: ./archive}
//!   files: {size: 64 MiB, every: 5 min}     # or per-event
//!   format: ndjson                          # avro or parquet; per event body or json
//!   name: '{hub}/{partition}/{sequence_number}'
//!   concurrency: 64
//! ```

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use access::storage::StorageConnectionString;
use connect::archive::{
    ArchiveFiles, ArchiveOptions, BlobPlace, EventFormat, FileFormat, NameTemplate, Place, Rolling,
};
use connect::checkpoint::blobs::MissingContainer;
use serde::{Deserialize, Deserializer, de};
use settings::{Document, SettingsError};
use units::ByteSize;

use super::bucket::Bucket;
use super::file::connection_string;
use super::vocabulary::RetryKeys;
use super::{ArchiveSource, SourceConfig};

/// An archive to write.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Archive {
    to: Destination,
    #[serde(default)]
    files: Files,
    format: Option<Format>,
    name: Option<String>,
    #[serde(default = "concurrency")]
    concurrency: u32,
    /// Tries of its own.
    pub(super) retry: Option<RetryKeys>,
    /// Only events for which this is true are archived.
    pub(super) when: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Destination {
    Blob(Box<Container>),
    Bucket(Box<Bucket>),
    Folder(PathBuf),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Container {
    #[serde(alias = "account_url", deserialize_with = "connection_string")]
    connection_string: StorageConnectionString,
    container: String,
    /// Whether the container is made if it is not there.
    #[serde(default)]
    create: bool,
    certificate_authority: Option<PathBuf>,
}

/// What becomes one file: each event, or what comes until a file is long or old enough.
#[derive(Clone, Copy, Debug)]
enum Files {
    PerEvent,
    Rolled { size: ByteSize, every: Duration },
}

/// The mapping form of [`Files`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RollingKeys {
    size: Option<ByteSize>,
    #[serde(default, with = "units::duration::optional")]
    every: Option<Duration>,
}

/// What events are in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Format {
    Body,
    Json,
    Ndjson,
    Avro,
    Parquet,
}

impl Default for Files {
    fn default() -> Self {
        let Rolling { size, every, .. } = Rolling::default();
        Self::Rolled { size, every }
    }
}

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Files;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("`per-event` or `{size: 64 MiB, every: 5 min}`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Files, E> {
                match text {
                    "per-event" => Ok(Files::PerEvent),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Files, A::Error> {
                let keys = RollingKeys::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let usual = Rolling::default();
                Ok(Files::Rolled {
                    size: keys.size.unwrap_or(usual.size),
                    every: keys.every.unwrap_or(usual.every),
                })
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

impl Archive {
    pub(super) fn check(
        &self,
        document: &Document,
        section: &str,
        has_several_topics: bool,
        settles: bool,
    ) -> Result<(), SettingsError> {
        self.check_files(document, section, settles)?;
        match &self.to {
            Destination::Blob(blob) if !is_container(&blob.container) => {
                return Err(no_container(document, &format!("{section}.to.blob.container"), &blob.container));
            }
            Destination::Folder(folder) if folder.as_os_str().is_empty() => {
                let advice = "name a folder; `.` is this one";
                return Err(document.mistake(&format!("{section}.to.folder"), "the name is empty", advice));
            }
            Destination::Bucket(bucket) => {
                let size = match self.files {
                    Files::PerEvent => None,
                    Files::Rolled { size, .. } => Some(size),
                };
                bucket.check(document, section, size)?;
            }
            Destination::Blob(_) | Destination::Folder(_) => {}
        }
        let key = format!("{section}.name");
        if let Some(name) = &self.name {
            let template: NameTemplate = name.parse().map_err(|error: connect::archive::NameError| {
                document.mistake(&key, error.to_string(), "for example '{hub}/{partition}/{sequence_number}'")
            })?;
            if has_several_topics && !template.has_hub() {
                let reason = "events of several topics would have the same name";
                return Err(document.mistake(&key, reason, "add `{hub}`, which is the name of the topic"));
            }
        }
        if !(1..=CONCURRENCY_MAX).contains(&self.concurrency) {
            let reason = format!("{} is out of range", self.concurrency);
            let advice = format!("allowed is 1 to {CONCURRENCY_MAX}");
            return Err(document.mistake(&format!("{section}.concurrency"), reason, advice));
        }
        Ok(())
    }

    /// Whether many events are a file, which is stored later than they are accepted.
    pub(super) const fn is_rolled(&self) -> bool {
        matches!(self.files, Files::Rolled { .. })
    }

    fn check_files(&self, document: &Document, section: &str, settles: bool) -> Result<(), SettingsError> {
        let files = format!("{section}.files");
        let (formats, advice): (&[Format], _) = match self.files {
            Files::PerEvent => (&[Format::Body, Format::Json], "per event it is `body` or `json`"),
            Files::Rolled { .. } if settles => {
                let reason = "messages are settled one by one, and a file of many is stored later";
                return Err(document.mistake(&files, reason, "add `files: per-event`"));
            }
            Files::Rolled { size, every } => {
                if !(SIZE_MIN..=SIZE_MAX).contains(&size) {
                    let reason = format!("{size} is out of range");
                    let advice = format!("allowed is {SIZE_MIN} to {SIZE_MAX}");
                    return Err(document.mistake(&format!("{files}.size"), reason, advice));
                }
                if !(EVERY_MIN..=EVERY_MAX).contains(&every) {
                    let reason = format!("{} is out of range", units::duration::text(every));
                    let (least, most) = (units::duration::text(EVERY_MIN), units::duration::text(EVERY_MAX));
                    let advice = format!("allowed is {least} to {most}");
                    return Err(document.mistake(&format!("{files}.every"), reason, advice));
                }
                let formats = &[Format::Ndjson, Format::Avro, Format::Parquet];
                (formats, "of files of many events it is `ndjson`, `avro` or `parquet`")
            }
        };
        match self.format {
            Some(format) if !formats.contains(&format) => {
                let reason = "it is not a format of these files";
                Err(document.mistake(&format!("{section}.format"), reason, advice))
            }
            _ => Ok(()),
        }
    }

    /// Where it is and which names it gives: of two archives with the same, each would write what the other has.
    pub(super) fn place(&self) -> (String, String) {
        let place = match &self.to {
            Destination::Blob(blob) => {
                format!("{}/{}", blob.connection_string.blob_endpoint, blob.container)
            }
            Destination::Bucket(bucket) => bucket.place(),
            Destination::Folder(folder) => folder.display().to_string(),
        };
        (self.name.clone().unwrap_or_default(), place)
    }

    /// # Panics
    /// When it was not [checked](Self::check).
    pub(super) fn into_config(self) -> ArchiveOptions {
        let place = match self.to {
            Destination::Folder(folder) => Place::Folder(folder),
            Destination::Bucket(bucket) => Place::Bucket(Box::new(bucket.into_place())),
            Destination::Blob(blob) => Place::Blob(Box::new(BlobPlace {
                missing_container: match blob.create {
                    true => MissingContainer::Create,
                    false => MissingContainer::Refuse,
                },
                certificate_authority: blob.certificate_authority,
                ..BlobPlace::new(blob.connection_string, blob.container)
            })),
        };
        ArchiveOptions {
            files: match self.files {
                Files::PerEvent => ArchiveFiles::PerEvent(match self.format {
                    Some(Format::Json) => EventFormat::Json,
                    _ => EventFormat::Body,
                }),
                Files::Rolled { size, every } => ArchiveFiles::Rolled(Rolling {
                    size,
                    every,
                    format: match self.format {
                        Some(Format::Avro) => FileFormat::Avro,
                        Some(Format::Parquet) => FileFormat::Parquet,
                        _ => FileFormat::Ndjson,
                    },
                }),
            },
            name: self.name.map(|name| name.parse().expect("the name was checked")),
            concurrency: self.concurrency as usize,
            ..ArchiveOptions::new(place)
        }
    }
}

impl SourceConfig {
    /// The source, as archives name it.
    #[must_use]
    pub fn archived(&self) -> ArchiveSource {
        match self {
            Self::EventHubs(source) => ArchiveSource {
                namespace: source.connection_string.endpoint.host().to_owned(),
                hub: source.hub.clone(),
            },
            Self::ServiceBus(source) => ArchiveSource {
                namespace: source.connection_string.endpoint.host().to_owned(),
                hub: source.entity.path().to_owned(),
            },
            Self::Kafka(source) => ArchiveSource {
                namespace: source
                    .options
                    .properties
                    .get(super::kafka::BOOTSTRAP)
                    .unwrap_or_default()
                    .to_owned(),
                hub: source.options.topic.clone(),
            },
        }
    }
}

/// Whether a container can have this name.
pub(super) fn is_container(name: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    (3..=63).contains(&name.len())
        && name.bytes().all(is_allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

/// The mistake of a name that no container can have.
pub(super) fn no_container(document: &Document, key: &str, name: &str) -> SettingsError {
    document.mistake(
        key,
        format!("`{name}` can't be the name of a container"),
        "allowed are 3 to 63 lower-case letters, digits, and single hyphens between them",
    )
}

const fn concurrency() -> u32 {
    ArchiveOptions::CONCURRENCY as u32
}

/// Each is a connection.
const CONCURRENCY_MAX: u32 = 1_024;

/// A blob has at most 50,000 blocks.
const SIZE_MIN: ByteSize = ByteSize::from_kibibytes(1);
const SIZE_MAX: ByteSize = ByteSize::from_mebibytes(100 * 1024);

const EVERY_MIN: Duration = Duration::from_millis(100);
const EVERY_MAX: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use connect::archive::{BucketCredentials, BucketPlace, BucketUrl};

    use super::*;
    use crate::{PipelineConfig, SinkConfig};

    fn read(archive: &str) -> Result<PipelineConfig, String> {
        let text = format!(
            "source:\n  event_hubs: {{connection_string: '{HUB}', hub: orders}}\n\
             sink:\n  archive: {archive}\ncheckpoint: {{store: {{files: ./checkpoints}}}}\n"
        );
        let document = Document::parse("pipeline.yaml", &text).map_err(|error| format!("{error:?}"))?;
        PipelineConfig::from_document(&document).map_err(|error| format!("{error:?}"))
    }

    fn archive(text: &str) -> ArchiveOptions {
        let config = read(text).unwrap();
        assert_eq!(config.source.archived().hub, "orders");
        let [SinkConfig::Archive(options)] = &config.sinks[..] else {
            panic!("an archive: {:?}", config.sinks)
        };
        ArchiveOptions::clone(options)
    }

    #[test]
    fn an_archive_of_events_has_a_place_names_and_a_bound() {
        let folder = archive("{to: {folder: ./archive}, files: per-event}");
        assert_eq!(folder, ArchiveOptions::new(Place::Folder("./archive".into())));
        let blobs = archive(
            "{to: {blob: {connection_string: 'UseDevelopmentStorage=true', container: archive, create: true}}, \
             files: per-event, format: json, name: 'x/{partition}/{sequence_number:10}', concurrency: 7}",
        );
        let Place::Blob(place) = &blobs.place else { panic!("blobs: {blobs:?}") };
        assert_eq!(
            (place.container.as_str(), place.missing_container),
            ("archive", MissingContainer::Create)
        );
        assert_eq!(blobs.files, ArchiveFiles::PerEvent(EventFormat::Json));
        assert_eq!(blobs.concurrency, 7);
        assert_eq!(blobs.name.unwrap().to_string(), "x/{partition}/{sequence_number:10}");
    }

    #[test]
    fn a_bucket_has_credentials_that_are_named_or_found() {
        let found = archive("{to: {bucket: {url: 's3://archive/a/b', region: eu-west-1}}}");
        let url: BucketUrl = "s3://archive/a/b".parse().unwrap();
        let place = BucketPlace { region: Some("eu-west-1".to_owned()), ..BucketPlace::new(url) };
        assert_eq!(
            found,
            ArchiveOptions {
                files: ArchiveFiles::Rolled(Rolling::default()),
                ..ArchiveOptions::new(Place::Bucket(Box::new(place)))
            }
        );
        let named = archive(
            "{to: {bucket: {url: 's3://archive', endpoint: 'http://localhost:9000/', access_key_id: a, secret_access_key: b}}, \
             files: per-event}",
        );
        let Place::Bucket(place) = named.place else { panic!("a bucket") };
        assert_eq!(place.endpoint.as_deref(), Some("http://localhost:9000"));
        let key =
            BucketCredentials::AccessKey { id: "a".to_owned(), secret: "b".into(), session_token: None };
        assert_eq!(place.credentials, key);
        assert!(!format!("{place:?}").contains("\"b\""), "the secret is not shown");
        let google = archive(
            "{to: {bucket: {url: 'gs://archive', service_account_key: '{}', memory: 1 GiB}}, files: {size: 512 MiB}}",
        );
        let Place::Bucket(place) = google.place else { panic!("a bucket") };
        assert_eq!(place.credentials, BucketCredentials::ServiceAccount("{}".into()));
    }

    #[test]
    fn files_of_many_events_are_the_default() {
        let usual = archive("{to: {folder: a}}");
        assert_eq!(usual.files, ArchiveFiles::Rolled(Rolling::default()));
        let avro = archive("{to: {folder: a}, files: {every: 30 s}, format: avro}");
        let rolling =
            Rolling { every: Duration::from_secs(30), format: FileFormat::Avro, ..Rolling::default() };
        assert_eq!(avro.files, ArchiveFiles::Rolled(rolling));
        let parquet = archive("{to: {folder: a}, format: parquet}").files;
        let rolling = Rolling { format: FileFormat::Parquet, ..Rolling::default() };
        assert_eq!(parquet, ArchiveFiles::Rolled(rolling));
    }

    #[test]
    fn no_checkpoint_can_be_waited_for_that_waits_for_a_file() {
        let text = format!(
            "source:\n  event_hubs: {{connection_string: '{HUB}', hub: orders}}\n\
             sink:\n  archive: {{to: {{folder: a}}}}\ncheckpoint: {{store: {{files: ./c}}, wait: true}}\n"
        );
        let document = Document::parse("pipeline.yaml", &text).unwrap();
        let mistake = PipelineConfig::from_document(&document).unwrap_err();
        assert!(format!("{mistake:?}").contains("waits for a file"), "{mistake:?}");
    }

    #[test]
    fn files_of_many_messages_of_a_queue_are_refused() {
        let text = format!(
            "source:\n  service_bus: {{connection_string: '{HUB}', queue: orders}}\n\
             sink:\n  archive: {{to: {{folder: a}}}}\n"
        );
        let document = Document::parse("pipeline.yaml", &text).unwrap();
        let mistake = PipelineConfig::from_document(&document).unwrap_err();
        assert!(format!("{mistake:?}").contains("settled one by one"), "{mistake:?}");
    }

    #[test]
    fn mistakes_in_an_archive_are_told_with_their_place() {
        for (text, told) in [
            (
                "{to: {folder: a}, files: per-event, name: '../{partition}/{sequence_number}'}",
                "the segment `..`",
            ),
            ("{to: {folder: a}, files: per-event, name: '{partition}'}", "without `{sequence_number}`"),
            ("{to: {folder: a}, files: per-event, concurrency: 0}", "0 is out of range"),
            ("{to: {folder: ''}, files: per-event}", "the name is empty"),
            (
                "{to: {blob: {connection_string: 'UseDevelopmentStorage=true', container: A}}, files: per-event}",
                "`A` can't be the name of a container",
            ),
            ("{to: {folder: a}, files: weekly}", "weekly"),
            ("{to: {folder: a}, files: {size: 1 B}}", "out of range"),
            ("{to: {folder: a}, files: {every: 1 ms}}", "out of range"),
            ("{to: {folder: a}, format: body}", "not a format of these files"),
            ("{to: {folder: a}, files: per-event, format: avro}", "not a format of these files"),
            ("{to: {bucket: {url: 'https://a/b'}}}", "neither with `s3://` nor with `gs://`"),
            ("{to: {bucket: {url: 's3://archive/../b'}}}", "the segment `..`"),
            ("{to: {bucket: {url: 's3://archive', endpoint: 'localhost:9000'}}}", "is not a URL"),
            ("{to: {bucket: {url: 's3://archive', access_key_id: a}}}", "half of a key"),
            ("{to: {bucket: {url: 's3://archive', session_token: a}}}", "without the key"),
            ("{to: {bucket: {url: 's3://archive', service_account_key: a}}}", "has no service accounts"),
            (
                "{to: {bucket: {url: 'gs://archive', access_key_id: a, secret_access_key: b}}}",
                "has no access keys",
            ),
            ("{to: {bucket: {url: 'gs://archive', region: a}}}", "has no region"),
            ("{to: {bucket: {url: 's3://archive'}}, files: {size: 129 MiB}}", "more than half of the memory"),
            ("{to: {bucket: {url: 's3://archive', memory: 1 MiB}}}", "out of range"),
            (
                "{to: {bucket: {url: 's3://archive', memory: 1 GiB}}, files: per-event}",
                "nothing waits in memory",
            ),
        ] {
            let mistake = read(text).unwrap_err();
            assert!(mistake.contains(told), "{text} gave: {mistake}");
        }
    }

    const HUB: &str =
        "Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true";
}
