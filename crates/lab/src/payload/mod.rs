//! What an event of the lab carries, in as little as 12 bytes.
//!
//! ```text
//!  0    1      3          7               12         16          24
//!  ├────┼──────┼──────────┼───────────────┼──────────┼───────────┼───────── ─ ─
//!  │run │stream│ sequence │ intended time │ CRC-32C  │ sent time │ filler
//!  │ u8 │ u16  │   u32    │ u40, µs       │ u32      │ u64, µs   │ seeded bytes
//!  ├────┴──────┴──────────┴───────────────┼──────────┼───────────┼───────── ─ ─
//!  │ every payload                        │ from 16  │ from 24 bytes on
//! ```
//!
//! Latency counts from the intended time, which every payload has. The instant at which the event
//! really left, for the uncorrected figure beside it, fits only into payloads of 24 bytes or more;
//! smaller ones and replayed ones have no uncorrected end-to-end latency. (For loads without a
//! schedule the two instants are the same.)
//!
//! All numbers are big-endian. The checksum covers everything but itself, so that every flipped bit
//! of a payload of 16 bytes or more is found. A payload of 12 to 15 bytes has no room for one: there
//! the bytes after the header are filler, and corruption shows only as an impossible header.
//!
//! A payload replayed from a file ([`Replay`]) is left exactly as it is in the file, because the
//! consumer under test should see real data. Its header travels beside it, as the binary application
//! property [`HEADER_PROPERTY`] of [`Header::DETACHED_LENGTH`] bytes: the 12 bytes of the header, then
//! the CRC-32C of header and payload together. So does that of a [`Person`], and of `null`. Where a property is text, as over HTTP,
//! it is these bytes in hexadecimal digits after a letter ([`Header::text_of_detached`]).

mod person;
mod replay;

pub use person::{PERSON_LENGTH, Person};
pub use replay::{LongestLine, Replay, ReplayError};

use units::Random;

use crate::clock::RunTime;

/// The name of the application property that carries the header of a replayed payload.
pub const HEADER_PROPERTY: &str = "parshall";

/// Who an event is: run, stream, sequence, and the instant at which it was meant to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Tells the events of this run from what an earlier one left behind.
    pub run: u8,
    /// The stream of the load that the event belongs to.
    pub stream: u16,
    /// Its position in the stream, from 0, without gaps.
    pub sequence: u32,
    /// When the plan wanted it sent.
    pub intended: RunTime,
}

impl Header {
    /// Bytes of an encoded header, and so of the shortest payload.
    pub const LENGTH: usize = 12;

    /// Bytes of a header that travels beside its payload: the header, then a CRC-32C.
    pub const DETACHED_LENGTH: usize = 16;

    /// Bytes of the same as text.
    pub const TEXT_LENGTH: usize = 1 + 2 * Self::DETACHED_LENGTH;

    /// The header of a payload.
    ///
    /// # Errors
    /// [`Corrupted`] when the payload is too short for a header or fails its checksum.
    #[inline]
    pub fn parse(payload: &[u8]) -> Result<Self, Corrupted> {
        let Some((head, rest)) = payload.split_first_chunk::<{ Self::LENGTH }>() else {
            return Err(Corrupted::TooShort { length: payload.len() });
        };
        if let Some((checksum, filler)) = rest.split_first_chunk::<CHECKSUM_LENGTH>()
            && u32::from_be_bytes(*checksum) != checksum_of(head, filler)
        {
            return Err(Corrupted::Checksum);
        }
        Ok(Self::decode(head))
    }

    /// The header of a payload that carries none itself, from the value of its
    /// [`HEADER_PROPERTY`].
    ///
    /// # Errors
    /// [`Corrupted`] when the property has another length than [`Self::DETACHED_LENGTH`] and is no text of it, or its
    /// checksum over header and payload does not hold.
    pub fn parse_detached(property: &[u8], payload: &[u8]) -> Result<Self, Corrupted> {
        let of_text = detached_of_text(property);
        let property = of_text.as_ref().map_or(property, |bytes| &bytes[..]);
        let (Some((head, checksum)), Self::DETACHED_LENGTH) =
            (property.split_first_chunk::<{ Self::LENGTH }>(), property.len())
        else {
            return Err(Corrupted::TooShort { length: property.len() });
        };
        if checksum != checksum_of(head, payload).to_be_bytes() {
            return Err(Corrupted::Checksum);
        }
        Ok(Self::decode(head))
    }

