//! A byte vector of an official client, and what is left of a message when anything in it is changed or missing.

use std::collections::VecDeque;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

/// "Hello World!" in segments of 5 bytes, made with azure-storage-blob 12.31.1 for Python.
const MESSAGE: &[u8] = &[
    0x01, // version
    0x57, 0, 0, 0, 0, 0, 0, 0, // bytes of the message
    0x01, 0, // properties: checksums
    0x03, 0, // segments
    0x01, 0, 0x05, 0, 0, 0, 0, 0, 0, 0, // segment 1
    b'H', b'e', b'l', b'l', b'o', //
    0xed, 0x8a, 0x28, 0x47, 0x6b, 0xee, 0x03, 0x6e, // its checksum
    0x02, 0, 0x05, 0, 0, 0, 0, 0, 0, 0, // segment 2
    b' ', b'W', b'o', b'r', b'l', //
    0xef, 0x59, 0xfc, 0x9b, 0x3e, 0x2e, 0xa0, 0x22, // its checksum
    0x03, 0, 0x02, 0, 0, 0, 0, 0, 0, 0, // segment 3
    b'd', b'!', //
    0xcd, 0x66, 0xe3, 0xee, 0xd9, 0x39, 0xb8, 0x4e, // its checksum
    0xa5, 0xe1, 0xfc, 0x5e, 0xc8, 0x1c, 0xe5, 0x02, // that of all
];

const CONTENT: &[u8] = b"Hello World!";

fn decoded(message: &[u8], content_length: u64, part: usize) -> Result<Vec<u8>, StructuredError> {
    let mut content = Vec::new();
    let mut decoder = Decoder::new(message.len() as u64, content_length);
    for part in message.chunks(part) {
        decoder.push(part, &mut content)?;
    }
    let checksum = decoder.finish()?;
    assert_eq!(checksum, crate::crc64(&content));
    Ok(content)
}

fn encoded(content: &[u8], segment: u64, chunk: usize) -> Vec<u8> {
    let mut encoder = Encoder::with_segments(content.len() as u64, segment);
    let length = encoder.message_length();
    let mut message = VecDeque::new();
    encoder.start(&mut message);
    for chunk in content.chunks(chunk) {
        encoder.encode(Bytes::copy_from_slice(chunk), &mut message);
    }
    let message: Vec<u8> = message.into_iter().flatten().collect();
    assert_eq!(message.len() as u64, length);
    message
}

#[test]
fn the_message_of_an_official_client_is_read_in_parts_of_any_size_and_made_again() {
    for part in 1..=MESSAGE.len() {
        assert_eq!(decoded(MESSAGE, 12, part).unwrap(), CONTENT);
    }
    assert_eq!(encoded(CONTENT, 5, 4), MESSAGE);
    let empty = encoded(b"", 5, 1);
    assert_eq!(empty[1], 39);
    assert_eq!(decoded(&empty, 0, 7).unwrap(), b"");
    // Another client makes no segment for no content.
    let mut none = vec![1, 21, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    none.extend([0; 8]);
    assert_eq!(decoded(&none, 0, 3).unwrap(), b"");
}

#[test]
fn nothing_comes_of_a_message_that_is_cut_or_changed_anywhere() {
    for cut in 0..MESSAGE.len() {
        let mut content = Vec::new();
        let mut decoder = Decoder::new(MESSAGE.len() as u64, 12);
        decoder.push(&MESSAGE[..cut], &mut content).unwrap();
        assert_eq!(decoder.finish(), Err(StructuredError::Incomplete), "{cut}");
        assert!(decoded(&MESSAGE[..cut], 12, 9).is_err(), "{cut}");
    }
    for position in 0..MESSAGE.len() {
        for bit in 0..8 {
            let mut changed = MESSAGE.to_vec();
            changed[position] ^= 1 << bit;
            assert!(decoded(&changed, 12, 9).is_err(), "{position}");
        }
    }
    let mut longer = MESSAGE.to_vec();
    longer.push(0);
    let mut decoder = Decoder::new(MESSAGE.len() as u64, 12);
    let pushed = decoder.push(&longer, &mut Vec::new());
    assert_eq!(pushed, Err(StructuredError::Trailing));
}

#[test]
fn every_mistake_is_named() {
    let with = |position: usize, byte: u8| {
        let mut changed = MESSAGE.to_vec();
        changed[position] = byte;
        decoded(&changed, 12, 9).unwrap_err()
    };
    assert_eq!(with(0, 2), StructuredError::Version { version: 2 });
    let (told, actual) = (88, 87);
    assert_eq!(with(1, 88), StructuredError::MessageLength { told, actual });
    assert_eq!(with(9, 3), StructuredError::Properties { properties: 3 });
    assert_eq!(with(9, 0), StructuredError::Properties { properties: 0 });
    let (expected, found) = (1, 2);
    assert_eq!(with(13, 2), StructuredError::SegmentNumber { expected, found });
    assert_eq!(with(22, 1), StructuredError::ContentLength { expected: 12 });
    let mismatch = StructuredError::SegmentChecksum { segment: 1 };
    assert_eq!(with(23, b'h'), mismatch);
    assert_eq!(with(86, 0), StructuredError::Checksum);
    assert!(mismatch.is_mismatch() && StructuredError::Checksum.is_mismatch());
    assert!(!StructuredError::Incomplete.is_mismatch());
    for length in [0, 4, 11, 13, u64::MAX] {
        let error = decoded(MESSAGE, length, 9).unwrap_err();
        let expected = StructuredError::ContentLength { expected: length };
        assert_eq!(error, expected);
    }
}

#[test]
fn only_the_known_version_and_property_are_understood() {
    for value in [STRUCTURED_BODY, "xsm/1.0;properties=CRC64"] {
        assert!(is_structured_body(value), "{value}");
    }
    for value in [
        "",
        "XSM/1.0",
        "XSM/2.0; properties=crc64",
        "XSM/1.0; properties=md5",
        "XSM/1.0; properties=crc64; more",
        "XSM/1.0; properties=crc64, sha256",
    ] {
        assert!(!is_structured_body(value), "{value}");
    }
}

#[test]
fn a_huge_content_gets_larger_segments_instead_of_too_many() {
    let length = 1 << 48;
    let encoder = Encoder::new(length);
    assert!(encoder.message_length() > length);
    assert!(encoder.message_length() <= longest_message(length));
    assert_eq!(longest_message(u64::MAX), u64::MAX);
}

proptest! {
    #[test]
    fn contents_come_back(
        content in proptest::collection::vec(any::<u8>(), 0..200),
        segment in 1_u64..50,
        chunk in 1_usize..70,
        part in 1_usize..70,
    ) {
        let message = encoded(&content, segment, chunk);
        prop_assert_eq!(decoded(&message, content.len() as u64, part).unwrap(), content);
    }

    #[test]
    fn any_bytes_are_read_to_an_end(
        start in 0..=MESSAGE.len(),
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        content_length in 0_u64..40,
        part in 0_usize..20,
    ) {
        let bytes = [&MESSAGE[..start], &bytes].concat();
        check_any_message(&bytes, content_length, part);
    }
}
