//! Values as conditions compute with them: fewer types than AMQP has, and *unknown* beside them.
//!
//! A property that is missing, null, or of a type that conditions don't know is unknown; so is the result of an
//! operation whose operands don't go together or whose result has no room. Nothing fails.

use amqp::codec::Value;
use std::borrow::Cow;
use std::cmp::Ordering;

use super::super::written_time;
use super::syntax::{Comparison, Operator};
use super::system::TICKS_PER_MILLISECOND;

/// A value, or unknown.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand<'a> {
    Unknown,
    Boolean(bool),
    /// Within the range of an AMQP long or ulong.
    Integer(i128),
    Double(f64),
    Text(Cow<'a, str>),
    /// Milliseconds since 1970.
    Timestamp(i64),
    /// Ticks of 100 nanoseconds.
    TimeSpan(i64),
    Uuid([u8; 16]),
    Binary(&'a [u8]),
}

impl<'a> Operand<'a> {
    /// A property's value.
    pub(super) fn of(value: &'a Value) -> Self {
        match value {
            Value::Boolean(value) => Self::Boolean(*value),
            Value::Ubyte(number) => Self::Integer((*number).into()),
            Value::Ushort(number) => Self::Integer((*number).into()),
            Value::Uint(number) => Self::Integer((*number).into()),
            Value::Ulong(number) => Self::Integer((*number).into()),
            Value::Byte(number) => Self::Integer((*number).into()),
            Value::Short(number) => Self::Integer((*number).into()),
            Value::Int(number) => Self::Integer((*number).into()),
            Value::Long(number) => Self::Integer((*number).into()),
            Value::Float(number) => Self::Double((*number).into()),
            Value::Double(number) => Self::Double(*number),
            Value::Char(code) => char::from_u32(*code)
                .map_or(Self::Unknown, |character| Self::Text(character.to_string().into())),
            Value::Timestamp(milliseconds) => Self::Timestamp(*milliseconds),
            Value::Uuid(bytes) => Self::Uuid(*bytes),
            Value::Binary(bytes) => Self::Binary(bytes),
            Value::String(text) => Self::Text(text.as_str().into()),
            Value::Symbol(symbol) => Self::Text(symbol.as_str().into()),
            Value::Described(described) => Self::of_described(&described.0, &described.1),
            Value::Null
            | Value::Decimal32(_)
            | Value::Decimal64(_)
            | Value::Decimal128(_)
            | Value::List(_)
            | Value::Map(_)
            | Value::Array(_) => Self::Unknown,
        }
    }

    /// The types that clients of the service describe, since AMQP has none for them.
    fn of_described(descriptor: &Value, value: &'a Value) -> Self {
        match (descriptor.as_text(), value) {
            (Some("com.microsoft:uri"), Value::String(text)) => Self::Text(text.as_str().into()),
            (Some("com.microsoft:timespan"), Value::Long(ticks)) => Self::TimeSpan(*ticks),
            (Some("com.microsoft:datetime-offset"), Value::Long(ticks)) => {
                Self::Timestamp((ticks.saturating_sub(TICKS_AT_1970)).div_euclid(TICKS_PER_MILLISECOND))
            }
            _ => written_time::milliseconds(descriptor, value).map_or(Self::Unknown, Self::Timestamp),
        }
    }

    /// The value as a property. Unknown becomes null.
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Unknown => Value::Null,
            Self::Boolean(value) => Value::Boolean(value),
            Self::Integer(number) => match (i64::try_from(number), u64::try_from(number)) {
                (Ok(number), _) => Value::Long(number),
                (_, Ok(number)) => Value::Ulong(number),
                _ => Value::Null,
            },
            Self::Double(number) => Value::Double(number),
            Self::Text(text) => Value::String(text.into_owned()),
            Self::Timestamp(milliseconds) => Value::Timestamp(milliseconds),
            Self::TimeSpan(ticks) => Value::Described(Box::new((
                Value::Symbol("com.microsoft:timespan".into()),
                Value::Long(ticks),
            ))),
            Self::Uuid(bytes) => Value::Uuid(bytes),
            Self::Binary(bytes) => Value::Binary(bytes.to_vec()),
        }
    }

    /// The value as a property that has the type of `model`, if it can be said in that type without loss.
    pub(super) fn into_value_like(self, model: &Value) -> Value {
        let alike = match (&self, model) {
            (Self::Integer(number), Value::Ubyte(_)) => (*number).try_into().ok().map(Value::Ubyte),
            (Self::Integer(number), Value::Ushort(_)) => (*number).try_into().ok().map(Value::Ushort),
            (Self::Integer(number), Value::Uint(_)) => (*number).try_into().ok().map(Value::Uint),
            (Self::Integer(number), Value::Ulong(_)) => (*number).try_into().ok().map(Value::Ulong),
            (Self::Integer(number), Value::Byte(_)) => (*number).try_into().ok().map(Value::Byte),
            (Self::Integer(number), Value::Short(_)) => (*number).try_into().ok().map(Value::Short),
            (Self::Integer(number), Value::Int(_)) => (*number).try_into().ok().map(Value::Int),
            (Self::Integer(number), Value::Double(_)) => Some(Value::Double(*number as f64)),
            (Self::Integer(number), Value::Float(_)) => Some(Value::Float(*number as f32)),
            (Self::Double(number), Value::Float(_)) => Some(Value::Float(*number as f32)),
            _ => None,
        };
        alike.unwrap_or_else(|| self.into_value())
    }

    /// The value as a text, for the properties that are texts; `None` where it is unknown or no text says it.
    pub(super) fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.into_owned()),
            Self::Integer(number) => Some(number.to_string()),
            Self::Double(number) => Some(number.to_string()),
            Self::Boolean(value) => Some(value.to_string()),
            Self::Uuid(bytes) => {
                Some(super::super::correlation::text_of_id(&Value::Uuid(bytes)).into_owned())
            }
            Self::Unknown | Self::Timestamp(_) | Self::TimeSpan(_) | Self::Binary(_) => None,
        }
    }

    /// Whether the comparison holds; `None` where that is unknown.
    pub(super) fn compare(&self, comparison: Comparison, other: &Self) -> Option<bool> {
        let ordering = match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => one.cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Timestamp(one), Self::Timestamp(other)) | (Self::TimeSpan(one), Self::TimeSpan(other)) => {
                one.cmp(other)
            }
            (Self::Boolean(one), Self::Boolean(other)) => {
                return comparison.of_equality(one == other);
            }
            (Self::Uuid(one), Self::Uuid(other)) => return comparison.of_equality(one == other),
            (Self::Binary(one), Self::Binary(other)) => {
                return comparison.of_equality(one == other);
            }
            _ => self.as_double()?.partial_cmp(&other.as_double()?)?,
        };
        Some(comparison.of_ordering(ordering))
    }

    /// The result of an operation of arithmetic. Integers are divided as integers.
    pub(super) fn compute(self, operator: Operator, other: Self) -> Self {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => {
                let result = match operator {
                    Operator::Add => one.checked_add(other),
                    Operator::Subtract => one.checked_sub(other),
                    Operator::Multiply => one.checked_mul(other),
                    Operator::Divide => one.checked_div(other),
                    Operator::Remainder => one.checked_rem(other),
                };
                result.map_or(Self::Unknown, Self::integer)
            }
            (Self::Text(one), Self::Text(other))
                if operator == Operator::Add && one.len() + other.len() <= LONGEST_SUM =>
            {
                Self::Text(Cow::Owned(one.into_owned() + &other))
            }
            (Self::Timestamp(one), Self::Timestamp(other)) if operator == Operator::Subtract => one
                .checked_sub(other)
                .and_then(|milliseconds| milliseconds.checked_mul(TICKS_PER_MILLISECOND))
                .map_or(Self::Unknown, Self::TimeSpan),
            (one, other) => match (one.as_double(), other.as_double()) {
                (Some(one), Some(other)) => Self::Double(match operator {
                    Operator::Add => one + other,
                    Operator::Subtract => one - other,
                    Operator::Multiply => one * other,
                    Operator::Divide => one / other,
                    Operator::Remainder => one % other,
                }),
                _ => Self::Unknown,
            },
        }
    }

    /// The number with the other sign.
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Integer(number) => Self::integer(-number),
            Self::Double(number) => Self::Double(-number),
            _ => Self::Unknown,
        }
    }

    /// The number as it is; unknown for everything else.
    pub(super) fn unchanged(self) -> Self {
        match self {
            Self::Integer(_) | Self::Double(_) => self,
            _ => Self::Unknown,
        }
    }

    fn integer(number: i128) -> Self {
        if (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number) {
            Self::Integer(number)
        } else {
            Self::Unknown
        }
    }

    fn as_double(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Double(number) => Some(*number),
            _ => None,
        }
    }
}

