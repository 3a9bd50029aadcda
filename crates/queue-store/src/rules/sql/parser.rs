//! From tokens to trees: recursive descent, one function per rank, with a bound on the depth.

use super::error::{SqlError, SqlErrorKind};
use super::lexer::{Lexer, Located, Token};
use super::syntax::{Comparison, Constant, Expression, Operator, Predicate, Property, Statement, is_keyword};
use super::system::SystemProperty;
use super::{MAXIMUM_DEPTH, MAXIMUM_STATEMENTS, MAXIMUM_TEXT_LENGTH};
use amqp::codec::Value;

type Result<T> = std::result::Result<T, SqlError>;

/// Reads a condition.
pub(super) fn predicate(text: &str, parameters: &[(String, Value)]) -> Result<Predicate> {
    let mut parser = Parser::new(text, parameters)?;
    let term = parser.disjunction()?;
    parser.end("the end, AND or OR")?;
    parser.condition(term)
}

/// Reads the statements of an action; there is at least one.
pub(super) fn statements(text: &str, parameters: &[(String, Value)]) -> Result<Vec<Statement>> {
    let mut parser = Parser::new(text, parameters)?;
    let mut statements = Vec::new();
    loop {
        let start = parser.current.start;
        statements.push(parser.statement()?);
        if statements.len() > MAXIMUM_STATEMENTS {
            return Err(parser.lexer.error(start, SqlErrorKind::TooManyStatements));
        }
        while parser.takes_mark(";")? {}
        if parser.current.token == Token::End {
            return Ok(statements);
        }
    }
}

/// What parentheses may hold: what it is turns out when it is used.
struct Term {
    start: usize,
    kind: TermKind,
}

