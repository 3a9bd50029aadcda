//! Text that must not turn up in a log.

use std::fmt;

/// A text that is shown only on demand: `Debug` prints `[secret]`, there is no `Display`, and
/// [`reveal`](Self::reveal) is easy to search for.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    text: String,
}

impl Secret {
    /// The text itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self { text }
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned() }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
