//! `parshall queue`.

use clap::{Args, Subcommand};
use connect::service_bus::administration::Put;
use connect::service_bus::administration::entity::{EntityDescription, EntityKind};

use super::options::{DuplicateDetection, EntityOptions, ReceivingOptions, SendingOptions};
use super::{CommonArguments, Outcome, Session, listing};
use crate::exit::{CommandError, Exit};

/// The arguments of `queue`.
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  parshall queue create orders --lock-duration '30 s' --max-delivery-count 5
  parshall queue list
  parshall queue show orders --format json
  parshall queue update orders --status send-disabled
  parshall queue delete orders

These commands use HTTP, with the same connection string as other clients. They work with Azure Service Bus as well.

Exit status:
  0  success
  2  the command line is wrong
  3  the service can't be reached or refuses: no such queue, or it exists already"
)]
pub(crate) struct QueueArguments {
    #[command(subcommand)]
    action: Action,
}

/// What to do with queues.
#[derive(Debug, Subcommand)]
enum Action {
    /// Create a queue, and print it
    Create {
        /// Its name: letters, digits, and between them any of _ . - /
        name: String,

        #[command(flatten)]
        options: Options,

        /// Messages belong to sessions, and each is received by the one that has locked its session
        #[arg(long)]
        requires_session: bool,

        #[command(flatten)]
        duplicate_detection: DuplicateDetection,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// List the queues, and how many messages each has
    List {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Show a queue: its options, and how many messages it has
    Show {
        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// Change options of a queue, which hold at once; the others stay as they are
    Update {
        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        options: Options,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// Delete a queue with all its messages, and detach its clients
    Delete {
        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        common: CommonArguments,
    },
}

/// What can be chosen of a queue.
#[derive(Debug, Args)]
struct Options {
    #[command(flatten)]
    receiving: ReceivingOptions,

    #[command(flatten)]
    sending: SendingOptions,

    #[command(flatten)]
    entity: EntityOptions,
}

/// Does it.
pub(crate) fn execute(arguments: QueueArguments) -> Result<Exit, CommandError> {
    let QueueArguments { action } = arguments;
    let common = match &action {
        Action::Create { common, .. }
        | Action::List { common }
        | Action::Show { common, .. }
        | Action::Update { common, .. }
        | Action::Delete { common, .. } => common,
    };
    super::execute(common, async |session: &mut Session| run(session, &action).await)
}

async fn run(session: &mut Session, action: &Action) -> Outcome {
    const KIND: EntityKind = EntityKind::Queue;
    match action {
        Action::Create { name, options, requires_session, duplicate_detection, .. } => {
            let mut description = EntityDescription::default();
            options.apply(&mut description);
            description.requires_session = requires_session.then_some(true);
            duplicate_detection.apply(&mut description);
            session.put(KIND, name, &description, Put::New).await
        }
        Action::List { .. } => {
            let queues = session.list(KIND, "$Resources/queues").await?;
            Ok(listing::all(session.format, "QUEUE", queues))
        }
        Action::Show { name, .. } => session.show(KIND, name).await,
        Action::Update { name, options, .. } => {
            let mut description = session.get(KIND, name).await?.description;
            options.apply(&mut description);
            session.put(KIND, name, &description, Put::Changed).await
        }
        Action::Delete { name, .. } => {
            // A topic of that name is no queue.
            session.get(KIND, name).await?;
            session.delete(name).await
        }
    }
}

impl Options {
    fn apply(&self, description: &mut EntityDescription) {
        self.receiving.apply(description);
        self.sending.apply(description);
        self.entity.apply(description);
    }
}
