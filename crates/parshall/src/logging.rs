//! The log, on standard error: for a person, or as JSON for a program that collects logs.
//!
//! Neither form has ever a payload or a key in it: those who log write names, numbers and the words of errors.

use std::io::{self, Write as _};
use std::sync::OnceLock;

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use crate::bounded_log::{self, Bounded, Counted};
use crate::exit::CommandError;
use crate::terminal::Terminal;

/// Forms of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For a person, in colour on a terminal
    #[default]
    Text,
    /// One object on each line: timestamp, level, message, target, and what belongs to the message
    Json,
}

/// Says in which form this process logs. Only the first time counts.
pub(crate) fn choose(format: LogFormat) {
    let _ = FORMAT.set(format);
}

static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Whether everything on standard error is to be JSON.
pub(crate) fn is_json() -> bool {
    FORMAT.get() == Some(&LogFormat::Json)
}

/// Starts the log of a command that runs for long. Which lines it has is up to the environment variable
/// `PARSHALL_LOG`, such as `debug` or `warn,hub=debug`; without it, `info`, or `warn` if it is to be quiet.
///
/// # Errors
/// The variable can't be understood.
pub(crate) fn start(quiet: bool) -> Result<(), CommandError> {
    let wanted = std::env::var(VARIABLE).unwrap_or_default();
    let wanted = match wanted.as_str() {
        "" if quiet => QUIET,
        "" => DEFAULT,
        wanted => wanted,
    };
    let filter = EnvFilter::try_new(wanted).map_err(|error| CommandError::Usage {
        message: format!("the environment variable {VARIABLE} can't be `{wanted}`: {error}"),
        advice: Some(format!("such as {VARIABLE}=debug or {VARIABLE}=warn,hub=debug")),
    })?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| Counted(io::stderr()));
    match is_json() {
        true => {
            let log = log.json().flatten_event(true).with_current_span(false).with_span_list(false);
            log.map_event_format(Bounded).init();
        }
        false => log.with_ansi(Terminal::of_stderr().colours).map_event_format(Bounded).init(),
    }
    bounded_log::report_regularly();
    Ok(())
}

/// Says something for a person that is no line of the log: as it is, or as the message of one where all is JSON. Where standard
/// error itself cannot be written, the exit status is all that is left to tell.
pub(crate) fn tell(level: &str, text: &str) {
    let mut line = text.to_owned();
    if is_json() {
        let mut timestamp = String::new();
        // A clock before its time has no text.
        let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
        let event = serde_json::json!({
            "timestamp": timestamp, "level": level, "message": text.trim(), "target": "parshall",
        });
        line = format!("{event}\n");
    }
    let _ = io::stderr().write_all(line.as_bytes());
}

const VARIABLE: &str = "PARSHALL_LOG";
/// The library of credentials tells how each was set up, also those that are not used.
const DEFAULT: &str = "info,azure_identity=warn";
const QUIET: &str = "warn";
