//! Any bytes as the head of a response over HTTP: it is the same whatever follows it, and there is none before it is complete.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rest::chunked::Decoder;
use rest::head::FIELDS_MAX;
use rest::response::{EMPTY_FIELD, Framing, ResponseHead};

fuzz_target!(|bytes: &[u8]| {
    let mut fields = [EMPTY_FIELD; FIELDS_MAX];
    let Ok(Some(head)) = ResponseHead::parse(bytes, &mut fields) else {
        return;
    };
    let mut fields = [EMPTY_FIELD; FIELDS_MAX];
    let alone = ResponseHead::parse(&bytes[..head.length], &mut fields).expect("it is one").expect("it is complete");
    assert_eq!((alone.status, alone.framing, alone.keeps_alive), (head.status, head.framing, head.keeps_alive));
    let mut fields = [EMPTY_FIELD; FIELDS_MAX];
    let cut = ResponseHead::parse(&bytes[..head.length - 1], &mut fields);
    assert!(matches!(cut, Ok(None)), "{cut:?}");
    if head.framing == Some(Framing::Chunked) {
        let (mut decoder, mut body) = (Decoder::new(MOST), Vec::new());
        if let Ok(used) = decoder.read(&bytes[head.length..], &mut body) {
            assert!(used <= bytes.len() - head.length && body.len() <= MOST);
        }
    }
});

const MOST: usize = 1 << 16;
