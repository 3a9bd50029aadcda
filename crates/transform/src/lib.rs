//! Small transforms of events between a source and its sinks: filters, changes of properties, conditions of sinks.
//!
//! A [`Program`] is compiled once, from the [`Step`]s and the conditions of a pipeline. A [`Transformer`] then works on whole
//! batches, and on their bytes: the properties of a message are found where they lie, only those that the program names are looked
//! at, and a message that changes is written again with everything else copied as it is.
//!
//! ```text
//!   message     [properties][application properties: a=1 region="eu" debug=true][data ...]
//!   steps       filter: 'properties.region == "eu"'    rename: {a: b}    drop: [debug]
//!   written     [properties][application properties: region="eu" b=1           ][data ...]
//! ```
//!
//! Expressions are CEL. Comparisons of a property with a constant, and what is made of them with `&&`, `||` and `!`, are carried out
//! here (`expression::test`); everything else is for the `cel` library, which has the last word about errors as well.
//!
//! A property that is not there is `null`. An event for which an expression fails is not for any sink: it is
//! [unfit](connect::transform::Selection::refuse), and whoever carries it decides what becomes of it.

mod amqp_message;
mod expression;
mod kafka_record;
mod mistake;
mod program;
mod properties;
mod scalar;
mod step;
#[cfg(test)]
mod tests;
mod transformer;

pub use mistake::Mistake;
pub use program::{Condition, Program};
pub use step::Step;
pub use transformer::Transformer;
