//! The arguments of a request: typed, and named in what a client is told that gets them wrong.

use amqp::Value;
use amqp::performative::ErrorCondition;

use crate::front::amqp::links::requests::Answer;
use queue_store::LockToken;

/// The map in the body of a request.
#[derive(Debug)]
pub(super) struct Arguments {
    body: Value,
}

impl Arguments {
    pub(super) const fn new(body: Value) -> Self {
        Self { body }
    }

    /// The argument, where it is there and not null.
    pub(super) fn find(&self, name: &str) -> Option<&Value> {
        self.body.get(name).filter(|value| **value != Value::Null)
    }

    /// A text.
    pub(super) fn text(&self, name: &str) -> Result<&str, Answer> {
        self.optional_text(name)?.ok_or_else(|| missing(name))
    }

    /// A text that may be left out.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&str>, Answer> {
        self.find(name).map(|value| value.as_text().ok_or_else(|| mistyped(name, "a string"))).transpose()
    }

    /// An integer of any width.
    pub(super) fn integer(&self, name: &str) -> Result<i64, Answer> {
        let value = self.find(name).ok_or_else(|| missing(name))?;
        value.as_integer().ok_or_else(|| mistyped(name, "an integer"))
    }

    /// A number of things, none of which is fewer than none.
    pub(super) fn count(&self, name: &str) -> Result<usize, Answer> {
        let count = self.integer(name)?;
        usize::try_from(count).map_err(|_negative| mistyped(name, "a number of zero or more"))
    }

    /// Lock tokens.
    pub(super) fn lock_tokens(&self) -> Result<Vec<LockToken>, Answer> {
        let token = |value: &Value| match value {
            Value::Uuid(bytes) => Some(LockToken::from_bytes(*bytes)),
            _ => None,
        };
        self.elements(LOCK_TOKENS)?
            .iter()
            .map(|value| token(value).ok_or_else(|| mistyped(LOCK_TOKENS, "an array of UUIDs")))
            .collect()
    }

    /// Sequence numbers.
    pub(super) fn sequence_numbers(&self) -> Result<Vec<u64>, Answer> {
        let number = |value: &Value| u64::try_from(value.as_integer()?).ok();
        self.elements(SEQUENCE_NUMBERS)?
            .iter()
            .map(|value| {
                number(value).ok_or_else(|| mistyped(SEQUENCE_NUMBERS, "an array of sequence numbers"))
            })
            .collect()
    }

    /// The elements of an array or list.
    pub(super) fn elements(&self, name: &str) -> Result<&[Value], Answer> {
        match self.find(name) {
            Some(Value::Array(elements) | Value::List(elements)) => Ok(elements),
            Some(_) => Err(mistyped(name, "an array")),
            None => Err(missing(name)),
        }
    }

    /// A map of properties, which may be left out.
    pub(super) fn properties(&self, name: &str) -> Result<Vec<(String, Value)>, Answer> {
        match self.find(name) {
            None => Ok(Vec::new()),
            Some(Value::Map(entries)) => entries
                .iter()
                .map(|(key, value)| {
                    let key = key.as_text().ok_or_else(|| mistyped(name, "a map with strings as keys"))?;
                    Ok((key.to_owned(), value.clone()))
                })
                .collect(),
            Some(_) => Err(mistyped(name, "a map")),
        }
    }
}

/// What is told about an argument that makes no sense.
pub(super) fn invalid(text: impl Into<String>) -> Answer {
    Answer::failed(400, ErrorCondition::ARGUMENT_ERROR, text)
}

#[cold]
fn missing(name: &str) -> Answer {
    invalid(format!("'{name}' is missing."))
}

#[cold]
pub(super) fn mistyped(name: &str, expected: &str) -> Answer {
    invalid(format!("'{name}' is not {expected}."))
}

const LOCK_TOKENS: &str = "lock-tokens";
const SEQUENCE_NUMBERS: &str = "sequence-numbers";
