//! What trees mean for a message.

use amqp::codec::Value;

use super::super::message::MessageProperties;
use super::like::{Steps, is_like};
use super::operand::Operand;
use super::syntax::{Comparison, Constant, Expression, Predicate, Property, Statement};

impl Predicate {
    /// Whether it holds; `None` where that is unknown.
    pub(super) fn holds(&self, message: &MessageProperties) -> Option<bool> {
        self.holds_within(&Steps::default(), message)
    }

    fn holds_within(&self, steps: &Steps, message: &MessageProperties) -> Option<bool> {
        match self {
            Self::Or(parts) => any(parts.iter().map(|part| part.holds_within(steps, message))),
            Self::And(parts) => {
                let are_not = parts.iter().map(|part| part.holds_within(steps, message).map(|is| !is));
                any(are_not).map(|is| !is)
            }
            Self::Not(predicate) => predicate.holds_within(steps, message).map(|is| !is),
            Self::Compare { left, comparison, right } => {
                left.value(message).compare(*comparison, &right.value(message))
            }
            Self::IsNull { property, negated } => Some(property.is_null(message) != *negated),
            Self::In { operand, list, negated } => {
                let operand = operand.value(message);
                if operand == Operand::Unknown {
                    return None;
                }
                any(list.iter().map(|element| operand.compare(Comparison::Equal, &element.value(message))))
                    .map(|is| is != *negated)
            }
            Self::Like { operand, pattern, escape, negated } => {
                match (operand.value(message), pattern.value(message)) {
                    (Operand::Text(text), Operand::Text(pattern)) => {
                        is_like(&text, &pattern, *escape, steps).map(|is| is != *negated)
                    }
                    _ => None,
                }
            }
            Self::Exists(property) => Some(property.exists(message)),
        }
    }

    /// Whether it has the same result for every message.
    pub(super) fn is_constant(&self) -> bool {
        match self {
            Self::Or(parts) | Self::And(parts) => parts.iter().all(Self::is_constant),
            Self::Not(predicate) => predicate.is_constant(),
            Self::Compare { left, right, .. } => left.is_constant() && right.is_constant(),
            Self::In { operand, list, .. } => {
                operand.is_constant() && list.iter().all(Expression::is_constant)
            }
            Self::Like { operand, pattern, .. } => operand.is_constant() && pattern.is_constant(),
            Self::IsNull { .. } | Self::Exists(_) => false,
        }
    }
}

/// True if one is true, else unknown if one is, else false. Stops at the first that is true.
fn any(truths: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut result = Some(false);
    for truth in truths {
        match truth {
            Some(true) => return Some(true),
            Some(false) => {}
            None => result = None,
        }
    }
    result
}

impl Expression {
    fn value<'a>(&'a self, message: &'a MessageProperties) -> Operand<'a> {
        match self {
            Self::Constant(constant) => match constant {
                Constant::Null => Operand::Unknown,
                Constant::Boolean(value) => Operand::Boolean(*value),
                Constant::Integer(number) => Operand::Integer((*number).into()),
                Constant::Double(number) => Operand::Double(*number),
                Constant::Text(text) => Operand::Text(text.as_str().into()),
                Constant::Parameter(_, value) => Operand::of(value),
            },
            Self::Property(property) => property.value(message),
            Self::PropertyNamed(name) => match name.value(message) {
                Operand::Text(name) => message.find(&name).map_or(Operand::Unknown, Operand::of),
                _ => Operand::Unknown,
            },
            Self::Chain { first, rest } => {
                rest.iter().fold(first.value(message), |left, (operator, right)| {
                    left.compute(*operator, right.value(message))
                })
            }
            Self::Sign { is_minus, operand } => {
                let operand = operand.value(message);
                if *is_minus { operand.negated() } else { operand.unchanged() }
            }
        }
    }

    fn is_constant(&self) -> bool {
        match self {
            Self::Constant(_) => true,
            Self::Property(_) | Self::PropertyNamed(_) => false,
            Self::Chain { first, rest } => {
                first.is_constant() && rest.iter().all(|(_, operand)| operand.is_constant())
            }
            Self::Sign { operand, .. } => operand.is_constant(),
        }
    }
}

impl Property {
    fn value<'a>(&self, message: &'a MessageProperties) -> Operand<'a> {
        match self {
            Self::User(name) => message.find(name).map_or(Operand::Unknown, Operand::of),
            Self::System(property) => property.value(message),
        }
    }

    fn exists(&self, message: &MessageProperties) -> bool {
        match self {
            Self::User(name) => message.find(name).is_some(),
            Self::System(property) => property.value(message) != Operand::Unknown,
        }
    }

    /// A property whose type conditions don't know is there all the same.
    fn is_null(&self, message: &MessageProperties) -> bool {
        match self {
            Self::User(name) => matches!(message.find(name), None | Some(Value::Null)),
            Self::System(_) => !self.exists(message),
        }
    }
}

impl Statement {
    /// Does it to `message`.
    pub(super) fn apply(&self, message: &mut MessageProperties) {
        match self {
            Self::Set { property: Property::User(name), value } => {
                let value = value.value(message);
                let value = match message.find(name) {
                    Some(there) => value.into_value_like(there),
                    None => value.into_value(),
                };
                message.set(name, value);
            }
            Self::Set { property: Property::System(property), value } => {
                let text = value.value(message).into_text();
                property.set(message, text);
            }
            Self::Remove(Property::User(name)) => message.remove(name),
            Self::Remove(Property::System(property)) => property.set(message, None),
        }
    }
}
