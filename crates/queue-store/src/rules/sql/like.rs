//! `LIKE`: texts against patterns in which `%` stands for any characters and `_` for any one.
//!
//! A pattern is taken piece by piece, from one `%` to the next. The first piece begins the text and the last one ends
//! it. Each in between is taken at its first place behind the one before: what follows matches behind a later place
//! only if it does behind this one.

use std::cell::Cell;

/// Whether `text` has the form of `pattern`, letter case included. A character behind `escape` stands for itself.
///
/// `None` where the text matches as far as an `escape` that the pattern ends in, or where finding out would take more
/// than there is of `steps`.
pub(super) fn is_like(text: &str, mut pattern: &str, escape: Option<char>, steps: &Steps) -> Option<bool> {
    steps.take(1)?;
    let first = Piece::next(&mut pattern, escape, steps)?;
    let Some(mut rest) = without_prefix(&first.parts, text, steps)? else {
        return Some(false);
    };
    match first.end {
        End::Percent => {}
        End::Pattern => return Some(rest.is_empty()),
        End::Escape => return None,
    }
    loop {
        let piece = Piece::next(&mut pattern, escape, steps)?;
        if piece.end == End::Pattern {
            return is_suffix(&piece.parts, rest, steps);
        }
        match (piece.behind_first(rest, steps)?, piece.end) {
            (None, _) => return Some(false),
            (Some(_), End::Escape) => return None,
            (Some(after), _) => rest = after,
        }
    }
}

/// The steps that one evaluation of a condition has left, for all its `LIKE`s together. With the first that would take
/// more, all are used up, so that each further one ends before it has begun.
#[derive(Debug)]
pub(super) struct Steps(Cell<usize>);

impl Steps {
    fn take(&self, count: usize) -> Option<()> {
        let left = self.0.get().checked_sub(count);
        self.0.set(left.unwrap_or(0));
        left.map(|_| ())
    }
}

impl Default for Steps {
    fn default() -> Self {
        Self(Cell::new(MOST_STEPS))
    }
}

/// The items of a pattern between two `%`.
struct Piece<'a> {
    parts: Vec<Part<'a>>,
    end: End,
}

/// The end of a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Percent,
    /// Nothing: the pattern ends.
    Pattern,
    /// An escape that escapes nothing.
    Escape,
}

enum Part<'a> {
    /// Characters that stand for themselves; at least one.
    Text(&'a str),
    /// So many of any; at least one, and no other such part is beside it.
    Any(usize),
}

impl<'a> Piece<'a> {
    /// The next piece, which is taken from the front of `pattern` with what ends it.
    fn next(pattern: &mut &'a str, escape: Option<char>, steps: &Steps) -> Option<Self> {
        let whole = *pattern;
        let mut parts = Vec::new();
        // Where the characters begin that stand for themselves and are no part yet.
        let mut literal = 0;
        let mut characters = whole.char_indices();
        let end = loop {
            let Some((at, character)) = characters.next() else {
                if literal < whole.len() {
                    parts.push(Part::Text(&whole[literal..]));
                }
                break End::Pattern;
            };
            let is_escape = Some(character) == escape;
            if !is_escape && !matches!(character, '%' | '_') {
                continue;
            }
            if literal < at {
                parts.push(Part::Text(&whole[literal..at]));
            }
            literal = at + character.len_utf8();
            if is_escape {
                // What is escaped is the first of the characters that begin here.
                if characters.next().is_none() {
                    break End::Escape;
                }
            } else if character == '%' {
                break End::Percent;
            } else if let Some(Part::Any(count)) = parts.last_mut() {
                *count += 1;
            } else {
                parts.push(Part::Any(1));
            }
        };
        let rest = characters.as_str();
        steps.take(whole.len() - rest.len())?;
        *pattern = rest;
        Some(Self { parts, end })
    }

    /// The text behind the first place that has this piece.
    fn behind_first<'t>(&self, text: &'t str, steps: &Steps) -> Rest<'t> {
        // In front of the first literal characters there only has to be room, so that they say where the piece can be.
        let leading = self.parts.iter().take_while(|part| matches!(part, Part::Any(_))).count();
        let (room, parts) = self.parts.split_at(leading);
        let Some(mut text) = without_prefix(room, text, steps)? else {
            return Some(None);
        };
        let [Part::Text(wanted), parts @ ..] = parts else {
            return Some(Some(text));
        };
        loop {
            let found = text.find(*wanted);
            let seen = found.map_or(text.len(), |at| at + wanted.len());
            steps.take(STEPS_OF_SEARCH + wanted.len() + seen / BYTES_OF_STEP)?;
            let Some(at) = found else {
                return Some(None);
            };
            if let Some(after) = without_prefix(parts, &text[at + wanted.len()..], steps)? {
                return Some(Some(after));
            }
            let mut later = text[at..].chars();
            later.next();
            text = later.as_str();
        }
    }
}

impl Part<'_> {
    const fn steps(&self) -> usize {
        match self {
            Self::Text(wanted) => 1 + wanted.len() / BYTES_OF_STEP,
            Self::Any(count) => 1 + *count,
        }
    }
}

/// The rest of a text, if it has what was wanted; `None` where the steps are used up.
type Rest<'a> = Option<Option<&'a str>>;

