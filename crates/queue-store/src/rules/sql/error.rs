//! What is wrong with a text, and where.

use super::system::SystemProperty;
use super::{MAXIMUM_DEPTH, MAXIMUM_STATEMENTS, MAXIMUM_TEXT_LENGTH};

/// Why a text is no condition, or no action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("character {position}: {kind}")]
pub struct SqlError {
    /// Where, in characters from 1.
    pub position: usize,
    /// What is wrong there.
    pub kind: SqlErrorKind,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlErrorKind {
    /// Something else belongs here.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// What would have been right.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// A mark that begins a comment in other dialects of SQL. The grammar of the service has no comments.
    #[error(
        "`{mark}` begins a comment elsewhere, and there are none here; two signs are written with a blank between them"
    )]
    Comment {
        /// The mark.
        mark: &'static str,
    },
    /// A quotation mark or bracket is never closed.
    #[error("missing {closing}")]
    Unfinished {
        /// What is missing.
        closing: char,
    },
    /// A number beyond 64 bits, or beyond what a double holds.
    #[error("the number {number} is out of range")]
    NumberOutOfRange {
        /// The number as it is written.
        number: String,
    },
    /// A dot behind something else than `sys` and `user`.
    #[error("`{scope}` is neither `sys` nor `user`; a name with a dot is written in brackets: [{scope}.…]")]
    Scope {
        /// What stands before the dot.
        scope: String,
    },
    /// The service has no system property of this name.
    #[error("there is no system property `{name}`; known are {}", SystemProperty::names(false))]
    NoSystemProperty {
        /// What was asked for.
        name: String,
    },
    /// An action can't change this system property.
    #[error("`sys.{name}` can't be changed; what can be is {}", SystemProperty::names(true))]
    FixedSystemProperty {
        /// What it is called.
        name: &'static str,
    },
    /// `ESCAPE` has something else than a text of one character.
    #[error("ESCAPE must be followed by one character, such as '\\'")]
    Escape,
    /// A parameter for which no value was given.
    #[error("there is no value for the parameter `{name}`")]
    NoParameter {
        /// Its name, with its `@`.
        name: String,
    },
    /// The real service has it, this one has not.
    #[error("{what} not supported here")]
    Unsupported {
        /// What it is, with its verb.
        what: String,
    },
    /// Parentheses, NOT, signs and functions are nested too deep.
    #[error("nested deeper than {MAXIMUM_DEPTH}")]
    TooDeep,
    /// The text is too long.
    #[error("the text has {bytes} bytes; it may have {MAXIMUM_TEXT_LENGTH}")]
    TooLong {
        /// How many it has.
        bytes: usize,
    },
    /// An action does too much.
    #[error("an action has at most {MAXIMUM_STATEMENTS} statements")]
    TooManyStatements,
}
