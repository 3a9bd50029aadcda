//! Texts of JSON, written straight into a buffer.

/// Appends a text, in its quotes.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut clean = 0;
    for (place, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[clean..place]);
        clean = place + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => {
                let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(other >> 4), digit(other)]);
            }
        }
    }
    out.extend_from_slice(&text.as_bytes()[clean..]);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_may_not_hold_is_escaped() {
        let mut out = Vec::new();
        put_text(&mut out, "a\"b\\c\n\r\t\u{1}\u{1f}\u{e9}");
        assert_eq!(String::from_utf8(out).unwrap(), "\"a\\\"b\\\\c\\n\\r\\t\\u0001\\u001f\u{e9}\"");
    }
}
