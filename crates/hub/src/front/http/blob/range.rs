//! Ranges of bytes that requests name.

use std::ops::Range;

use blob_store::BlobError;

use super::request::Request;

/// A range of bytes of a content whose length the client need not know: `bytes=a-b` or `bytes=a-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteRange {
    pub(super) first: u64,
    /// Not less than the first. An open range has none.
    pub(super) last: Option<u64>,
}

impl ByteRange {
    /// Returns the range of bytes that a request asks for. An unreadable one is ignored, as in the service and in HTTP.
    pub(super) fn of(request: &Request) -> Option<Self> {
        Self::parse(range_header(request)?)
    }

    /// Parses the value of a header.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.trim().strip_prefix("bytes=")?.split_once('-')?;
        let number = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse::<u64>().ok())?
        };
        let first = number(first)?;
        match last {
            "" => Some(Self { first, last: None }),
            last => number(last).filter(|last| *last >= first).map(|last| Self { first, last: Some(last) }),
        }
    }

    /// Returns its part of a content of `length` bytes.
    ///
    /// # Errors
    /// It starts after the end.
    pub(super) fn within(self, length: u64) -> Result<Range<u64>, BlobError> {
        if self.first >= length {
            return Err(BlobError::InvalidRange { length });
        }
        Ok(self.first..self.last.map_or(length, |last| last.saturating_add(1).min(length)))
    }
}

/// Returns the header that names a range, of which the service's own counts first.
pub(super) fn range_header(request: &Request) -> Option<&str> {
    request.header(RANGE).or_else(|| request.header("range"))
}

pub(super) const RANGE: &str = "x-ms-range";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_come_back(first in any::<u64>(), more in 0_u64..1000) {
            let last = first.saturating_add(more);
            let parsed = ByteRange::parse(&format!("bytes={first}-{last}"));
            prop_assert_eq!(parsed, Some(ByteRange { first, last: Some(last) }));
            let open = ByteRange::parse(&format!("bytes={first}-"));
            prop_assert_eq!(open, Some(ByteRange { first, last: None }));
        }

        #[test]
        fn nothing_else_is_one(text in "(bytes=)?[0-9]{0,3}-?[0-9+a]{0,22}-?") {
            if let Some(ByteRange { first, last }) = ByteRange::parse(&text) {
                let end = last.map(|last| last.to_string()).unwrap_or_default();
                prop_assert!(text.starts_with("bytes="));
                prop_assert!(last.is_none_or(|last| last >= first));
                let (_, written) = text.split_once('-').unwrap();
                prop_assert_eq!(written.trim_start_matches('0'), end.trim_start_matches('0'));
            }
        }

        #[test]
        fn a_part_is_within_its_content(first in 0_u64..20, more in proptest::option::of(0_u64..20), length in 0_u64..20) {
            let range = ByteRange { first, last: more.map(|more| first + more) };
            let expected: Vec<u64> =
                (0..length).filter(|byte| *byte >= first && range.last.is_none_or(|last| *byte <= last)).collect();
            match range.within(length) {
                Ok(part) => prop_assert_eq!(part.collect::<Vec<_>>(), expected),
                Err(error) => {
                    prop_assert_eq!(error, BlobError::InvalidRange { length });
                    prop_assert!(expected.is_empty());
                }
            }
        }
    }
}
