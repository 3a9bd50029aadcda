//! Capture: what comes into a hub is kept in files of the storage account, in the layout of Event Hubs Capture.
//!
//! Each captured hub has a relay in this process, from the hub to an archive in the container, over the service's own addresses. So files are complete or
//! absent, a service that was killed goes on where its last complete file ends, and a slow or full store holds up no client. They stop before the service does, and complete their files first.

use std::sync::Arc;
use std::time::Duration;

use connect::archive::{ArchiveFiles, ArchiveOptions, BlobPlace, FileFormat, NameTemplate, Place, Rolling};
use connect::checkpoint::ConsumerGroup;
use connect::checkpoint::blobs::{BlobStoreOptions, MissingContainer};
use connect::service::Transport;
use connect::source::SourceOptions;
use hub::namespace::{CaptureConfig, HubConfig, Namespace};
use hub::service::Service;
use pipeline::vocabulary::Ownership;
use pipeline::{
    CheckpointStoreConfig, ConnectError, EventHubsSourceConfig, Partitions, PipelineConfig, ReadingConfig,
    SinkConfig, SourceConfig,
};
use relay::RelayOptions;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::namespace::NamespaceSource;
use crate::exit::{CommandError, with_causes};

/// What is to be captured, once there is a service.
#[derive(Debug)]
pub(super) struct Captures {
    hubs: Vec<CapturedHub>,
}

#[derive(Debug)]
struct CapturedHub {
    name: String,
    capture: CaptureConfig,
    files: NameTemplate,
}

/// Relays at work. Dropped, they end at once; what was in files that are not complete is written again.
#[derive(Debug)]
pub(super) struct Capturing {
    stop: watch::Sender<bool>,
    relays: JoinSet<Result<(), String>>,
}

impl Captures {
    /// What the namespace wants to be captured. Captured hubs get a consumer group for it, and the account the containers.
    ///
    /// # Errors
    /// Names that can't be names of files, or blobs that are not served.
    pub(super) fn of(source: &mut NamespaceSource, serves_blobs: bool) -> Result<Self, CommandError> {
        let mut hubs = Vec::new();
        let wanted = source.config().hubs.iter().enumerate();
        for (index, (hub, capture)) in
            wanted.filter_map(|(index, hub)| Some((index, (hub, hub.capture.as_ref()?))))
        {
            let place = format!("hubs[{index}].capture");
            if !serves_blobs {
                let advice = "add `--blob 127.0.0.1:10000`".to_owned();
                return Err(source.blame(
                    &place,
                    "captured events are kept in blobs, which are not served",
                    advice,
                ));
            }
            let files: NameTemplate =
                format!("{}.avro", capture.name).parse().map_err(|error: connect::archive::NameError| {
                    let advice =
                        "for example '{hub}/{partition}/{year}-{month}-{day}/{sequence_number}'".to_owned();
                    source.blame(&format!("{place}.name"), &error.to_string(), advice)
                })?;
            hubs.push(CapturedHub { name: hub.name.clone(), capture: capture.clone(), files });
        }
        let config = source.config_mut();
        for captured in &hubs {
            let container = &captured.capture.container;
            // What is wrong with the name is told where it stands.
            if captured.capture.check().is_ok() && !config.blob.containers.contains(container) {
                config.blob.containers.push(container.clone());
            }
        }
        config.hubs.iter_mut().for_each(add_consumer_group);
        Ok(Self { hubs })
    }

    /// Begins to capture.
    pub(super) fn start(self, service: &Service) -> Capturing {
        let (stop, stopped) = watch::channel(false);
        let mut relays = JoinSet::new();
        for hub in self.hubs {
            let (pipeline, namespace) = (hub.pipeline(service), Arc::clone(service.namespace()));
            let stopped = stopped.clone();
            relays.spawn(async move { keep_capturing(&pipeline, &hub.name, &namespace, stopped).await });
        }
        Capturing { stop, relays }
    }
}

impl Capturing {
    /// Completes the files that are begun.
    ///
    /// # Errors
    /// What came into a hub could not be captured to the end.
    pub(super) async fn stop(mut self) -> Result<(), CommandError> {
        self.stop.send_replace(true);
        let mut captured = Ok(());
        while let Some(ended) = self.relays.join_next().await {
            let ended = ended.unwrap_or_else(|panic| Err(panic.to_string()));
            captured = captured.and(ended);
        }
        captured.map_err(|reason| CommandError::Unavailable {
            message: format!("not all events were captured: {reason}"),
        })
    }
}

