//! What the members of a group of consumers tell each other through the broker, which does not look into it: the subscription of a
//! member in JoinGroup, and the part that the leader gives it in SyncGroup. Versions 0 to 3 of both.
//!
//! Whatever a newer version has more stands behind what is known here, and is passed over.

use super::by_topic;
use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// What a member wants, and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// The topics that it wants.
    pub topics: Vec<&'a str>,
    /// What the way of assignment says more.
    pub user_data: Option<&'a [u8]>,
    /// Topics with the numbers of partitions that it has, since version 1. Those of one topic stand together.
    pub owned: Vec<(&'a str, i32)>,
    /// The generation in which it got them, since version 2; -1 if that is not known.
    pub generation: i32,
    /// Where it runs, since version 3.
    pub rack_id: Option<&'a str>,
}

/// What a member is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment<'a> {
    /// Topics with the numbers of partitions. Those of one topic stand together.
    pub partitions: Vec<(&'a str, i32)>,
    /// What the way of assignment says more.
    pub user_data: Option<&'a [u8]>,
}

impl<'a> Subscription<'a> {
    /// A member that wants these topics and has nothing.
    #[must_use]
    pub const fn to(topics: Vec<&'a str>) -> Self {
        Self { topics, user_data: None, owned: Vec::new(), generation: -1, rack_id: None }
    }

    /// Reads the metadata of a member.
    pub fn read(metadata: &'a [u8]) -> Result<Self, Malformed> {
        let (mut reader, version) = begin(metadata)?;
        let mut topics = Vec::new();
        for _ in 0..reader.array_length("topics")? {
            topics.push(reader.string("topic")?);
        }
        let user_data = reader.nullable_bytes("user data")?;
        let owned = if version >= 1 { partitions(&mut reader)? } else { Vec::new() };
        let generation = if version >= 2 { reader.i32("generation")? } else { -1 };
        let rack_id = if version >= 3 { reader.nullable_string("rack")? } else { None };
        Ok(Self { topics, user_data, owned, generation, rack_id })
    }

    /// Appends it in `version`, for those who can't read a newer one: since 1 they learn what it has, since 2 since when, and since 3
    /// where it runs.
    pub fn encode(&self, out: Vec<u8>, version: i16) -> Vec<u8> {
        let mut writer = Writer::new(out, false);
        writer.i16(version);
        writer.array_length(self.topics.len());
        self.topics.iter().for_each(|topic| writer.string(topic));
        writer.nullable_bytes(self.user_data);
        if version >= 1 {
            write_partitions(&mut writer, &self.owned);
        }
        if version >= 2 {
            writer.i32(self.generation);
        }
        if version >= 3 {
            writer.nullable_string(self.rack_id);
        }
        writer.finish()
    }
}

impl<'a> Assignment<'a> {
    /// Reads the part of a member. One that the leader has forgotten has no bytes, and no partitions.
    pub fn read(assignment: &'a [u8]) -> Result<Self, Malformed> {
        if assignment.is_empty() {
            return Ok(Self::default());
        }
        let (mut reader, _version) = begin(assignment)?;
        Ok(Self { partitions: partitions(&mut reader)?, user_data: reader.nullable_bytes("user data")? })
    }

    /// Appends it in `version`; it is the same in all.
    pub fn encode(&self, out: Vec<u8>, version: i16) -> Vec<u8> {
        let mut writer = Writer::new(out, false);
        writer.i16(version);
        write_partitions(&mut writer, &self.partitions);
        writer.nullable_bytes(self.user_data);
        writer.finish()
    }
}

fn begin(bytes: &[u8]) -> Result<(Reader<'_>, i16), Malformed> {
    const WHAT: &str = "version of the consumer protocol";
    let mut reader = Reader::new(bytes, false);
    match reader.i16(WHAT)? {
        ..0 => Err(Malformed(WHAT)),
        version => Ok((reader, version)),
    }
}

