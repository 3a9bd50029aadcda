//! The file beside a segment file that spares reading the segment at the start.
//!
//! ```text
//!  offset 0          4          8         12        16        24         32        40         48         56            72
//!         ├──────────┼──────────┼─────────┼─────────┼─────────┼──────────┼─────────┼──────────┼──────────┼─────────────┤
//!         │ "PSIX"   │ checksum │ version │ 0       │ length  │ first    │ next    │ first    │ last     │ boot id     │
//!         │          │ crc-32c  │ u32     │         │ u64     │ sequence │ sequence│ append   │ append   │ 16 bytes    │
//!         │          │          │         │         │ bytes   │ number   │ number  │ time, ms │ time, ms │             │
//! ```
//!
//! The version is 1. It is 2 where producers were known at the end of the segment: what was known of them follows. It is 3 where
//! transactions were open then, or were aborted in the segment:
//!
//! ```text
//!  72 ├─ bytes of the producers, u32, 0 if none are known ─┬─ producers ─┬─ transactions ─┤
//! ```
//!
//! It is 4 where the greatest timestamp of the records is not the last append time, as with most records of Kafka:
//!
//! ```text
//!  72 ├─ greatest timestamp, ms ─┬─ bytes of the producers, u32 ─┬─ producers ─┬─ transactions, if any matter ─┤
//! ```
//!
//! Numbers are little-endian; the checksum covers everything after itself. It is written when its segment is complete, so a segment
//! without one is the last, or lost its sidecar, and is scanned. A sidecar states that its segment was synced (boot
//! id all zero), or that it was handed to the operating system that booted with this id: that is worth as much
//! until the system goes down, and nothing afterwards.
//!
//! There is no index of places in it: a segment that is loaded is checked batch by batch, which finds all of them.

use crate::UnixTime;
use crate::knowledge::Knowledge;
use crate::producers::ProducerSnapshot;
use crate::transactions::TransactionSnapshot;

/// What a sidecar says of its segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// Bytes of batches; the length of the file.
    pub length: u64,
    /// The number of the first record.
    pub first_sequence_number: u64,
    /// The number after that of the last record; the same, if there is no record.
    pub next_sequence_number: u64,
    /// The append time of the first batch.
    pub first_append_time: UnixTime,
    /// The append time of the last batch; of the last one before the segment, if it has none.
    pub last_append_time: UnixTime,
    /// The greatest timestamp of the records, for readers that know records by the timestamps of their producers. Sidecars of older
    /// versions don't have it. It is the last append time then, which hardly any timestamp exceeds.
    pub latest_timestamp: UnixTime,
    /// How far the segment can be relied on.
    pub assurance: Assurance,
    /// What was known at its end.
    pub(crate) known: Knowledge,
}

/// Where a segment was when its sidecar was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assurance {
    /// On the device.
    Synced,
    /// With the operating system.
    Written(BootId),
}

/// One run of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BootId([u8; 16]);

/// Why bytes are not a sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SidecarError {
    /// Not as long as every sidecar, or not beginning like one.
    #[error("this is not a sidecar of a segment")]
    Form,
    /// The bytes are not those that were written.
    #[error("the checksum does not match")]
    Checksum,
    /// A version of another program.
    #[error("sidecars of version {version} are not supported")]
    Version {
        /// What it says.
        version: u32,
    },
    /// The checksum matches, yet no segment is like that.
    #[error("the fields contradict each other")]
    Fields,
}

