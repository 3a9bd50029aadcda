//! The results of a command, on standard output.

use std::io::{self, Write as _};

use crate::exit::{CommandError, Exit};

/// Writes `text` to standard output. A reader that had enough (`parshall list | head -1`) is no error.
pub(crate) fn print(text: &str) -> Result<Exit, CommandError> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::Output(error)),
        _ => Ok(Exit::Passed),
    }
}
