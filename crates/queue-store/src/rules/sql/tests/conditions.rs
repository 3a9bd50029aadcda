//! What conditions mean: the documented examples, the truth tables, and what is unknown.

use amqp::codec::Value;

use super::super::SqlFilter;
use super::super::parser;
use super::{assert_fails, assert_matches, assert_unknown, order, truth};

#[test]
fn system_properties_are_named_behind_sys_in_any_letter_case() {
    assert_matches("sys.label LIKE '%bus%'");
    assert_matches("sys.messageid = 'xxxx'");
    assert_matches("sys.correlationid like 'abc-%'");
    assert_matches("SYS.Subject LIKE 'Azure%'");
    assert_matches("sys.SequenceNumber = 12");
    assert_matches("sys.EnqueuedTimeUtc > first AND sys.EnqueuedTimeUtc < second");
    assert_unknown("sys.SessionId = 's'");
}

#[test]
fn application_properties_are_named_with_user_or_without() {
    assert_matches("color = 'red'");
    assert_matches("user.SuperHero like 'SuperMan%'");
    assert_matches("user.[color] = 'red' AND \"color\" = 'red' AND COLOR = 'red'");
}

#[test]
fn names_with_special_characters_are_quoted_or_bracketed() {
    assert_matches("\"http://schemas.microsoft.com/xrm/2011/Claims/EntityLogicalName\" = 'account'");
    assert_matches("[HR-EmployeeID] = 7");
    assert_unknown("[no ]] such \"\" name] = 7");
}

#[test]
fn numbers_are_compared_by_value_whatever_their_types() {
    assert_matches("MessageProperty > 1");
    assert_matches("MessageProperty > 2.08");
    assert_matches("quantity = 10 AND quantity = 10.0 AND quantity = 1E1");
    assert_fails("MessageProperty = 1 OR quantity = 3");
    assert_fails("quantity <> 10");
    assert_fails("quantity != 10");
}

#[test]
fn membership_is_tested_with_in_and_not_in() {
    assert_fails("StoreId IN('Store1', 'Store2', 'Store3')");
    assert_matches("sys.To IN ('Store5','Store6','Store7') OR StoreId = 'Store8'");
    assert_fails(
        "sys.To NOT IN ('Store1','Store2','Store3','Store4','Store5','Store6','Store7','Store8') \
         OR StoreId NOT IN ('Store1','Store2','Store3','Store4','Store5','Store6','Store7','Store8')",
    );
    assert_matches("sys.Label LIKE '%bus%' OR user.tag IN ('queue', 'topic', 'subscription')");
}

#[test]
fn membership_is_unknown_where_the_value_is_or_where_an_element_could_be_it() {
    assert_unknown("missing IN (1, 2)");
    assert_unknown("missing NOT IN (1, 2)");
    assert_matches("quantity IN (missing, 10)");
    assert_unknown("quantity IN (missing, 11)");
    assert_unknown("quantity NOT IN (missing, 11)");
}

#[test]
fn a_condition_on_color_and_quantity_selects_as_documented() {
    assert_fails("color='blue' AND quantity=10");
    assert_matches("user.color='red'");
    assert_matches("1=1");
    assert_fails("1=0");
}

#[test]
fn an_escaped_wildcard_stands_for_itself() {
    assert_matches(r"'ABC%' LIKE 'ABC\%' ESCAPE '\'");
    assert_fails(r"'ABCD' LIKE 'ABC\%' ESCAPE '\'");
    assert_matches("color NOT LIKE 'b%'");
    assert_unknown("quantity LIKE '1%'");
    assert_unknown("missing NOT LIKE '1%'");
}

#[test]
fn all_likes_of_a_condition_together_take_what_one_may() {
    let mut message = order();
    message.set("long", Value::String("a".repeat(64_000)));
    let holds = |text: &str| parser::predicate(text, &[]).unwrap().holds(&message);
    let long = format!("long LIKE '%{}b%'", "a_".repeat(200));
    assert_eq!(holds("color LIKE 'r%'"), Some(true));
    assert_eq!(holds(&format!("color LIKE 'r%' OR {long}")), Some(true));
    assert_eq!(holds(&format!("{long} OR color LIKE 'r%'")), None);
    assert_eq!(holds(&format!("NOT ({long})")), None);
    assert_eq!(holds(&format!("{long} OR color = 'red'")), Some(true));
    // The next message is another matter.
    assert_eq!(holds("color LIKE 'r%'"), Some(true));
    let searches = vec!["long LIKE '%some words%'"; 28].join(" OR ");
    assert_eq!(holds(&searches), Some(false));
}

