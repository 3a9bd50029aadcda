//! A program at work on batches.

use std::sync::Arc;

use cel::Value;
use connect::event::{Event as EventPlace, EventBatch};
use connect::transform::{Selection, SinkSet, Transform};

use crate::amqp_message;
use crate::expression::{Event, Expression, Failure, Quick, Variable};
use crate::program::{Compiled, Program};
use crate::properties::{Content, Properties, Slot};
use crate::scalar::Scalar;

/// A [`Program`] with the memory that it works in.
#[derive(Debug)]
pub struct Transformer {
    program: Arc<Program>,
    properties: Properties,
    /// Scratch: values that one step sets.
    values: Vec<(Slot, Content)>,
    /// Scratch: the message that is written.
    out: Vec<u8>,
}

impl Transformer {
    /// One that carries out `program`.
    #[must_use]
    pub fn new(program: Arc<Program>) -> Self {
        Self { program, properties: Properties::default(), values: Vec::new(), out: Vec::new() }
    }

    /// Takes an event through the steps: which sinks get it, and whether `out` has another message for it.
    #[inline]
    fn carry_out(
        &mut self,
        batch: &EventBatch,
        event: &EventPlace,
        out: &mut Vec<u8>,
    ) -> Result<(SinkSet, bool), Failure> {
        let Self { program, properties, values, .. } = self;
        let message = batch.message(event);
        properties
            .read(message, batch.encoding(), &program.names)
            .map_err(|_unreadable| Failure("the message can't be read".to_owned()))?;
        let (subject, content_type) = match program.reads_standard_properties {
            true => amqp_message::subject_and_content_type(message),
            false => (Scalar::Null, Scalar::Null),
        };
        let parts = Parts { batch, event, message, subject, content_type };
        for step in &program.steps {
            match step {
                Compiled::Filter(condition) => {
                    if !condition.holds(&Seen { parts: &parts, properties })? {
                        return Ok((SinkSet::NONE, false));
                    }
                }
                Compiled::Rename(pairs) => properties.rename(pairs),
                Compiled::Drop(slots) => slots.iter().for_each(|&slot| properties.drop(slot)),
                Compiled::Set(expressions) => {
                    values.clear();
                    for (slot, expression) in expressions {
                        values.push((*slot, value_of(expression, &parts, properties)?));
                    }
                    values.iter().for_each(|&(slot, content)| properties.set(slot, content));
                }
            }
        }
        let mut sinks = SinkSet::ALL;
        for (sink, condition) in program.conditions.iter().enumerate() {
            if let Some(condition) = condition
                && !condition.holds(&Seen { parts: &parts, properties })?
            {
                sinks = sinks.without(sink);
            }
        }
        let changed = properties.changed();
        if changed {
            properties.rewrite(message, &program.names, out);
        }
        Ok((sinks, changed))
    }
}

impl Transform for Transformer {
    fn apply(&mut self, batch: &mut EventBatch, selection: &mut Selection) {
        selection.begin(batch.len());
        let mut out = std::mem::take(&mut self.out);
        batch.rewrite(&mut out, |batch, index, event, out| match self.carry_out(batch, event, out) {
            Ok((sinks, changed)) => {
                selection.choose(index, sinks);
                changed
            }
            Err(Failure(reason)) => {
                selection.refuse(index, reason);
                false
            }
        });
        self.out = out;
    }
}

/// The value that a step sets, encoded.
fn value_of(
    expression: &Expression,
    parts: &Parts<'_>,
    properties: &mut Properties,
) -> Result<Content, Failure> {
    let value = match expression.quick() {
        // As it is, with its type.
        Quick::Variable(Variable::Property(slot)) => return Ok(properties.content(*slot)),
        Quick::Variable(variable) => return Ok(properties.write(parts.scalar(*variable))),
        Quick::Test(test) => match test.holds(&Seen { parts, properties }) {
            Some(holds) => Value::Bool(holds),
            None => expression.evaluate(&Seen { parts, properties })?,
        },
        Quick::Constant(value) => return write(expression, value, properties),
        Quick::None => expression.evaluate(&Seen { parts, properties })?,
    };
    write(expression, &value, properties)
}

fn write(expression: &Expression, value: &Value, properties: &mut Properties) -> Result<Content, Failure> {
    let scalar = match value {
        Value::Null => Scalar::Null,
        Value::Bool(value) => Scalar::Bool(*value),
        Value::Int(value) => Scalar::Int(*value),
        Value::UInt(value) => Scalar::Uint(*value),
        Value::Float(value) => Scalar::Double(*value),
        Value::String(text) => Scalar::Text(text.as_bytes()),
        Value::Bytes(bytes) => Scalar::Bytes(bytes),
        other => {
            let kind = crate::expression::kind(other);
            return Err(expression.failure(format!("a property can't be of type {kind}")));
        }
    };
    Ok(properties.write(scalar))
}

/// What steps do not change of an event.
struct Parts<'a> {
    batch: &'a EventBatch,
    event: &'a EventPlace,
    message: &'a [u8],
    subject: Scalar<'a>,
    content_type: Scalar<'a>,
}

impl<'a> Parts<'a> {
    fn scalar(&self, variable: Variable) -> Scalar<'a> {
        let Self { batch, event, .. } = *self;
        match variable {
            Variable::Property(_) => Scalar::Null,
            Variable::Key => batch.key(event).map_or(Scalar::Null, Scalar::of_bytes),
            Variable::Partition => Scalar::Int(batch.partition().0.into()),
            Variable::SequenceNumber => Scalar::Int(event.sequence_number),
            Variable::Offset => batch.offset(event).map_or(Scalar::Null, Scalar::of_bytes),
            Variable::EnqueuedTime => Scalar::Int(event.enqueued_time.unix_ms()),
            Variable::Subject => self.subject,
            Variable::ContentType => self.content_type,
        }
    }
}

/// An event between two steps.
struct Seen<'a> {
    parts: &'a Parts<'a>,
    properties: &'a Properties,
}

impl Event for Seen<'_> {
    #[inline]
    fn variable(&self, variable: Variable) -> Scalar<'_> {
        match variable {
            Variable::Property(slot) => self.properties.value(slot, self.parts.message),
            variable => self.parts.scalar(variable),
        }
    }
}
