//! The hash that Kafka's Java client uses for keys (`BuiltInPartitioner`, `Utils.murmur2`), and librdkafka as `murmur2_random`.
//!
//! It is Austin Appleby's MurmurHash2 (in the public domain) over the key's bytes with a fixed seed. Without its sign bit, the
//! remainder by the number of partitions is the partition.

/// The partition, below `partitions`, of a key; 0 where `partitions` is 0.
pub(super) fn partition_of(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & i32::MAX.cast_unsigned()).checked_rem(partitions).unwrap_or(0)
}

fn murmur2(bytes: &[u8]) -> u32 {
    // The algorithm counts in 32 bits; keys are at most 65,535 bytes long.
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> 24;
        hash = hash.wrapping_mul(MULTIPLIER) ^ word.wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let last = rest.iter().rev().fold(0, |last, &byte| last << 8 | u32::from(byte));
        hash = (hash ^ last).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

const SEED: u32 = 0x9747_b28c;

const MULTIPLIER: u32 = 0x5bd1_e995;

#[cfg(test)]
mod tests {
    use super::*;

    /// From the tests of Apache Kafka (`UtilsTest.testMurmur2`).
    #[test]
    fn hashes_are_those_of_the_java_client() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    #[test]
    fn a_key_has_a_partition_whatever_it_is() {
        for key in ["", "a", "ab", "abc", "abcd", "abcde"] {
            assert!(partition_of(key.as_bytes(), 7) < 7);
            assert_eq!(partition_of(key.as_bytes(), 0), 0);
        }
    }
}
