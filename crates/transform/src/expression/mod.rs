//! Expressions: parsed and checked once, then evaluated for one event at a time.
//!
//! An expression sees `properties`, each by its name, and what else is known of an event: see [`VARIABLES`]. After parsing, each
//! property in it is a variable of its own, so that nothing but what it names has to be found in an event. What [`Test`] and
//! [`Quick`] can say is carried out by them; the library evaluates the rest, and whatever they leave open.

use std::fmt;
use std::sync::Arc;

use cel::common::ast::{Expr, IdedExpr, LiteralValue};
use cel::{Context, Env, ExecutionError, Value};

use crate::mistake::Mistake;
use crate::properties::{Names, Slot};
use crate::scalar::Scalar;

mod check;
mod test;
#[cfg(test)]
mod tests;

pub(crate) use test::Test;

/// Something of an event that an expression can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variable {
    Property(Slot),
    Key,
    Partition,
    SequenceNumber,
    Offset,
    EnqueuedTime,
    Subject,
    ContentType,
}

/// The names of all but the properties.
pub(crate) const VARIABLES: [(&str, Variable); 7] = [
    ("key", Variable::Key),
    ("partition", Variable::Partition),
    ("sequence_number", Variable::SequenceNumber),
    ("offset", Variable::Offset),
    ("enqueued_time", Variable::EnqueuedTime),
    ("subject", Variable::Subject),
    ("content_type", Variable::ContentType),
];

/// An event, for expressions.
pub(crate) trait Event {
    fn variable(&self, variable: Variable) -> Scalar<'_>;
}

/// What an expression is to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Condition,
    Value,
}

/// A compiled expression.
pub(crate) struct Expression {
    /// Where it stands, for errors.
    path: String,
    env: Arc<Env>,
    expr: IdedExpr,
    /// The variables in it, each under the name that it has there.
    variables: Vec<(String, Variable)>,
    quick: Quick,
}

/// The form in which an expression needs no library.
#[derive(Debug)]
pub(crate) enum Quick {
    Test(Test),
    /// The value of a variable, as it is.
    Variable(Variable),
    /// The same for every event.
    Constant(Value),
    None,
}

/// Why an expression has no value for an event. Says nothing of the event's values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure(pub(crate) String);

impl Expression {
    /// Compiles `text`, which stands at `path`, and takes the names of its properties into `names`.
    pub(crate) fn compile(
        path: &str,
        text: &str,
        wanted: Wanted,
        env: &Arc<Env>,
        names: &mut Names,
    ) -> Result<Self, Mistake> {
        let (expr, variables) = check::parse(path, text, env, names)?;
        let mut compiled =
            Self { path: String::new(), env: Arc::clone(env), expr, variables, quick: Quick::None };
        compiled.quick = match &compiled.expr.expr {
            _ if compiled.variables.is_empty() => {
                let value = compiled
                    .evaluate(&NoEvent)
                    .map_err(|failure| Mistake::of_value(path, text, failure.0, "mend the expression"))?;
                check_kind(path, text, wanted, &value)?;
                match value {
                    Value::Bool(holds) => Quick::Test(Test::Constant(holds)),
                    value => Quick::Constant(value),
                }
            }
            Expr::Ident(name) if wanted == Wanted::Value => {
                compiled.variable(name).map_or(Quick::None, Quick::Variable)
            }
            _ => Test::of(&compiled.expr, &compiled.variables).map_or(Quick::None, Quick::Test),
        };
        path.clone_into(&mut compiled.path);
        Ok(compiled)
    }

    /// The form in which it needs no library.
    pub(crate) const fn quick(&self) -> &Quick {
        &self.quick
    }

    /// Whether any of its variables is so.
    pub(crate) fn any_variable(&self, is_so: impl Fn(Variable) -> bool) -> bool {
        self.variables.iter().any(|(_, variable)| is_so(*variable))
    }

    /// Whether a condition is true for an event. Hot path.
    #[inline]
    pub(crate) fn holds(&self, event: &impl Event) -> Result<bool, Failure> {
        if let Quick::Test(test) = &self.quick
            && let Some(holds) = test.holds(event)
        {
            return Ok(holds);
        }
        self.holds_by_library(event)
    }

