//! What a pipeline does, told before it does it. No secret is in it.

use std::fmt;

use access::{ConnectionString, TransportSecurity};
use connect::checkpoint::blobs::{MissingContainer, Spelling};
use relay::CheckpointPolicy;
use relay::ownership::OwnershipMode;
use relay::pipeline::{CheckpointStoreConfig, PipelineConfig, SinkConfig, SourceConfig};
use relay::route::Route;
use units::duration;

/// A pipeline, told one thing per line, what it is first.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    config: &'a PipelineConfig,
}

impl<'a> Plan<'a> {
    pub(super) const fn new(config: &'a PipelineConfig) -> Self {
        Self { config }
    }
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.config;
        let options = config.relay_options(1, "");
        let SourceConfig::EventHubs {
            connection_string,
            hub,
            consumer_group,
            partitions,
            ..
        } = &config.source;
        write!(f, "source       {}", place(hub, connection_string))?;
        write!(f, ", consumer group {consumer_group}")?;
        match partitions {
            Some(partitions) => writeln!(f, ", partitions {}", list(partitions))?,
            None => writeln!(f, ", all partitions")?,
        }
        let SinkConfig::EventHubs {
            connection_string,
            hub,
            ..
        } = &config.sink;
        writeln!(f, "sink         {}", place(hub, connection_string))?;
        let route = match options.route {
            Route::Random => "random",
            Route::Key => "key",
            Route::RoundRobin => "round-robin",
        };
        match config.fan_out {
            Some(fan_out) => {
                writeln!(f, "route        {route}, to the first {fan_out} partitions")?
            }
            None => writeln!(f, "route        {route}, to all partitions")?,
        }
        writeln!(
            f,
            "batch        {} events or {}, {} under way per partition, {} events fetched ahead",
            config.source_options.batch.max_events,
            duration::text(config.source_options.batch.max_wait),
            options.in_flight,
            config.source_options.prefetch,
        )?;
        writeln!(
            f,
            "retry        {} tries of {} each",
            options.retry.attempts,
            duration::text(options.retry.try_timeout),
        )?;
        let policy = match options.checkpoint {
            CheckpointPolicy::EachBatch => "after each batch".to_owned(),
            CheckpointPolicy::Every(interval) => format!("every {}", duration::text(interval)),
        };
        match &config.checkpoint_store {
            CheckpointStoreConfig::Files(folder) => {
                writeln!(f, "checkpoints  {policy}, in {}", folder.display())?;
            }
            CheckpointStoreConfig::Blob(options) => {
                let names = match options.spelling {
                    Spelling::Found => "names as found there",
                    Spelling::AsGiven => "names as given",
                    Spelling::LowerCase => "names in lower case",
                };
                let missing = match options.missing_container {
                    MissingContainer::Refuse => "",
                    MissingContainer::Create => ", made if it is missing",
                };
                writeln!(
                    f,
                    "checkpoints  {policy}, in blobs at {}/{}, {names}{missing}",
                    options.connection_string.blob_endpoint, options.container,
                )?;
            }
        }
        if let Some(ownership) = &config.ownership {
            let mode = match ownership.mode {
                OwnershipMode::Balanced => "balanced",
                OwnershipMode::Greedy => "greedy",
            };
            writeln!(
                f,
                "ownership    {mode}, renewed every {}, expires after {}",
                duration::text(ownership.renew),
                duration::text(ownership.expire),
            )?;
        }
        if options.failure_ratio > 0.0 {
            writeln!(
                f,
                "failures     {} of all sends, on purpose",
                options.failure_ratio
            )?;
        }
        Ok(())
    }
}

fn place(hub: &str, connection_string: &ConnectionString) -> String {
    let address = connection_string.amqp_address();
    let security = match address.security {
        TransportSecurity::Tls => "",
        TransportSecurity::Plain => ", without TLS",
    };
    format!("{hub} at {}:{}{security}", address.host, address.port)
}

fn list(partitions: &[u32]) -> String {
    let texts: Vec<String> = partitions.iter().map(u32::to_string).collect();
    texts.join(", ")
}
