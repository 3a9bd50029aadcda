//! A transform, compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use cel::Env;

use crate::expression::{Expression, Variable, Wanted};
use crate::mistake::Mistake;
use crate::properties::{NAMES_MAX, Names, Slot};
use crate::step::Step;

/// The condition of a sink: only events for which it is true go there.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'a> {
    /// The path of the condition, for mistakes.
    pub path: &'a str,
    /// The condition.
    pub text: &'a str,
}

/// Steps and conditions of sinks, compiled. Shared by the pipelines that are made of one file.
#[derive(Debug)]
pub struct Program {
    pub(crate) names: Names,
    pub(crate) steps: Vec<Compiled>,
    /// Of each sink.
    pub(crate) conditions: Vec<Option<Expression>>,
    /// The conditions as they were written.
    texts: Vec<Option<String>>,
    /// Whether an expression names something that is among the standard properties of a message.
    pub(crate) reads_standard_properties: bool,
}

/// A step, compiled.
#[derive(Debug)]
pub(crate) enum Compiled {
    Filter(Expression),
    Rename(Vec<(Slot, Slot)>),
    Set(Vec<(Slot, Expression)>),
    Drop(Vec<Slot>),
}

impl Program {
    /// Compiles the steps at `path` and the conditions of all sinks, in their order. `None` if there is nothing to do.
    ///
    /// # Errors
    /// The first mistake.
    pub fn compile(
        path: &str,
        steps: &[Step],
        conditions: &[Option<Condition<'_>>],
    ) -> Result<Option<Self>, Mistake> {
        if steps.is_empty() && conditions.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut compiler =
            Compiler { env: Arc::new(Env::stdlib().with_optional_support(false)), names: Names::default() };
        let steps = steps.iter().enumerate();
        let steps = steps
            .map(|(index, step)| compiler.step(&format!("{path}[{index}]"), step))
            .collect::<Result<Vec<_>, _>>()?;
        let text = |condition: &Option<Condition<'_>>| condition.map(|condition| condition.text.to_owned());
        let texts = conditions.iter().map(text).collect();
        let conditions = conditions.iter().map(|condition| {
            condition
                .map(|Condition { path, text }| compiler.expression(path, text, Wanted::Condition))
                .transpose()
        });
        let conditions = conditions.collect::<Result<Vec<_>, _>>()?;
        let of_steps = steps.iter().flat_map(Compiled::expressions);
        let reads_standard_properties = of_steps
            .chain(conditions.iter().flatten())
            .any(|expression| expression.any_variable(is_standard_property));
        Ok(Some(Self { names: compiler.names, steps, conditions, texts, reads_standard_properties }))
    }

    /// How many steps there are.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// The condition of a sink, as it was written.
    #[must_use]
    pub fn condition(&self, sink: usize) -> Option<&str> {
        self.texts.get(sink)?.as_deref()
    }
}

impl Compiled {
    fn expressions(&self) -> Vec<&Expression> {
        match self {
            Self::Filter(expression) => vec![expression],
            Self::Set(values) => values.iter().map(|(_, expression)| expression).collect(),
            Self::Rename(_) | Self::Drop(_) => Vec::new(),
        }
    }
}

fn is_standard_property(variable: Variable) -> bool {
    matches!(variable, Variable::Subject | Variable::ContentType)
}

struct Compiler {
    env: Arc<Env>,
    names: Names,
}

impl Compiler {
    fn step(&mut self, path: &str, step: &Step) -> Result<Compiled, Mistake> {
        Ok(match step {
            Step::Filter(text) => {
                Compiled::Filter(self.expression(&format!("{path}.filter"), text, Wanted::Condition)?)
            }
            Step::Rename(pairs) => Compiled::Rename(self.renames(&format!("{path}.rename"), pairs)?),
            Step::Set(values) => {
                let path = format!("{path}.set");
                not_empty(&path, values.is_empty())?;
                let values = values.iter().map(|(name, text)| {
                    let path = format!("{path}.{name}");
                    Ok((self.slot(&path, name)?, self.expression(&path, text, Wanted::Value)?))
                });
                Compiled::Set(values.collect::<Result<_, _>>()?)
            }
            Step::Drop(names) => {
                let path = format!("{path}.drop");
                not_empty(&path, names.is_empty())?;
                Compiled::Drop(names.iter().map(|name| self.slot(&path, name)).collect::<Result<_, _>>()?)
            }
        })
    }

    fn renames(
        &mut self,
        path: &str,
        pairs: &BTreeMap<String, String>,
    ) -> Result<Vec<(Slot, Slot)>, Mistake> {
        not_empty(path, pairs.is_empty())?;
        let mut renames: Vec<(Slot, Slot)> = Vec::new();
        for (from, to) in pairs {
            let path = format!("{path}.{from}");
            if from == to {
                let reason = format!("`{to}` is the name that it has");
                return Err(Mistake::of_value(&path, to, reason, "leave it out, or give another name"));
            }
            let pair = (self.slot(&path, from)?, self.slot(&path, to)?);
            if renames.iter().any(|(_, other)| *other == pair.1) {
                let reason = format!("two properties would become `{to}`");
                return Err(Mistake::of_value(&path, to, reason, "give another name"));
            }
            renames.push(pair);
        }
        Ok(renames)
    }

    fn slot(&mut self, path: &str, name: &str) -> Result<Slot, Mistake> {
        if name.is_empty() || name.len() > NAME_LENGTH_MAX {
            let reason = format!("the name of a property has 1 to {NAME_LENGTH_MAX} bytes");
            return Err(Mistake::of_value(path, "", reason, "choose another name"));
        }
        self.names.slot(name).ok_or_else(|| {
            let reason = format!("more than {NAMES_MAX} different properties are named");
            Mistake::of_value(path, name, reason, "make several pipelines of it")
        })
    }

    fn expression(&mut self, path: &str, text: &str, wanted: Wanted) -> Result<Expression, Mistake> {
        Expression::compile(path, text, wanted, &self.env, &mut self.names)
    }
}

fn not_empty(path: &str, is_empty: bool) -> Result<(), Mistake> {
    match is_empty {
        true => Err(Mistake::of_value(path, "", "the step does nothing", "name a property, or leave it out")),
        false => Ok(()),
    }
}

/// More than services allow.
const NAME_LENGTH_MAX: usize = 1_024;