    /// The value of [`HEADER_PROPERTY`] for a payload that is sent as it is.
    #[must_use]
    pub fn to_detached(self, payload: &[u8]) -> [u8; Self::DETACHED_LENGTH] {
        let head = self.to_bytes();
        let mut property = [0; Self::DETACHED_LENGTH];
        property[..Self::LENGTH].copy_from_slice(&head);
        property[Self::LENGTH..].copy_from_slice(&checksum_of(&head, payload).to_be_bytes());
        property
    }

    /// The same where properties are text.
    #[must_use]
    pub fn text_of_detached(property: &[u8; Self::DETACHED_LENGTH]) -> [u8; Self::TEXT_LENGTH] {
        let mut text = [TEXT_MARK; Self::TEXT_LENGTH];
        for (pair, byte) in text[1..].chunks_exact_mut(2).zip(property) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        text
    }

    /// The twelve bytes of the header.
    #[inline]
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        // 96 bits in the order of the drawing, so that the compiler can store them in two moves.
        let packed = u128::from(self.run) << 88
            | u128::from(self.stream) << 72
            | u128::from(self.sequence) << 40
            | u128::from(self.intended.as_micros());
        let mut bytes = [0; Self::LENGTH];
        bytes.copy_from_slice(&packed.to_be_bytes()[4..]);
        bytes
    }

    #[inline]
    fn decode(bytes: &[u8; Self::LENGTH]) -> Self {
        let mut wide = [0; 16];
        wide[4..].copy_from_slice(bytes);
        let packed = u128::from_be_bytes(wide);
        Self {
            run: (packed >> 88) as u8,
            stream: (packed >> 72) as u16,
            sequence: (packed >> 40) as u32,
            intended: RunTime::from_micros(packed as u64 & RunTime::LATEST.as_micros()),
        }
    }
}

/// Why a payload has no header that could be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Corrupted {
    /// There are fewer bytes than a header has.
    #[error("{length} bytes are too few for a header")]
    TooShort {
        /// How many bytes there were.
        length: usize,
    },
    /// The message around it is broken.
    #[error("the message has no payload")]
    NoPayload,
    /// A replayed payload has no header beside it.
    #[error("the message has no application property `{HEADER_PROPERTY}`")]
    NoProperty,
    /// The checksum does not match the bytes.
    #[error("the checksum does not match the payload")]
    Checksum,
}

impl Corrupted {
    /// Whether the header is missing, rather than changed.
    #[must_use]
    pub const fn lacks_header(self) -> bool {
        match self {
            Self::TooShort { .. } | Self::NoPayload | Self::NoProperty => true,
            Self::Checksum => false,
        }
    }
}

/// The bytes behind a [text](Header::text_of_detached), if it is one.
fn detached_of_text(text: &[u8]) -> Option<[u8; Header::DETACHED_LENGTH]> {
    let digits = text.strip_prefix(&[TEXT_MARK]).filter(|_| text.len() == Header::TEXT_LENGTH)?;
    let digit = |byte: u8| DIGITS.iter().position(|digit| *digit == byte);
    let mut bytes = [0; Header::DETACHED_LENGTH];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(bytes)
}

/// Writes payloads of one length: header, checksum, seeded filler.
///
/// The filler of an event is a window into one block of seeded bytes, at a place that depends on
/// stream and sequence: a copy, not a computation, and no two neighbours are equal.
#[derive(Debug, Clone)]
pub struct PayloadWriter {
    length: usize,
    filler: Box<[u8]>,
}

