//! Where in which text something stands.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{NamedSource, SourceSpan};

use crate::secrets::masked;

/// A stretch of a named text: a file, or the argument of an option. Cheap to clone.
#[derive(Clone)]
pub struct Place {
    source: Arc<Source>,
    /// In bytes.
    offset: usize,
    /// In bytes.
    length: usize,
}

/// A text, and what of it people see.
struct Source {
    text: String,
    /// The text without its secrets; as long, byte for byte.
    shown: NamedSource<String>,
}

impl Place {
    /// The whole of a text.
    pub(crate) fn whole(name: &str, text: &str) -> Self {
        let shown = NamedSource::new(name, masked(text));
        let source = Arc::new(Source { text: text.to_owned(), shown });
        Self { source, offset: 0, length: text.len() }
    }

    /// A part of the text that begins `offset` bytes after this place does; cut where the text ends.
    pub(crate) fn part(&self, offset: usize, length: usize) -> Self {
        let text = &self.source.text;
        let start = self.offset.saturating_add(offset);
        let end = start.saturating_add(length);
        let offset = floor_char_boundary(text, start);
        let end = floor_char_boundary(text, end).max(offset);
        Self { source: Arc::clone(&self.source), offset, length: end - offset }
    }

    /// The part of this place where `needle` first stands, or all of it.
    pub(crate) fn find(&self, needle: &str) -> Self {
        match self.text().find(needle) {
            Some(found) => self.part(found, needle.len()),
            None => self.clone(),
        }
    }

    /// Where a part of `text` stands, which is the value that is written here: nowhere if it is written otherwise, as with escapes.
    pub(crate) fn of_part(&self, text: &str, part: &Range<usize>) -> Option<Self> {
        let start = text.get(..part.start)?.rfind('\n').map_or(0, |end| end + 1);
        let line = text.get(start..)?.lines().next()?;
        // Lines of one value may be indented.
        let written = line.trim_start();
        let indent = line.len() - written.len();
        let at = self.text().find(written).filter(|_| !written.is_empty())?;
        Some(self.part(at + (part.start - start).saturating_sub(indent), part.len().min(written.len())))
    }

    /// The name of the text: a path, or the option that it was an argument of.
    #[must_use]
    pub fn name(&self) -> &str {
        self.source.shown.name()
    }

    /// The text that stands at this place.
    #[must_use]
    pub fn text(&self) -> &str {
        self.source.text.get(self.offset..self.offset + self.length).unwrap_or_default()
    }

    /// The line, counted from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.before().bytes().filter(|byte| *byte == b'\n').count() + 1
    }

    /// The column in characters, counted from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.before().chars().rev().take_while(|character| *character != '\n').count() + 1
    }

    /// This place without the lines after its first.
    pub(crate) fn first_line(&self) -> Self {
        let length = self.text().lines().next().map_or(0, |line| line.trim_end().len());
        Self { source: Arc::clone(&self.source), offset: self.offset, length }
    }

    /// What is shown of the text: all but its secrets.
    pub(crate) fn source(&self) -> &NamedSource<String> {
        &self.source.shown
    }

    pub(crate) fn span(&self) -> SourceSpan {
        (self.offset, self.length).into()
    }

    fn before(&self) -> &str {
        self.source.text.get(..self.offset).unwrap_or_default()
    }
}

impl fmt::Display for Place {
    /// `file:line:column`, as editors and terminals understand it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.name(), self.line(), self.column())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The nearest character boundary at or before `offset`.
fn floor_char_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_in_characters() {
        let whole = Place::whole("file.yaml", "ä: 1\nö: ü x\n");
        let place = whole.find("x");
        assert_eq!((place.line(), place.column(), place.text()), (2, 6, "x"));
        assert_eq!(place.to_string(), "file.yaml:2:6");
    }

    #[test]
    fn parts_beyond_the_text_or_within_a_character_are_cut() {
        let whole = Place::whole("file.yaml", "ä");
        assert_eq!(whole.part(1, 1).text(), "ä");
        assert_eq!(whole.part(0, 1).text(), "");
        assert_eq!(whole.part(10, 10).text(), "");
        assert_eq!(whole.part(0, usize::MAX).text(), "ä");
    }
}
