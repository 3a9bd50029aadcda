//! Spans: what was done, when, and what it belongs to.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::context::{SpanContext, SpanId};

/// What spans of one kind have in common: made once, shared by all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// What they are called: the operation, and what it is done to.
    pub name: String,
    /// Their part in the way of a message.
    pub kind: Kind,
    /// What they all have.
    pub attributes: Vec<Attribute>,
}

/// The part of a span in the way of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Messages are taken and processed.
    Consumer,
    /// A service is asked for something.
    Client,
}

/// A name, and what it says.
pub type Attribute = (&'static str, Value);

/// What an attribute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(Cow<'static, str>),
    /// A whole number.
    Number(i64),
}

/// Something that was done. It has ended when it is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// What it is one of.
    pub operation: Arc<Operation>,
    /// Its own context.
    pub context: SpanContext,
    /// The span that it is a part of, in the same trace.
    pub parent: Option<SpanId>,
    /// When it ended.
    pub ended: SystemTime,
    /// How long it took.
    pub lasted: Duration,
    /// What it has beside the attributes of its operation.
    pub attributes: Vec<Attribute>,
    /// Spans of other traces that it has to do with.
    pub links: Vec<Link>,
    /// How many more there were.
    pub dropped_links: u32,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
}

/// A span that another one has to do with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// That span.
    pub context: SpanContext,
    /// What tracing systems say of it, as its `tracestate` does; mostly nothing.
    pub state: Option<Box<str>>,
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of error, one of few: the condition that a service names.
    pub kind: String,
    /// The words for a person.
    pub description: String,
}

impl Link {
    /// A link to a span, with its `tracestate` if that is one: printable, and not endless.
    #[must_use]
    pub fn new(context: SpanContext, state: Option<&[u8]>) -> Self {
        let state = state.filter(|state| (1..=LONGEST_STATE).contains(&state.len()));
        let state = state.filter(|state| state.iter().all(|&byte| (b' '..=b'~').contains(&byte)));
        let state = state.and_then(|state| std::str::from_utf8(state).ok());
        Self { context, state: state.map(Into::into) }
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

/// Tracing systems have to keep so much; what is longer may be dropped.
const LONGEST_STATE: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracestate_that_is_none_is_left_out() {
        let traceparent = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = SpanContext::parse(traceparent).expect("it is one");
        let state = |state: &[u8]| Link::new(context, Some(state)).state;
        assert_eq!(state(b"congo=t61rcWkgMzE").as_deref(), Some("congo=t61rcWkgMzE"));
        for none in [&b""[..], b"a=\n", b"\xff=1", &[b'a'; 513]] {
            assert_eq!(state(none), None);
        }
    }
}
