//! Texts that are refused: where they are wrong, what was expected, and the bounds.

use super::super::{
    MAXIMUM_DEPTH, MAXIMUM_STATEMENTS, MAXIMUM_TEXT_LENGTH, SqlAction, SqlErrorKind, SqlFilter,
};
use super::assert_matches;

fn mistake(text: &str) -> String {
    SqlFilter::parse(text).unwrap_err().to_string()
}

#[test]
fn mistakes_say_where_they_are_and_what_was_expected() {
    for (text, expected) in [
        ("", "character 1: expected a property or a constant, found the end"),
        ("color = ", "character 9: expected a property or a constant, found the end"),
        ("color == 'red'", "character 8: expected a property or a constant, found `=`"),
        ("color", "character 1: expected a condition, such as a = 1, found `color`"),
        ("TRUE", "character 1: expected a condition, such as a = 1, found `TRUE`"),
        ("color = 'red' AND size", "character 19: expected a condition, such as a = 1, found `size`"),
        ("(a = 1) + 2 = 3", "character 1: expected a value instead of a condition, found `(a = 1)`"),
        ("a = 1 b = 2", "character 7: expected the end, AND or OR, found `b`"),
        ("(a = 1", "character 7: expected ), found the end"),
        ("a IN (1, 2", "character 11: expected , or ), found the end"),
        ("a IN ()", "character 7: expected a property or a constant, found `)`"),
        ("1 IS NULL", "character 1: expected a property in front of IS, found `1`"),
        ("a NOT = 1", "character 7: expected IN or LIKE, found `=`"),
        ("color = 'red", "character 9: missing '"),
        ("[color = 'red'", "character 1: missing ]"),
        ("größe = 'x' & 1", "character 13: expected a name, a constant or an operator, found `&`"),
        ("a = 9223372036854775808", "character 5: the number 9223372036854775808 is out of range"),
        ("a = 1E400", "character 5: the number 1E400 is out of range"),
        ("a LIKE 'b' ESCAPE 'cc'", "character 19: ESCAPE must be followed by one character, such as '\\'"),
        (
            "color = 'red' -- not blue",
            "character 15: `--` begins a comment elsewhere, and there are none here; two signs are written with a blank between them",
        ),
        (
            "a = 1 /* one */",
            "character 7: `/*` begins a comment elsewhere, and there are none here; two signs are written with a blank between them",
        ),
        ("a = @tag", "character 5: there is no value for the parameter `@tag`"),
        ("newid() = a", "character 1: the function `newid` is not supported here"),
        (
            "properties.color = 1",
            "character 1: `properties` is neither `sys` nor `user`; a name with a dot is written in brackets: [properties.…]",
        ),
        (
            "sys.Lable = 'x'",
            "character 5: there is no system property `Lable`; known are MessageId, CorrelationId, Label, To, ReplyTo, \
             SessionId, ReplyToSessionId, ContentType, PartitionKey, SequenceNumber, EnqueuedTimeUtc, \
             ScheduledEnqueueTimeUtc, TimeToLive",
        ),
    ] {
        assert_eq!(mistake(text), expected, "{text}");
    }
}

#[test]
fn mistakes_in_actions_say_the_same() {
    let mistake = |text: &str| SqlAction::parse(text).unwrap_err().to_string();
    assert_eq!(mistake(""), "character 1: expected SET or REMOVE, found the end");
    assert_eq!(mistake("SET a"), "character 6: expected =, found the end");
    assert_eq!(mistake("SET a = 1; DELETE b"), "character 12: expected SET or REMOVE, found `DELETE`");
    assert_eq!(
        mistake("SET a = (b = 1)"),
        "character 9: expected a value instead of a condition, found `(b = 1)`"
    );
    assert_eq!(
        mistake("SET sys.EnqueuedTimeUtc = 1"),
        "character 5: `sys.EnqueuedTimeUtc` can't be changed; what can be is MessageId, CorrelationId, Label, To, \
         ReplyTo, SessionId, ReplyToSessionId, ContentType"
    );
    let statements = |count| "REMOVE a;".repeat(count);
    assert!(SqlAction::parse(statements(MAXIMUM_STATEMENTS)).is_ok());
    assert_eq!(
        mistake(&statements(MAXIMUM_STATEMENTS + 1)),
        "character 289: an action has at most 32 statements"
    );
}

#[test]
fn texts_have_a_most_length() {
    let text = |length: usize| format!("'{}'='a'", "a".repeat(length - 6));
    assert!(SqlFilter::parse(text(MAXIMUM_TEXT_LENGTH)).is_ok());
    assert_eq!(
        mistake(&text(MAXIMUM_TEXT_LENGTH + 1)),
        "character 1: the text has 16385 bytes; it may have 16384"
    );
}

#[test]
fn nesting_has_a_most_depth_and_chains_have_none() {
    for (open, close) in [("(", ")"), ("NOT ", ""), ("NOT (", ")")] {
        let per_repetition = if open == "NOT (" { 2 } else { 1 };
        let text = |depth: usize| {
            let repetitions = depth / per_repetition;
            format!("{}1=1{}", open.repeat(repetitions), close.repeat(repetitions))
        };
        assert!(SqlFilter::parse(text(MAXIMUM_DEPTH)).is_ok());
        let error = SqlFilter::parse(text(MAXIMUM_DEPTH + 2)).unwrap_err();
        assert_eq!(error.kind, SqlErrorKind::TooDeep);
    }
    let signs = |depth: usize| format!("{}1 = 1", "- ".repeat(depth));
    assert!(SqlFilter::parse(signs(MAXIMUM_DEPTH)).is_ok());
    assert!(SqlFilter::parse(signs(MAXIMUM_DEPTH + 1)).is_err());
    let deepest = "(".repeat(MAXIMUM_TEXT_LENGTH);
    assert_eq!(SqlFilter::parse(deepest).unwrap_err().kind, SqlErrorKind::TooDeep);
    assert_matches("1=1 AND\n".repeat(1_500).trim_end_matches("AND\n"));
    assert_matches(&format!("{}0 = 1500", "1+".repeat(1_500)));
}
