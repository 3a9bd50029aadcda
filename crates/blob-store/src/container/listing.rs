//! Which blobs a container has.

use std::ops::Bound;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Blob, Container, read};
use crate::tags::{TagExpression, Tags};

/// What is to be listed.
#[derive(Clone, Copy, Debug)]
pub struct ListRequest<'a> {
    /// What names begin with.
    pub prefix: &'a str,
    /// What ends the part of a name that is listed once for all names that begin with it.
    pub delimiter: Option<&'a str>,
    /// The name to begin with, from [`Listing::next`].
    pub from: Option<&'a str>,
    /// The name before which the listing ends.
    pub before: Option<&'a str>,
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
    pub next: Option<String>,
}

/// An entry.
#[derive(Clone, Debug)]
pub enum Listed {
    /// A blob.
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
    /// Returns at most `maximum` blobs from a name on that an expression chooses, with their tags.
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
            is_chosen.then(|| (name.clone(), tags.clone()))
        })
        .take(maximum)
        .collect()
    }

    /// Lists blobs.
    #[must_use]
    pub fn list(&self, request: &ListRequest<'_>) -> Listing {
        let slots = read(&self.slots);
        let start = match request.from {
            Some(from) if from > request.prefix => from,
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
                let blob = slot.blob();
                let staged_at = slot.staged_at().filter(|_| request.with_uncommitted);
                if blob.is_none() && staged_at.is_none() {
                    continue;
                }
                let is_full = listing.entries.len() >= request.maximum || bytes >= request.maximum_bytes;
                if is_full && !listing.entries.is_empty() {
                    listing.next = Some(name.clone());
                    break 'rounds;
                }
                let common = request
                    .delimiter
                    .filter(|delimiter| !delimiter.is_empty())
                    .and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
                bytes += name.len() as u64;
                let Some(length) = common else {
                    let name = name.clone();
                    listing.entries.push(match (blob, staged_at) {
                        (Some(blob), _) => {
                            bytes += blob.description().bytes();
                            Listed::Blob { name, blob }
                        }
                        (None, since) => Listed::Uncommitted { name, since: since.unwrap_or(UNIX_EPOCH) },
                    });
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
            break;
        }
        listing
    }
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
