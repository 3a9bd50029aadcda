//! Which blobs a container has.

use std::ops::Bound;
use std::sync::Arc;
use std::time::SystemTime;

use super::{Blob, Container, Slot, SnapshotTime, read};
use crate::tags::{TagExpression, Tags};

/// What is to be listed.
#[derive(Clone, Copy, Debug)]
pub struct ListRequest<'a> {
    /// What names begin with.
    pub prefix: &'a str,
    /// What ends the part of a name that is listed once for all names that begin with it.
    pub delimiter: Option<&'a str>,
    /// The name to begin with, and of its snapshots the first one or the blob itself, from [`Listing::next`].
    pub from: Option<(&'a str, ListStart)>,
    /// The name before which the listing ends.
    pub before: Option<&'a str>,
    /// Whether snapshots are listed, each before its blob.
    pub with_snapshots: bool,
    /// Whether blobs are listed of which there are uncommitted blocks alone.
    pub with_uncommitted: bool,
    /// How many entries at most; at least 1.
    pub maximum: usize,
    /// About how many bytes of names, headers and metadata at most; one entry is listed in any case.
    pub maximum_bytes: u64,
}

/// Entries in the order of their names, byte by byte.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<Listed>,
    /// What the next listing begins with, if this is not all.
    pub next: Option<(String, ListStart)>,
}

/// The first entry of a name in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListStart {
    /// This snapshot, or the first one after it.
    Snapshot(SnapshotTime),
    /// The blob itself.
    Blob,
}

impl ListStart {
    /// All snapshots and the blob.
    pub const FIRST: Self = Self::Snapshot(SnapshotTime(0));
}

/// An entry.
#[derive(Clone, Debug)]
pub enum Listed {
    /// A blob, or a snapshot of one.
    Blob {
        /// Its name.
        name: String,
        /// The blob as it was.
        blob: Arc<Blob>,
    },
    /// A blob of which there are uncommitted blocks alone.
    Uncommitted {
        /// Its name.
        name: String,
        /// Time of the first of its blocks.
        since: SystemTime,
    },
    /// The beginning of the names of blobs, up to and with a delimiter.
    Prefix(String),
}

impl Container {
    /// Returns at most `maximum` blobs from a name on that an expression chooses, with the tags that it names.
    pub(crate) fn tagged(
        &self,
        from: &str,
        expression: &TagExpression,
        maximum: usize,
    ) -> Vec<(String, Tags)> {
        let slots = read(&self.slots);
        let from = slots.range::<str, _>((Bound::Included(from), Bound::Unbounded));
        from.filter_map(|(name, slot)| {
            let blob = slot.blob()?;
            let tags = &blob.description().tags;
            let is_chosen = !tags.is_empty() && expression.matches(&self.name, tags);
            is_chosen.then(|| (name.clone(), expression.named(tags)))
        })
        .take(maximum)
        .collect()
    }

    /// Lists blobs.
    #[must_use]
    pub fn list(&self, request: &ListRequest<'_>) -> Listing {
        let slots = read(&self.slots);
        let start = match request.from {
            Some((from, _)) if from > request.prefix => from,
            _ => request.prefix,
        };
        let mut listing = Listing::default();
        let mut from = Bound::Included(start.to_owned());
        let mut bytes = 0;
        // Each round ends where names begin that one entry stands for.
        'rounds: loop {
            for (name, slot) in slots.range::<str, _>((from.as_ref().map(String::as_str), Bound::Unbounded)) {
                let Some(rest) = name.strip_prefix(request.prefix) else {
                    break 'rounds;
                };
                if request.before.is_some_and(|before| name.as_str() >= before) {
                    break 'rounds;
                }
                let first = request
                    .from
                    .filter(|(from, _)| from == name)
                    .map_or(ListStart::FIRST, |(_, first)| first);
                let common = request
                    .delimiter
                    .filter(|delimiter| !delimiter.is_empty())
                    .and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
                let is_full = |listing: &Listing, bytes: u64| {
                    let is_full = listing.entries.len() >= request.maximum || bytes >= request.maximum_bytes;
                    is_full && !listing.entries.is_empty()
                };
                for (start, entry) in entries_of(name, slot, request, first) {
                    if is_full(&listing, bytes) {
                        listing.next = Some((name.clone(), start));
                        break 'rounds;
                    }
                    bytes += name.len() as u64;
                    let Some(length) = common else {
                        if let Listed::Blob { blob, .. } = &entry {
                            bytes += blob.description().bytes();
                        }
                        listing.entries.push(entry);
                        continue;
                    };
                    let common = &name[..request.prefix.len() + length];
                    listing.entries.push(Listed::Prefix(common.to_owned()));
                    match after_all_with(common) {
                        Some(next) => from = Bound::Included(next),
                        None => break 'rounds,
                    }
                    continue 'rounds;
                }
            }
            break;
        }
        listing
    }
}

/// The entries of one name: its snapshots, if they are asked for, and the blob.
fn entries_of(
    name: &str,
    slot: &Slot,
    request: &ListRequest<'_>,
    first: ListStart,
) -> Vec<(ListStart, Listed)> {
    let mut entries = Vec::new();
    if let ListStart::Snapshot(first) = first
        && request.with_snapshots
    {
        let snapshots = read(&slot.snapshots);
        entries.extend(snapshots.range(first..).map(|(time, blob)| {
            let blob = Arc::clone(blob);
            (ListStart::Snapshot(*time), Listed::Blob { name: name.to_owned(), blob })
        }));
    }
    let staged_at = slot.staged_at().filter(|_| request.with_uncommitted);
    let itself = match (slot.blob(), staged_at) {
        (Some(blob), _) => Some(Listed::Blob { name: name.to_owned(), blob }),
        (None, Some(since)) => Some(Listed::Uncommitted { name: name.to_owned(), since }),
        (None, None) => None,
    };
    entries.extend(itself.map(|entry| (ListStart::Blob, entry)));
    entries
}

/// The first text after all those that begin with `prefix`; `None` if there is none.
fn after_all_with(prefix: &str) -> Option<String> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let next = match last {
            // Between the two there are no characters.
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_text_after_a_prefix_is_the_first_that_does_not_begin_with_it() {
        assert_eq!(after_all_with("a/").as_deref(), Some("a0"));
        assert_eq!(after_all_with("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(after_all_with("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(after_all_with("\u{10ffff}"), None);
        assert_eq!(after_all_with(""), None);
    }

    proptest! {
        #[test]
        fn it_parts_those_that_begin_with_it_from_those_after(prefix in "\\PC{1,4}", other in "\\PC{0,6}") {
            if let Some(after) = after_all_with(&prefix) {
                let is_before = other < after && other >= prefix;
                prop_assert_eq!(is_before, other.starts_with(&prefix));
            }
        }
    }
}