impl CapturedHub {
    fn pipeline(&self, service: &Service) -> PipelineConfig {
        let connection_string = service.connection_string(None);
        let account =
            service.storage_connection_string().expect("captures are refused where no blobs are served");
        let progress = BlobStoreOptions {
            missing_container: MissingContainer::Create,
            ..BlobStoreOptions::new(account.clone(), PROGRESS_CONTAINER)
        };
        let group = CaptureConfig::CONSUMER_GROUP;
        let relay = RelayOptions {
            group: ConsumerGroup::new(connection_string.endpoint.host(), &self.name, group),
            ..RelayOptions::default()
        };
        let place = BlobPlace {
            missing_container: MissingContainer::Create,
            ..BlobPlace::new(account, self.capture.container.as_str())
        };
        let archive = ArchiveOptions {
            files: ArchiveFiles::Rolled(Rolling {
                size: self.capture.size,
                every: self.capture.every,
                format: FileFormat::Avro,
            }),
            name: Some(self.files.clone()),
            ..ArchiveOptions::new(Place::Blob(Box::new(place)))
        };
        PipelineConfig {
            source: SourceConfig::EventHubs(Box::new(EventHubsSourceConfig {
                connection_string,
                hub: self.name.clone(),
                consumer_group: group.to_owned(),
                transport: Transport::Tcp,
                certificate_authority: None,
                reading: ReadingConfig {
                    partitions: Partitions::All,
                    options: SourceOptions::default(),
                    adapt_prefetch: None,
                    checkpoint_store: CheckpointStoreConfig::Blob(Box::new(progress)),
                    ownership: Ownership::default(),
                },
            })),
            sinks: vec![SinkConfig::Archive(Box::new(archive))],
            dead_letters: None,
            fan_out: None,
            metrics: None,
            transform: None,
            open_telemetry: telemetry::options::Settings::default(),
            relay,
        }
    }
}

/// Carries the events of a hub for as long as it is there, until it is asked to stop. The service goes on while its events can't be captured, as the cloud
/// does, and they are captured later: what a client did to the container, a client can mend.
async fn keep_capturing(
    pipeline: &PipelineConfig,
    hub: &str,
    namespace: &Namespace,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), String> {
    loop {
        let Err(error) = capture(pipeline, stopped.clone()).await else {
            return Ok(());
        };
        if namespace.hub(hub).is_none() {
            tracing::info!(hub, "deleted, and not captured any more");
            return Ok(());
        }
        let reason = with_causes(&error);
        tracing::error!(hub, reason, "not captured; trying again in {} s", TRY_AGAIN_AFTER.as_secs());
        // A sender that is gone is a stop, too.
        if tokio::time::timeout(TRY_AGAIN_AFTER, stopped.wait_for(|stopped| *stopped)).await.is_ok() {
            return Err(format!("hub `{hub}`: {reason}"));
        }
    }
}

async fn capture(pipeline: &PipelineConfig, mut stopped: watch::Receiver<bool>) -> Result<(), ConnectError> {
    let mut stop_while_connecting = stopped.clone();
    let connected = async { pipeline.open().await?.connect(CaptureConfig::CONSUMER_GROUP).await };
    let relay = tokio::select! {
        biased;
        _ = stop_while_connecting.wait_for(|stopped| *stopped) => return Ok(()),
        relay = connected => relay?,
    };
    let stop = async move {
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    relay.run(stop).await?;
    Ok(())
}

fn add_consumer_group(hub: &mut HubConfig) {
    let is_there = |name: &String| name.eq_ignore_ascii_case(CaptureConfig::CONSUMER_GROUP);
    if hub.capture.is_some() && !hub.consumer_groups.iter().any(is_there) {
        hub.consumer_groups.push(CaptureConfig::CONSUMER_GROUP.to_owned());
    }
}

/// From a failure that the relay could not mend to the next try.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// Where it is kept how far hubs were captured, as checkpoints of the official SDKs.
const PROGRESS_CONTAINER: &str = "capture-checkpoints";
