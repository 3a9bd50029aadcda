//! From a text to tokens, one at a time.

use super::error::{SqlError, SqlErrorKind};

/// What a text consists of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A keyword, a name or a function: which one it is, the parser knows.
    Word(&'a str),
    /// A name in brackets or double quotes, without them.
    Name(String),
    /// A text constant.
    Text(String),
    Integer(i64),
    Double(f64),
    /// A parameter, with its `@`.
    Parameter(&'a str),
    /// An operator or a punctuation mark.
    Mark(&'static str),
    End,
}

/// A token and where it begins, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Located<'a> {
    pub(super) token: Token<'a>,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Reads tokens off the front of a text.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    offset: usize,
}

impl<'a> Lexer<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, offset: 0 }
    }

    /// An error at an offset in bytes.
    pub(super) fn error(&self, offset: usize, kind: SqlErrorKind) -> SqlError {
        let before = self.text.get(..offset).unwrap_or(self.text);
        SqlError { position: before.chars().count() + 1, kind }
    }

    /// What stands between two offsets, for a message.
    pub(super) fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    /// The next token; [`Token::End`] at the end, again and again.
    pub(super) fn next(&mut self) -> Result<Located<'a>, SqlError> {
        let rest = &self.text[self.offset..];
        self.offset += rest.len() - rest.trim_start().len();
        let start = self.offset;
        let rest = &self.text[start..];
        let token = match rest.chars().next() {
            None => Token::End,
            Some('\'') => Token::Text(self.quoted('\'')?),
            Some('"') => Token::Name(self.quoted('"')?),
            Some('[') => Token::Name(self.quoted(']')?),
            Some(first) if first.is_alphabetic() => {
                let length = rest
                    .find(|character: char| !(character.is_alphanumeric() || character == '_'))
                    .unwrap_or(rest.len());
                self.offset += length;
                Token::Word(&rest[..length])
            }
            Some(first) if first.is_ascii_digit() => self.number(rest)?,
            Some('@') => {
                let length = rest[1..]
                    .find(|character: char| !(character.is_alphanumeric() || character == '_'))
                    .map_or(rest.len(), |length| length + 1);
                self.offset += length;
                Token::Parameter(&rest[..length])
            }
            Some(first) => {
                if let Some(mark) = COMMENTS.into_iter().find(|mark| rest.starts_with(mark)) {
                    return Err(self.error(start, SqlErrorKind::Comment { mark }));
                }
                let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) else {
                    let kind = SqlErrorKind::Unexpected {
                        expected: "a name, a constant or an operator",
                        found: format!("`{}`", first.escape_debug()),
                    };
                    return Err(self.error(start, kind));
                };
                self.offset += mark.len();
                Token::Mark(mark)
            }
        };
        Ok(Located { token, start, end: self.offset })
    }

    /// What stands between quotation marks or brackets; the closing one is doubled where it is meant itself.
    fn quoted(&mut self, closing: char) -> Result<String, SqlError> {
        let start = self.offset;
        let mut content = String::new();
        // All marks are one byte long.
        let mut rest = &self.text[start + 1..];
        loop {
            let Some(end) = rest.find(closing) else {
                return Err(self.error(start, SqlErrorKind::Unfinished { closing }));
            };
            content.push_str(&rest[..end]);
            rest = &rest[end + 1..];
            match rest.strip_prefix(closing) {
                Some(after) => {
                    content.push(closing);
                    rest = after;
                }
                None => break,
            }
        }
        self.offset = self.text.len() - rest.len();
        Ok(content)
    }

    /// Digits, perhaps with a fraction and an exponent.
    fn number(&mut self, rest: &'a str) -> Result<Token<'a>, SqlError> {
        let digits = |from: usize| rest[from..].bytes().take_while(u8::is_ascii_digit).count();
        let mut length = digits(0);
        let mut is_double = false;
        if rest[length..].starts_with('.') && digits(length + 1) > 0 {
            is_double = true;
            length += 1 + digits(length + 1);
        }
        if rest[length..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
            let exponent = digits(length + 1 + sign);
            if exponent > 0 {
                is_double = true;
                length += 1 + sign + exponent;
            }
        }
        let number = &rest[..length];
        let out_of_range = || {
            let number = number.to_owned();
            self.error(self.offset, SqlErrorKind::NumberOutOfRange { number })
        };
        let token = if is_double {
            match number.parse::<f64>() {
                Ok(number) if number.is_finite() => Token::Double(number),
                _ => return Err(out_of_range()),
            }
        } else {
            Token::Integer(number.parse().map_err(|_| out_of_range())?)
        };
        self.offset += length;
        Ok(token)
    }
}

/// Marks that begin a comment in other dialects.
const COMMENTS: [&str; 2] = ["--", "/*"];

/// Longer ones first.
const MARKS: [&str; 17] =
    ["<>", "!=", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ",", ";", "."];
