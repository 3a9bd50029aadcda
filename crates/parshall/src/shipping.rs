//! `parshall completions` and `parshall man`: what a package installs beside the program, made of the command line's own
//! definition.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::{Shell, generate};

use crate::command_line::command;
use crate::exit::{CommandError, Exit};
use crate::output;

/// The arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  parshall completions bash > ~/.local/share/bash-completion/completions/parshall
  parshall completions zsh > ~/.zfunc/_parshall      with `fpath+=~/.zfunc` before `compinit`
  parshall completions fish > ~/.config/fish/completions/parshall.fish")]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: ShellName,
}

/// The shells that there are completions for.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShellName {
    Bash,
    Zsh,
    Fish,
}

/// The arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  parshall man ~/.local/share/man/man1")]
pub(crate) struct ManArguments {
    /// The directory for the pages, one for each command; created if missing
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints a shell's completions.
pub(crate) fn complete(arguments: CompletionsArguments) -> Result<Exit, CommandError> {
    let shell = match arguments.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut command(), NAME, &mut script);
    output::print(&String::from_utf8_lossy(&script))
}

/// Writes the man pages.
pub(crate) fn write_man_pages(arguments: ManArguments) -> Result<Exit, CommandError> {
    let ManArguments { directory } = arguments;
    std::fs::create_dir_all(&directory)
        .and_then(|()| clap_mangen::generate_to(command(), &directory))
        .map_err(|error| CommandError::Unavailable {
            message: format!("the man pages can't be written to {}: {error}", directory.display()),
        })?;
    Ok(Exit::Passed)
}

const NAME: &str = "parshall";
