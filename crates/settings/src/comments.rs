//! Comments in JSON files, which YAML does not know as such.

use std::borrow::Cow;

/// The JSON `text` with spaces in the place of `// …` and `/* … */`, so that everything else stays where it is.
pub(crate) fn without_comments(text: &str) -> Cow<'_, str> {
    if !text.contains("//") && !text.contains("/*") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = match character {
            '"' => string_length(rest),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => character.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        if part.starts_with("//") || part.starts_with("/*") {
            let blank = |byte| if byte == b'\n' { '\n' } else { ' ' };
            out.extend(part.bytes().map(blank));
        } else {
            out.push_str(part);
        }
        rest = after;
    }
    Cow::Owned(out)
}

/// How long the string is that `text` begins with, its quotation marks included; all of the text, if it has no end.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (offset, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !is_escaped => return offset + 1,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_spaces_and_strings_stay() {
        let text = "{ // ä \"x\"\n \"a\": \"http://b\", /* c\n d */ \"e\\\"//\": 1 }//";
        let expected = "{          \n \"a\": \"http://b\",     \n      \"e\\\"//\": 1 }  ";
        assert_eq!(without_comments(text), expected);
        assert_eq!(without_comments(text).len(), text.len());
        assert_eq!(without_comments("\"//"), "\"//");
        assert_eq!(without_comments("/* a"), "    ");
    }
}
