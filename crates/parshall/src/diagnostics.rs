//! The one place where an error is printed.

use std::io::{self, IsTerminal as _, Write as _};

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};

use crate::terminal::Terminal;

/// Prints `error` to standard error: what is wrong, the line of the file where there is one, and what to do.
///
/// Colour and box-drawing characters appear on a terminal only, and not where `NO_COLOR` is set or the terminal is dumb.
/// Long lines are wrapped on a terminal only: in a log, one message is one line.
pub(crate) fn print(error: &dyn Diagnostic) {
    let theme =
        if Terminal::of_stderr().colours { GraphicalTheme::unicode() } else { GraphicalTheme::none() };
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(if io::stderr().is_terminal() { WIDTH } else { usize::MAX })
        .with_links(false);
    if handler.render_report(&mut text, error).is_err() {
        text = format!("{error}\n");
    }
    // Where standard error itself cannot be written, the exit status is all that is left to tell.
    let _ = io::stderr().write_all(text.trim_start_matches('\n').as_bytes());
}

/// In characters, as the help's.
const WIDTH: usize = 100;