/// The text behind these parts, if it begins with them.
fn without_prefix<'a>(parts: &[Part<'_>], mut text: &'a str, steps: &Steps) -> Rest<'a> {
    for part in parts {
        steps.take(part.steps())?;
        let rest = match part {
            Part::Text(wanted) => text.strip_prefix(*wanted),
            Part::Any(count) => {
                let mut characters = text.chars();
                characters.nth(*count - 1).map(|_| characters.as_str())
            }
        };
        let Some(rest) = rest else {
            return Some(None);
        };
        text = rest;
    }
    Some(Some(text))
}

/// Whether a text ends with these parts; `None` where the steps are used up.
fn is_suffix(parts: &[Part<'_>], mut text: &str, steps: &Steps) -> Option<bool> {
    for part in parts.iter().rev() {
        steps.take(part.steps())?;
        let rest = match part {
            Part::Text(wanted) => text.strip_suffix(*wanted),
            Part::Any(count) => {
                let mut characters = text.chars();
                characters.nth_back(*count - 1).map(|_| characters.as_str())
            }
        };
        let Some(rest) = rest else {
            return Some(false);
        };
        text = rest;
    }
    Some(true)
}

/// About a millisecond: thirty searches through a text of 64,000 bytes, or some thousands of places at which a piece
/// with `_` could be. Far more than texts of properties take, and a bound for those made to take long.
const MOST_STEPS: usize = 1 << 17;

/// The time that a search takes besides that of its bytes.
const STEPS_OF_SEARCH: usize = 8;

/// Bytes that are searched or compared in the time of a step.
const BYTES_OF_STEP: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_like(text: &str, pattern: &str, escape: Option<char>) -> Option<bool> {
        super::is_like(text, pattern, escape, &Steps::default())
    }

    /// The steps that it takes, and the result.
    fn steps_of(text: &str, pattern: &str) -> (usize, Option<bool>) {
        let steps = Steps::default();
        let result = super::is_like(text, pattern, None, &steps);
        (MOST_STEPS - steps.0.get(), result)
    }

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
            ("", "_", false),
            ("mississippi", "%iss%ip%", true),
            ("mississippi", "%iss%ipx", false),
            ("aaab", "%ab", true),
            ("abab", "%ab%ab%ab", false),
            ("aba", "ab%ba", false),
            ("aaxb", "%a_b%", true),
            ("aaaxb", "%aa_b%", true),
            ("ab", "%__%", true),
            ("a", "%__%", false),
            ("äöü", "%_ü", true),
            ("ü", "%_ü", false),
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
        assert_eq!(is_like("x%y_z", "%!%_!_%", Some('!')), Some(true));
        assert_eq!(is_like("a", "a!", Some('!')), None);
        assert_eq!(is_like("b", "a!", Some('!')), Some(false));
        assert_eq!(is_like("xab", "%a!", Some('!')), None);
        assert_eq!(is_like("xb", "%a!", Some('!')), Some(false));
    }

    #[test]
    fn searching_takes_steps_in_proportion_to_the_text_whatever_the_pattern() {
        let text = "a".repeat(64_000);
        let wanted = "a".repeat(1_000);
        for (pattern, expected) in [
            (format!("%{wanted}b"), false),
            (format!("%{wanted}b%"), false),
            (format!("%b{wanted}%"), false),
            (format!("%{wanted}%{wanted}%"), true),
            ("%a".repeat(500) + "%", true),
            (format!("a%{}", "_%".repeat(500)), true),
        ] {
            let (steps, result) = steps_of(&text, &pattern);
            assert_eq!(result, Some(expected), "{pattern}");
            assert!(steps <= 16 * pattern.len() + text.len() / BYTES_OF_STEP, "{pattern}: {steps}");
        }
    }

    #[test]
    fn patterns_made_to_take_long_end_and_leave_nothing_to_those_behind_them() {
        let text = "a".repeat(64_000);
        for pattern in [format!("%{}b%", "a_".repeat(500)), format!("%{}_b%", "a".repeat(1_000))] {
            let steps = Steps::default();
            assert_eq!(super::is_like(&text, &pattern, None, &steps), None);
            assert_eq!(steps.0.get(), 0);
            assert_eq!(super::is_like("a", "a", None, &steps), None);
        }
    }

    #[test]
    fn all_searches_of_a_long_condition_through_a_long_text_are_within_the_steps() {
        let (text, steps) = ("ab ".repeat(21_000), Steps::default());
        for _ in 0..28 {
            assert_eq!(super::is_like(&text, "%some words%", None, &steps), Some(false));
        }
    }

    /// The result that [`super::is_like`] has to have, by one character after the other and going back to the last `%`.
    fn by_going_back(text: &str, pattern: &str, escape: Option<char>) -> Option<bool> {
        let (mut text, mut pattern) = (text.chars(), pattern.chars());
        let mut retry = None;
        loop {
            let character = pattern.next();
            let is_escaped = character.is_some() && character == escape;
            let item = if is_escaped { Some(pattern.next()?) } else { character };
            let is_match = match item {
                Some('%') if !is_escaped => {
                    retry = Some((pattern.clone(), text.clone()));
                    true
                }
                Some('_') if !is_escaped => text.next().is_some(),
                Some(wanted) => text.next() == Some(wanted),
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
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn pieces_say_the_same_as_going_back(
            text in "[abä%_!]{0,14}",
            pattern in "[abä%_!]{0,10}",
            escape in prop::option::of(prop::sample::select(&['!', '%', '_', 'a'][..])),
        ) {
            prop_assert_eq!(is_like(&text, &pattern, escape), by_going_back(&text, &pattern, escape));
        }
    }
}
