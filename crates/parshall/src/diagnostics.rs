//! The one place where an error is printed.

use std::io::{self, IsTerminal as _};

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};

use crate::logging;
use crate::terminal::Terminal;

/// Prints `error` to standard error: what is wrong, the line of the file where there is one, and what to do.
///
/// Colour and box-drawing characters appear on a terminal only, and not where `NO_COLOR` is set or the terminal is dumb.
/// Long lines are wrapped on a terminal only: in a log, one message is one line.
pub(crate) fn print(error: &dyn Diagnostic) {
    let theme = if Terminal::of_stderr().colours && !logging::is_json() {
        GraphicalTheme::unicode()
    } else {
        GraphicalTheme::none()
    };
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(if io::stderr().is_terminal() { WIDTH } else { usize::MAX })
        .with_links(false);
    if handler.render_report(&mut text, error).is_err() {
        text = format!("{error}\n");
    }
    logging::tell("ERROR", text.trim_start_matches('\n'));
}

/// In characters, as the help's.
const WIDTH: usize = 100;
