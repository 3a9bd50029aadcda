//! From the text of an expression to what can be evaluated: every name in it is known, and every property is a variable.

use std::ops::Range;
use std::sync::Arc;

use cel::Env;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, SourceInfo, operators,
};

use super::{VARIABLES, Variable, literal};
use crate::mistake::Mistake;
use crate::properties::{NAMES_MAX, Names};

/// Parses `text`, which stands at `path`. Gives the expression and the variables in it.
pub(super) fn parse(
    path: &str,
    text: &str,
    env: &Arc<Env>,
    names: &mut Names,
) -> Result<(IdedExpr, Vec<(String, Variable)>), Mistake> {
    if text.len() > LENGTH_MAX {
        let reason = format!("the expression has more than {LENGTH_MAX} characters");
        return Err(Mistake::of_value(path, "", reason, "make several steps of it"));
    }
    let (mut expr, source) = env.parser().parse_with_source_info(text).map_err(|errors| {
        let first = errors.errors.first();
        let at = first.map_or(0, |error| byte_of(text, error.pos));
        let (reason, advice) = if text.get(at..).is_some_and(|rest| rest.starts_with('=')) {
            ("`=` is no operator", "`==` compares")
        } else {
            let said = first.map_or("it is no expression", |error| &error.msg);
            (said.strip_prefix("Syntax error: ").unwrap_or(said).trim(), EXAMPLE)
        };
        Mistake {
            path: path.to_owned(),
            text: text.to_owned(),
            part: at..next_boundary(text, at),
            reason: reason.to_owned(),
            advice: advice.to_owned(),
        }
    })?;
    let mut check = Check { path, text, source, names, variables: Vec::new(), scope: Vec::new() };
    check.expression(&mut expr)?;
    let variables = check.variables;
    Ok((expr, variables))
}

struct Check<'a> {
    path: &'a str,
    text: &'a str,
    source: SourceInfo,
    names: &'a mut Names,
    variables: Vec<(String, Variable)>,
    /// Names that macros have made.
    scope: Vec<String>,
}

impl Check<'_> {
    fn expression(&mut self, expr: &mut IdedExpr) -> Result<(), Mistake> {
        let id = expr.id;
        if let Some(property) = property_of(&expr.expr) {
            let has = matches!(&expr.expr, Expr::Select(SelectExpr { test: true, .. }))
                || matches!(&expr.expr, Expr::Call(call) if call.func_name == operators::IN);
            let property = property.to_owned();
            let name = self.property(&property, id)?;
            let ident = IdedExpr { id, expr: Expr::Ident(name) };
            expr.expr = match has {
                // A property that is not there is null.
                true => Expr::Call(CallExpr {
                    func_name: operators::NOT_EQUALS.to_owned(),
                    target: None,
                    args: vec![ident, IdedExpr { id, expr: Expr::Literal(LiteralValue::Null) }],
                }),
                false => ident.expr,
            };
            return Ok(());
        }
        match &mut expr.expr {
            Expr::Ident(name) => self.name(&name.clone(), id),
            Expr::Select(select) => self.expression(&mut select.operand),
            Expr::Call(call) => {
                let is_known = call.func_name.chars().any(|character| !character.is_alphanumeric())
                    || FUNCTIONS.contains(&&*call.func_name);
                if !is_known {
                    let reason = format!("there is no function `{}`", call.func_name);
                    return Err(self.mistake(id, reason, format!("there are {}", list(&FUNCTIONS))));
                }
                if let Some(target) = &mut call.target {
                    self.expression(target)?;
                }
                call.args.iter_mut().try_for_each(|argument| self.expression(argument))
            }
            Expr::List(list) => list.elements.iter_mut().try_for_each(|element| self.expression(element)),
            Expr::Map(map) => map.entries.iter_mut().try_for_each(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.expression(&mut entry.key)?;
                    self.expression(&mut entry.value)
                }
                EntryExpr::StructField(field) => self.expression(&mut field.value),
            }),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension, id),
            Expr::Struct(_) => Err(self.mistake(id, "messages can't be made here", "use a value")),
            Expr::Literal(_) | Expr::Unspecified => Ok(()),
        }
    }

    fn comprehension(&mut self, comprehension: &mut ComprehensionExpr, id: u64) -> Result<(), Mistake> {
        self.expression(&mut comprehension.iter_range)?;
        self.expression(&mut comprehension.accu_init)?;
        let before = self.scope.len();
        let own = [Some(&comprehension.iter_var), comprehension.iter_var2.as_ref()];
        for name in own.into_iter().flatten() {
            if name == PROPERTIES || VARIABLES.iter().any(|(known, _)| known == name) {
                let reason = format!("`{name}` is the name of something of the event");
                return Err(self.mistake(id, reason, "choose another name"));
            }
            self.scope.push(name.clone());
        }
        self.scope.push(comprehension.accu_var.clone());
        self.expression(&mut comprehension.loop_cond)?;
        self.expression(&mut comprehension.loop_step)?;
        self.expression(&mut comprehension.result)?;
        self.scope.truncate(before);
        Ok(())
    }

    fn name(&mut self, name: &str, id: u64) -> Result<(), Mistake> {
        if self.scope.iter().any(|known| known == name) || TYPES.contains(&name) {
            return Ok(());
        }
        if let Some((name, variable)) = VARIABLES.iter().find(|(known, _)| *known == name) {
            self.add(name, *variable);
            return Ok(());
        }
        if name == PROPERTIES {
            let reason = "`properties` can't be used as a whole";
            return Err(self.mistake(
                id,
                reason,
                "name one: `properties.region` or `properties[\"x-region\"]`",
            ));
        }
        let known: Vec<&str> = VARIABLES.iter().map(|(known, _)| *known).collect();
        let advice =
            format!("there are `properties.<name>`, {}; a text stands in quotes: `\"{name}\"`", list(&known));
        Err(self.mistake(id, format!("`{name}` is nothing of an event"), advice))
    }

    /// The variable of a property.
    fn property(&mut self, property: &str, id: u64) -> Result<String, Mistake> {
        let Some(slot) = self.names.slot(property) else {
            let reason = format!("more than {NAMES_MAX} different properties are named");
            return Err(self.mistake(id, reason, "make several pipelines of it"));
        };
        // No name in an expression begins so.
        let name = format!("#{}", slot.0);
        self.add(&name, Variable::Property(slot));
        Ok(name)
    }

    fn add(&mut self, name: &str, variable: Variable) {
        if self.variables.iter().all(|(_, known)| *known != variable) {
            self.variables.push((name.to_owned(), variable));
        }
    }

    fn mistake(&self, id: u64, reason: impl Into<String>, advice: impl Into<String>) -> Mistake {
        Mistake {
            path: self.path.to_owned(),
            text: self.text.to_owned(),
            part: self.part(id),
            reason: reason.into(),
            advice: advice.into(),
        }
    }

    /// Where an expression stands; its places are those of bytes, the last one included.
    fn part(&self, id: u64) -> Range<usize> {
        let Some((start, stop)) = self.source.offset_for(id) else {
            return 0..self.text.len();
        };
        let start = self.text.floor_char_boundary(start as usize);
        start..self.text.ceil_char_boundary((stop as usize).saturating_add(1)).max(start)
    }
}