impl Comparison {
    /// The result for operands that have an order.
    fn of_ordering(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }

    /// The result for operands that are the same or not, and no more than that.
    fn of_equality(self, is_equal: bool) -> Option<bool> {
        match self {
            Self::Equal => Some(is_equal),
            Self::NotEqual => Some(!is_equal),
            Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual => None,
        }
    }
}

/// Longest text that is put together of others, in bytes: as much as the service lets all properties of a message have.
const LONGEST_SUM: usize = 64 * 1024;
/// Ticks from the year 1 to 1970.
const TICKS_AT_1970: i64 = 621_355_968_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_beyond_64_bits_are_unknown_and_nothing_overflows() {
        let largest = || Operand::Integer(u64::MAX.into());
        let one = || Operand::Integer(1);
        assert_eq!(largest().compute(Operator::Add, one()), Operand::Unknown);
        assert_eq!(largest().compute(Operator::Multiply, largest()), Operand::Unknown);
        assert_eq!(largest().negated(), Operand::Unknown);
        assert_eq!(one().compute(Operator::Divide, Operand::Integer(0)), Operand::Unknown);
        assert_eq!(one().compute(Operator::Remainder, Operand::Integer(0)), Operand::Unknown);
    }

    #[test]
    fn a_changed_number_keeps_its_type_where_it_fits() {
        let value = |number, model| Operand::Integer(number).into_value_like(&model);
        assert_eq!(value(5, Value::Int(10)), Value::Int(5));
        assert_eq!(value(1 << 40, Value::Int(10)), Value::Long(1 << 40));
        assert_eq!(value(-1, Value::Ubyte(1)), Value::Long(-1));
        assert_eq!(value(2, Value::Double(0.5)), Value::Double(2.0));
        assert_eq!(value(2, Value::String("two".into())), Value::Long(2));
    }

    #[test]
    fn described_times_are_times() {
        let described =
            |name: &str, ticks| Value::Described(Box::new((Value::Symbol(name.into()), Value::Long(ticks))));
        let time = described("com.microsoft:datetime-offset", TICKS_AT_1970 + 50_000);
        assert_eq!(Operand::of(&time), Operand::Timestamp(5));
        let span = described("com.microsoft:timespan", 30_000);
        assert_eq!(Operand::of(&span), Operand::TimeSpan(30_000));
        let difference = Operand::Timestamp(8).compute(Operator::Subtract, Operand::Timestamp(5));
        assert_eq!(difference, Operand::of(&span));
        assert_eq!(difference.into_value(), span);
    }
}
