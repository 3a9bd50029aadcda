//! `parshall hub`: the hubs of a running service, created, listed, shown and deleted.
//!
//! * `target` says which service is meant.
//! * `listing` is what is printed.

mod listing;
mod target;

use clap::{Args, Subcommand};

use crate::exit::{CommandError, Exit};
use crate::output;
use crate::printed::{Format, Printed, json};
use listing::{Deleted, HubDescription};
use target::{Target, TargetArguments};

/// The arguments of `hub`.
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  parshall hub create orders --partitions 32 --consumer-group billing
  parshall hub list
  parshall hub show orders --format json
  parshall hub delete orders

These commands use AMQP, with the same connection string as other clients. Azure Event Hubs
supports only `show` that way: there, use the portal, a template or `az eventhubs eventhub` to
list, create and delete hubs.

Exit status:
  0  success
  2  the command line is wrong
  3  the service can't be reached or refuses: no such hub, or it exists already"
)]
pub(crate) struct HubArguments {
    #[command(subcommand)]
    action: Action,
}

/// What to do with hubs.
#[derive(Debug, Subcommand)]
enum Action {
    /// Create a hub, and print it
    Create {
        /// Its name: letters, digits, and between them any of _ . - /
        name: String,

        /// How many partitions it has, from 1 to 32768
        #[arg(
            long,
            value_name = "N",
            default_value_t = 4,
            value_parser = clap::value_parser!(u32).range(1..=i64::from(::hub::namespace::MAXIMUM_PARTITIONS))
        )]
        partitions: u32,

        /// A consumer group in addition to $Default, which every hub has. May be repeated
        ///
        /// Example: --consumer-group billing --consumer-group audit
        #[arg(long = "consumer-group", value_name = "NAME")]
        consumer_groups: Vec<String>,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// List the hubs; in JSON each of them as `show` prints it
    List {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Show a hub's consumer groups and partitions
    Show {
        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        common: CommonArguments,
    },
    /// Delete a hub with all its events, and detach its clients
    Delete {
        /// Its name, in any letter case
        name: String,

        #[command(flatten)]
        common: CommonArguments,
    },
}

/// What every action takes.
#[derive(Debug, Args)]
struct CommonArguments {
    #[command(flatten)]
    target: TargetArguments,

    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Connects, does it, and prints what came of it.
pub(crate) fn execute(arguments: HubArguments) -> Result<Exit, CommandError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::System)?;
    let result = runtime.block_on(run(arguments.action));
    // A name that is still being looked up must not hold up the end.
    runtime.shutdown_background();
    output::print(&result?)
}

/// The text to print.
async fn run(action: Action) -> Result<String, CommandError> {
    let common = match &action {
        Action::Create { common, .. }
        | Action::List { common }
        | Action::Show { common, .. }
        | Action::Delete { common, .. } => common,
    };
    let format = common.format;
    let target = Target::of(&common.target)?;
    let mut client = target.connect().await?;
    let done = async {
        Ok(match &action {
            Action::Create { name, partitions, consumer_groups, .. } => {
                let created = client.create_hub(name, *partitions, consumer_groups).await?;
                format.text(&HubDescription::read(&mut client, created).await?)
            }
            Action::List { .. } => match format {
                Format::Table => listing::summaries(client.hubs().await?),
                // Each as `show` prints it, so that programs need to know one form.
                Format::Json => {
                    let hubs = HubDescription::read_all(&mut client).await?;
                    json(&hubs.iter().map(Printed::json).collect())
                }
            },
            Action::Show { name, .. } => {
                let found = client.hub(name).await?;
                format.text(&HubDescription::read(&mut client, found).await?)
            }
            Action::Delete { name, .. } => {
                client.delete_hub(name).await?;
                format.text(&Deleted { name })
            }
        })
    }
    .await;
    let text = done.map_err(|error| target.refusal(&error, action.is_azures()))?;
    client.close().await;
    Ok(text)
}

impl Action {
    /// Whether Azure's own service does it as well.
    const fn is_azures(&self) -> bool {
        matches!(self, Self::Show { .. })
    }
}
