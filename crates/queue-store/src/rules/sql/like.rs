//! `LIKE`: texts against patterns in which `%` stands for any characters and `_` for any one.

/// Whether `text` has the form of `pattern`, letter case included. A character behind `escape` stands for itself.
///
/// `None` where the pattern ends in `escape`, or where finding out would take more than [`MOST_STEPS`].
pub(super) fn is_like(text: &str, pattern: &str, escape: Option<char>) -> Option<bool> {
    let (mut text, mut pattern) = (text.chars(), pattern.chars());
    // What follows the last `%`, and the text from which it was tried last. Earlier ones need no second look: what they
    // could still match, the last one can too.
    let mut retry = None;
    for _ in 0..MOST_STEPS {
        let item = Item::next(&mut pattern, escape)?;
        let is_match = match item {
            Some(Item::AnyCharacters) => {
                retry = Some((pattern.clone(), text.clone()));
                true
            }
            Some(Item::OneCharacter) => text.next().is_some(),
            Some(Item::Character(wanted)) => text.next() == Some(wanted),
            None if text.as_str().is_empty() => return Some(true),
            None => false,
        };
        if is_match {
            continue;
        }
        let Some((after, from)) = &mut retry else {
            return Some(false);
        };
        if from.next().is_none() {
            return Some(false);
        }
        (pattern, text) = (after.clone(), from.clone());
    }
    None
}

/// One item of a pattern.
enum Item {
    AnyCharacters,
    OneCharacter,
    Character(char),
}

impl Item {
    /// The next item; `Some(None)` at the end, `None` for an escape that escapes nothing.
    fn next(pattern: &mut std::str::Chars<'_>, escape: Option<char>) -> Option<Option<Self>> {
        let Some(character) = pattern.next() else {
            return Some(None);
        };
        if Some(character) == escape {
            return pattern.next().map(|escaped| Some(Self::Character(escaped)));
        }
        Some(Some(match character {
            '%' => Self::AnyCharacters,
            '_' => Self::OneCharacter,
            character => Self::Character(character),
        }))
    }
}

/// Some milliseconds: far more than texts of properties take, and a bound for those made to take long.
const MOST_STEPS: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_is_any_characters_and_underscore_is_one() {
        for (text, pattern, expected) in [
            ("Azure Service bus", "%bus%", true),
            ("bus", "%bus%", true),
            ("Bus", "%bus%", false),
            ("abc-1", "abc-%", true),
            ("abc", "abc-%", false),
            ("abc", "a_c", true),
            ("äbc", "_bc", true),
            ("bc", "_bc", false),
            ("", "%", true),
            ("", "", true),
            ("a", "", false),
            ("mississippi", "%iss%ip%", true),
            ("mississippi", "%iss%ipx", false),
            ("aaab", "%ab", true),
            ("abab", "%ab%ab%ab", false),
        ] {
            assert_eq!(is_like(text, pattern, None), Some(expected), "{text} {pattern}");
        }
    }

    #[test]
    fn an_escaped_character_stands_for_itself() {
        assert_eq!(is_like("ABC%", r"ABC\%", Some('\\')), Some(true));
        assert_eq!(is_like("ABCD", r"ABC\%", Some('\\')), Some(false));
        assert_eq!(is_like("a%b", "a!%_", Some('!')), Some(true));
        assert_eq!(is_like("a!", "a!!", Some('!')), Some(true));
        assert_eq!(is_like("a", "a!", Some('!')), None);
    }

    #[test]
    fn patterns_made_to_take_long_end() {
        let text = "a".repeat(100_000);
        let pattern = format!("%{}b", "a".repeat(1_000));
        assert_eq!(is_like(&text, &pattern, None), None);
    }
}
