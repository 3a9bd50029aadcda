//! Listings against a plain list of names.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{ListRequest, Listed};

/// What a listing of all pages must give.
fn expected(names: &BTreeSet<String>, prefix: &str, delimiter: Option<&str>) -> Vec<String> {
    let mut listed: Vec<String> = Vec::new();
    for name in names {
        let Some(rest) = name.strip_prefix(prefix) else {
            continue;
        };
        let cut = delimiter.and_then(|delimiter| Some(rest.find(delimiter)? + delimiter.len()));
        let entry = match cut {
            Some(cut) => format!("{prefix}{}*", &rest[..cut]),
            None => name.clone(),
        };
        if listed.last() != Some(&entry) {
            listed.push(entry);
        }
    }
    listed
}

proptest! {
    #[test]
    fn pages_together_are_the_whole_listing(
        names in proptest::collection::btree_set("[ab/\u{e4}]{1,4}", 0..12),
        prefix in "[ab/]{0,2}",
        delimiter in proptest::option::of("[/a]{1,2}"),
        maximum in 1_usize..4,
        maximum_bytes in 0_u64..12,
    ) {
        let store = BlobStore::in_memory(MEMORY, LIMITS);
        let container = store.create_container("box", Vec::new(), now()).unwrap();
        for name in &names {
            container.put(name, put(b""), now()).unwrap();
        }
        let mut listed = Vec::new();
        let mut from: Option<(String, crate::ListStart)> = None;
        loop {
            let listing = container.list(&ListRequest {
                prefix: &prefix,
                delimiter: delimiter.as_deref(),
                from: from.as_ref().map(|(name, start)| (name.as_str(), *start)),
                maximum,
                maximum_bytes,
                ..EVERYTHING
            });
            prop_assert!(listing.entries.len() <= maximum);
            // Each has a name of a byte or more.
            prop_assert!(listing.entries.len() as u64 <= maximum_bytes.max(1));
            listed.extend(listing.entries.into_iter().map(|entry| match entry {
                Listed::Blob { name, .. } => name,
                Listed::Uncommitted { name, .. } => format!("{name}?"),
                Listed::Prefix(prefix) => format!("{prefix}*"),
            }));
            match listing.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        prop_assert_eq!(listed, expected(&names, &prefix, delimiter.as_deref()));
    }
}
