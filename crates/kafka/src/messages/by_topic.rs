//! Partitions as messages name them: in one array for each topic. Here they are one list, in which those of a topic stand together.

use crate::read::{Malformed, Reader};
use crate::write::Writer;

/// Reads topics with their partitions. `each` reads a partition of the topic that it is given.
pub(super) fn read<'a, T>(
    reader: &mut Reader<'a>,
    mut each: impl FnMut(&mut Reader<'a>, &'a str) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let mut partitions = Vec::new();
    for _ in 0..reader.array_length("topics")? {
        let topic = reader.string("topic")?;
        for _ in 0..reader.array_length("partitions")? {
            partitions.push(each(reader, topic)?);
        }
        reader.skip_tagged_fields("topic")?;
    }
    Ok(partitions)
}

/// Writes topics with their partitions. `topic` is the topic of a partition, and `each` writes what there is to say of it.
pub(super) fn write<T>(
    writer: &mut Writer,
    partitions: &[T],
    topic: impl Fn(&T) -> &str,
    mut each: impl FnMut(&mut Writer, &T),
) {
    let topics = || partitions.chunk_by(|a, b| topic(a) == topic(b));
    writer.array_length(topics().count());
    for partitions in topics() {
        writer.string(partitions.first().map_or("", &topic));
        writer.array_length(partitions.len());
        for partition in partitions {
            each(writer, partition);
        }
        writer.tagged_fields_end();
    }
}