/// The name of the property that an expression is about: `properties.name`, `properties["name"]`, `has(properties.name)` or
/// `"name" in properties`.
fn property_of(expr: &Expr) -> Option<&str> {
    let is_properties = |of: &IdedExpr| matches!(&of.expr, Expr::Ident(name) if name == PROPERTIES);
    let text = |of| match literal(of)? {
        LiteralValue::String(name) => Some(name.inner()),
        _ => None,
    };
    match expr {
        Expr::Select(select) if is_properties(&select.operand) => Some(&select.field),
        Expr::Call(call) => match (&*call.func_name, &call.args[..]) {
            (operators::INDEX, [of, name]) if is_properties(of) => text(name),
            (operators::IN, [name, of]) if is_properties(of) => text(name),
            _ => None,
        },
        _ => None,
    }
}

/// The byte at a line and a column, both counted from 1.
fn byte_of(text: &str, (line, column): (isize, isize)) -> usize {
    let before = usize::try_from(line - 1).unwrap_or(0);
    let start: usize = text.split_inclusive('\n').take(before).map(str::len).sum();
    let column = usize::try_from(column - 1).unwrap_or(0);
    let rest = text.get(start..).unwrap_or_default();
    start + rest.char_indices().nth(column).map_or(rest.len(), |(place, _)| place)
}

fn next_boundary(text: &str, at: usize) -> usize {
    text.get(at..).and_then(|rest| rest.chars().next()).map_or(at, |character| at + character.len_utf8())
}

fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

const EXAMPLE: &str = "expressions are CEL, such as `properties.region == \"eu\" && key != \"test\"`";

const PROPERTIES: &str = "properties";

/// More than anyone writes, and what is parsed in no time.
const LENGTH_MAX: usize = 4_096;

/// The functions that expressions may call, beside operators and macros.
const FUNCTIONS: [&str; 11] =
    ["bool", "bytes", "contains", "double", "dyn", "endsWith", "int", "size", "startsWith", "string", "type"];

/// Names of types, to compare with what `type` gives.
const TYPES: [&str; 8] = ["bool", "bytes", "double", "int", "list", "map", "null_type", "string"];
