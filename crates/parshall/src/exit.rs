//! How a command ends, and the exit status that tells it.

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use lab::report::FolderError;
use lab::scenario::ScenarioError;
use miette::Diagnostic;
use settings::SettingsError;
use thiserror::Error;

/// How a command ended that did what it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well.
    Passed,
    /// It was done, and the result is bad.
    Failed,
    /// It was ended early by a signal.
    Interrupted,
    /// As the command ended that it ran, by the status that shells give it.
    Command(u8),
}

/// Why a command could not do what it was asked to.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum CommandError {
    /// A file or an argument of `--set` is wrong.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Settings(#[from] SettingsError),
    /// The command line asks for something that there is not.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to do.
        #[help]
        advice: Option<String>,
    },
    /// A file or directory that the command needs can't be had.
    #[error("{message}")]
    Unavailable {
        /// Which, and why.
        message: String,
    },
    /// An address can't be listened on.
    #[error("{message}")]
    Listen {
        /// Which, and why.
        message: String,
        /// What to do.
        #[help]
        advice: Option<String>,
    },
    /// The service can't be reached, or does not do what it is asked.
    #[error("{message}")]
    Refused {
        /// Which, and why.
        message: String,
        /// What to do.
        #[help]
        advice: Option<String>,
    },
    /// The command that a service was started for can't be.
    #[error("the command `{}` can't be started: {source}", program.display())]
    NotStarted {
        /// Its name or path.
        program: OsString,
        /// What the system said.
        source: io::Error,
    },
    /// The system refuses threads or signals.
    #[error("the system refuses a required resource: {0}")]
    System(#[source] io::Error),
    /// The results can't be written to standard output.
    #[error("standard output can't be written: {0}")]
    Output(#[source] io::Error),
}

impl Exit {
    /// The one place where exit statuses are numbers.
    pub(crate) const fn status(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Interrupted => 130,
            Self::Command(status) => status,
        }
    }
}

impl CommandError {
    /// The exit status of this error.
    pub(crate) fn exit(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Settings(_) | Self::Usage { .. } => 2,
            // As shells say it.
            Self::NotStarted { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::NotStarted { .. } => 126,
            Self::Unavailable { .. }
            | Self::Listen { .. }
            | Self::Refused { .. }
            | Self::System(_)
            | Self::Output(_) => 3,
        })
    }
}

/// An error with all of its causes, in one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    message
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.status())
    }
}

impl From<FolderError> for CommandError {
    fn from(error: FolderError) -> Self {
        let message = error.to_string();
        match error {
            FolderError::Occupied { .. } => {
                let advice =
                    "results are not overwritten: choose another folder, or omit --out for a new one per run";
                Self::Usage { message, advice: Some(advice.to_owned()) }
            }
            FolderError::Create { .. } | FolderError::Write { .. } | FolderError::Report(_) => {
                Self::Unavailable { message }
            }
        }
    }
}

impl From<ScenarioError> for CommandError {
    fn from(error: ScenarioError) -> Self {
        let message = error.to_string();
        match error {
            ScenarioError::Settings(error) => Self::Settings(error),
            ScenarioError::UnknownScenario { meant, .. } => {
                let file = "for your own file, give its path, such as `./mine.yaml`";
                let advice =
                    meant.map_or_else(|| file.to_owned(), |meant| format!("did you mean `{meant}`? {file}"));
                Self::Usage { message, advice: Some(advice) }
            }
            ScenarioError::NoSuchSweep { meant, .. } => {
                let all = "`--sweep all` selects all";
                let advice =
                    meant.map_or_else(|| all.to_owned(), |meant| format!("did you mean `{meant}`? {all}"));
                Self::Usage { message, advice: Some(advice) }
            }
            ScenarioError::NoSuchCase { .. } => Self::Usage {
                message,
                advice: Some(
                    "`*` matches any text and `?` one character, such as `--only 'fan_out=*'`".to_owned(),
                ),
            },
        }
    }
}
