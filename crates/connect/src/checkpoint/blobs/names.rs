//! The names of blobs.
//!
//! Five segments, and every SDK that splits a name counts on that. What would make more of them, or would be taken out of a
//! URL on its way, is escaped; real names of namespaces, hubs and groups have nothing of the kind and are kept as they are.

use std::fmt::Write as _;

use crate::checkpoint::ConsumerGroup;
use crate::event::PartitionId;

/// How the names of all blobs of a consumer group begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupNames {
    prefix: String,
}

/// What a blob is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Checkpoint,
    Ownership,
}

impl GroupNames {
    pub(super) fn as_given(group: &ConsumerGroup) -> Self {
        let mut prefix = String::new();
        for part in [&group.namespace, &group.hub, &group.name] {
            push_segment(&mut prefix, part);
            prefix.push('/');
        }
        Self { prefix }
    }

    pub(super) fn lower_case(&self) -> Self {
        Self { prefix: self.prefix.to_lowercase() }
    }

    /// Namespace, hub and group, with a slash at the end.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// What the blobs of one kind begin with: the rest is the partition.
    pub(super) fn of_kind(&self, kind: Kind) -> String {
        let kind = match kind {
            Kind::Checkpoint => "checkpoint",
            Kind::Ownership => "ownership",
        };
        format!("{}{kind}/", self.prefix)
    }

    pub(super) fn of_partition(&self, kind: Kind, partition: PartitionId) -> String {
        format!("{}{partition}", self.of_kind(kind))
    }
}

/// The partition that a checkpoint is of, if its name is one of this hub and group: in any namespace, and in any case of
/// letters.
pub(super) fn partition_of_checkpoint(name: &str, hub: &str, group: &str) -> Option<PartitionId> {
    let own = GroupNames::as_given(&ConsumerGroup::new("", hub, group)).of_kind(Kind::Checkpoint);
    let own: Vec<&str> = own.split('/').collect();
    let segments: Vec<&str> = name.split('/').collect();
    let ([_, own @ .., _], [_, segments @ .., partition]) = (&own[..], &segments[..]) else { return None };
    let is_own = own.len() == segments.len()
        && own.iter().zip(segments).all(|(own, segment)| own.eq_ignore_ascii_case(segment));
    is_own.then(|| partition.parse().ok().map(PartitionId))?
}

fn push_segment(name: &mut String, part: &str) {
    match part {
        // A service may take these for something else than names.
        "" => name.push('%'),
        "." => name.push_str("%2e"),
        ".." => name.push_str("%2e%2e"),
        _ => {
            for character in part.chars() {
                match character {
                    '/' | '\\' | '%' => {
                        write!(name, "%{:02x}", u32::from(character)).expect("a string takes everything");
                    }
                    _ => name.push(character),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_names_are_those_of_the_sdks() {
        let group = ConsumerGroup::new("My.servicebus.windows.net", "orders-1_a", "$Default");
        let names = GroupNames::as_given(&group);
        assert_eq!(
            names.of_partition(Kind::Ownership, PartitionId(31)),
            "My.servicebus.windows.net/orders-1_a/$Default/ownership/31"
        );
        assert_eq!(
            names.lower_case().of_partition(Kind::Checkpoint, PartitionId(0)),
            "my.servicebus.windows.net/orders-1_a/$default/checkpoint/0"
        );
    }

    #[test]
    fn there_are_always_five_segments_of_which_none_is_empty_or_dots() {
        for part in ["", ".", "..", "a/b", "a\\b", "%", "%2f"] {
            let group = ConsumerGroup::new(part, part, part);
            let name = GroupNames::as_given(&group).of_partition(Kind::Ownership, PartitionId(0));
            let segments: Vec<_> = name.split('/').collect();
            assert_eq!(segments.len(), 5, "{name}");
            assert!(!segments.iter().any(|it| matches!(*it, "" | "." | "..")), "{name}");
        }
    }
}
