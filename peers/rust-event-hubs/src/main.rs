//! The forwarder of the published fan-out study on the official Rust SDK: processors that share the partitions of one hub
//! and forward each batch to the partitions of another.
//!
//! Runs until it is told to end (SIGTERM, SIGINT). Standard output has one line, `ready`, when every partition of the
//! source has been opened; standard error has what goes wrong, and with `PEER_LOG` what the SDK logs.

mod checkpoints;
mod forwarder;
mod listing;
mod memory;
mod namespace;
mod settings;
mod storage_access;

use std::collections::HashSet;
use std::env;
use std::error::Error;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};

use azure_messaging_eventhubs::models::StartPositions;
use azure_messaging_eventhubs::{
    CheckpointStore, ConsumerClient, EventProcessor, ProcessorStrategy, ProducerClient, StartLocation,
    StartPosition,
};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tracing_subscriber::EnvFilter;

use checkpoints::BlobCheckpointStore;
use forwarder::Forwarder;
use memory::MemoryCheckpointStore;
use settings::Settings;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let settings = match Settings::from_environment() {
        Ok(settings) => settings,
        Err(mistake) => {
            eprintln!("{mistake}");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = trust(&settings) {
        eprintln!("the program can't start itself anew: {error}");
        return ExitCode::FAILURE;
    }
    let filter = EnvFilter::try_from_env("PEER_LOG").unwrap_or_else(|_| EnvFilter::new(QUIET));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    let mut builder = match settings.one_core {
        true => tokio::runtime::Builder::new_current_thread(),
        false => tokio::runtime::Builder::new_multi_thread(),
    };
    let ended = match builder.enable_all().build() {
        // The SDK's streams of events can't change threads; what is beneath them can.
        Ok(runtime) => LocalSet::new().block_on(&runtime, run(Arc::new(settings))),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The SDK has no setting for whom to trust; what it takes for the system's store is read when the process starts. So the
/// process starts itself anew with the authority in place.
fn trust(settings: &Settings) -> io::Result<()> {
    match &settings.authority {
        Some(authority) if env::var_os(TRUSTED).is_none_or(|trusted| trusted != authority.as_str()) => {
            Err(Command::new(env::current_exe()?).args(env::args_os().skip(1)).env(TRUSTED, authority).exec())
        }
        _ => Ok(()),
    }
}

async fn run(settings: Arc<Settings>) -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let store: Arc<dyn CheckpointStore + Send + Sync> = match &settings.checkpoints {
        Some(container) => Arc::new(BlobCheckpointStore::open(container).await?),
        None => {
            eprintln!("checkpoints are kept in memory: PARSHALL_CHECKPOINT_CONNECTION_STRING is not set");
            Arc::new(MemoryCheckpointStore::default())
        }
    };
    let opened = Arc::new(Opened::new(settings.source_partitions));
    let mut instances = tokio::task::JoinSet::new();
    for _ in 0..settings.instances {
        instances.spawn_local(instance(Arc::clone(&settings), Arc::clone(&store), Arc::clone(&opened)));
    }
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        Some(ended) = instances.join_next() => ended?,
    }
}

/// One processor, and what it sends with. Ends only with an error.
async fn instance(
    settings: Arc<Settings>,
    store: Arc<dyn CheckpointStore + Send + Sync>,
    opened: Arc<Opened>,
) -> Result<(), Failure> {
    let mut producer = ProducerClient::builder();
    if let Some(endpoint) = namespace::custom_endpoint(&settings.destination) {
        producer = producer.with_custom_endpoint(endpoint);
    }
    let hub = &settings.destination;
    let producer = producer.open_with_connection_string(&hub.connection_string, Some(&hub.name)).await?;
    let forwarder = Forwarder::new(producer, Arc::clone(&settings));

    let mut consumer = ConsumerClient::builder().with_consumer_group(settings.consumer_group.clone());
    if let Some(endpoint) = namespace::custom_endpoint(&settings.source) {
        consumer = consumer.with_custom_endpoint(endpoint);
    }
    let hub = &settings.source;
    let consumer = consumer.open_with_connection_string(&hub.connection_string, Some(&hub.name)).await?;
    let processor = EventProcessor::builder()
        .with_load_balancing_strategy(ProcessorStrategy::Greedy)
        .with_update_interval(settings.balancing_interval().try_into()?)
        .with_partition_expiration_duration(settings.expiration.try_into()?)
        .with_prefetch(settings.prefetch)
        .with_start_positions(StartPositions {
            default: StartPosition { location: StartLocation::Earliest, inclusive: true },
            ..StartPositions::default()
        })
        .build(consumer, store)
        .await?;

    let receiving = async {
        loop {
            let partition = processor.next_partition_client().await?;
            opened.note(partition.get_partition_id());
            tokio::task::spawn_local(forwarder.clone().run(partition));
        }
    };
    tokio::select! {
        ended = receiving => ended,
        // It gives up at the first failure of the store. Started anew it would not know of the partitions that it has.
        ended = processor.run() => Err(match ended {
            Ok(()) => "the processor ended".into(),
            Err(error) => error.into(),
        }),
    }
}

/// The partitions that have been opened; the last of them is told.
struct Opened {
    partitions: usize,
    seen: Mutex<HashSet<String>>,
}

impl Opened {
    fn new(partitions: usize) -> Self {
        Self { partitions, seen: Mutex::default() }
    }

    fn note(&self, partition: &str) {
        let mut seen = self.seen.lock().expect("nothing panics that holds it");
        if seen.insert(partition.to_owned()) && seen.len() == self.partitions {
            println!("ready");
        }
    }
}

/// What is logged unless `PEER_LOG` says otherwise. A claim that came too late is no error.
const QUIET: &str = "error,azure_messaging_eventhubs::in_memory_checkpoint_store=off";

/// The file of certificates that is taken for the system's.
const TRUSTED: &str = "SSL_CERT_FILE";
