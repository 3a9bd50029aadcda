//! The CRC-64 that the protocol has as a checksum of bodies: reflected, polynomial 0x9A6C9329AC4BC9B5, all ones before and
//! after.

/// A checksum of bytes that come one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc64(u64);

/// The checksum of `bytes`.
#[must_use]
pub fn crc64(bytes: &[u8]) -> u64 {
    let mut checksum = Crc64::default();
    checksum.update(bytes);
    checksum.value()
}

impl Default for Crc64 {
    fn default() -> Self {
        Self(!0)
    }
}

impl Crc64 {
    /// Adds bytes at the end.
    pub fn update(&mut self, bytes: &[u8]) {
        let mut crc = self.0;
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            let mixed = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
            crc = TABLES.iter().rev().zip(mixed).fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)]);
        }
        for byte in rest {
            let [low, ..] = (crc ^ u64::from(*byte)).to_le_bytes();
            crc = TABLES[0][usize::from(low)] ^ (crc >> 8);
        }
        self.0 = crc;
    }

    /// The checksum of all bytes so far.
    #[must_use]
    pub const fn value(self) -> u64 {
        !self.0
    }
}

/// `TABLES[n]` has what a byte makes of the remainder when `n` more bytes follow it: eight bytes are done at a time.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = tables[0][(before & 0xff) as usize] ^ before >> 8;
            byte += 1;
        }
        table += 1;
    }
    tables
}

const POLYNOMIAL: u64 = 0x9A6C_9329_AC4B_C9B5;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn checksums_are_those_of_the_official_clients() {
        // Computed with azure-storage-extensions 0.1.0.
        let counted: Vec<u8> = (0..5).flat_map(|_| 0..=255).collect();
        for (bytes, expected) in [
            (&b""[..], 0),
            (b"\0", 0xd5da_5047_efec_8728),
            (b"123456789", 0xae8b_1486_0a79_9888),
            (b"Hello World!", 0x02e5_1cc8_5efc_e1a5),
            (&counted, 0x20b2_e6d2_0677_d312),
        ] {
            assert_eq!(crc64(bytes), expected, "{} bytes", bytes.len());
        }
    }

    proptest! {
        #[test]
        fn the_parts_that_bytes_come_in_make_no_difference(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            cut in any::<proptest::sample::Index>(),
        ) {
            let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
            let mut checksum = Crc64::default();
            checksum.update(first);
            checksum.update(second);
            prop_assert_eq!(checksum.value(), crc64(&bytes));
        }
    }
}
