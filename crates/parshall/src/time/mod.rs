//! `parshall time`: the clock of a service whose time is under control, shown and advanced.
//!
//! * `control` asks the service.

mod control;

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand, ValueEnum};
use units::{date, duration};

use crate::exit::{CommandError, Exit};
use crate::output;
use control::{Control, Shown, Step, Target};

/// The arguments of `time`.
#[derive(Debug, Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  parshall serve --queue jobs --time-control
  parshall time advance 30s
  parshall time advance --to 2027-01-01T00:00:00Z
  parshall time show --format json

Everything that becomes due on the way has acted when `advance` ends, in the order of its instants:
locks end, scheduled messages appear, messages expire, retention removes events. Connected receivers
are given what is available at its end.

Exit status:
  0  success
  2  the command line is wrong
  3  the service can't be reached or refuses: its time is not under control, or the instant is over"
)]
pub(crate) struct TimeArguments {
    #[command(subcommand)]
    action: Action,
}

/// What to do with the time.
#[derive(Debug, Subcommand)]
enum Action {
    /// Show the service's time, and how far it is ahead of the machine's
    Show {
        #[command(flatten)]
        common: CommonArguments,
    },
    /// Advance the service's time, and print what happened on the way
    Advance {
        /// By how much. Units: ms, s, min, h, d
        #[arg(value_name = "DURATION", value_parser = duration::parse, required_unless_present = "to", conflicts_with = "to")]
        by: Option<Duration>,

        /// To an instant in UTC, instead of by a duration
        ///
        /// Example: --to 2027-01-01T00:00:00Z
        #[arg(long, value_name = "INSTANT", value_parser = instant)]
        to: Option<SystemTime>,

        /// Have tokens end when their time is over, and links with them. Without it they count as renewed meanwhile, since clients renew
        /// them by their own clock
        #[arg(long)]
        end_tokens: bool,

        #[command(flatten)]
        common: CommonArguments,
    },
}

/// What every action takes.
#[derive(Debug, Args)]
struct CommonArguments {
    /// The service's address for health and metrics, as `serve --http` has it [default: the variable PARSHALL_TIME_URL,
    /// otherwise http://127.0.0.1:5300]
    ///
    /// Example: --service http://127.0.0.1:9091
    #[arg(long, value_name = "URL")]
    service: Option<String>,

    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Forms of a result.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For a person
    Text,
    /// For a program: one object on one line
    Json,
}

/// Asks the service, and prints what it answers.
pub(crate) fn execute(arguments: TimeArguments) -> Result<Exit, CommandError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CommandError::System)?;
    let result = runtime.block_on(run(arguments.action));
    // A name that is still being looked up must not hold up the end.
    runtime.shutdown_background();
    output::print(&result?)
}

/// The text to print.
async fn run(action: Action) -> Result<String, CommandError> {
    let (common, step) = match action {
        Action::Show { common } => (common, None),
        // The command line has one of the two.
        Action::Advance { by, to, end_tokens, common } => {
            let target = by.map(Target::By).or_else(|| to.map(Target::To));
            (common, target.map(|target| Step { target, end_tokens }))
        }
    };
    let control = Control::of(common.service)?;
    let answer = match step {
        None => control.show().await?,
        Some(step) => control.advance(step).await?,
    };
    Ok(match common.format {
        Format::Text => text(&answer.shown),
        Format::Json => format!("{}\n", answer.json.trim_end()),
    })
}

/// For a person: the time, then what happened, one thing per line.
fn text(shown: &Shown) -> String {
    let ahead = match &*shown.offset {
        "0 s" => "the machine's time".to_owned(),
        offset => format!("{offset} ahead of the machine"),
    };
    let mut text = format!("{}, {ahead}\n", shown.now);
    for (what, count) in shown.happened.iter().flatten().filter(|(_, count)| **count > 0) {
        // Writing to a string can't fail.
        let _ = writeln!(text, "{}: {count}", what.replace('_', " "));
    }
    text
}

fn instant(text: &str) -> Result<SystemTime, String> {
    date::parse_iso_instant(text)
        .ok_or_else(|| "this is not an instant in UTC such as 2027-01-01T00:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_the_time_and_what_happened() {
        let shown = |json: &str| serde_json::from_str::<Shown>(json).unwrap();
        let advanced = shown(
            r#"{"now":"2026-11-20T23:21:07.125Z","now_ms":1795216867125,"offset":"1 h","offset_ms":3600000,
                "happened":{"message_locks_ended":2,"messages_expired":0,"links_ended":1}}"#,
        );
        let expected =
            "2026-11-20T23:21:07.125Z, 1 h ahead of the machine\nlinks ended: 1\nmessage locks ended: 2\n";
        assert_eq!(text(&advanced), expected);
        let fresh = shown(r#"{"now":"2026-11-20T23:21:07.125Z","offset":"0 s"}"#);
        assert_eq!(text(&fresh), "2026-11-20T23:21:07.125Z, the machine's time\n");
    }
}