    #[inline(never)]
    fn holds_by_library(&self, event: &impl Event) -> Result<bool, Failure> {
        match self.evaluate(event)? {
            Value::Bool(holds) => Ok(holds),
            other => {
                Err(self.failure(format!("it is of type {}, and a condition is true or false", kind(&other))))
            }
        }
    }

    /// Its value for an event, by the library.
    pub(crate) fn evaluate(&self, event: &impl Event) -> Result<Value, Failure> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        for (name, variable) in &self.variables {
            let value = event.variable(*variable).to_value().ok_or_else(|| {
                self.failure("a property is of a type that expressions don't know".to_owned())
            })?;
            context.add_variable_from_value(name.as_str(), value);
        }
        Value::resolve(&self.expr, &context).map_err(|error| self.failure(reason(&error)))
    }

    /// It failed for an event.
    pub(crate) fn failure(&self, reason: String) -> Failure {
        let path = &self.path;
        Failure(if path.is_empty() { reason } else { format!("{path}: {reason}") })
    }

    fn variable(&self, name: &str) -> Option<Variable> {
        self.variables.iter().find(|(known, _)| known == name).map(|(_, variable)| *variable)
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expression")
            .field("path", &self.path)
            .field("quick", &self.quick)
            .finish_non_exhaustive()
    }
}

/// The event of an expression without variables.
struct NoEvent;

impl Event for NoEvent {
    fn variable(&self, _: Variable) -> Scalar<'_> {
        Scalar::Null
    }
}

/// A constant can be told at once to be no condition, or no value.
fn check_kind(path: &str, text: &str, wanted: Wanted, value: &Value) -> Result<(), Mistake> {
    let (reason, advice) = match (wanted, value) {
        (Wanted::Condition, Value::Bool(_)) => return Ok(()),
        (Wanted::Condition, _) => (
            format!("this is of type {}, and a condition is true or false", kind(value)),
            "compare it with something, such as `properties.region == \"eu\"`",
        ),
        (
            Wanted::Value,
            Value::Bool(_)
            | Value::Int(_)
            | Value::UInt(_)
            | Value::Float(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Null,
        ) => return Ok(()),
        (Wanted::Value, _) => {
            (format!("a property can't be of type {}", kind(value)), "use a text, a number, true or false")
        }
    };
    Err(Mistake::of_value(path, text, reason, advice))
}

/// The name of a value's type.
pub(crate) fn kind(value: &Value) -> String {
    value.type_of().to_string()
}

/// What the library says, without the values that it says it of: they are somebody's data.
fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchOverload(_)
        | ExecutionError::UndeclaredReference(_)
        | ExecutionError::InvalidArgumentCount { .. }
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::MissingArgumentOrTarget => error.to_string(),
        ExecutionError::ValuesNotComparable(one, other) => {
            format!("a value of type {} can't be compared with one of type {}", kind(one), kind(other))
        }
        ExecutionError::UnsupportedBinaryOperator(operator, one, other) => {
            format!("`{operator}` takes no values of types {} and {}", kind(one), kind(other))
        }
        ExecutionError::FunctionError { function, .. } => format!("`{function}` can't take its arguments"),
        ExecutionError::NotSupportedAsMethod { method, target } => {
            format!("`{method}` is not for a value of type {}", kind(target))
        }
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "division by zero".to_owned()
        }
        ExecutionError::Overflow(operator, ..) => format!("the result of `{operator}` is too large"),
        ExecutionError::NoSuchKey(_) | ExecutionError::IndexOutOfBounds(_) => {
            "there is nothing at that index".to_owned()
        }
        _ => "it can't be evaluated".to_owned(),
    }
}

/// A constant in an expression.
pub(crate) fn literal(expr: &IdedExpr) -> Option<&LiteralValue> {
    match &expr.expr {
        Expr::Literal(literal) => Some(literal),
        _ => None,
    }
}
