//! The processes of a run, from both ends of their pipes.
//!
//! * [`protocol`] is what orchestrator and role say to each other.
//! * [`process`] starts a role and ends it, whatever happens.
//! * [`run_role`] is the role's own main function; `service`, `load`, `relay` and `sink` are what it then does, and
//!   `external` where a command takes the relay's place.
//! * [`backend`] is what roles need from outside: a factory of sources and sinks for every endpoint. [`network`] is the
//!   lab's own, so roles are tested without one.
//! * [`memory`] is a backend for tests, in which things go wrong as wished.
//!
//! A role is one process of this program (and a command's processes below one), so that the CPU time and the memory of
//! each are its own.

pub mod amqp_codec;
mod archive;
pub mod backend;
mod causes;
mod channel;
mod client_program;
pub mod embedded;
mod event_hubs;
mod external;
mod kafka;
pub mod kafka_codec;
mod lines;
mod load;
pub mod memory;
pub mod network;
pub mod our_relay;
pub mod process;
mod producer;
pub mod protocol;
mod relay;
mod relay_reading;
mod scratch;
mod service;
mod service_bus;
mod service_config;
mod sink;
mod timer;
mod tls;
mod workers;

pub(crate) use channel::SILENCE;
pub use channel::{ChannelError, Reporter, RoleChannel};
pub use client_program::ProgramError;
pub use external::CommandError;

use std::{
    error::Error,
    io::{BufRead, Write},
};

use self::{
    backend::Backend,
    protocol::{Assignment, Report, RoleConfig},
    scratch::Scratch,
};
use crate::{
    payload::{ImpossibleLength, LongestLine, ReplayError},
    results::Role,
};

/// Why a role could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum RoleError {
    /// Nobody said what to do.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The configuration is for another role than the command line.
    #[error("started as {started} and configured as {configured}")]
    WrongRole {
        /// What the command line said.
        started: Role,
        /// What the configuration said.
        configured: Role,
    },
    /// The orchestrator went away.
    #[error("the orchestrator has exited")]
    Abandoned,
    /// Something could not be made or reached.
    #[error("{what} failed")]
    Connect {
        /// What was being done.
        what: &'static str,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The pipeline can't go on.
    #[error("the pipeline can't continue")]
    Pipeline(#[source] Box<dyn Error + Send + Sync>),
    /// The pipeline ended unexpectedly.
    #[error("the pipeline exited by itself")]
    EndedEarly,
    /// The command in the relay's place could not be measured to the end.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The generator's connection can't go on.
    #[error("sending can't continue")]
    Send(#[source] connect::sink::SinkError),
    /// The receiver's connection can't go on.
    #[error("receiving can't continue")]
    Receive(#[source] connect::source::SourceError),
    /// A consumer that is watched has fallen too far behind.
    #[error(
        "too much waits for the consumer: {events} events that were read and are not done, and {marks} signs that more is \
         done than was read"
    )]
    Undone {
        /// Events.
        events: usize,
        /// Signs.
        marks: usize,
    },
    /// The payloads are impossible.
    #[error(transparent)]
    Payload(#[from] ImpossibleLength),
    /// The events to replay can't be read.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A send of the configured batch can't fit into what the service takes at once.
    #[error(
        "a batch of {events} events needs up to {needed} bytes, and the service accepts {limit} in one send"
    )]
    BatchTooLarge {
        /// Events in a batch.
        events: u32,
        /// Bytes that it may take.
        needed: usize,
        /// Bytes that are possible.
        limit: usize,
    },
    /// The longest line of a replayed file is larger than what the service accepts.
    #[error(
        "line {} of the replayed file, with {} bytes, needs {needed} bytes in a send, and the service accepts {limit}",
        longest.line,
        longest.bytes
    )]
    LineTooLarge {
        /// The line.
        longest: LongestLine,
        /// Bytes that it takes in a send of its own.
        needed: usize,
        /// Bytes that are possible.
        limit: usize,
    },
    /// A timer or a thread can't be had.
    #[error("the system refused {what}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// A worker's thread ended without a word.
    #[error("a worker of the role panicked; its log has the reason")]
    WorkerPanicked,
}

/// Runs a role to its end: reads what to do from `input`, reports to `output`.
///
/// # Errors
/// [`RoleError`] when it could not do its work. It has been reported to the orchestrator already.
pub fn run_role<B: Backend>(
    role: Role,
    backend: B,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), RoleError> {
    let (Assignment { mut config, is_launched }, mut channel) = RoleChannel::open(input, output)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| RoleError::System { what: "an event loop", source })?;
    // The orchestrator's folders are not on the machine of a role that was started elsewhere.
    let scratch = match (&mut config, is_launched) {
        (RoleConfig::Relay(relay), true) => Scratch::create().map(|folder| {
            folder.path().clone_into(&mut relay.checkpoints);
            Some(folder)
        }),
        _ => Ok(None),
    };
    let result = match scratch {
        Err(error) => Err(error),
        Ok(_) if config.role() != role => {
            Err(RoleError::WrongRole { started: role, configured: config.role() })
        }
        Ok(_scratch) => runtime.block_on(work(backend, config, &mut channel)),
    };
    match &result {
        Ok(report) => channel.reporter.send(report),
        Err(error) => channel.reporter.send(&Report::Failed { error: with_causes(error) }),
    }
    result.map(|_| ())
}

async fn work<B: Backend>(
    backend: B,
    config: RoleConfig,
    channel: &mut RoleChannel,
) -> Result<Report, RoleError> {
    match config {
        RoleConfig::Service(config) => service::run(backend, *config, channel).await,
        RoleConfig::Load(config) => load::run(backend, *config, channel).await,
        RoleConfig::Relay(config) => relay::run(backend, *config, channel).await,
        RoleConfig::External(config) | RoleConfig::ServiceCommand(config) => {
            external::run(*config, channel).await
        }
        RoleConfig::Sink(config) => sink::run(backend, *config, channel).await,
    }
}

impl RoleError {
    fn connect<E: Error + Send + Sync + 'static>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Connect { what, source: Box::new(source) }
    }
}

/// An error with all of its causes, in one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