impl Sidecar {
    /// The most bytes that a sidecar has.
    pub(super) const MAXIMUM_LENGTH: usize =
        HEAD_LENGTH + 8 + 4 + ProducerSnapshot::MAXIMUM_LENGTH + TransactionSnapshot::MAXIMUM_LENGTH;

    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_LENGTH];
        let version = match self.known {
            _ if self.has_timestamp() => VERSION_WITH_TIMESTAMP,
            Knowledge { transactions: Some(_), .. } => VERSION_WITH_TRANSACTIONS,
            Knowledge { producers: Some(_), .. } => VERSION_WITH_PRODUCERS,
            Knowledge { .. } => VERSION,
        };
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &MAGIC);
        put(8, &version.to_le_bytes());
        put(16, &self.length.to_le_bytes());
        put(24, &self.first_sequence_number.to_le_bytes());
        put(32, &self.next_sequence_number.to_le_bytes());
        put(40, &self.first_append_time.milliseconds().to_le_bytes());
        put(48, &self.last_append_time.milliseconds().to_le_bytes());
        match self.assurance {
            Assurance::Synced => {}
            Assurance::Written(BootId(id)) => put(56, &id),
        }
        let producers = self.known.producers.as_ref().map(ProducerSnapshot::bytes).unwrap_or_default();
        if version == VERSION_WITH_TIMESTAMP {
            bytes.extend_from_slice(&self.latest_timestamp.milliseconds().to_le_bytes());
        }
        if version >= VERSION_WITH_TRANSACTIONS {
            bytes.extend_from_slice(&(producers.len() as u32).to_le_bytes());
        }
        bytes.extend_from_slice(producers);
        if let Some(transactions) = &self.known.transactions {
            bytes.extend_from_slice(transactions.bytes());
        }
        let checksum = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the bytes of a file.
    pub fn decode(bytes: &[u8]) -> Result<Self, SidecarError> {
        let head: &[u8; 16] = bytes.first_chunk().ok_or(SidecarError::Form)?;
        if head[..4] != MAGIC {
            return Err(SidecarError::Form);
        }
        // All versions have magic, checksum and version in the same place, so that an older program knows a newer file.
        if crc32c::crc32c(&bytes[8..]).to_le_bytes() != head[4..8] {
            return Err(SidecarError::Checksum);
        }
        let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if !(VERSION..=VERSION_WITH_TIMESTAMP).contains(&version) {
            return Err(SidecarError::Version { version });
        }
        let (bytes, rest) = bytes.split_first_chunk::<HEAD_LENGTH>().ok_or(SidecarError::Form)?;
        let mut timestamp = None;
        let known = match version {
            VERSION if rest.is_empty() => Knowledge::default(),
            VERSION => return Err(SidecarError::Form),
            VERSION_WITH_PRODUCERS => {
                let producers = ProducerSnapshot::from_bytes(rest).ok_or(SidecarError::Fields)?;
                Knowledge { producers: Some(producers), transactions: None }
            }
            VERSION_WITH_TRANSACTIONS => known_with_transactions(rest)
                .filter(|known| known.transactions.is_some())
                .ok_or(SidecarError::Fields)?,
            _ => {
                let (milliseconds, rest) = rest.split_first_chunk().ok_or(SidecarError::Fields)?;
                timestamp = Some(UnixTime::from_milliseconds(i64::from_le_bytes(*milliseconds)));
                known_with_transactions(rest).ok_or(SidecarError::Fields)?
            }
        };
        let number = |at: usize| {
            let mut part = [0; 8];
            part.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(part)
        };
        let time = |at| UnixTime::from_milliseconds(number(at).cast_signed());
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[56..]);
        let sidecar = Self {
            length: number(16),
            first_sequence_number: number(24),
            next_sequence_number: number(32),
            first_append_time: time(40),
            last_append_time: time(48),
            latest_timestamp: timestamp.unwrap_or_else(|| time(48)),
            assurance: BootId::from_bytes(id).map_or(Assurance::Synced, Assurance::Written),
            known,
        };
        let is_plausible = sidecar.is_plausible() && sidecar.has_timestamp() == timestamp.is_some();
        match is_plausible && bytes[12..16] == [0; 4] {
            true => Ok(sidecar),
            false => Err(SidecarError::Fields),
        }
    }

    /// How many records the segment has.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.next_sequence_number.saturating_sub(self.first_sequence_number)
    }

    /// Whether it says what the greatest timestamp is.
    pub(super) fn has_timestamp(&self) -> bool {
        self.latest_timestamp != self.last_append_time
    }

    fn is_plausible(&self) -> bool {
        // Every record takes at least a byte.
        self.first_sequence_number <= self.next_sequence_number
            && self.records() <= self.length
            && (self.records() == 0) == (self.length == 0)
            && self.first_append_time <= self.last_append_time
    }
}

impl BootId {
    /// The run that these bytes name. All zero is none.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Reads 32 hexadecimal digits, whatever stands between them.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut id = 0_u128;
        let mut digits = 0;
        for digit in text.chars().filter_map(|character| character.to_digit(16)) {
            id = (id << 4) | u128::from(digit);
            digits += 1;
        }
        match digits {
            32 => Self::from_bytes(id.to_be_bytes()),
            _ => None,
        }
    }
}

/// Reads the last part of the newest versions: producers and transactions, either of which may be missing.
fn known_with_transactions(bytes: &[u8]) -> Option<Knowledge> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (producers, transactions) = rest.split_at_checked(length)?;
    let producers = match length {
        0 => None,
        _ => Some(ProducerSnapshot::from_bytes(producers)?),
    };
    let transactions = match transactions {
        [] => None,
        bytes => Some(TransactionSnapshot::from_bytes(bytes)?),
    };
    Some(Knowledge { producers, transactions })
}

