//! The CRC-64 that the protocol has as a checksum of bodies: reflected, polynomial 0x9A6C9329AC4BC9B5, all ones before and
//! after.

use crc_fast::{CrcAlgorithm, Digest};

/// A checksum of bytes that come one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Crc64(Digest);

/// The checksum of `bytes`.
#[must_use]
pub fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

impl Default for Crc64 {
    fn default() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc64Nvme))
    }
}

impl Crc64 {
    /// Adds bytes at the end.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0.finalize()
    }
}

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
