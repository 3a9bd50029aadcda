//! The kinds of files that people write, told apart by their keys: a file given to the wrong command is recognised, and the
//! right command named.

use std::path::Path;

use lab::scenario::Scenario;
use settings::Document;

use crate::exit::CommandError;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// What `run` measures.
    Scenario,
    /// What `relay` carries.
    Pipeline,
    /// What `serve` serves.
    Namespace,
}

impl FileKind {
    /// Reads the file at `path`, which should be of this kind.
    ///
    /// # Errors
    /// It can't be read, or is of another kind.
    pub(crate) fn read(self, path: &Path) -> Result<Document, CommandError> {
        if self != Self::Scenario
            && !path.exists()
            && let Some(name) = Scenario::names().find(|name| path == Path::new(name))
        {
            return Err(CommandError::Usage {
                message: format!("`{name}` is a scenario, not {}", self.name()),
                advice: Some(Self::Scenario.advice(name)),
            });
        }
        let document = Document::read(path)?;
        let found = MARKS.iter().find(|(_, key)| document.value(key).is_some());
        match found {
            Some((found, key)) if !self.may_have(*found) => {
                let reason = format!("belongs to {}, but this command takes {}", found.name(), self.name());
                Err(document.mistake(key, reason, found.advice(&path.display().to_string())).into())
            }
            _ => Ok(document),
        }
    }

    /// Scenarios have hubs and queues as well; one that lacks its name is reported as that.
    fn may_have(self, found: Self) -> bool {
        self == found || (self, found) == (Self::Scenario, Self::Namespace)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Scenario => "a scenario",
            Self::Pipeline => "a pipeline",
            Self::Namespace => "a namespace",
        }
    }

    fn advice(self, file: &str) -> String {
        match self {
            Self::Scenario => format!("measure it with `parshall run {file}`"),
            Self::Pipeline => format!("run it with `parshall relay {file}`"),
            Self::Namespace => format!("serve it with `parshall serve --config {file}`"),
        }
    }
}

/// Loads a scenario by its name or path.
///
/// # Errors
/// No scenario has this name, or the file is not a scenario.
pub(crate) fn scenario(name_or_path: &str) -> Result<Scenario, CommandError> {
    let path = Path::new(name_or_path);
    if path.is_file() && !Scenario::names().any(|name| name == name_or_path) {
        FileKind::Scenario.read(path)?;
    }
    Ok(Scenario::load(name_or_path)?)
}

/// Keys that only one kind of file has, those first that decide.
const MARKS: [(FileKind, &str); 8] = [
    (FileKind::Scenario, "scenario"),
    (FileKind::Pipeline, "source"),
    (FileKind::Pipeline, "sink"),
    (FileKind::Pipeline, "sinks"),
    (FileKind::Namespace, "hubs"),
    (FileKind::Namespace, "queues"),
    (FileKind::Namespace, "topics"),
    (FileKind::Namespace, "UserConfig"),
];
