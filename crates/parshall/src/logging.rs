//! The log, on standard error.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::exit::CommandError;
use crate::terminal::Terminal;

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
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(Terminal::of_stderr().colours)
        .init();
    Ok(())
}

const VARIABLE: &str = "PARSHALL_LOG";
const DEFAULT: &str = "info";
const QUIET: &str = "warn";
