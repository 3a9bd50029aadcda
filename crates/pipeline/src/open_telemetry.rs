//! Telemetry of a pipeline: what its file says of it, and what its spans are called.
//!
//! ```yaml
//! open_telemetry:
//!   endpoint: http://localhost:4318      # a collector, over http/protobuf; or OTEL_EXPORTER_OTLP_ENDPOINT
//!   traces: 0.01                         # of the batches; 0 for none
//!   metrics: 60 s                        # how often; 0 s for never
//! ```
//!
//! Names are those of OpenTelemetry's conventions for messaging. No payload, key or connection string is in them.

use std::sync::Arc;
use std::time::Duration;

use access::Endpoint;
use connect::archive::Place;
use connect::kafka::KafkaOptions;
use connect::service_bus::Entity;
use relay::Relay;
use relay::traces::{SendOperation, Tracing};
use serde::Deserialize;
use settings::{Document, SettingsError};
use telemetry::Tracer;
use telemetry::options::Settings;
use telemetry::span::{Attribute, Kind, Operation};

use crate::kafka::BOOTSTRAP;
use crate::{CheckpointStoreConfig, PipelineConfig, SinkConfig, SourceConfig};

/// The section of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenTelemetry {
    endpoint: Option<String>,
    traces: Option<f64>,
    #[serde(default, with = "units::duration::optional")]
    metrics: Option<Duration>,
}

impl OpenTelemetry {
    pub(super) fn check(&self, document: &Document) -> Result<(), SettingsError> {
        if let Some(Err(reason)) = self.endpoint.as_deref().map(Settings::check_endpoint) {
            let advice = "name the collector's address for OTLP over HTTP";
            return Err(document.mistake("open_telemetry.endpoint", reason, advice));
        }
        if let Some(ratio) = self.traces.filter(|ratio| !(0.0..=1.0).contains(ratio)) {
            let (reason, advice) = (format!("{ratio} is out of range"), "allowed is 0 to 1");
            return Err(document.mistake("open_telemetry.traces", reason, advice));
        }
        Ok(())
    }
}

impl From<OpenTelemetry> for Settings {
    fn from(section: OpenTelemetry) -> Self {
        let OpenTelemetry { endpoint, traces, metrics } = section;
        Self { endpoint, traces, metrics }
    }
}

impl PipelineConfig {
    /// The relay of this pipeline, traced.
    #[must_use]
    pub fn traced(&self, relay: Relay, tracer: Tracer) -> Relay {
        let source = End::of_source(&self.source);
        let mut process = source.operation(Kind::Consumer, "process", "process");
        process.attributes.extend(consumer(&self.source));
        let commits = self.source.reading().is_some_and(|reading| {
            matches!(
                reading.checkpoint_store,
                CheckpointStoreConfig::Group | CheckpointStoreConfig::Transactions(_)
            )
        });
        let mut checkpoint = match commits {
            true => source.operation(Kind::Client, "commit", "settle"),
            // The store is not the service that the events are from.
            false => End { server: None, ..source }.operation(Kind::Client, "checkpoint", "settle"),
        };
        checkpoint.attributes.extend(consumer(&self.source));
        let sends = self.sinks.iter().map(|sink| SendOperation {
            operation: Arc::new(End::of_sink(sink).sending()),
            to_partitions: match sink {
                // Keys go along, and the service chooses.
                SinkConfig::EventHubs(sink) => !(sink.keep_keys && self.route_keeps_keys()),
                SinkConfig::Kafka(_) => true,
                SinkConfig::ServiceBus(_) | SinkConfig::Archive(_) => false,
            },
        });
        relay.traced(Tracing {
            tracer,
            process: Arc::new(process),
            sends: sends.collect(),
            checkpoint: Arc::new(checkpoint),
        })
    }

    fn route_keeps_keys(&self) -> bool {
        self.relay.route == relay::route::Route::Key && self.fan_out.is_none()
    }
}

/// One end of a pipeline, as the conventions see it.
struct End<'a> {
    /// None where it is no messaging system.
    system: Option<&'static str>,
    name: &'a str,
    server: Option<(&'a str, Option<u16>)>,
}

impl<'a> End<'a> {
    fn of_source(source: &'a SourceConfig) -> Self {
        match source {
            SourceConfig::EventHubs(source) => {
                Self::of_namespace("eventhubs", &source.hub, &source.connection_string.endpoint)
            }
            SourceConfig::Kafka(source) => Self::of_cluster(&source.options),
            SourceConfig::ServiceBus(source) => {
                Self::of_namespace("servicebus", name_of(&source.entity), &source.connection_string.endpoint)
            }
        }
    }

    fn of_sink(sink: &'a SinkConfig) -> Self {
        match sink {
            SinkConfig::EventHubs(sink) => {
                Self::of_namespace("eventhubs", &sink.hub, &sink.connection_string.endpoint)
            }
            SinkConfig::Kafka(sink) => Self::of_cluster(&sink.options),
            SinkConfig::ServiceBus(sink) => {
                Self::of_namespace("servicebus", name_of(&sink.entity), &sink.connection_string.endpoint)
            }
            SinkConfig::Archive(archive) => Self {
                system: None,
                name: match &archive.place {
                    Place::Blob(blob) => &blob.container,
                    Place::Bucket(bucket) => bucket.url.bucket(),
                    Place::Folder(folder) => folder.to_str().unwrap_or("archive"),
                },
                server: None,
            },
        }
    }