enum TermKind {
    Predicate(Predicate),
    Expression(Expression),
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token that has not been used yet.
    current: Located<'a>,
    /// What parameters stand for, by their names with `@`.
    parameters: &'a [(String, Value)],
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str, parameters: &'a [(String, Value)]) -> Result<Self> {
        let mut lexer = Lexer::new(text);
        if text.len() > MAXIMUM_TEXT_LENGTH {
            let bytes = text.len();
            return Err(lexer.error(0, SqlErrorKind::TooLong { bytes }));
        }
        let current = lexer.next()?;
        Ok(Self { lexer, current, parameters, depth: 0 })
    }

    /// `a OR b OR …`
    fn disjunction(&mut self) -> Result<Term> {
        self.chain("OR", Self::conjunction, Predicate::Or)
    }

    /// `a AND b AND …`
    fn conjunction(&mut self) -> Result<Term> {
        self.chain("AND", Self::negation, Predicate::And)
    }

    fn chain(
        &mut self,
        word: &str,
        part: fn(&mut Self) -> Result<Term>,
        of: fn(Vec<Predicate>) -> Predicate,
    ) -> Result<Term> {
        let first = part(self)?;
        if !self.is_word(word) {
            return Ok(first);
        }
        let start = first.start;
        let mut parts = vec![self.condition(first)?];
        while self.takes_word(word)? {
            let next = part(self)?;
            parts.push(self.condition(next)?);
        }
        Ok(Term { start, kind: TermKind::Predicate(of(parts)) })
    }

    /// `NOT a`
    fn negation(&mut self) -> Result<Term> {
        let start = self.current.start;
        if !self.takes_word("NOT")? {
            return self.comparison();
        }
        let operand = self.deeper(start, Self::negation)?;
        let operand = self.condition(operand)?;
        Ok(Term { start, kind: TermKind::Predicate(Predicate::Not(Box::new(operand))) })
    }

    /// `a = b`, `a IS NULL`, `a IN (…)`, `a LIKE b`, or only `a`.
    fn comparison(&mut self) -> Result<Term> {
        let left = self.sum()?;
        let start = left.start;
        let predicate = if let Token::Mark(mark) = self.current.token
            && let Some(comparison) = Comparison::of_mark(mark)
        {
            let left = self.value(left)?;
            self.advance()?;
            let right = self.sum()?;
            Predicate::Compare { left, comparison, right: self.value(right)? }
        } else if self.is_word("IS") {
            let TermKind::Expression(Expression::Property(property)) = left.kind else {
                return Err(self.unexpected_at(start, "a property in front of IS"));
            };
            self.advance()?;
            let negated = self.takes_word("NOT")?;
            self.expect_word("NULL", "NULL")?;
            Predicate::IsNull { property, negated }
        } else if self.is_word("NOT") || self.is_word("IN") || self.is_word("LIKE") {
            let operand = self.value(left)?;
            let negated = self.takes_word("NOT")?;
            if self.takes_word("IN")? {
                Predicate::In { operand, list: self.list()?, negated }
            } else {
                self.expect_word("LIKE", "IN or LIKE")?;
                let pattern = self.sum()?;
                Predicate::Like { operand, pattern: self.value(pattern)?, escape: self.escape()?, negated }
            }
        } else {
            return Ok(left);
        };
        Ok(Term { start, kind: TermKind::Predicate(predicate) })
    }

    /// `(a, b, …)`
    fn list(&mut self) -> Result<Vec<Expression>> {
        self.expect_mark("(", "( and the values")?;
        let mut list = Vec::new();
        loop {
            let element = self.sum()?;
            list.push(self.value(element)?);
            if !self.takes_mark(",")? {
                self.expect_mark(")", ", or )")?;
                return Ok(list);
            }
        }
    }

    /// `ESCAPE 'c'`, if there.
    fn escape(&mut self) -> Result<Option<char>> {
        if !self.takes_word("ESCAPE")? {
            return Ok(None);
        }
        let start = self.current.start;
        if let Token::Text(text) = &self.current.token {
            let mut characters = text.chars();
            if let (Some(escape), None) = (characters.next(), characters.next()) {
                self.advance()?;
                return Ok(Some(escape));
            }
        }
        Err(self.lexer.error(start, SqlErrorKind::Escape))
    }

    /// `a + b - …`
    fn sum(&mut self) -> Result<Term> {
        self.arithmetic(Operator::of_sum, Self::product)
    }

    /// `a * b / c % …`
    fn product(&mut self) -> Result<Term> {
        self.arithmetic(Operator::of_product, Self::sign)
    }

    fn arithmetic(
        &mut self,
        operator_of: fn(&str) -> Option<Operator>,
        part: fn(&mut Self) -> Result<Term>,
    ) -> Result<Term> {
        let first = part(self)?;
        let start = first.start;
        let operator = |parser: &Self| match parser.current.token {
            Token::Mark(mark) => operator_of(mark),
            _ => None,
        };
        let Some(mut next) = operator(self) else {
            return Ok(first);
        };
        let first = Box::new(self.value(first)?);
        let mut rest = Vec::new();
        loop {
            self.advance()?;
            let operand = part(self)?;
            rest.push((next, self.value(operand)?));
            match operator(self) {
                Some(operator) => next = operator,
                None => break,
            }
        }
        Ok(Term { start, kind: TermKind::Expression(Expression::Chain { first, rest }) })
    }

    /// `-a`, `+a`
    fn sign(&mut self) -> Result<Term> {
        let start = self.current.start;
        let is_minus = match self.current.token {
            Token::Mark("-") => true,
            Token::Mark("+") => false,
            _ => return self.single(),
        };
        self.advance()?;
        let operand = self.deeper(start, Self::sign)?;
        let operand = Box::new(self.value(operand)?);
        Ok(Term { start, kind: TermKind::Expression(Expression::Sign { is_minus, operand }) })
    }

    /// A constant, a property, a function, or anything in parentheses.
    fn single(&mut self) -> Result<Term> {
        let start = self.current.start;
        let constant = match &self.current.token {
            Token::Text(text) => Some(Constant::Text(text.clone())),
            Token::Integer(number) => Some(Constant::Integer(*number)),
            Token::Double(number) => Some(Constant::Double(*number)),
            Token::Parameter(name) => Some(self.parameter(name)?),
            Token::Word(word) if word.eq_ignore_ascii_case("NULL") => Some(Constant::Null),
            Token::Word(word) if word.eq_ignore_ascii_case("TRUE") => Some(Constant::Boolean(true)),
            Token::Word(word) if word.eq_ignore_ascii_case("FALSE") => Some(Constant::Boolean(false)),
            _ => None,
        };
        let kind = if let Some(constant) = constant {
            self.advance()?;
            TermKind::Expression(Expression::Constant(constant))
        } else if self.takes_mark("(")? {
            let inner = self.deeper(start, Self::disjunction)?;
            self.expect_mark(")", ")")?;
            inner.kind
        } else if self.takes_word("EXISTS")? {
            self.expect_mark("(", "( and a property")?;
            let property = self.property()?;
            self.expect_mark(")", ")")?;
            TermKind::Predicate(Predicate::Exists(property))
        } else {
            TermKind::Expression(self.property_or_function()?)
        };
        Ok(Term { start, kind })
    }

    /// What a parameter stands for; letter case makes no difference to its name.
    fn parameter(&self, name: &str) -> Result<Constant> {
        let mut parameters = self.parameters.iter();
        match parameters.find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, value)) => Ok(Constant::Parameter(name.to_owned(), value.clone())),
            None => {
                let kind = SqlErrorKind::NoParameter { name: name.to_owned() };
                Err(self.lexer.error(self.current.start, kind))
            }
        }
    }

    fn property_or_function(&mut self) -> Result<Expression> {
        let start = self.current.start;
        let Token::Word(word) = self.current.token else {
            return self.property().map(Expression::Property);
        };
        let mut ahead = self.lexer.clone();
        if is_keyword(word) || ahead.next()?.token != Token::Mark("(") {
            return self.property().map(Expression::Property);
        }
        if !["property", "p"].iter().any(|known| known.eq_ignore_ascii_case(word)) {
            let what = format!("the function `{word}` is");
            return Err(self.lexer.error(start, SqlErrorKind::Unsupported { what }));
        }
        self.advance()?;
        self.advance()?;
        let name = self.deeper(start, Self::sum)?;
        let name = self.value(name)?;
        self.expect_mark(")", ")")?;
        Ok(Expression::PropertyNamed(Box::new(name)))
    }

    /// `name`, `user.name` or `sys.name`.
    fn property(&mut self) -> Result<Property> {
        let start = self.current.start;
        let first = self.name("a property or a constant")?;
        let is_word = matches!(first, Name::Word(_));
        if !self.takes_mark(".")? {
            return Ok(Property::User(first.into_text()));
        }
        let scope = first.into_text();
        let name_start = self.current.start;
        if is_word && scope.eq_ignore_ascii_case("user") {
            return Ok(Property::User(self.name("a name behind `user.`")?.into_text()));
        }
        if is_word && scope.eq_ignore_ascii_case("sys") {
            let name = self.name("a name behind `sys.`")?.into_text();
            return match SystemProperty::find(&name) {
                Some(property) => Ok(Property::System(property)),
                None => Err(self.lexer.error(name_start, SqlErrorKind::NoSystemProperty { name })),
            };
        }
        Err(self.lexer.error(start, SqlErrorKind::Scope { scope }))
    }

    fn name(&mut self, expected: &'static str) -> Result<Name<'a>> {
        let name = match &self.current.token {
            Token::Word(word) if !is_keyword(word) => Name::Word(word),
            Token::Name(name) if !name.is_empty() => Name::Quoted(name.clone()),
            _ => return Err(self.unexpected(expected)),
        };
        self.advance()?;
        Ok(name)
    }

    /// `SET property = expression` or `REMOVE property`.
    fn statement(&mut self) -> Result<Statement> {
        let is_set = self.takes_word("SET")?;
        if !is_set && !self.takes_word("REMOVE")? {
            return Err(self.unexpected("SET or REMOVE"));
        }
        let start = self.current.start;
        let property = self.property()?;
        if let Property::System(property) = property
            && !property.is_changeable()
        {
            let name = property.name();
            return Err(self.lexer.error(start, SqlErrorKind::FixedSystemProperty { name }));
        }
        if !is_set {
            return Ok(Statement::Remove(property));
        }
        self.expect_mark("=", "=")?;
        let value = self.sum()?;
        let value = self.value(value)?;
        Ok(Statement::Set { property, value })
    }

    fn condition(&self, term: Term) -> Result<Predicate> {
        match term.kind {
            TermKind::Predicate(predicate) => Ok(predicate),
            TermKind::Expression(_) => Err(self.unexpected_at(term.start, "a condition, such as a = 1")),
        }
    }

    fn value(&self, term: Term) -> Result<Expression> {
        match term.kind {
            TermKind::Expression(expression) => Ok(expression),
            TermKind::Predicate(_) => Err(self.unexpected_at(term.start, "a value instead of a condition")),
        }
    }

    /// Reads what is nested one level deeper and began at `start`.
    fn deeper<T>(&mut self, start: usize, read: fn(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAXIMUM_DEPTH {
            return Err(self.lexer.error(start, SqlErrorKind::TooDeep));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn advance(&mut self) -> Result<()> {
        self.current = self.lexer.next()?;
        Ok(())
    }

    fn is_word(&self, wanted: &str) -> bool {
        matches!(self.current.token, Token::Word(word) if word.eq_ignore_ascii_case(wanted))
    }

    fn takes_word(&mut self, wanted: &str) -> Result<bool> {
        let takes = self.is_word(wanted);
        if takes {
            self.advance()?;
        }
        Ok(takes)
    }

    fn takes_mark(&mut self, wanted: &str) -> Result<bool> {
        let takes = matches!(self.current.token, Token::Mark(mark) if mark == wanted);
        if takes {
            self.advance()?;
        }
        Ok(takes)
    }

    fn expect_word(&mut self, wanted: &str, expected: &'static str) -> Result<()> {
        match self.takes_word(wanted)? {
            true => Ok(()),
            false => Err(self.unexpected(expected)),
        }
    }

    fn expect_mark(&mut self, wanted: &str, expected: &'static str) -> Result<()> {
        match self.takes_mark(wanted)? {
            true => Ok(()),
            false => Err(self.unexpected(expected)),
        }
    }

    fn end(&self, expected: &'static str) -> Result<()> {
        match self.current.token {
            Token::End => Ok(()),
            _ => Err(self.unexpected(expected)),
        }
    }

    /// The current token is none that may stand here.
    fn unexpected(&self, expected: &'static str) -> SqlError {
        let found = match self.current.token {
            Token::End => "the end".to_owned(),
            _ => self.quoted(self.current.start, self.current.end),
        };
        let kind = SqlErrorKind::Unexpected { expected, found };
        self.lexer.error(self.current.start, kind)
    }

    /// What was read from `start` on is nothing that may stand there.
    fn unexpected_at(&self, start: usize, expected: &'static str) -> SqlError {
        let found = self.quoted(start, self.current.start);
        self.lexer.error(start, SqlErrorKind::Unexpected { expected, found })
    }

    fn quoted(&self, start: usize, end: usize) -> String {
        let text = self.lexer.slice(start, end).trim_end();
        let mut characters = text.chars();
        let beginning: String = characters.by_ref().take(LONGEST_QUOTE).collect();
        let more = if characters.next().is_some() { "…" } else { "" };
        format!("`{}{more}`", beginning.escape_debug())
    }
}

/// A name, and whether it was written without brackets, so that it can be a scope.
enum Name<'a> {
    Word(&'a str),
    Quoted(String),
}

impl Name<'_> {
    fn into_text(self) -> String {
        match self {
            Self::Word(word) => word.to_owned(),
            Self::Quoted(name) => name,
        }
    }
}

/// As much of a text as a message quotes, in characters.
const LONGEST_QUOTE: usize = 40;
