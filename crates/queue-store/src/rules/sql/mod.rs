//! Conditions and actions as texts: the part of the service's SQL that its users write.
//!
//! A text is read once (`lexer`, `parser`) into a tree (`syntax`) whose depth is bounded, and the tree is evaluated for
//! each message (`evaluate`) over few types of values (`operand`) with three truths: true, false, unknown.

mod error;
mod evaluate;
mod lexer;
mod like;
mod operand;
mod parser;
mod serde_text;
mod syntax;
mod system;
#[cfg(test)]
mod tests;

pub use error::{SqlError, SqlErrorKind};

use super::application::ApplicationProperties;
use super::message::MessageProperties;
use amqp::codec::Value;
use syntax::{Predicate, Statement};

/// A condition on the properties of a message, such as `color = 'red' AND quantity > 10`.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlFilter {
    text: String,
    parameters: Vec<(String, Value)>,
    predicate: Predicate,
    constant: Option<bool>,
}

/// What is done to the properties of a copy of a message, such as `SET quantity = quantity / 2; REMOVE priority`.
#[derive(Clone, Debug, PartialEq)]
pub struct SqlAction {
    text: String,
    parameters: Vec<(String, Value)>,
    statements: Vec<Statement>,
}

impl SqlFilter {
    /// Reads a condition.
    ///
    /// # Errors
    /// Where the text is none, what was expected there and what was found.
    pub fn parse(text: impl Into<String>) -> Result<Self, SqlError> {
        Self::with_parameters(text, Vec::new())
    }

    /// The same of a condition in which `@name` stands for the value of that name; names are given with their `@`.
    ///
    /// # Errors
    /// As those of [`parse`](Self::parse), and that there is no value for a parameter.
    pub fn with_parameters(
        text: impl Into<String>,
        parameters: Vec<(String, Value)>,
    ) -> Result<Self, SqlError> {
        let text = text.into();
        let predicate = parser::predicate(&text, &parameters)?;
        let constant =
            predicate.is_constant().then(|| predicate.holds(&MessageProperties::default()) == Some(true));
        Ok(Self { text, parameters, predicate, constant })
    }

    /// The condition as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What its parameters stand for.
    #[must_use]
    pub fn parameters(&self) -> &[(String, Value)] {
        &self.parameters
    }

    /// Whether the condition is true for a message with these properties, and neither false nor unknown.
    #[must_use]
    pub fn matches(&self, message: &MessageProperties) -> bool {
        self.constant.unwrap_or_else(|| self.predicate.holds(message) == Some(true))
    }

    /// Whether every message matches or none, where the condition looks at no property.
    #[must_use]
    pub const fn constant(&self) -> Option<bool> {
        self.constant
    }
}

impl SqlAction {
    /// Reads statements, which a semicolon may separate.
    ///
    /// # Errors
    /// Where the text is none, what was expected there and what was found.
    pub fn parse(text: impl Into<String>) -> Result<Self, SqlError> {
        Self::with_parameters(text, Vec::new())
    }

    /// As [`SqlFilter::with_parameters`].
    ///
    /// # Errors
    /// As those of [`parse`](Self::parse), and that there is no value for a parameter.
    pub fn with_parameters(
        text: impl Into<String>,
        parameters: Vec<(String, Value)>,
    ) -> Result<Self, SqlError> {
        let text = text.into();
        let statements = parser::statements(&text, &parameters)?;
        Ok(Self { text, parameters, statements })
    }

    /// What its parameters stand for.
    #[must_use]
    pub fn parameters(&self) -> &[(String, Value)] {
        &self.parameters
    }

    /// The action as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Changes `message`, one statement after the other. A value that is unknown makes an application property null
    /// and takes a system property away.
    pub fn apply(&self, message: &mut MessageProperties) {
        for statement in &self.statements {
            statement.apply(message);
        }
    }
}

/// Any text as a condition and as an action: reading ends without a panic; what is read has one meaning, which printing
/// keeps, and can be evaluated. For fuzzing; a test runs it as well.
///
/// # Panics
/// That does not hold.
pub fn check_any_text(text: &str) {
    let message = MessageProperties {
        application: ApplicationProperties::of(vec![
            ("a".to_owned(), "text".into()),
            ("b".to_owned(), amqp::Value::Int(i32::MIN)),
            ("c".to_owned(), amqp::Value::Double(f64::NAN)),
        ]),
        ..MessageProperties::default()
    };
    if let Ok(predicate) = parser::predicate(text, &[]) {
        let _ = predicate.holds(&message);
        if let Some(printed) = within_length(predicate.to_string()) {
            let again = parser::predicate(&printed, &[]).expect("what is printed can be read");
            assert_eq!(again, predicate, "{printed}");
        }
    }
    if let Ok(action) = SqlAction::parse(text) {
        action.apply(&mut message.clone());
        let printed: Vec<String> = action.statements.iter().map(ToString::to_string).collect();
        if let Some(printed) = within_length(printed.join("; ")) {
            let again = SqlAction::parse(printed).expect("what is printed can be read");
            assert_eq!(again.statements, action.statements);
        }
    }
}

/// Printing puts spaces where none have to be, so a text at the limit may grow beyond it.
fn within_length(printed: String) -> Option<String> {
    (printed.len() <= MAXIMUM_TEXT_LENGTH).then_some(printed)
}

/// Longest condition or action, in bytes.
pub const MAXIMUM_TEXT_LENGTH: usize = 16 * 1024;

/// How deep parentheses, NOT, signs and functions may nest.
pub const MAXIMUM_DEPTH: usize = 32;

/// Most statements of an action, as in the service.
pub const MAXIMUM_STATEMENTS: usize = 32;