    fn of_namespace(system: &'static str, name: &'a str, endpoint: &'a Endpoint) -> Self {
        Self { system: Some(system), name, server: Some((endpoint.host(), endpoint.port())) }
    }

    fn of_cluster(options: &'a KafkaOptions) -> Self {
        let first = options.properties.get(BOOTSTRAP).and_then(|servers| servers.split(',').next());
        let server = first.map(|first| match first.trim().rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()),
            None => (first.trim(), None),
        });
        Self { system: Some("kafka"), name: &options.topic, server }
    }

    fn sending(&self) -> Operation {
        match self.system {
            Some(_) => self.operation(Kind::Client, "send", "send"),
            None => Operation {
                name: format!("archive {}", self.name),
                kind: Kind::Client,
                attributes: vec![("parshall.archive.name", self.name.to_owned().into())],
            },
        }
    }

    fn operation(&self, kind: Kind, name: &'static str, of_type: &'static str) -> Operation {
        let mut attributes: Vec<Attribute> = vec![
            ("messaging.operation.name", name.into()),
            ("messaging.operation.type", of_type.into()),
            ("messaging.destination.name", self.name.to_owned().into()),
        ];
        attributes.extend(self.system.map(|system| ("messaging.system", system.into())));
        if let Some((host, port)) = self.server {
            attributes.push(("server.address", host.to_owned().into()));
            attributes.extend(port.map(|port| ("server.port", u32::from(port).into())));
        }
        Operation { name: format!("{name} {}", self.name), kind, attributes }
    }
}

/// For whom events are read.
fn consumer(source: &SourceConfig) -> Option<Attribute> {
    match source {
        SourceConfig::EventHubs(source) => {
            Some(("messaging.consumer.group.name", source.consumer_group.clone().into()))
        }
        SourceConfig::Kafka(source) => Some(("messaging.consumer.group.name", source.group.clone().into())),
        SourceConfig::ServiceBus(source) => match &source.entity {
            Entity::Subscription { name, .. } => {
                Some(("messaging.destination.subscription.name", name.clone().into()))
            }
            Entity::Queue(_) | Entity::Topic(_) => None,
        },
    }
}

fn name_of(entity: &Entity) -> &str {
    match entity {
        Entity::Queue(name) | Entity::Topic(name) | Entity::Subscription { topic: name, .. } => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMESPACE: &str = "Endpoint=sb://example.servicebus.windows.net:5671/;SharedAccessKeyName=relay;SharedAccessKey=c2VjcmV0";

    fn read(more: &str) -> Result<PipelineConfig, SettingsError> {
        let text = format!(
            "source:\n  event_hubs: {{connection_string: '{NAMESPACE}', hub: orders, consumer_group: billing}}\n\
             sinks:\n- service_bus: {{connection_string: '{NAMESPACE}', topic: verified}}\n\
             - kafka: {{bootstrap: 'one:9092,two:9093', topic: copies}}\n\
             checkpoint: {{store: {{files: ./checkpoints}}}}\n{more}"
        );
        PipelineConfig::from_document(&Document::parse("pipeline.yaml", &text)?)
    }

    #[test]
    fn the_file_says_where_to_how_much_and_how_often() {
        let settings = read("").expect("a pipeline").open_telemetry;
        assert_eq!(settings, Settings::default());
        let section = "open_telemetry: {endpoint: 'http://localhost:4318', traces: 0.5, metrics: 5 s}\n";
        let settings = read(section).expect("a pipeline").open_telemetry;
        let endpoint = Some("http://localhost:4318".to_owned());
        assert_eq!(settings, Settings { endpoint, traces: Some(0.5), metrics: Some(Duration::from_secs(5)) });
    }

    #[test]
    fn mistakes_are_reported_with_their_place() {
        for (section, expected) in [
            ("open_telemetry: {endpoint: 'localhost:4318'}\n", "`open_telemetry.endpoint`: it is no URL"),
            ("open_telemetry: {traces: 1.5}\n", "`open_telemetry.traces`: 1.5 is out of range"),
            ("open_telemetry: {sampler: always}\n", "`open_telemetry.sampler` is not a known key"),
        ] {
            let mistake = read(section).expect_err("there is a mistake").to_string();
            assert!(mistake.starts_with("pipeline.yaml:7:") && mistake.contains(expected), "{mistake}");
        }
    }

    #[test]
    fn spans_are_named_by_the_conventions_and_have_no_secret() {
        let config = read("").expect("a pipeline");
        let source = End::of_source(&config.source).operation(Kind::Consumer, "process", "process");
        assert_eq!(source.name, "process orders");
        assert!(source.attributes.contains(&("messaging.system", "eventhubs".into())));
        assert!(source.attributes.contains(&("server.address", "example.servicebus.windows.net".into())));
        assert!(source.attributes.contains(&("server.port", 5671_u32.into())));
        let group = Some(("messaging.consumer.group.name", "billing".into()));
        assert_eq!(consumer(&config.source), group);
        let sends: Vec<Operation> = config.sinks.iter().map(|sink| End::of_sink(sink).sending()).collect();
        assert_eq!([&sends[0].name, &sends[1].name], ["send verified", "send copies"]);
        assert!(sends[0].attributes.contains(&("messaging.system", "servicebus".into())));
        assert!(sends[1].attributes.contains(&("messaging.system", "kafka".into())));
        assert!(sends[1].attributes.contains(&("server.address", "one".into())));
        let all = format!("{source:?} {sends:?}");
        assert!(!all.contains("SharedAccessKey") && !all.contains("c2VjcmV0"), "{all}");
    }
}
