//! What a text means, as trees, and how they are printed.
//!
//! Chains such as `a AND b AND c` are one node however long they are, so that the depth of a tree is the depth of its
//! parentheses.

use amqp::codec::Value;
use std::fmt;

use super::system::SystemProperty;

/// What is true, false or unknown.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Predicate {
    /// Two or more.
    Or(Vec<Self>),
    /// Two or more.
    And(Vec<Self>),
    Not(Box<Self>),
    Compare {
        left: Expression,
        comparison: Comparison,
        right: Expression,
    },
    IsNull {
        property: Property,
        negated: bool,
    },
    In {
        operand: Expression,
        list: Vec<Expression>,
        negated: bool,
    },
    Like {
        operand: Expression,
        pattern: Expression,
        escape: Option<char>,
        negated: bool,
    },
    Exists(Property),
}

/// What has a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    Constant(Constant),
    Property(Property),
    /// The application property whose name is the value of an expression.
    PropertyNamed(Box<Self>),
    /// Sums or products: operators of one rank, from left to right.
    Chain {
        first: Box<Self>,
        rest: Vec<(Operator, Self)>,
    },
    Sign {
        is_minus: bool,
        operand: Box<Self>,
    },
}

/// A value that is written down.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Constant {
    Null,
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Text(String),
    /// A parameter by its name, and what it stands for.
    Parameter(String, Value),
}

/// A property of the message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Property {
    User(String),
    System(SystemProperty),
}

/// How values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// How values are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// One step of an action.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Statement {
    Set { property: Property, value: Expression },
    Remove(Property),
}

impl Comparison {
    pub(super) fn of_mark(mark: &str) -> Option<Self> {
        Some(match mark {
            "=" => Self::Equal,
            "<>" | "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    const fn mark(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "<>",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl Operator {
    /// `+` and `-`.
    pub(super) fn of_sum(mark: &str) -> Option<Self> {
        match mark {
            "+" => Some(Self::Add),
            "-" => Some(Self::Subtract),
            _ => None,
        }
    }

    /// `*`, `/` and `%`.
    pub(super) fn of_product(mark: &str) -> Option<Self> {
        match mark {
            "*" => Some(Self::Multiply),
            "/" => Some(Self::Divide),
            "%" => Some(Self::Remainder),
            _ => None,
        }
    }

    const fn mark(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }

    const fn rank(self) -> Rank {
        match self {
            Self::Add | Self::Subtract => Rank::Sum,
            Self::Multiply | Self::Divide | Self::Remainder => Rank::Product,
        }
    }
}

/// How closely the parts of a text belong together. What belongs together less closely than its surroundings is put
/// in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Or,
    And,
    Not,
    Comparison,
    Sum,
    Product,
    Sign,
    Single,
}

impl Predicate {
    const fn rank(&self) -> Rank {
        match self {
            Self::Or(_) => Rank::Or,
            Self::And(_) => Rank::And,
            Self::Not(_) => Rank::Not,
            Self::Compare { .. } | Self::IsNull { .. } | Self::In { .. } | Self::Like { .. } => {
                Rank::Comparison
            }
            Self::Exists(_) => Rank::Single,
        }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>, least: Rank) -> fmt::Result {
        if self.rank() < least {
            return write!(f, "({self})");
        }
        write!(f, "{self}")
    }
}

impl Expression {
    fn rank(&self) -> Rank {
        match self {
            Self::Chain { rest, .. } => rest.first().map_or(Rank::Single, |(operator, _)| operator.rank()),
            Self::Sign { .. } => Rank::Sign,
            Self::Constant(_) | Self::Property(_) | Self::PropertyNamed(_) => Rank::Single,
        }
    }

    fn print(&self, f: &mut fmt::Formatter<'_>, least: Rank) -> fmt::Result {
        if self.rank() < least {
            return write!(f, "({self})");
        }
        write!(f, "{self}")
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = |negated: bool| if negated { "NOT " } else { "" };
        let joined = |f: &mut fmt::Formatter<'_>, parts: &[Self], word: &str, least| {
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    write!(f, " {word} ")?;
                }
                part.print(f, least)?;
            }
            Ok(())
        };
        match self {
            Self::Or(parts) => joined(f, parts, "OR", Rank::And),
            Self::And(parts) => joined(f, parts, "AND", Rank::Not),
            Self::Not(predicate) => {
                f.write_str("NOT ")?;
                predicate.print(f, Rank::Not)
            }
            Self::Compare { left, comparison, right } => {
                left.print(f, Rank::Sum)?;
                write!(f, " {} ", comparison.mark())?;
                right.print(f, Rank::Sum)
            }
            Self::IsNull { property, negated } => {
                write!(f, "{property} IS {}NULL", not(*negated))
            }
            Self::In { operand, list, negated } => {
                operand.print(f, Rank::Sum)?;
                write!(f, " {}IN (", not(*negated))?;
                for (index, element) in list.iter().enumerate() {
                    let separator = if index > 0 { ", " } else { "" };
                    write!(f, "{separator}{element}")?;
                }
                f.write_str(")")
            }
            Self::Like { operand, pattern, escape, negated } => {
                operand.print(f, Rank::Sum)?;
                write!(f, " {}LIKE ", not(*negated))?;
                pattern.print(f, Rank::Sum)?;
                match escape {
                    Some('\'') => f.write_str(" ESCAPE ''''"),
                    Some(escape) => write!(f, " ESCAPE '{escape}'"),
                    None => Ok(()),
                }
            }
            Self::Exists(property) => write!(f, "EXISTS({property})"),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(constant) => write!(f, "{constant}"),
            Self::Property(property) => write!(f, "{property}"),
            Self::PropertyNamed(name) => write!(f, "property({name})"),
            Self::Chain { first, rest } => {
                let least = match self.rank() {
                    Rank::Sum => Rank::Product,
                    _ => Rank::Sign,
                };
                first.print(f, least)?;
                for (operator, operand) in rest {
                    write!(f, " {} ", operator.mark())?;
                    operand.print(f, least)?;
                }
                Ok(())
            }
            Self::Sign { is_minus, operand } => {
                f.write_str(if *is_minus { "-" } else { "+" })?;
                // Two of them without a blank would be read as a comment.
                if operand.rank() == Rank::Sign {
                    f.write_str(" ")?;
                }
                operand.print(f, Rank::Sign)
            }
        }
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(true) => f.write_str("TRUE"),
            Self::Boolean(false) => f.write_str("FALSE"),
            Self::Integer(number) => write!(f, "{number}"),
            // This form always has a point or an exponent.
            Self::Double(number) => write!(f, "{number:?}"),
            Self::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
            Self::Parameter(name, _) => f.write_str(name),
        }
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(property) => write!(f, "sys.{}", property.name()),
            Self::User(name) => {
                let is_regular = name.starts_with(char::is_alphabetic)
                    && name.chars().all(|character| character.is_alphanumeric() || character == '_')
                    && !is_keyword(name);
                if is_regular { f.write_str(name) } else { write!(f, "[{}]", name.replace(']', "]]")) }
            }
        }
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set { property, value } => write!(f, "SET {property} = {value}"),
            Self::Remove(property) => write!(f, "REMOVE {property}"),
        }
    }
}

/// Whether a word means something by itself, so that it is no name without brackets.
pub(super) fn is_keyword(word: &str) -> bool {
    KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

const KEYWORDS: [&str; 13] =
    ["AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE", "EXISTS", "SET", "REMOVE"];