fn partitions<'a>(reader: &mut Reader<'a>) -> Result<Vec<(&'a str, i32)>, Malformed> {
    by_topic::read(reader, |reader, topic| Ok((topic, reader.i32("partition")?)))
}

fn write_partitions(writer: &mut Writer, partitions: &[(&str, i32)]) {
    by_topic::write(writer, partitions, |first| first.0, |writer, (_, index)| writer.i32(*index));
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition as AssignedPartitions;
    use kafka_protocol::messages::consumer_protocol_subscription::TopicPartition as OwnedPartitions;
    use kafka_protocol::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicName};
    use kafka_protocol::protocol::{Decodable as _, Encodable, StrBytes};

    use super::*;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    /// As the other implementation writes it, behind the version.
    fn encoded(version: i16, message: &impl Encodable) -> Vec<u8> {
        let mut bytes = BytesMut::from(&version.to_be_bytes()[..]);
        message.encode(&mut bytes, version).unwrap();
        bytes.to_vec()
    }

    #[test]
    fn subscriptions_are_read_and_written_as_by_another_implementation_in_every_version() {
        for version in 0..=3 {
            let mut reference = ConsumerProtocolSubscription::default()
                .with_topics(vec![text("orders"), text("payments")])
                .with_user_data(Some(Bytes::from_static(b"more")));
            let mut expected =
                Subscription { user_data: Some(b"more"), ..Subscription::to(vec!["orders", "payments"]) };
            if version >= 1 {
                let owned = OwnedPartitions::default()
                    .with_topic(TopicName(text("orders")))
                    .with_partitions(vec![0, 7]);
                reference = reference.with_owned_partitions(vec![owned]);
                expected.owned = vec![("orders", 0), ("orders", 7)];
            }
            if version >= 2 {
                reference = reference.with_generation_id(4);
                expected.generation = 4;
            }
            if version >= 3 {
                reference = reference.with_rack_id(Some(text("rack")));
                expected.rack_id = Some("rack");
            }
            let bytes = encoded(version, &reference);
            assert_eq!(Subscription::read(&bytes), Ok(expected.clone()));
            assert_eq!(expected.encode(Vec::new(), version), bytes);
            for length in 0..bytes.len() {
                assert!(Subscription::read(&bytes[..length]).is_err(), "{length} bytes of version {version}");
            }
        }
    }

    #[test]
    fn assignments_are_read_and_written_as_by_another_implementation_in_every_version() {
        let expected = Assignment { partitions: vec![("orders", 0), ("orders", 7)], user_data: None };
        for version in 0..=3 {
            let bytes = expected.encode(Vec::new(), version);
            let reference =
                ConsumerProtocolAssignment::decode(&mut Bytes::copy_from_slice(&bytes[2..]), version)
                    .unwrap();
            let assigned = AssignedPartitions::default()
                .with_topic(TopicName(text("orders")))
                .with_partitions(vec![0, 7]);
            assert_eq!(reference.assigned_partitions, [assigned]);
            assert_eq!(encoded(version, &reference), bytes);
            assert_eq!(Assignment::read(&bytes), Ok(expected.clone()));
            for length in 1..bytes.len() {
                assert!(Assignment::read(&bytes[..length]).is_err(), "{length} bytes of version {version}");
            }
        }
        assert_eq!(Assignment::read(&[]), Ok(Assignment::default()));
    }

    #[test]
    fn what_a_newer_version_has_more_is_passed_over_and_no_version_is_negative() {
        let subscription = Subscription::to(vec!["orders"]);
        let mut bytes = subscription.encode(Vec::new(), 3);
        bytes[1] = 9;
        bytes.extend_from_slice(b"more");
        assert_eq!(Subscription::read(&bytes), Ok(subscription));
        bytes[0] = 0x80;
        assert_eq!(Subscription::read(&bytes), Err(Malformed("version of the consumer protocol")));
        assert_eq!(Assignment::read(&bytes), Err(Malformed("version of the consumer protocol")));
    }
}