/// Decodes `bytes` and asserts what must hold for any bytes at all. For fuzzing; unit tests call it as well.
///
/// # Panics
/// If an invariant of decoding does not hold.
pub fn check_any_bytes(bytes: &[u8]) {
    if let Ok(sidecar) = Sidecar::decode(bytes) {
        assert_eq!(sidecar.encode(), bytes, "there is one form for a sidecar");
        assert!(sidecar.records() <= sidecar.length);
    }
}

const MAGIC: [u8; 4] = *b"PSIX";
const VERSION: u32 = 1;
const VERSION_WITH_PRODUCERS: u32 = 2;
const VERSION_WITH_TRANSACTIONS: u32 = 3;
const VERSION_WITH_TIMESTAMP: u32 = 4;

/// Bytes of a sidecar without producers.
const HEAD_LENGTH: usize = 72;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::producers::{ProducerStamp, Producers};
    use crate::transactions::Transactions;
    use crate::{TransactionEnd, TransactionMarker};
    use proptest::prelude::*;

    fn sidecar() -> Sidecar {
        Sidecar {
            length: 45,
            first_sequence_number: 7,
            next_sequence_number: 9,
            first_append_time: UnixTime::from_milliseconds(1000),
            last_append_time: UnixTime::from_milliseconds(1001),
            latest_timestamp: UnixTime::from_milliseconds(1001),
            assurance: Assurance::Synced,
            known: Knowledge::default(),
        }
    }

    fn with_timestamp(sidecar: Sidecar) -> Sidecar {
        Sidecar { latest_timestamp: UnixTime::from_milliseconds(-5), ..sidecar }
    }

    fn with_producers() -> Sidecar {
        let mut producers = Producers::default();
        let time = UnixTime::from_milliseconds(1001);
        producers.record(&ProducerStamp::new(9, 1, 0).unwrap(), 2, 7, time);
        let known = Knowledge { producers: producers.snapshot(), transactions: None };
        Sidecar { known, ..sidecar() }
    }

    fn with_transactions() -> Sidecar {
        let mut transactions = Transactions::default();
        let time = UnixTime::from_milliseconds(1001);
        for (id, first) in [(9, 3), (10, 4)] {
            transactions.record(&ProducerStamp::new(id, 1, 0).unwrap(), first, time);
        }
        let end = TransactionEnd::Abort;
        let marker = TransactionMarker { producer_id: 10, producer_epoch: 1, end, coordinator_epoch: 0 };
        transactions.end(&marker, 8);
        let known = Knowledge { transactions: transactions.snapshot(7), ..with_producers().known };
        Sidecar { known, ..sidecar() }
    }

    fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
        let checksum = crc32c::crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    #[test]
    fn the_stored_form_is_the_drawn_one() {
        let bytes = sidecar().encode();
        assert_eq!(&bytes[..4], b"PSIX");
        assert_eq!(bytes[8..16], [1, 0, 0, 0, 0, 0, 0, 0]);
        let fields: Vec<u64> =
            bytes[16..56].chunks(8).map(|part| u64::from_le_bytes(part.try_into().unwrap())).collect();
        assert_eq!(fields, [45, 7, 9, 1000, 1001]);
        assert_eq!(bytes[56..], [0; 16]);
        assert_eq!(Sidecar::decode(&bytes), Ok(sidecar()));
    }

    #[test]
    fn the_run_of_the_system_is_kept() {
        let boot = BootId::parse("01020304-0506-0708-090a-0b0c0d0e0f10\n").unwrap();
        assert_eq!(boot.0, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        let written = Sidecar { assurance: Assurance::Written(boot), ..sidecar() };
        assert_eq!(Sidecar::decode(&written.encode()), Ok(written));
        for text in ["", "0102", "00000000-0000-0000-0000-000000000000"] {
            assert_eq!(BootId::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn damage_is_found_at_any_bit_and_any_length() {
        let all = [sidecar(), with_producers(), with_transactions(), with_timestamp(with_transactions())];
        for sidecar in all {
            let bytes = sidecar.encode();
            for length in 0..bytes.len() {
                assert!(Sidecar::decode(&bytes[..length]).is_err(), "cut at {length}");
            }
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(Sidecar::decode(&flipped).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn producers_are_kept_behind_the_fields() {
        let bytes = with_producers().encode();
        assert_eq!(bytes[8..16], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..HEAD_LENGTH], sidecar().encode()[16..]);
        assert_eq!(Sidecar::decode(&bytes), Ok(with_producers()));
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(Sidecar::decode(&with_checksum(longer)), Err(SidecarError::Fields));
        let mut none = sidecar().encode();
        none[8] = 2;
        assert_eq!(Sidecar::decode(&with_checksum(none)), Err(SidecarError::Fields));
    }

    #[test]
    fn transactions_are_kept_behind_the_producers() {
        let bytes = with_transactions().encode();
        assert_eq!(bytes[8..16], [3, 0, 0, 0, 0, 0, 0, 0]);
        let producers = &with_producers().encode()[HEAD_LENGTH..];
        assert_eq!(bytes[HEAD_LENGTH..HEAD_LENGTH + 4], (producers.len() as u32).to_le_bytes());
        assert_eq!(&bytes[HEAD_LENGTH + 4..][..producers.len()], producers);
        let transactions = &bytes[HEAD_LENGTH + 4 + producers.len()..];
        assert_eq!(transactions.len(), 8 + 2 * 32);
        assert_eq!(Sidecar::decode(&bytes), Ok(with_transactions()));

        let mut alone = with_transactions();
        alone.known.producers = None;
        let bytes = alone.encode();
        assert_eq!(bytes[HEAD_LENGTH..HEAD_LENGTH + 4], [0; 4]);
        assert_eq!(&bytes[HEAD_LENGTH + 4..], transactions);
        assert_eq!(Sidecar::decode(&bytes), Ok(alone));

        for at in [HEAD_LENGTH, HEAD_LENGTH + 4, HEAD_LENGTH + 8] {
            let mut wrong = bytes.clone();
            wrong[at] ^= 4;
            assert_eq!(Sidecar::decode(&with_checksum(wrong)), Err(SidecarError::Fields), "byte {at}");
        }
    }

    #[test]
    fn the_timestamp_is_kept_before_the_producers() {
        for sidecar in [sidecar(), with_producers(), with_transactions()].map(with_timestamp) {
            let bytes = sidecar.encode();
            assert_eq!(bytes[8..16], [4, 0, 0, 0, 0, 0, 0, 0]);
            assert_eq!(bytes[HEAD_LENGTH..HEAD_LENGTH + 8], (-5_i64).to_le_bytes());
            assert_eq!(Sidecar::decode(&bytes).as_ref(), Ok(&sidecar));

            let mut redundant = bytes;
            redundant[HEAD_LENGTH..HEAD_LENGTH + 8].copy_from_slice(&1001_i64.to_le_bytes());
            assert_eq!(Sidecar::decode(&with_checksum(redundant)), Err(SidecarError::Fields));
        }
    }

    #[test]
    fn a_newer_version_is_distinguished_from_damage_whatever_its_length() {
        for length in [16, 72, 100] {
            let mut bytes = sidecar().encode();
            bytes.resize(length, 0);
            bytes[8] = 5;
            assert_eq!(Sidecar::decode(&with_checksum(bytes)), Err(SidecarError::Version { version: 5 }));
        }
    }

    #[test]
    fn fields_that_no_segment_has_are_refused() {
        let edits: [fn(&mut Sidecar); 5] = [
            |sidecar| sidecar.next_sequence_number = 6,
            |sidecar| sidecar.next_sequence_number = 7,
            |sidecar| sidecar.next_sequence_number = 53,
            |sidecar| sidecar.length = 0,
            |sidecar| sidecar.last_append_time = UnixTime::from_milliseconds(999),
        ];
        for edit in edits {
            let mut wrong = sidecar();
            edit(&mut wrong);
            assert_eq!(Sidecar::decode(&wrong.encode()), Err(SidecarError::Fields));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_decoded(bytes in proptest::collection::vec(any::<u8>(), 8..100), magic: bool) {
            let mut bytes = with_checksum(bytes);
            if magic {
                bytes[..4].copy_from_slice(b"PSIX");
            }
            check_any_bytes(&bytes);
        }

        #[test]
        fn any_fields_under_a_right_checksum_can_be_decoded(fields in proptest::collection::vec(0_u64..4, 7)) {
            let mut bytes = b"PSIX\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
            fields.iter().for_each(|field| bytes.extend_from_slice(&field.to_le_bytes()));
            check_any_bytes(&with_checksum(bytes));
        }
    }
}
