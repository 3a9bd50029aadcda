//! The hash that the official SDKs use for partition keys, so that a key goes to the partition that they would choose.
//!
//! It is Bob Jenkins's lookup3 (`hashlittle2`, in the public domain) over the key's bytes with both seeds zero. Its two
//! halves are folded to 16 bits, taken as a signed number; the remainder by the number of partitions, without its sign,
//! is the partition. The service picks by it, and so does a relay that routes by key: both call this one.

/// The partition, below `partitions`, of a key; 0 where `partitions` is 0.
pub(super) fn partition_of(key: &[u8], partitions: u32) -> u32 {
    let remainder = i64::from(folded(key)).checked_rem(i64::from(partitions)).unwrap_or(0);
    // At most 2^15 in size.
    remainder.unsigned_abs() as u32
}

/// The two halves of the hash folded together, low 16 bits, with sign.
fn folded(key: &[u8]) -> i16 {
    let (primary, secondary) = hash_pair(key, 0, 0);
    (primary ^ secondary) as i16
}

/// Both results of `hashlittle2`: the better mixed one first.
fn hash_pair(bytes: &[u8], primary_seed: u32, secondary_seed: u32) -> (u32, u32) {
    // The algorithm counts in 32 bits; keys are at most 65,535 bytes long.
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32).wrapping_add(primary_seed);
    let (mut a, mut b, mut c) = (start, start, start.wrapping_add(secondary_seed));
    let mut rest = bytes;
    while rest.len() > 12 {
        let (block, after) = rest.split_at(12);
        a = a.wrapping_add(word(&block[..4]));
        b = b.wrapping_add(word(&block[4..8]));
        c = c.wrapping_add(word(&block[8..]));
        (a, b, c) = mix(a, b, c);
        rest = after;
    }
    if rest.is_empty() {
        return (c, b);
    }
    let mut block = [0; 12];
    block[..rest.len()].copy_from_slice(rest);
    a = a.wrapping_add(word(&block[..4]));
    b = b.wrapping_add(word(&block[4..8]));
    c = c.wrapping_add(word(&block[8..]));
    finish(a, b, c)
}

/// Mixes one block of twelve bytes; reversible.
fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    let round = |first: &mut u32, second: &mut u32, third: &mut u32, rotation| {
        *first = first.wrapping_sub(*third) ^ third.rotate_left(rotation);
        *third = third.wrapping_add(*second);
    };
    round(&mut a, &mut b, &mut c, 4);
    round(&mut b, &mut c, &mut a, 6);
    round(&mut c, &mut a, &mut b, 8);
    round(&mut a, &mut b, &mut c, 16);
    round(&mut b, &mut c, &mut a, 19);
    round(&mut c, &mut a, &mut b, 4);
    (a, b, c)
}

/// Mixes the last block so that every bit of it counts in every bit of the result.
fn finish(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32) {
    let round = |first: &mut u32, second: u32, rotation| {
        *first = (*first ^ second).wrapping_sub(second.rotate_left(rotation));
    };
    round(&mut c, b, 14);
    round(&mut a, c, 11);
    round(&mut b, a, 25);
    round(&mut c, b, 16);
    round(&mut a, c, 4);
    round(&mut b, a, 14);
    round(&mut c, b, 24);
    (c, b)
}

/// A little-endian word.
fn word(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Key, folded hash, and the partition among 2, 4, 10 and 32, as two official clients compute them.
    const VECTORS: [(&str, i16, [u32; 4]); 12] = [
        ("a", -16220, [0, 0, 0, 28]),
        ("ab", 2093, [1, 1, 3, 13]),
        ("abc", -14161, [1, 1, 1, 17]),
        ("7", -15263, [1, 3, 3, 31]),
        ("alphabet", -23478, [0, 2, 8, 22]),
        ("é", -24812, [0, 0, 2, 12]),
        ("131", 30562, [0, 2, 2, 2]),
        ("key-1", -9446, [0, 2, 6, 6]),
        ("abcdefghijkl", -2373, [1, 1, 3, 5]),
        ("abcdefghijklm", -31855, [1, 3, 5, 15]),
        ("00000000-0000-0000-0000-000000000000", -12344, [0, 0, 4, 24]),
        ("日本語", -23353, [1, 1, 3, 25]),
    ];

    #[test]
    fn keys_land_where_the_official_clients_put_them() {
        for (key, hash, partitions) in VECTORS {
            assert_eq!(folded(key.as_bytes()), hash, "{key}");
            assert_eq!([2, 4, 10, 32].map(|count| partition_of(key.as_bytes(), count)), partitions, "{key}");
        }
    }

    #[test]
    fn the_empty_key_belongs_to_the_first_partition() {
        assert_eq!(folded(b""), 0);
        assert_eq!(partition_of(b"", 7), 0);
    }

    #[test]
    fn the_hash_is_lookup3() {
        // The results that the author prints in the self test of his published source.
        let phrase = b"Four score and seven years ago";
        assert_eq!(hash_pair(b"", 0, 0), (0xdead_beef, 0xdead_beef));
        assert_eq!(hash_pair(b"", 0, 0xdead_beef), (0xbd5b_7dde, 0xdead_beef));
        assert_eq!(hash_pair(b"", 0xdead_beef, 0xdead_beef), (0x9c09_3ccd, 0xbd5b_7dde));
        assert_eq!(hash_pair(phrase, 0, 0), (0x1777_0551, 0xce72_26e6));
        assert_eq!(hash_pair(phrase, 0, 1), (0xe360_7cae, 0xbd37_1de4));
        assert_eq!(hash_pair(phrase, 1, 0), (0xcd62_8161, 0x6cbe_a4b3));
    }

    #[test]
    fn keys_spread_over_all_partitions() {
        let mut counts = [0_u32; 32];
        for number in 0..32_000 {
            counts[partition_of(format!("device-{number}").as_bytes(), 32) as usize] += 1;
        }
        // The remainder of a signed number favours none but partition 0, and that by one value in 2^15.
        assert!(counts.iter().all(|count| count.abs_diff(1_000) < 200), "{counts:?}");
    }

    proptest! {
        #[test]
        fn a_key_of_any_length_has_a_partition(key: Vec<u8>, partitions in 1_u32..5_000) {
            prop_assert!(partition_of(&key, partitions) < partitions);
        }
    }
}