impl PayloadWriter {
    /// A writer of payloads of `length` bytes, with the filler of `seed`.
    ///
    /// # Errors
    /// [`ImpossibleLength`] below [`Header::LENGTH`] or above [`MAXIMUM_LENGTH`].
    pub fn new(length: usize, seed: u64) -> Result<Self, ImpossibleLength> {
        if !(Header::LENGTH..=MAXIMUM_LENGTH).contains(&length) {
            return Err(ImpossibleLength { length });
        }
        let mut filler = vec![0; length + FILLER_POSITIONS].into_boxed_slice();
        Random::from_seed(seed).fill(&mut filler);
        Ok(Self { length, filler })
    }

    /// The length of every payload.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Writes the payload of the event that leaves at `sent`. `payload` has exactly
    /// [`Self::length`] bytes.
    ///
    /// # Panics
    /// When `payload` has another length: the caller sized it by [`Self::length`].
    #[inline]
    pub fn write(&self, header: Header, sent: RunTime, payload: &mut [u8]) {
        assert_eq!(payload.len(), self.length, "sized by the writer's length");
        let head = header.to_bytes();
        payload[..Header::LENGTH].copy_from_slice(&head);
        // An odd factor walks through all positions before it repeats one.
        let position = (header.sequence as usize)
            .wrapping_mul(2_654_435_761)
            .wrapping_add(usize::from(header.stream) * 97)
            % FILLER_POSITIONS;
        let Some((checksum, rest)) = payload[Header::LENGTH..].split_first_chunk_mut::<CHECKSUM_LENGTH>()
        else {
            let rest = &mut payload[Header::LENGTH..];
            rest.copy_from_slice(&self.filler[position..position + rest.len()]);
            return;
        };
        rest.copy_from_slice(&self.filler[position..position + rest.len()]);
        if let Some(field) = rest.first_chunk_mut() {
            *field = sent.as_micros().to_be_bytes();
        }
        *checksum = checksum_of(&head, rest).to_be_bytes();
    }
}

/// A payload length that no event can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a payload of {length} bytes is impossible: {} to {MAXIMUM_LENGTH} bytes are allowed",
    Header::LENGTH
)]
pub struct ImpossibleLength {
    /// The length that was asked for.
    pub length: usize,
}

/// Bytes at an address from which the checksum goes eight at a time.
#[repr(align(8))]
struct Aligned([u8; Header::LENGTH]);

/// When the event of a payload whose checksum holds really left; `None` where it has no room for it.
#[inline]
#[must_use]
pub fn sent_time(payload: &[u8]) -> Option<RunTime> {
    let field = payload.get(SENT_TIME_POSITION..)?.first_chunk()?;
    Some(RunTime::from_micros(u64::from_be_bytes(*field)))
}

#[inline]
fn checksum_of(head: &[u8; Header::LENGTH], rest: &[u8]) -> u32 {
    let of_head = crc32c::crc32c(&Aligned(*head).0);
    // The shortest checksummed payload ends here, and a second call would cost as much as the first.
    if rest.is_empty() {
        return of_head;
    }
    crc32c::crc32c_append(of_head, rest)
}

/// A payload that was never set, as a serialiser of JSON writes it.
pub const NOTHING: &[u8] = b"null";

/// The longest payload: what the largest tier of the service takes in one event.
pub const MAXIMUM_LENGTH: usize = 20 << 20;

/// What a header as text begins with, so that it is never read as a number.
const TEXT_MARK: u8 = b'x';

const DIGITS: [u8; 16] = *b"0123456789abcdef";

const CHECKSUM_LENGTH: usize = 4;

const SENT_TIME_POSITION: usize = Header::LENGTH + CHECKSUM_LENGTH;

