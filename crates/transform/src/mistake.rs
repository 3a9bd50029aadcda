//! What is wrong with a transform, and where.

use std::error::Error;
use std::fmt;
use std::ops::Range;

/// A mistake in a step or in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The dotted path of the value that it is in, such as `transform[0].filter`.
    pub path: String,
    /// The text of that value.
    pub text: String,
    /// The part of the text that is wrong.
    pub part: Range<usize>,
    /// What is wrong.
    pub reason: String,
    /// What to do about it; empty where the reason tells.
    pub advice: String,
}

impl Mistake {
    /// A mistake of a whole value.
    pub(crate) fn of_value(path: &str, text: &str, reason: impl Into<String>, advice: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            part: 0..text.len(),
            reason: reason.into(),
            advice: advice.to_owned(),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

impl Error for Mistake {}
