//! MD5 (RFC 1321), which protocols have as a checksum of bodies. It protects against nothing else.

use md5::Digest as _;

/// The digest of some bytes.
pub type Md5 = [u8; 16];

/// Computes the digest of `bytes`.
#[must_use]
pub fn md5(bytes: &[u8]) -> Md5 {
    md5::Md5::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        md5(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_digests_of_the_standard_come_out() {
        assert_eq!(hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(
            hex(b"12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a"
        );
        // Around the end of a block, as another implementation has them.
        assert_eq!(hex(&[b'x'; 55]), "04364420e25c512fd958a70738aa8f72");
        assert_eq!(hex(&[b'x'; 56]), "668a72d5ba17f08e62dabcafad6db14b");
        assert_eq!(hex(&[b'x'; 64]), "c1bb4f81d892b2d57947682aeb252456");
    }
}