/// Places at which a window into the filler may start: a page, so that the block stays in the cache.
const FILLER_POSITIONS: usize = 4096;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SENT: RunTime = RunTime::from_micros(123_456_789);

    fn any_header() -> impl Strategy<Value = Header> {
        (any::<u8>(), any::<u16>(), any::<u32>(), 0..=RunTime::LATEST.as_micros()).prop_map(
            |(run, stream, sequence, intended)| Header {
                run,
                stream,
                sequence,
                intended: RunTime::from_micros(intended),
            },
        )
    }

    fn payload_of(header: Header, length: usize, seed: u64) -> Vec<u8> {
        let writer = PayloadWriter::new(length, seed).expect("a possible length");
        let mut payload = vec![0; length];
        writer.write(header, SENT, &mut payload);
        payload
    }

    proptest! {
        #[test]
        fn every_header_comes_back_from_a_payload_of_any_length(
            header in any_header(), length in Header::LENGTH..300, seed: u64,
        ) {
            prop_assert_eq!(Header::parse(&payload_of(header, length, seed)), Ok(header));
        }

        #[test]
        fn every_single_flipped_bit_is_found(header in any_header(), length in 16_usize..80, seed: u64) {
            let mut payload = payload_of(header, length, seed);
            for bit in 0..length * 8 {
                payload[bit / 8] ^= 1 << (bit % 8);
                prop_assert_eq!(Header::parse(&payload), Err(Corrupted::Checksum));
                payload[bit / 8] ^= 1 << (bit % 8);
            }
        }

        #[test]
        fn a_detached_header_finds_every_flipped_bit_of_itself_and_of_its_payload(
            header in any_header(), payload in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut property = header.to_detached(&payload);
            prop_assert_eq!(Header::parse_detached(&property, &payload), Ok(header));
            let mut text = Header::text_of_detached(&property);
            prop_assert_eq!(Header::parse_detached(&text, &payload), Ok(header));
            for place in 0..Header::TEXT_LENGTH {
                let before = std::mem::replace(&mut text[place], b'_');
                prop_assert!(Header::parse_detached(&text, &payload).is_err());
                text[place] = before;
            }
            for bit in 0..Header::DETACHED_LENGTH * 8 {
                property[bit / 8] ^= 1 << (bit % 8);
                prop_assert_eq!(Header::parse_detached(&property, &payload), Err(Corrupted::Checksum));
                property[bit / 8] ^= 1 << (bit % 8);
            }
            let mut changed = payload;
            for bit in 0..changed.len() * 8 {
                changed[bit / 8] ^= 1 << (bit % 8);
                prop_assert_eq!(Header::parse_detached(&property, &changed), Err(Corrupted::Checksum));
                changed[bit / 8] ^= 1 << (bit % 8);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = Header::parse(&bytes);
            let _ = Header::parse_detached(&bytes, &bytes);
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_drawing() {
        let header = Header {
            run: 0x01,
            stream: 0x0203,
            sequence: 0x0405_0607,
            intended: RunTime::from_micros(0x08_090a_0b0c),
        };
        assert_eq!(header.to_bytes(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        let payload = payload_of(header, 16, 0);
        assert_eq!(payload[12..], crc32c::crc32c(&payload[..12]).to_be_bytes());
    }

    #[test]
    fn payloads_from_24_bytes_on_carry_their_send_time() {
        let header = Header { run: 1, stream: 2, sequence: 3, intended: RunTime::EPOCH };
        assert_eq!(sent_time(&payload_of(header, 23, 0)), None);
        assert_eq!(sent_time(&payload_of(header, 24, 0)), Some(SENT));
        assert_eq!(sent_time(&payload_of(header, 1_000, 0)), Some(SENT));
    }

    #[test]
    fn equal_seeds_fill_equally_and_others_do_not() {
        let header = Header { run: 1, stream: 2, sequence: 3, intended: RunTime::EPOCH };
        assert_eq!(payload_of(header, 100, 7), payload_of(header, 100, 7));
        assert_ne!(payload_of(header, 100, 7), payload_of(header, 100, 8));
        let next = Header { sequence: 4, ..header };
        assert_ne!(payload_of(header, 100, 7)[24..], payload_of(next, 100, 7)[24..]);
    }

    #[test]
    fn lengths_are_accepted_at_their_limits_and_refused_one_past_them() {
        for length in [Header::LENGTH, MAXIMUM_LENGTH] {
            assert!(PayloadWriter::new(length, 0).is_ok());
        }
        for length in [Header::LENGTH - 1, MAXIMUM_LENGTH + 1] {
            assert!(PayloadWriter::new(length, 0).is_err());
        }
    }
}
