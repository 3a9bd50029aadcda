//! What the metadata of a blob says.
//!
//! The SDKs read `sequencenumber` and `offset` of a checkpoint and some fail where one is not there, so both always are. Of a
//! partition of which nothing has been read yet they say −1, from where an SDK begins with the first event; a third entry
//! tells us that it is no place at all. An offset that can't be the value of a header, which no service has given yet, stands
//! escaped in an entry of its own. The id of the log, which the SDKs know nothing of, is another one.

use std::collections::HashMap;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::container::ListedBlob;
use crate::checkpoint::{Checkpoint, ConsumerGroup, Ownership};
use crate::event::PartitionId;

/// Names and values, as they are sent.
pub(super) type Metadata = HashMap<String, String>;

pub(super) fn of_checkpoint(checkpoint: &Checkpoint) -> Metadata {
    let mut metadata = Metadata::with_capacity(3);
    let mut set = |name: &str, value: String| metadata.insert(name.to_owned(), value);
    let number = checkpoint.sequence_number.map(|number| number.to_string());
    match (number, checkpoint.offset.clone()) {
        (None, None) => {
            set(SEQUENCE_NUMBER, BEFORE_THE_FIRST.to_owned());
            set(OFFSET, BEFORE_THE_FIRST.to_owned());
            set(UNREAD, "true".to_owned());
        }
        (number, offset) => {
            let offset = offset.unwrap_or_default();
            if !is_header_value(&offset) {
                set(ESCAPED_OFFSET, utf8_percent_encode(&offset, UNFIT).to_string());
            }
            set(SEQUENCE_NUMBER, number.unwrap_or_default());
            set(OFFSET, Some(offset).filter(|offset| is_header_value(offset)).unwrap_or_default());
        }
    }
    if let Some(log_id) = &checkpoint.log_id {
        set(LOG_ID, utf8_percent_encode(log_id, UNFIT).to_string());
    }
    metadata
}

pub(super) fn to_checkpoint(group: ConsumerGroup, partition: PartitionId, blob: ListedBlob) -> Checkpoint {
    let value = |name| value(&blob.metadata, name);
    let unread = value(UNREAD).is_some();
    let offset = match value(ESCAPED_OFFSET) {
        Some(escaped) => percent_decode_str(escaped).decode_utf8().ok().map(Into::into),
        None => value(OFFSET).map(str::to_owned),
    };
    Checkpoint {
        group,
        partition,
        sequence_number: sequence_number(&blob.metadata),
        offset: offset.filter(|_| !unread),
        log_id: value(LOG_ID).map(|escaped| percent_decode_str(escaped).decode_utf8_lossy().into_owned()),
        etag: Some(blob.etag),
    }
}

/// Marks one writing of a checkpoint. The SDKs write their own without a mark, and pass over ours.
pub(super) fn mark(metadata: &mut Metadata, mark: String) {
    metadata.insert(WRITING.to_owned(), mark);
}

/// The mark of the last writing, if it has one.
pub(super) fn mark_of(metadata: &Metadata) -> Option<&str> {
    value(metadata, WRITING)
}

/// The last event that is done.
pub(super) fn sequence_number(metadata: &Metadata) -> Option<i64> {
    let is_unread = value(metadata, UNREAD).is_some();
    value(metadata, SEQUENCE_NUMBER).filter(|_| !is_unread)?.parse().ok()
}

pub(super) fn of_ownership(ownership: &Ownership) -> Metadata {
    let escaped = |identity: &str| utf8_percent_encode(identity, UNFIT).to_string();
    let mut metadata = Metadata::from([(OWNER_ID.to_owned(), escaped(&ownership.owner_id))]);
    if ownership.yields {
        metadata.insert(YIELDS.to_owned(), "true".to_owned());
    }
    if let Some(identity) = &ownership.asked_by {
        metadata.insert(ASKED_BY.to_owned(), escaped(identity));
    }
    metadata
}

pub(super) fn to_ownership(group: ConsumerGroup, partition: PartitionId, blob: ListedBlob) -> Ownership {
    let identity = |escaped: &str| percent_decode_str(escaped).decode_utf8_lossy().into_owned();
    Ownership {
        group,
        partition,
        owner_id: entry(&blob.metadata, OWNER_ID).map(identity).unwrap_or_default(),
        yields: value(&blob.metadata, YIELDS).is_some_and(|yields| yields == "true"),
        asked_by: value(&blob.metadata, ASKED_BY).map(identity),
        etag: Some(blob.etag),
        last_modified: blob.last_modified,
    }
}

