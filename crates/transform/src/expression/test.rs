//! Conditions that are carried out without the library: comparisons of one variable with constants, and what is made of them.
//!
//! A test that has no answer for an event, since a value is of a type that it isn't for, leaves the answer to the library. So it
//! never differs from it, and has no errors of its own.

use std::cmp::Ordering;

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

use super::{Event, Variable, literal};
use crate::scalar::Scalar;

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    Constant(bool),
    Not(Box<Self>),
    And(Box<[Self; 2]>),
    Or(Box<[Self; 2]>),
    /// The variable is true.
    Is(Variable),
    /// The variable is one of these.
    OneOf(Variable, Vec<Literal>),
    /// The variable is such a number.
    Number(Variable, Compares, i64),
    Text(Variable, Part, Box<[u8]>),
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Text(Box<[u8]>),
}

/// How a number compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compares {
    Less,
    AtMost,
    Greater,
    AtLeast,
}

/// What a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Start,
    End,
    Anywhere,
}

impl Test {
    /// The test that an expression is, if it is one.
    pub(crate) fn of(expr: &IdedExpr, variables: &[(String, Variable)]) -> Option<Self> {
        let variable = |of: &IdedExpr| match &of.expr {
            Expr::Ident(name) => {
                variables.iter().find(|(known, _)| known == name).map(|(_, variable)| *variable)
            }
            _ => None,
        };
        let call = match &expr.expr {
            Expr::Literal(LiteralValue::Boolean(value)) => return Some(Self::Constant(*value.inner())),
            Expr::Ident(_) => return variable(expr).map(Self::Is),
            Expr::Call(call) => call,
            _ => return None,
        };
        let CallExpr { func_name, target, args } = call;
        if let (Some(target), [part]) = (target, &args[..]) {
            let part_of = match &**func_name {
                "startsWith" => Part::Start,
                "endsWith" => Part::End,
                "contains" => Part::Anywhere,
                _ => return None,
            };
            let Literal::Text(text) = Literal::of(part)? else { return None };
            return Some(Self::Text(variable(target)?, part_of, text));
        }
        let equals = |one: &IdedExpr, other: &IdedExpr| {
            let (of, with) = match variable(one) {
                Some(variable) => (variable, other),
                None => (variable(other)?, one),
            };
            Some(Self::OneOf(of, vec![Literal::of(with)?]))
        };
        match (&**func_name, &args[..]) {
            (operators::LOGICAL_NOT, [of]) => Some(Self::Not(Box::new(Self::of(of, variables)?))),
            (operators::LOGICAL_AND, [one, other]) => {
                Some(Self::And(Box::new([Self::of(one, variables)?, Self::of(other, variables)?])))
            }
            (operators::LOGICAL_OR, [one, other]) => {
                Some(Self::Or(Box::new([Self::of(one, variables)?, Self::of(other, variables)?])))
            }
            (operators::EQUALS, [one, other]) => equals(one, other),
            (operators::NOT_EQUALS, [one, other]) => Some(Self::Not(Box::new(equals(one, other)?))),
            (operators::IN, [of, list]) => {
                let Expr::List(list) = &list.expr else { return None };
                let literals = list.elements.iter().map(Literal::of).collect::<Option<Vec<_>>>()?;
                Some(Self::OneOf(variable(of)?, literals))
            }
            (operator, [of, number]) => {
                let compares = match operator {
                    operators::LESS => Compares::Less,
                    operators::LESS_EQUALS => Compares::AtMost,
                    operators::GREATER => Compares::Greater,
                    operators::GREATER_EQUALS => Compares::AtLeast,
                    _ => return None,
                };
                let Literal::Int(number) = Literal::of(number)? else { return None };
                Some(Self::Number(variable(of)?, compares, number))
            }
            _ => None,
        }
    }

    /// Whether the condition is true for an event; `None` if the library has to say. Hot path.
    pub(crate) fn holds(&self, event: &impl Event) -> Option<bool> {
        match self {
            Self::Constant(holds) => Some(*holds),
            Self::Not(of) => of.holds(event).map(|holds| !holds),
            Self::And(both) => Some(both[0].holds(event)? && both[1].holds(event)?),
            Self::Or(either) => Some(either[0].holds(event)? || either[1].holds(event)?),
            Self::Is(variable) => match event.variable(*variable) {
                Scalar::Bool(value) => Some(value),
                _ => None,
            },
            Self::OneOf(variable, literals) => {
                let value = event.variable(*variable);
                let mut any = false;
                for literal in literals {
                    any |= literal.equals(value)?;
                }
                Some(any)
            }
            Self::Number(variable, compares, number) => match event.variable(*variable) {
                Scalar::Int(value) => Some(compares.holds(value.cmp(number))),
                _ => None,
            },
            Self::Text(variable, part, text) => match event.variable(*variable) {
                Scalar::Text(value) => Some(match part {
                    Part::Start => value.starts_with(text),
                    Part::End => value.ends_with(text),
                    Part::Anywhere => {
                        text.is_empty() || value.windows(text.len()).any(|part| part == &**text)
                    }
                }),
                _ => None,
            },
        }
    }
}

impl Literal {
    fn of(expr: &IdedExpr) -> Option<Self> {
        Some(match literal(expr)? {
            LiteralValue::Null => Self::Null,
            LiteralValue::Boolean(value) => Self::Bool(*value.inner()),
            LiteralValue::Int(value) => Self::Int(*value.inner()),
            LiteralValue::String(text) => Self::Text(text.inner().as_bytes().into()),
            LiteralValue::Bytes(_) | LiteralValue::Double(_) | LiteralValue::UInt(_) => return None,
        })
    }

    /// Whether a value is this one, if both are of a kind of which that is plain. Values of different types differ.
    #[inline]
    fn equals(&self, value: Scalar<'_>) -> Option<bool> {
        match (self, value) {
            (Self::Text(text), Scalar::Text(value)) => Some(**text == *value),
            (Self::Int(number), Scalar::Int(value)) => Some(*number == value),
            (Self::Bool(flag), Scalar::Bool(value)) => Some(*flag == value),
            (Self::Null, Scalar::Null) => Some(true),
            (Self::Null, Scalar::Other) => None,
            (Self::Null, _) | (_, Scalar::Null) => Some(false),
            (Self::Text(_), Scalar::Bool(_) | Scalar::Int(_)) => Some(false),
            _ => None,
        }
    }
}

impl Compares {
    const fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Less => ordering.is_lt(),
            Self::AtMost => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::AtLeast => ordering.is_ge(),
        }
    }
}
