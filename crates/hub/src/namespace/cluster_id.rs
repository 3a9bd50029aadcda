//! The name of a namespace as a cluster of Kafka: a random UUID in base64url without padding, as `kafka-storage random-uuid` makes one.
//! A data directory keeps it; in memory it is another one after each start.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Makes an id that no other namespace has.
pub(super) fn random() -> String {
    loop {
        let half = || RandomState::new().build_hasher().finish();
        let mut bytes = [half().to_be_bytes(), half().to_be_bytes()].concat();
        // A random UUID (RFC 9562, version 4).
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let id = URL_SAFE_NO_PAD.encode(bytes);
        // On a command line that would be an option; Kafka makes another one, too.
        if !id.starts_with('-') {
            return id;
        }
    }
}

/// Whether it is the id of a cluster.
pub(super) fn is_valid(id: &str) -> bool {
    URL_SAFE_NO_PAD.decode(id).is_ok_and(|bytes| bytes.len() == 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_and_differ() {
        let ids: Vec<String> = (0..100).map(|_| random()).collect();
        assert!(ids.iter().all(|id| id.len() == 22 && is_valid(id) && !id.starts_with('-')));
        assert!((1..ids.len()).all(|place| !ids[..place].contains(&ids[place])));
        assert!(!is_valid("localhost"));
    }
}
