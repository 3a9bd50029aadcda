//! The members of an object of JSON, each with the very characters of its value.

use serde::de::IgnoredAny;

/// Name and value of each member, in order.
pub(super) type Members<'a> = Vec<(String, &'a str)>;

/// Error parsing an object.
#[derive(Debug)]
pub(super) enum NoObject {
    /// The text is not JSON.
    Json(serde_json::Error),
    /// The text is another value.
    Other,
}

/// Returns the members of a text that is one object.
///
/// # Errors
/// The text is not an object.
pub(super) fn members(text: &str) -> Result<Members<'_>, NoObject> {
    // After this it can be walked without looking out for mistakes.
    serde_json::from_str::<IgnoredAny>(text).map_err(NoObject::Json)?;
    let mut walk = Walk { text, at: 0 };
    walk.skip_blanks();
    if walk.next() != Some(b'{') {
        return Err(NoObject::Other);
    }
    let mut found = Vec::new();
    loop {
        walk.skip_blanks();
        match walk.peek() {
            Some(b'"') => {
                let name = serde_json::from_str(walk.value()).map_err(NoObject::Json)?;
                walk.skip_blanks();
                walk.next();
                walk.skip_blanks();
                found.push((name, walk.value()));
            }
            Some(b',') => _ = walk.next(),
            _ => return Ok(found),
        }
    }
}

/// Returns the value of a member.
pub(super) fn find<'a>(members: &Members<'a>, name: &str) -> Option<&'a str> {
    members.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
}

/// A cursor over well-formed JSON.
struct Walk<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Walk<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let found = self.peek();
        self.at += usize::from(found.is_some());
        found
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Returns the value at the cursor and advances behind it.
    fn value(&mut self) -> &'a str {
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.skip_text(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' if depth == 0 => break,
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                _ => self.skip_word(),
            }
            if depth == 0 {
                break;
            }
        }
        &self.text[start..self.at]
    }

    fn skip_text(&mut self) {
        self.at += 1;
        while let Some(byte) = self.next() {
            match byte {
                b'"' => break,
                b'\\' => _ = self.next(),
                _ => {}
            }
        }
    }

    /// A number, or a word such as `null`.
    fn skip_word(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b'}' | b']' | b':');
        self.at += rest.iter().position(ends).unwrap_or(rest.len()).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_the_characters_of_its_value() {
        let text =
            r#" { "a" : {"x": [1, "}\""], "y":{}} ,"b\u0041":-1.10e5,"c":null , "d":"\\" , "a":[ ] } "#;
        let found = members(text).unwrap();
        let expected = [
            ("a", r#"{"x": [1, "}\""], "y":{}}"#),
            ("bA", "-1.10e5"),
            ("c", "null"),
            ("d", r#""\\""#),
            ("a", "[ ]"),
        ];
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        assert_eq!(found, expected);
        assert_eq!(members("{}").unwrap(), []);
        assert!(matches!(members("[1]"), Err(NoObject::Other)));
        for text in ["", "{", "{\"a\":}", "{} {}", "{\"a\":1,}"] {
            assert!(matches!(members(text), Err(NoObject::Json(_))), "{text}");
        }
    }
}
