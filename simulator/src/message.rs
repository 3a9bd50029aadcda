//! The bytes of an event: they say where it was appended and which one it is, and everything else follows from that.

use units::mix;

/// The message of an event: where it was appended, its identity, and bytes that follow from both.
pub(crate) fn message(seed: u64, partition: u32, id: u64, largest: usize) -> Vec<u8> {
    let bits = mix(seed, u64::from(partition), id);
    let filler = largest.saturating_sub(HEADER) as u64 + 1;
    let length = (bits % filler) as usize;
    let mut message = Vec::with_capacity(HEADER + length);
    message.extend(partition.to_be_bytes());
    message.extend(id.to_be_bytes());
    message.extend(bits.to_be_bytes().iter().cycle().take(length));
    message
}

/// Partition and identity of a message.
pub(crate) fn parse(message: &[u8]) -> Option<(u32, u64)> {
    let (partition, rest) = message.split_first_chunk()?;
    let (id, _) = rest.split_first_chunk()?;
    Some((u32::from_be_bytes(*partition), u64::from_be_bytes(*id)))
}

/// Partition and identity.
const HEADER: usize = 12;
