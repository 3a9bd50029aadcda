//! What names one delivery of one message.

use std::fmt;

/// The proof that a receiver holds a message: 16 bytes, another one for each delivery.
///
/// ```text
///  0                8                16
///  ├ sequence number ┼ nonce          ┤   big-endian, as a UUID is printed
/// ```
///
/// The number says where the message is, so that no table of tokens is needed; the nonce is a secret of this delivery,
/// and settling compares it with that of the message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockToken {
    /// The number of the message in its queue.
    pub sequence_number: u64,
    /// Differs from call to call of receiving, and can't be guessed.
    pub nonce: u64,
}

impl LockToken {
    /// The token that has these bytes, in the order in which a UUID is printed. Any bytes are some token.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let bits = u128::from_be_bytes(bytes);
        Self { sequence_number: (bits >> 64) as u64, nonce: bits as u64 }
    }

    /// Its bytes, in the order in which a UUID is printed.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.sequence_number) << 64 | u128::from(self.nonce)).to_be_bytes()
    }
}

impl fmt::Debug for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Whoever reads a log must not be able to settle.
        write!(f, "LockToken({})", self.sequence_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_from_its_bytes_and_prints_no_secret() {
        let token = LockToken { sequence_number: 0x0102_0304_0506_0708, nonce: 0x1112_1314_1516_1718 };
        let bytes = token.to_bytes();
        assert_eq!(bytes[..2], [1, 2]);
        assert_eq!(bytes[8..10], [0x11, 0x12]);
        assert_eq!(LockToken::from_bytes(bytes), token);
        assert_eq!(format!("{token:?}"), "LockToken(72623859790382856)");
    }
}
