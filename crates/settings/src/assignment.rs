//! `path=value`: what an argument sets.

use crate::error::{MistakeKind, SettingsError};
use crate::node::Node;
use crate::parse::parse;
use crate::place::Place;

/// An argument of `--set`, read.
#[derive(Debug)]
pub(crate) struct Assignment {
    /// The elements of the path, each with its place in the argument.
    pub(crate) path: Vec<(String, Place)>,
    /// The value, with its place in the argument.
    pub(crate) value: Node,
}

impl Assignment {
    /// Reads `argument`; the value is YAML.
    pub(crate) fn read(argument: &str) -> Result<Self, SettingsError> {
        let whole = Place::whole("--set", argument);
        let malformed = |place| SettingsError::at(place, "", MistakeKind::MalformedAssignment);
        let (path, value) = argument.split_once('=').ok_or_else(|| malformed(whole.clone()))?;
        let mut offset = 0;
        let mut elements = Vec::new();
        for element in path.split('.') {
            let place = whole.part(offset, element.len());
            offset += element.len() + 1;
            if element.trim().is_empty() {
                return Err(malformed(whole.part(0, path.len())));
            }
            elements.push((element.trim().to_owned(), place));
            if elements.len() > LONGEST_PATH {
                return Err(malformed(whole.part(0, path.len())));
            }
        }
        let value = parse(&whole.part(path.len() + 1, value.len()))?;
        Ok(Self { path: elements, value })
    }

    /// The path with its dots.
    pub(crate) fn dotted_path(&self) -> String {
        let names: Vec<&str> = self.path.iter().map(|(name, _)| name.as_str()).collect();
        names.join(".")
    }

    /// Puts the value into a document.
    pub(crate) fn apply(&self, root: &mut Node) {
        let path: Vec<(&str, Place)> =
            self.path.iter().map(|(name, place)| (name.as_str(), place.clone())).collect();
        root.put(&path, self.value.clone());
    }
}

/// Far deeper than any settings are.
const LONGEST_PATH: usize = 16;