#[test]
fn text_is_compared_with_regard_to_letter_case() {
    assert_fails("color = 'Red'");
    assert_fails("color LIKE 'R%'");
    assert_matches("color > 'blue'");
}

#[test]
fn a_property_is_null_where_it_is_missing_or_holds_null_and_exists_where_it_holds_anything() {
    assert_matches("missing IS NULL AND absent_minded IS NULL AND sys.SessionId IS NULL");
    assert_matches("color IS NOT NULL AND sys.Label IS NOT NULL");
    assert_matches("EXISTS(color) AND EXISTS(absent_minded) AND NOT EXISTS(missing)");
    assert_matches("EXISTS(sys.Label) AND NOT EXISTS(sys.SessionId)");
    // Of a type that conditions can't compute with, but there.
    assert_matches("EXISTS(price) AND price IS NOT NULL");
}

#[test]
fn what_does_not_go_together_is_unknown() {
    for text in [
        "missing = 1",
        "absent_minded = NULL",
        "color = 1",
        "urgent = 1",
        "urgent < TRUE",
        "price = 0",
        "first = 1000",
        "color + 1 = 'red1'",
        "color - color = 0",
        "-color = 1",
        "+color = 'red'",
        "quantity / 0 = 1",
        "quantity % 0 = 1",
        "9223372036854775807 * 9223372036854775807 = 1",
        "0.0 / 0.0 = 0.0",
        "property(1) = 1",
    ] {
        assert_unknown(text);
        assert_unknown(&format!("NOT ({text})"));
    }
}

#[test]
fn and_or_and_not_have_three_truths() {
    let (truths, unknown) = (["1=1", "1=0", "missing=1"], None);
    let and = [
        [Some(true), Some(false), unknown],
        [Some(false), Some(false), Some(false)],
        [unknown, Some(false), unknown],
    ];
    let or = [
        [Some(true), Some(true), Some(true)],
        [Some(true), Some(false), unknown],
        [Some(true), unknown, unknown],
    ];
    for (i, one) in truths.iter().enumerate() {
        for (j, other) in truths.iter().enumerate() {
            assert_eq!(truth(&format!("{one} AND {other}")), and[i][j]);
            assert_eq!(truth(&format!("{one} OR {other}")), or[i][j]);
        }
    }
    assert_eq!(truths.map(|one| truth(&format!("NOT {one}"))), [Some(false), Some(true), None]);
}

#[test]
fn arithmetic_is_that_of_integers_until_a_double_takes_part() {
    assert_matches("quantity / 4 = 2 AND quantity % 4 = 2 AND quantity / 4.0 = 2.5");
    assert_matches("1 + 2 * 3 = 7 AND (1 + 2) * 3 = 9 AND 10 - 2 - 3 = 5 AND 100 / 10 / 5 = 2");
    assert_matches("-quantity = -10 AND - -quantity = +10");
    assert_matches("color + '!' = 'red!'");
    assert_matches("second - first > first - second");
}

#[test]
fn and_binds_closer_than_or_and_not_closer_than_both() {
    assert_matches("1=1 OR 1=1 AND 1=0");
    assert_fails("(1=1 OR 1=1) AND 1=0");
    assert_matches("NOT 1=0 OR 1=1");
    assert_fails("NOT (1=0 OR 1=1)");
    assert_matches("NOT NOT 1=1");
}

#[test]
fn a_property_may_be_named_by_an_expression() {
    assert_matches("property('color') = 'red' AND p('Store' + 'Id') = 'Store8'");
    // Neither word is one of a function without parentheses.
    assert_matches("p IS NULL AND property IS NULL");
}

#[test]
fn constants_are_booleans_numbers_texts_and_null() {
    assert_matches("urgent = TRUE AND urgent <> false");
    assert_matches("'it''s' = 'it''s' AND 'Ü' = 'Ü'");
    assert_matches("1894.1204 < 2000 AND 101.5E5 = 10150000 AND 0.5E-2 = 0.005");
    assert_unknown("NULL = NULL");
}

#[test]
fn conditions_that_look_at_no_property_are_decided_once() {
    let constant = |text: &str| SqlFilter::parse(text).unwrap().constant();
    assert_eq!(constant("1=1"), Some(true));
    assert_eq!(constant("NOT ('a' LIKE 'b%' OR 1 + 1 IN (3, NULL))"), Some(false));
    assert_eq!(constant("a = 1"), None);
    assert_eq!(constant("EXISTS(a)"), None);
    assert_eq!(constant("p('a') = 1"), None);
}
