//! What a standard stream can show: the one place that asks whether it is a terminal, how wide, and whether colours
//! are wanted.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// What may be written to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// Whether the cursor can be moved back, to draw over what was written.
    pub(crate) redraws: bool,
    /// Whether colours may be used.
    pub(crate) colours: bool,
    /// Characters per line; `None` where there is no terminal.
    pub(crate) width: Option<usize>,
}

impl Terminal {
    /// Standard output, where results go.
    pub(crate) fn of_stdout() -> Self {
        Self::of(io::stdout())
    }

    /// Standard error, where everything else goes.
    pub(crate) fn of_stderr() -> Self {
        Self::of(io::stderr())
    }

    fn of(stream: impl IsTerminal + AsFd) -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        // A terminal that does not know its width says 0.
        let width =
            tcgetwinsize(&stream).ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0);
        Self::judged(stream.is_terminal(), &variable("NO_COLOR"), &variable("TERM"), width)
    }

    /// `NO_COLOR` with any content turns colours off; a dumb terminal can neither move its cursor nor show colours.
    fn judged(is_terminal: bool, no_color: &str, term: &str, width: Option<usize>) -> Self {
        let redraws = is_terminal && term != "dumb";
        Self { redraws, colours: redraws && no_color.is_empty(), width }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_redrawing_take_a_terminal_that_can_and_a_user_who_wants() {
        let judged = |is_terminal, no_color, term| {
            let terminal = Terminal::judged(is_terminal, no_color, term, None);
            (terminal.redraws, terminal.colours)
        };
        assert_eq!(judged(true, "", "xterm-256color"), (true, true));
        assert_eq!(judged(true, "1", "xterm-256color"), (true, false));
        assert_eq!(judged(true, "", "dumb"), (false, false));
        assert_eq!(judged(false, "", "xterm-256color"), (false, false));
    }
}
