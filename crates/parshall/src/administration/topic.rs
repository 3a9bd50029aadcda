//! `parshall topic`.

use clap::{Args, Subcommand};
use connect::service_bus::administration::Put;
use connect::service_bus::administration::entity::{EntityDescription, EntityKind};

use super::options::{DuplicateDetection, EntityOptions, SendingOptions};
use super::{CommonArguments, Outcome, Session, listing};
use crate::exit::{CommandError, Exit};

/// The arguments of `topic`.
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  parshall topic create news --default-time-to-live '1 d'
  parshall topic list
  parshall topic show news --format json
  parshall topic update news --status send-disabled
  parshall topic delete news

These commands use HTTP, with the same connection string as other clients. They work with Azure Service Bus as well.

Exit status:
  0  success
  2  the command line is wrong
  3  the service can't be reached or refuses: no such topic, or it exists already"
)]
pub(crate) struct TopicArguments {
    #[command(subcommand)]
    action: Action,
}

/// What to do with topics.
#[derive(Debug, Subcommand)]
enum Action {
    /// Create a topic, and print it
    Create {
        /// Its name: letters, digits, and between them any of _ . - /
        name: String,

        #[command(flatten)]
        options: Options,

        #[command(flatten)]
        duplicate_detection: DuplicateDetection,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// List the topics, and how many subscriptions each has
    List {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Show a topic: its options, and how many subscriptions it has
    Show {
        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// Change options of a topic, which hold at once; the others stay as they are
    Update {
        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        options: Options,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// Delete a topic with its subscriptions and all their messages, and detach its clients
    Delete {
        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        common: CommonArguments,
    },
}

/// What can be chosen of a topic.
#[derive(Debug, Args)]
struct Options {
    #[command(flatten)]
    sending: SendingOptions,

    #[command(flatten)]
    entity: EntityOptions,
}

/// Does it.
pub(crate) fn execute(arguments: TopicArguments) -> Result<Exit, CommandError> {
    let TopicArguments { action } = arguments;
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
    const KIND: EntityKind = EntityKind::Topic;
    match action {
        Action::Create { name, options, duplicate_detection, .. } => {
            let mut description = EntityDescription::default();
            options.apply(&mut description);
            duplicate_detection.apply(&mut description);
            session.put(KIND, name, &description, Put::New).await
        }
        Action::List { .. } => {
            let topics = session.list(KIND, "$Resources/topics").await?;
            Ok(listing::all(session.format, "TOPIC", topics))
        }
        Action::Show { name, .. } => session.show(KIND, name).await,
        Action::Update { name, options, .. } => {
            let mut description = session.get(KIND, name).await?.description;
            options.apply(&mut description);
            session.put(KIND, name, &description, Put::Changed).await
        }
        Action::Delete { name, .. } => {
            // A queue of that name is no topic.
            session.get(KIND, name).await?;
            session.delete(name).await
        }
    }
}

impl Options {
    fn apply(&self, description: &mut EntityDescription) {
        self.sending.apply(description);
        self.entity.apply(description);
    }
}
