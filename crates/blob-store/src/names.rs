//! What containers, blobs and metadata may be called.

use std::ops::RangeInclusive;

/// How many characters the name of a container may have.
pub const CONTAINER_LENGTHS: RangeInclusive<usize> = 3..=63;

/// Whether a container may have this name: 3 to 63 lower-case letters, digits, and single hyphens between them; or one
/// of those that the service itself uses.
#[must_use]
pub fn is_container(name: &str) -> bool {
    if matches!(name, "$root" | "$logs" | "$web") {
        return true;
    }
    CONTAINER_LENGTHS.contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

/// Whether a blob may have this name: 1 to 1,024 characters, whichever.
#[must_use]
pub fn is_blob(name: &str) -> bool {
    // Characters take at most four bytes each, so the count is bounded by the length of the request's head.
    !name.is_empty() && name.chars().count() <= 1024
}

/// Whether an entry of metadata may have this name: a letter or underscore, then letters, digits and underscores.
#[must_use]
pub fn is_metadata(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_service() {
        for name in ["abc", "a-1", "$root", &"x".repeat(63)] {
            assert!(is_container(name), "{name}");
        }
        for name in ["ck", "", "Abc", "-ab", "ab-", "a--b", "a.b", &"x".repeat(64)] {
            assert!(!is_container(name), "{name}");
        }
        assert!(is_blob("a/b c/$ü\\") && is_blob(&"ü".repeat(1024)));
        assert!(!is_blob("") && !is_blob(&"x".repeat(1025)));
        for name in ["ownerid", "_a1", "Key"] {
            assert!(is_metadata(name), "{name}");
        }
        for name in ["", "1a", "a-b", "ä"] {
            assert!(!is_metadata(name), "{name}");
        }
    }
}