/// Services keep the case in which a name was written first, or don't.
fn entry<'a>(metadata: &'a Metadata, wanted: &str) -> Option<&'a str> {
    metadata.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.as_str())
}

fn value<'a>(metadata: &'a Metadata, wanted: &str) -> Option<&'a str> {
    entry(metadata, wanted).filter(|value| !value.is_empty())
}

/// Whether a text comes back as it was when it is sent as the value of a header.
fn is_header_value(text: &str) -> bool {
    text.trim() == text && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

const SEQUENCE_NUMBER: &str = "sequencenumber";
const OFFSET: &str = "offset";
const OWNER_ID: &str = "ownerid";
/// `true` in the claims of relays, which give a partition back when they are asked to.
const YIELDS: &str = "yields";
const ASKED_BY: &str = "askedby";
const UNREAD: &str = "unread";
const ESCAPED_OFFSET: &str = "escapedoffset";
const WRITING: &str = "writing";
const LOG_ID: &str = "logid";

/// What the SDKs take for the start of a partition, as offset and as sequence number.
const BEFORE_THE_FIRST: &str = "-1";

/// What can't be in the value of a header, and what escapes it. Spaces as well, which are lost at the ends.
const UNFIT: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::ETag;

    fn checkpoint(sequence_number: Option<i64>, offset: Option<&str>) -> Checkpoint {
        Checkpoint {
            group: ConsumerGroup::new("namespace", "hub", "group"),
            partition: PartitionId(3),
            sequence_number,
            offset: offset.map(str::to_owned),
            log_id: None,
            etag: Some(ETag("0x1".to_owned())),
        }
    }

    fn blob(metadata: Metadata) -> ListedBlob {
        ListedBlob { name: String::new(), etag: ETag("0x1".to_owned()), last_modified: None, metadata }
    }

    #[test]
    fn a_checkpoint_reads_as_it_was_written() {
        for checkpoint in [
            checkpoint(Some(5), Some("4711")),
            checkpoint(Some(-1), Some("-1")),
            checkpoint(None, None),
            checkpoint(Some(5), None),
            checkpoint(None, Some("9:1:2")),
            checkpoint(Some(1), Some("a%20line\nand ü ")),
            Checkpoint { log_id: Some("Wm7x_l2-QY".to_owned()), ..checkpoint(Some(5), None) },
        ] {
            let metadata = of_checkpoint(&checkpoint);
            assert!(metadata.contains_key("offset") && metadata.contains_key("sequencenumber"));
            assert!(metadata.values().all(|value| is_header_value(value)));
            let group = checkpoint.group.clone();
            assert_eq!(to_checkpoint(group, PartitionId(3), blob(metadata)), checkpoint);
        }
    }

    #[test]
    fn a_claim_reads_as_it_was_written() {
        let group = ConsumerGroup::new("namespace", "hub", "group");
        for (owner_id, yields, asked_by) in
            [("me", true, None), ("", false, None), ("a ü%", true, Some("another one")), ("sdk", false, None)]
        {
            let claim = Ownership {
                group: group.clone(),
                partition: PartitionId(3),
                owner_id: owner_id.to_owned(),
                etag: Some(ETag("0x1".to_owned())),
                last_modified: None,
                yields,
                asked_by: asked_by.map(str::to_owned),
            };
            let metadata = of_ownership(&claim);
            assert!(metadata.values().all(|value| is_header_value(value)));
            assert_eq!(to_ownership(group.clone(), PartitionId(3), blob(metadata)), claim);
        }
    }

    #[test]
    fn what_an_sdk_writes_is_read() {
        let metadata = [("SequenceNumber", "77"), ("Offset", "1300")];
        let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let group = ConsumerGroup::new("namespace", "hub", "group");
        let read = to_checkpoint(group, PartitionId(3), blob(metadata.into()));
        assert_eq!((read.sequence_number, read.offset.as_deref()), (Some(77), Some("1300")));
    }

    #[test]
    fn what_makes_no_sense_is_no_place() {
        let metadata = [("sequencenumber", "many"), ("offset", "")];
        let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let group = ConsumerGroup::new("namespace", "hub", "group");
        let read = to_checkpoint(group, PartitionId(3), blob(metadata.into()));
        assert_eq!((read.sequence_number, read.offset), (None, None));
    }
}
