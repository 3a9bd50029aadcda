//! Which span something belongs to, as W3C Trace Context writes it:
//!
//! ```text
//!   00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
//!   │  │ trace                          │ span           └ flags; bit 0: sampled
//!   └ version
//! ```
//!
//! Producers put it into `traceparent`, and the SDKs of Azure into `Diagnostic-Id` as well. Ids of other forms, such as the hierarchical
//! ones that .NET once had, mean nothing here.

/// The number of a trace. Never all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// The number of a span in its trace. Never all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

/// What others need to know of a span to refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// Its trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// Whether it is recorded.
    pub sampled: bool,
}

impl SpanContext {
    /// What a `traceparent` says; nothing if it is none.
    #[must_use]
    pub fn parse(traceparent: &[u8]) -> Option<Self> {
        let (version, rest) = field::<1>(traceparent)?;
        let (trace, rest) = field::<16>(rest.strip_prefix(b"-")?)?;
        let (span, rest) = field::<8>(rest.strip_prefix(b"-")?)?;
        let ([flags], rest) = field::<1>(rest.strip_prefix(b"-")?)?;
        // Later versions may go on after another dash, and no version is 255.
        let is_whole = match version {
            [0] => rest.is_empty(),
            [0xff] => false,
            _ => rest.first().is_none_or(|&next| next == b'-'),
        };
        let is_valid = is_whole && trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self { trace: TraceId(trace), span: SpanId(span), sampled: flags & 1 == 1 })
    }
}

/// So many bytes in lower-case hexadecimal digits, and what follows them.
fn field<const BYTES: usize>(text: &[u8]) -> Option<([u8; BYTES], &[u8])> {
    let (digits, rest) = text.split_at_checked(2 * BYTES)?;
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some((bytes, rest))
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_traceparent_names_trace_and_span_and_says_whether_they_are_sampled() {
        let context = SpanContext::parse(format!("00-{TRACE}-{SPAN}-01").as_bytes()).expect("it is one");
        assert_eq!(context.trace.0[..3], [0x4b, 0xf9, 0x2f]);
        assert_eq!(context.span.0, [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(context.sampled);
        let flags = |flags: &str| SpanContext::parse(format!("00-{TRACE}-{SPAN}-{flags}").as_bytes());
        assert_eq!(flags("00").map(|context| context.sampled), Some(false));
        assert_eq!(flags("02").map(|context| context.sampled), Some(false), "a random trace id");
        assert_eq!(flags("03").map(|context| context.sampled), Some(true));
    }

    #[test]
    fn later_versions_may_say_more() {
        for (text, is_one) in [
            (format!("00-{TRACE}-{SPAN}-01-more"), false),
            (format!("01-{TRACE}-{SPAN}-01-more"), true),
            (format!("01-{TRACE}-{SPAN}-01more"), false),
            (format!("01-{TRACE}-{SPAN}-01"), true),
            (format!("ff-{TRACE}-{SPAN}-01"), false),
        ] {
            assert_eq!(SpanContext::parse(text.as_bytes()).is_some(), is_one, "{text}");
        }
    }

    #[test]
    fn what_is_no_traceparent_means_nothing() {
        for text in [
            String::new(),
            "|7e5b9a.1.".to_owned(),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{SPAN}-0"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00_{TRACE}-{SPAN}-01"),
        ] {
            assert_eq!(SpanContext::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in proptest::collection::vec(any::<u8>(), 0..70)) {
            let _ = SpanContext::parse(&text);
        }
    }
}
