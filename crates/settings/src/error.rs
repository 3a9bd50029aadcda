//! What can be wrong with a file or an argument, told so that it can be mended.

use std::fmt;
use std::io;
use std::path::PathBuf;

use miette::{Diagnostic, LabeledSpan, SourceCode};
use thiserror::Error;

use crate::place::Place;
use crate::secrets::masked;
use crate::suggestion::nearest;

/// A file or an argument that cannot be used.
///
/// As text it is one line, `file:line:column: what is wrong`. As a [`Diagnostic`] it shows the line of the file and
/// what to do.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// The file is not there or cannot be read.
    #[error("`{}` can't be read: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why. Part of the message, and therefore no `source` that would be told a second time.
        cause: io::Error,
    },
    /// The text is wrong.
    #[error("{0}")]
    Mistake(Box<Mistake>),
}

/// One mistake in a text.
#[derive(Debug)]
pub struct Mistake {
    /// Where it is.
    pub place: Place,
    /// The dotted key that it is about, such as `relay.fan_out`; empty where it is about the whole text.
    pub key: String,
    /// What it is.
    pub kind: MistakeKind,
}

/// The kinds of mistakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MistakeKind {
    /// The text is no YAML, or no YAML of the strict kind read here.
    Syntax {
        /// What the parser says.
        message: String,
    },
    /// The text exceeds a limit that protects the process.
    BeyondLimit {
        /// The limit, as a noun.
        limit: &'static str,
    },
    /// A key that nothing knows.
    UnknownKey {
        /// The keys that may stand there.
        allowed: Vec<String>,
    },
    /// A key that must be there is not.
    MissingKey {
        /// The last element of the missing key.
        missing: String,
    },
    /// A value of another kind than the key takes.
    WrongType {
        /// What stands there.
        found: String,
        /// What should.
        expected: String,
    },
    /// A word that is none of the known ones.
    UnknownChoice {
        /// What stands there.
        found: String,
        /// The words that may.
        allowed: Vec<String>,
    },
    /// A value of the right kind that is not allowed.
    Invalid {
        /// What is wrong with it.
        reason: String,
        /// What to do about it; empty where the reason tells.
        advice: String,
    },
    /// A variable without a value.
    MissingVariable {
        /// Its name.
        variable: String,
        /// What the file says for this case, in `${NAME:?message}`.
        message: Option<String>,
    },
    /// `${` that does not begin a variable.
    MalformedVariable,
    /// An argument that is not of the form `path=value`.
    MalformedAssignment,
}

impl SettingsError {
    /// A mistake about `key` at `place`.
    pub(crate) fn at(place: Place, key: impl Into<String>, kind: MistakeKind) -> Self {
        Self::Mistake(Box::new(Mistake { place, key: key.into(), kind }))
    }

    /// The mistake, unless the file could not even be read.
    #[must_use]
    pub fn mistake(&self) -> Option<&Mistake> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Mistake(mistake) => Some(mistake),
        }
    }
}

impl Mistake {
    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        let last = self.key.rsplit('.').next().unwrap_or_default();
        match &self.kind {
            MistakeKind::Syntax { .. } | MistakeKind::WrongType { .. } => None,
            MistakeKind::BeyondLimit { .. } => Some("split the file, or remove repetitions".to_owned()),
            MistakeKind::UnknownKey { allowed } => Some(choices(last, allowed, "allowed here")),
            MistakeKind::MissingKey { missing } => Some(format!("add `{missing}: …`")),
            MistakeKind::UnknownChoice { found, allowed } => Some(choices(found, allowed, "allowed")),
            MistakeKind::Invalid { advice, .. } => (!advice.is_empty()).then(|| advice.clone()),
            MistakeKind::MissingVariable { variable, .. } => Some(format!(
                "set it in the environment (`export {variable}=…`), or give a default: `${{{variable}:-default}}`"
            )),
            MistakeKind::MalformedVariable => Some(
                "write `${NAME}`, `${NAME:-default}` or `${NAME:?message}`; `$${` is a plain `${`".to_owned(),
            ),
            MistakeKind::MalformedAssignment => {
                Some("write `path=value`, such as `relay.fan_out=64` or `load.mode=backlog`".to_owned())
            }
        }
    }

    /// What is said right at the place.
    fn label(&self) -> String {
        match &self.kind {
            MistakeKind::Syntax { .. } => "here".to_owned(),
            MistakeKind::BeyondLimit { .. } => "begins here".to_owned(),
            MistakeKind::UnknownKey { .. } => "not a known key".to_owned(),
            MistakeKind::MissingKey { missing } => format!("lacks `{missing}`"),
            MistakeKind::WrongType { expected, .. } => format!("must be {expected}"),
            MistakeKind::UnknownChoice { .. } => "not one of the choices".to_owned(),
            MistakeKind::Invalid { .. } => "not allowed".to_owned(),
            MistakeKind::MissingVariable { .. } => "has no value".to_owned(),
            MistakeKind::MalformedVariable => "not a variable".to_owned(),
            MistakeKind::MalformedAssignment => "not `path=value`".to_owned(),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = if self.key.is_empty() { "the document" } else { &format!("`{}`", self.key) };
        let what = match &self.kind {
            MistakeKind::Syntax { message } => message.clone(),
            MistakeKind::BeyondLimit { limit } => format!("more than {limit}"),
            MistakeKind::UnknownKey { .. } => format!("{key} is not a known key"),
            MistakeKind::MissingKey { missing } => format!("{key} lacks the key `{missing}`"),
            MistakeKind::WrongType { found, expected } => {
                format!("{key} must be {expected}, not {found}")
            }
            MistakeKind::UnknownChoice { found, .. } => format!("{key} can't be `{found}`"),
            MistakeKind::Invalid { reason, .. } => format!("{key}: {reason}"),
            MistakeKind::MissingVariable { variable, message: None } => {
                format!("{key} needs the environment variable `{variable}`, which is not set")
            }
            MistakeKind::MissingVariable { variable, message: Some(message) } => {
                format!("{key} needs the environment variable `{variable}`: {message}")
            }
            MistakeKind::MalformedVariable => format!("{key} contains `${{` without a variable"),
            MistakeKind::MalformedAssignment => "the argument sets nothing".to_owned(),
        };
        // Keys and values are quoted from the text; what they contain must not command the terminal, nor give a key away.
        let printable: String = masked(&what)
            .chars()
            .map(|character| if character.is_control() { '\u{fffd}' } else { character })
            .collect();
        write!(formatter, "{}: {printable}", self.place)
    }
}

impl Diagnostic for SettingsError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let advice = self.mistake()?.advice()?;
        Some(Box::new(advice))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(self.mistake()?.place.source())
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let mistake = self.mistake()?;
        let label = LabeledSpan::new_primary_with_span(Some(mistake.label()), mistake.place.span());
        Some(Box::new(std::iter::once(label)))
    }
}

/// "did you mean `fan_out`? allowed here: batch, fan_out, …"
fn choices(found: &str, allowed: &[String], introduction: &str) -> String {
    let all = allowed.join(", ");
    match nearest(found, allowed.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean `{meant}`? {introduction}: {all}"),
        None => format!("{introduction}: {all}"),
    }
}
