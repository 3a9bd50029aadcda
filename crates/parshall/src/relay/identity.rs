//! A name for a relay that was given none.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::process;

/// Host, process and 32 random bits: readable, and not the name of any relay before it.
pub(super) fn made_up() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    // What the standard library keys its maps with is random in every process.
    let random = RandomState::new().build_hasher().finish() as u32;
    format!("{host}-{}-{random:08x}", process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_are_the_same() {
        let (one, other) = (made_up(), made_up());
        assert_ne!(one, other);
        assert!(one.contains(&format!("-{}-", process::id())), "{one}");
    }
}
