//! Lines on standard output, and when there are enough of them.

use std::io::{self, Write as _};

use super::line::{Choice, Shown};
use crate::exit::CommandError;

/// Prints the events that are asked for, up to a number of them.
#[derive(Debug)]
pub(super) struct Printer {
    choice: Choice,
    left: Option<u64>,
    printed: u64,
    buffer: Vec<u8>,
}

/// Whether there is more to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    More,
    /// All that was asked for is printed, or nobody reads it any more.
    Enough,
}

impl Printer {
    pub(super) const fn new(choice: Choice, count: Option<u64>) -> Self {
        Self { choice, left: count, printed: 0, buffer: Vec::new() }
    }

    /// How many were printed.
    pub(super) const fn printed(&self) -> u64 {
        self.printed
    }

    /// Prints an event, if it is asked for.
    ///
    /// # Errors
    /// When standard output can't be written.
    pub(super) fn print(&mut self, shown: &Shown<'_>) -> Result<Wanted, CommandError> {
        if self.left == Some(0) {
            return Ok(Wanted::Enough);
        }
        if self.choice.print(shown, &mut self.buffer) {
            self.printed += 1;
            self.left = self.left.map(|left| left - 1);
        }
        match self.left == Some(0) || self.buffer.len() >= BUFFER_BYTES {
            true => self.flush(),
            false => Ok(Wanted::More),
        }
    }

    /// Writes what is printed. A reader that had enough is no error.
    ///
    /// # Errors
    /// When standard output can't be written.
    pub(super) fn flush(&mut self) -> Result<Wanted, CommandError> {
        let mut output = io::stdout().lock();
        let written = output.write_all(&self.buffer).and_then(|()| output.flush());
        self.buffer.clear();
        match written {
            Ok(()) if self.left == Some(0) => Ok(Wanted::Enough),
            Ok(()) => Ok(Wanted::More),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Wanted::Enough),
            Err(error) => Err(CommandError::Output(error)),
        }
    }
}

/// Lines that are gathered for one write, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;
