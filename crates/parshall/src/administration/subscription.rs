//! `parshall subscription`.

use clap::{Args, Subcommand};
use connect::service_bus::administration::Put;
use connect::service_bus::administration::entity::{EntityDescription, EntityKind};
use connect::service_bus::administration::rule::{FilterDescription, RuleDescription, SqlDescription};

use super::options::{EntityOptions, ReceivingOptions};
use super::{CommonArguments, Outcome, Session, listing};
use crate::exit::{CommandError, Exit};

/// The arguments of `subscription`.
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  parshall subscription create news audit --max-delivery-count 5
  parshall subscription create news urgent --filter \"priority = 'high'\"
  parshall subscription list news
  parshall subscription show news audit --format json
  parshall subscription update news audit --lock-duration '30 s'
  parshall subscription delete news audit

These commands use HTTP, with the same connection string as other clients. They work with Azure Service Bus as well.

Exit status:
  0  success
  2  the command line is wrong
  3  the service can't be reached or refuses: no such subscription, or it exists already"
)]
pub(crate) struct SubscriptionArguments {
    #[command(subcommand)]
    action: Action,
}

/// What to do with subscriptions.
#[derive(Debug, Subcommand)]
enum Action {
    /// Create a subscription of a topic, and print it
    Create {
        /// The topic
        topic: String,

        /// Its name: up to 50 letters, digits, and between them any of _ . -
        name: String,

        #[command(flatten)]
        options: Options,

        /// Messages belong to sessions, and each is received by the one that has locked its session
        #[arg(long)]
        requires_session: bool,

        /// Which messages it gets, as SQL, instead of all of them; `parshall rule` adds others
        ///
        /// Example: --filter "colour = 'red' AND quantity > 5"
        #[arg(long, value_name = "SQL")]
        filter: Option<String>,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// List the subscriptions of a topic, and how many messages each has
    List {
        /// The topic, in any letter case
        topic: String,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// Show a subscription: its options, and how many messages it has
    Show {
        /// The topic, in any letter case
        topic: String,

        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// Change options of a subscription, which hold at once; the others stay as they are
    Update {
        /// The topic, in any letter case
        topic: String,

        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        options: Options,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// Delete a subscription with all its messages, and detach its clients
    Delete {
        /// The topic, in any letter case
        topic: String,

        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        common: CommonArguments,
    },
}

/// What can be chosen of a subscription.
#[derive(Debug, Args)]
struct Options {
    #[command(flatten)]
    receiving: ReceivingOptions,

    #[command(flatten)]
    entity: EntityOptions,
}

/// Does it.
pub(crate) fn execute(arguments: SubscriptionArguments) -> Result<Exit, CommandError> {
    let SubscriptionArguments { action } = arguments;
    let common = match &action {
        Action::Create { common, .. }
        | Action::List { common, .. }
        | Action::Show { common, .. }
        | Action::Update { common, .. }
        | Action::Delete { common, .. } => common,
    };
    super::execute(common, async |session: &mut Session| run(session, &action).await)
}

async fn run(session: &mut Session, action: &Action) -> Outcome {
    const KIND: EntityKind = EntityKind::Subscription;
    let path = |topic: &str, name: &str| format!("{topic}/subscriptions/{name}");
    match action {
        Action::Create { topic, name, options, requires_session, filter, .. } => {
            let mut description = EntityDescription::default();
            options.apply(&mut description);
            description.requires_session = requires_session.then_some(true);
            description.default_rule = filter.as_ref().map(|filter| {
                Box::new(RuleDescription {
                    name: Some("$Default".to_owned()),
                    filter: Some(FilterDescription::Sql(SqlDescription::of(filter))),
                    ..RuleDescription::default()
                })
            });
            session.put(KIND, &path(topic, name), &description, Put::New).await
        }
        Action::List { topic, .. } => {
            let subscriptions = session.list(KIND, &format!("{topic}/subscriptions")).await?;
            Ok(listing::all(session.format, "SUBSCRIPTION", subscriptions))
        }
        Action::Show { topic, name, .. } => session.show(KIND, &path(topic, name)).await,
        Action::Update { topic, name, options, .. } => {
            let path = path(topic, name);
            let mut description = session.get(KIND, &path).await?.description;
            options.apply(&mut description);
            session.put(KIND, &path, &description, Put::Changed).await
        }
        Action::Delete { topic, name, .. } => session.delete(&path(topic, name)).await,
    }
}

impl Options {
    fn apply(&self, description: &mut EntityDescription) {
        self.receiving.apply(description);
        self.entity.apply(description);
    }
}
