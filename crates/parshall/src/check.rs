//! `parshall check`: reads a data directory as a whole and says what is wrong with it.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use units::ByteSize;

use ::hub::namespace::verify_data_directory;

use crate::exit::{CommandError, Exit};
use crate::output;

/// The arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  parshall check /var/lib/parshall

Every file of hubs, queues and topics is read and its checksums are verified. Nothing is changed.
Blobs are not read: the service verifies them when a client reads them. Stop a service that uses
the directory first.

Exit status:
  0  nothing is damaged
  1  something is damaged; each file is named
  3  the directory can't be read, is in use, or is not a data directory")]
pub(crate) struct CheckArguments {
    /// The data directory of `parshall serve --data-dir`
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Reads the directory, and prints what is wrong by file, then what was read.
pub(crate) fn execute(arguments: CheckArguments) -> Result<Exit, CommandError> {
    let CheckArguments { directory } = arguments;
    let verification = verify_data_directory(&directory)
        .map_err(|error| CommandError::Unavailable { message: error.to_string() })?;
    let mut text = String::new();
    for (path, problem) in &verification.problems {
        let path = path.strip_prefix(&directory).unwrap_or(path);
        let _ = writeln!(text, "{}: {problem}", path.display());
    }
    let damaged = verification.problems.iter().filter(|(_, problem)| problem.is_damage()).count();
    let _ = writeln!(
        text,
        "{} segments, {} records, {}: {}",
        verification.segments,
        verification.records,
        ByteSize::from_bytes(verification.bytes),
        match damaged {
            0 => "no damage".to_owned(),
            1 => "1 file is damaged".to_owned(),
            files => format!("{files} files are damaged"),
        }
    );
    output::print(&text)?;
    Ok(if damaged == 0 { Exit::Passed } else { Exit::Failed })
}
