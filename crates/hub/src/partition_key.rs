//! Which partition a key belongs to.
//!
//! The clients that compute this themselves document it as the service's own function: Bob Jenkins' published
//! *lookup3* hash (`hashlittle2`) of the key's UTF-8 bytes with both seeds zero, folded to a signed 16-bit
//! number, whose remainder by the partition count, without its sign, is the partition.

/// The partition of `key` in a hub of `partition_count` partitions, which is not zero.
#[must_use]
pub fn partition_of(key: &str, partition_count: u16) -> u16 {
    let remainder = i32::from(folded(key.as_bytes())) % i32::from(partition_count);
    // The remainder's magnitude is below the count, which fits.
    remainder.unsigned_abs() as u16
}

/// The two halves of the hash folded together, low 16 bits, with sign.
fn folded(bytes: &[u8]) -> i16 {
    let (c, b) = lookup3(bytes);
    (c ^ b) as i16
}

/// `hashlittle2` with seeds zero: the words `c` and `b` of the final state.
fn lookup3(bytes: &[u8]) -> (u32, u32) {
    // The published function takes the length as a 32-bit number too.
    let initial = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let [mut a, mut b, mut c] = [initial; 3];
    let mut rest = bytes;
    // The last block, of 1 to 12 bytes, gets the final rounds instead of the mixing ones.
    while let Some((block, after)) = rest.split_first_chunk::<12>()
        && !after.is_empty()
    {
        let [x, y, z] = words(block);
        (a, b, c) = mix(a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z));
        rest = after;
    }
    if rest.is_empty() {
        return (c, b);
    }
    let mut last = [0; 12];
    last[..rest.len()].copy_from_slice(rest);
    let [x, y, z] = words(&last);
    finish(a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z))
}

fn words(block: &[u8; 12]) -> [u32; 3] {
    let [x0, x1, x2, x3, y0, y1, y2, y3, z0, z1, z2, z3] = *block;
    [[x0, x1, x2, x3], [y0, y1, y2, y3], [z0, z1, z2, z3]].map(u32::from_le_bytes)
}

/// The mixing rounds, rotations 4, 6, 8, 16, 19, 4.
fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    (a, b, c)
}

/// The final rounds, rotations 14, 11, 25, 16, 4, 14, 24.
fn finish(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32) {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    (c, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Key, folded hash, and the partition among 2, 4, 10 and 32, as two official clients compute them.
    const VECTORS: [(&str, i16, [u16; 4]); 12] = [
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
        (
            "00000000-0000-0000-0000-000000000000",
            -12344,
            [0, 0, 4, 24],
        ),
        ("日本語", -23353, [1, 1, 3, 25]),
    ];

    #[test]
    fn keys_land_where_the_official_clients_put_them() {
        for (key, hash, partitions) in VECTORS {
            assert_eq!(folded(key.as_bytes()), hash, "{key}");
            assert_eq!(
                [2, 4, 10, 32].map(|count| partition_of(key, count)),
                partitions,
                "{key}"
            );
        }
    }

    #[test]
    fn the_empty_key_belongs_to_the_first_partition() {
        assert_eq!(folded(b""), 0);
        assert_eq!(partition_of("", 7), 0);
    }

    proptest! {
        #[test]
        fn every_key_has_a_partition_that_exists(key: String, count in 1_u16..) {
            prop_assert!(partition_of(&key, count) < count);
        }
    }
}
