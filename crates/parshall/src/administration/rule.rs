//! `parshall rule`.

use clap::{Args, Subcommand};
use connect::service_bus::administration::Put;
use connect::service_bus::administration::rule::{FilterDescription, RuleDescription, SqlDescription};

use super::listing::{self, ShownRule};
use super::{CommonArguments, Outcome, Session};
use crate::exit::{CommandError, Exit};

/// The arguments of `rule`.
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  parshall rule create news urgent high --filter \"priority = 'high'\" --action \"SET seen = TRUE\"
  parshall rule list news urgent
  parshall rule delete news urgent '$Default'

These commands use HTTP, with the same connection string as other clients. They work with Azure Service Bus as well.

Exit status:
  0  success
  2  the command line is wrong
  3  the service can't be reached or refuses: no such rule, or it exists already"
)]
pub(crate) struct RuleArguments {
    #[command(subcommand)]
    action: Action,
}

/// What to do with rules.
#[derive(Debug, Subcommand)]
enum Action {
    /// Add a rule to a subscription, for the messages that are sent from now on, and print it
    Create {
        #[command(flatten)]
        place: Place,

        /// Its name: up to 50 characters
        name: String,

        #[command(flatten)]
        what: What,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// List the rules of a subscription
    List {
        #[command(flatten)]
        place: Place,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// Put a rule in the place of the one of its name, and print it
    Update {
        #[command(flatten)]
        place: Place,

        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        what: What,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// Delete a rule of a subscription
    Delete {
        #[command(flatten)]
        place: Place,

        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        common: CommonArguments,
    },
}

/// Where rules are.
#[derive(Debug, Args)]
struct Place {
    /// The topic, in any letter case
    topic: String,

    /// The subscription, in any letter case
    subscription: String,
}

/// What a rule is.
#[derive(Debug, Args)]
struct What {
    /// Which messages it matches, as SQL [default: all]
    ///
    /// Example: --filter "colour = 'red' AND quantity > 5"
    #[arg(long, value_name = "SQL")]
    filter: Option<String>,

    /// What is done to a copy of each, as SQL
    ///
    /// Example: --action "SET quantity = quantity / 2; REMOVE colour"
    #[arg(long, value_name = "SQL")]
    action: Option<String>,
}

/// Does it.
pub(crate) fn execute(arguments: RuleArguments) -> Result<Exit, CommandError> {
    let RuleArguments { action } = arguments;
    let common = match &action {
        Action::Create { common, .. }
        | Action::List { common, .. }
        | Action::Update { common, .. }
        | Action::Delete { common, .. } => common,
    };
    super::execute(common, async |session: &mut Session| run(session, &action).await)
}

async fn run(session: &mut Session, action: &Action) -> Outcome {
    match action {
        Action::Create { place, name, what, .. } => put(session, place, name, what, Put::New).await,
        Action::Update { place, name, what, .. } => put(session, place, name, what, Put::Changed).await,
        Action::List { place, .. } => {
            let entries = session.client.list(&place.path()).await?;
            let rules = entries.iter().filter_map(ShownRule::read).collect();
            Ok(listing::rules(session.format, rules))
        }
        Action::Delete { place, name, .. } => session.delete(&format!("{}/{name}", place.path())).await,
    }
}

async fn put(session: &mut Session, place: &Place, name: &str, what: &What, put: Put) -> Outcome {
    let filter = what.filter.as_deref();
    let rule = RuleDescription {
        name: Some(name.to_owned()),
        filter: Some(
            filter
                .map_or(FilterDescription::True, |filter| FilterDescription::Sql(SqlDescription::of(filter))),
        ),
        action: what.action.as_deref().map(SqlDescription::of),
        created_at: None,
    };
    let path = format!("{}/{name}", place.path());
    session.client.put(&path, &rule.written(), put).await?;
    let rules = vec![ShownRule { name: name.to_owned(), rule }];
    Ok(listing::rules(session.format, rules))
}

impl Place {
    fn path(&self) -> String {
        format!("{}/subscriptions/{}/rules", self.topic, self.subscription)
    }
}
