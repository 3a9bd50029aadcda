//! A file between its text and its type.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::assignment::Assignment;
use crate::deserialize;
use crate::error::{MistakeKind, SettingsError};
use crate::node::{Content, Entry, Node};
use crate::parse::parse;
use crate::place::Place;
use crate::variables;

/// A file that was read, as a tree of values with their places.
#[derive(Clone, Debug)]
pub struct Document {
    root: Node,
}

impl Document {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The file cannot be read, is no YAML, or exceeds the limits of this crate.
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let unreadable = |cause| SettingsError::Unreadable { path: path.to_owned(), cause };
        let file = File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        // One byte more than is allowed, so that the parser notices the excess; an endless file ends here.
        file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            unreadable(std::io::Error::new(std::io::ErrorKind::InvalidData, error.utf8_error()))
        })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads `text`; messages call it `name`.
    ///
    /// # Errors
    /// The text is no YAML, or exceeds the limits of this crate.
    pub fn parse(name: &str, text: &str) -> Result<Self, SettingsError> {
        parse(&Place::whole(name, text)).map(|root| Self { root })
    }

    /// Applies `argument`, of the form `path=value`: sets the value at a dotted path. The value is YAML. Whether the
    /// path and the value make sense turns out in [`typed`](Self::typed), which then points into the argument.
    ///
    /// Returns the path.
    ///
    /// # Errors
    /// The argument has another form, or its value is no YAML.
    pub fn set(&mut self, argument: &str) -> Result<String, SettingsError> {
        let assignment = Assignment::read(argument)?;
        assignment.apply(&mut self.root);
        Ok(assignment.dotted_path())
    }

    /// Puts `value`, which may come from another part of the document, at a dotted path that is written at
    /// `path_place`.
    pub fn put(&mut self, path: &str, path_place: &Place, value: Node) {
        let path: Vec<(&str, Place)> = path.split('.').map(|name| (name, path_place.clone())).collect();
        self.root.put(&path, value);
    }

    /// Takes the value of a key at the top out of the document.
    pub fn take(&mut self, key: &str) -> Option<Node> {
        let Content::Mapping(entries) = &mut self.root.content else {
            return None;
        };
        let position = entries.iter().position(|entry| entry.key == key)?;
        Some(entries.remove(position).value)
    }

    /// Lays `section` on top of the document: mappings are merged key by key, everything else is replaced.
    pub fn overlay(&mut self, section: &Node) {
        self.root.overlay(section);
    }

    /// Fills in `${NAME}`, `${NAME:-default}` and `${NAME:?message}` in all text values; `lookup` knows the variables.
    ///
    /// # Errors
    /// A variable without value and default, or `${` that begins no variable.
    pub fn fill_in(&mut self, lookup: impl Fn(&str) -> Option<String>) -> Result<(), SettingsError> {
        variables::fill_in(&mut self.root, "", &lookup)
    }

    /// Fills in variables from the environment of the process.
    ///
    /// # Errors
    /// As [`fill_in`](Self::fill_in).
    pub fn fill_in_environment(&mut self) -> Result<(), SettingsError> {
        self.fill_in(|name| std::env::var(name).ok())
    }

    /// The document as a value of type `T`.
    ///
    /// # Errors
    /// An unknown or missing key, a value of another type, or one that `T` refuses.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, SettingsError> {
        deserialize::typed(&self.root)
    }

    /// The text that was read.
    #[must_use]
    pub fn text(&self) -> &str {
        self.root.place.source().inner()
    }

    /// The topmost value.
    #[must_use]
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The value at a dotted path, such as `sinks[1].event_hubs.hub`. Keys may contain dots.
    #[must_use]
    pub fn value(&self, path: &str) -> Option<&Node> {
        let (mut node, mut rest) = (&self.root, Some(path));
        while let Some(path) = rest {
            let step = Step::from(node, path)?;
            node = match step.index {
                Some(index) => step.entry.value.elements()?.get(index)?,
                None => &step.entry.value,
            };
            rest = step.rest;
        }
        Some(node)
    }

    /// A mistake in the value at a dotted path, for rules that concern several values or a range. It points at the
    /// value or, where the document leaves it to its default, at the nearest part that is there. `reason` says what
    /// is wrong, `advice` what to do.
    #[must_use]
    pub fn mistake(&self, path: &str, reason: impl Into<String>, advice: impl Into<String>) -> SettingsError {
        let mut place = self.root.place.part(0, 0);
        let (mut node, mut rest) = (Some(&self.root), Some(path));
        while let (Some(parent), Some(path)) = (node, rest) {
            let Some(Step { entry, index, rest: left }) = Step::from(parent, path) else {
                break;
            };
            place = if entry.value.is_scalar() { entry.value.place.clone() } else { entry.key_place.clone() };
            node = Some(&entry.value);
            if let Some(index) = index {
                node = entry.value.elements().and_then(|elements| elements.get(index));
                place = node.map_or(place, |element| element.place.first_line());
            }
            rest = left;
        }
        let kind = MistakeKind::Invalid { reason: reason.into(), advice: advice.into() };
        SettingsError::at(place, path, kind)
    }

    /// The same for a part, in bytes, of the text that is the value at a dotted path. It points at that part where the text is
    /// written as it is, and else at the value.
    #[must_use]
    pub fn mistake_within(
        &self,
        path: &str,
        (text, part): (&str, Range<usize>),
        reason: impl Into<String>,
        advice: impl Into<String>,
    ) -> SettingsError {
        let mut error = self.mistake(path, reason, advice);
        let node = self.value(path).filter(|node| !node.filled_in);
        if let SettingsError::Mistake(mistake) = &mut error
            && let Some(place) = node.and_then(|node| node.place.of_part(text, &part))
        {
            mistake.place = place;
        }
        error
    }
}

impl Node {
    /// A mistake in this value, which messages call `key`. `reason` says what is wrong, `advice` what to do.
    #[must_use]
    pub fn mistake(&self, key: &str, reason: impl Into<String>, advice: impl Into<String>) -> SettingsError {
        let kind = MistakeKind::Invalid { reason: reason.into(), advice: advice.into() };
        SettingsError::at(self.place.first_line(), key, kind)
    }
}

/// One step along a dotted path.
struct Step<'n, 'p> {
    entry: &'n Entry,
    /// The place in the list that it names.
    index: Option<usize>,
    /// The path from there.
    rest: Option<&'p str>,
}

impl<'n, 'p> Step<'n, 'p> {
    /// The first step from a mapping. Keys may have dots of their own, as the properties of Kafka's clients do.
    fn from(mapping: &'n Node, path: &'p str) -> Option<Self> {
        let mut ends = path.match_indices('.').map(|(end, _)| end).chain([path.len()]);
        ends.find_map(|end| {
            let (key, index) = split_index(&path[..end]);
            let entry = mapping.entries().iter().find(|entry| entry.key == key)?;
            Some(Self { entry, index, rest: path.get(end + 1..) })
        })
    }
}

/// A step of a path: a key, and the place in the list that it names.
fn split_index(step: &str) -> (&str, Option<usize>) {
    let indexed = step.strip_suffix(']').and_then(|step| step.split_once('['));
    match indexed.map(|(key, index)| (key, index.parse())) {
        Some((key, Ok(index))) => (key, Some(index)),
        _ => (step, None),
    }
}

/// As many bytes of a file as are read.
const MOST_BYTES: u64 = 1 << 20;
