//! Expressions, by the library and without it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// An event that has these values.
#[derive(Debug, Default)]
struct Values<'a> {
    names: Names,
    properties: BTreeMap<&'a str, Scalar<'a>>,
    key: Option<&'a str>,
}

impl Event for Values<'_> {
    fn variable(&self, variable: Variable) -> Scalar<'_> {
        match variable {
            Variable::Property(slot) => {
                self.properties.get(self.names.text(slot)).copied().unwrap_or(Scalar::Null)
            }
            Variable::Key => self.key.map_or(Scalar::Null, |key| Scalar::Text(key.as_bytes())),
            Variable::SequenceNumber => Scalar::Int(17),
            _ => Scalar::Null,
        }
    }
}

fn compile(text: &str, wanted: Wanted, names: &mut Names) -> Result<Expression, Mistake> {
    let env = Arc::new(Env::stdlib().with_optional_support(false));
    Expression::compile("filter", text, wanted, &env, names)
}

/// What a condition is for an event with these properties.
fn holds(text: &str, properties: &[(&'static str, Scalar<'static>)]) -> Result<bool, String> {
    let mut names = Names::default();
    let condition = compile(text, Wanted::Condition, &mut names).map_err(|mistake| mistake.reason)?;
    let event = Values { names, properties: properties.iter().copied().collect(), key: Some("k-1") };
    let by_library = condition.holds_by_library(&event);
    let result = condition.holds(&event);
    assert_eq!(result, by_library, "{text}");
    result.map_err(|Failure(reason)| reason)
}

const EU: (&str, Scalar<'static>) = ("region", Scalar::Text(b"eu"));

#[test]
fn conditions_see_properties_and_what_else_is_known() {
    for (text, expected) in [
        ("properties.region == \"eu\"", true),
        ("properties.region != 'eu'", false),
        ("properties[\"region\"] == \"eu\" && key != \"test\"", true),
        ("\"eu\" == properties.region", true),
        ("properties.region == 5", false),
        ("properties.region in ['us', 'eu']", true),
        ("!(properties.region in ['us'])", true),
        ("has(properties.region) && !has(properties.other)", true),
        ("'region' in properties", true),
        ("'other' in properties", false),
        ("properties.other == null", true),
        ("properties.other == \"eu\"", false),
        ("properties.other != \"eu\"", true),
        ("properties.region.startsWith('e')", true),
        ("properties.region.contains('u') || false", true),
        ("size(properties.region) == 2", true),
        ("sequence_number >= 17 && sequence_number < 18", true),
        ("sequence_number % 2 == 1", true),
        ("properties.region + '-' + key == 'eu-k-1'", true),
        ("['x', 'eu'].exists(it, it == properties.region)", true),
        ("subject == null && offset == null", true),
        ("true", true),
        ("type(properties.region) == string", true),
    ] {
        assert_eq!(holds(text, &[EU]), Ok(expected), "{text}");
    }
}

#[test]
fn what_can_not_be_said_of_an_event_is_a_failure_that_shows_none_of_its_values() {
    for (text, reason) in [
        ("properties.region > 5", "filter: "),
        ("properties.other > 5", "filter: "),
        ("properties.other.startsWith('x')", "filter: "),
        ("properties.region", "filter: it is of type string, and a condition is true or false"),
        ("int(properties.region) == 1", "filter: "),
        ("properties.region && true", "filter: "),
        ("1 / sequence_number == 0 && 1 / (sequence_number - 17) == 0", "filter: division by zero"),
    ] {
        let secret = ("region", Scalar::Text(b"hunter2"));
        let failure = holds(text, &[secret]).expect_err(text);
        assert!(failure.starts_with(reason), "{text}: {failure}");
        assert!(!failure.contains("hunter2"), "{text}: {failure}");
    }
    let unknown = holds("properties.region == 'eu'", &[("region", Scalar::Other)]);
    assert!(unknown.expect_err("no type").contains("a type that expressions don't know"));
}

#[test]
fn mistakes_are_found_when_an_expression_is_compiled_and_told_with_their_place() {
    for (text, part, reason) in [
        ("properties.region = \"eu\"", "=", "`=` is no operator"),
        ("properties.region == ", "", ""),
        ("properties.region == eu", "eu", "`eu` is nothing of an event"),
        ("kee == 'x'", "kee", "`kee` is nothing of an event"),
        ("key == 'ü' && kee == 'x'", "kee", "`kee` is nothing of an event"),
        ("size(properties) > 2", "properties", "`properties` can't be used as a whole"),
        ("properties[key] == 2", "properties", "`properties` can't be used as a whole"),
        ("key.lowerAscii() == 'x'", "(", "there is no function `lowerAscii`"),
        ("[1].exists(key, key == 1)", "(", "`key` is the name of something of the event"),
        ("'eu'", "'eu'", "this is of type string, and a condition is true or false"),
        ("1 / 0 == 1", "1 / 0 == 1", "division by zero"),
    ] {
        let mistake = compile(text, Wanted::Condition, &mut Names::default()).expect_err(text);
        assert!(mistake.reason.starts_with(reason) && !mistake.reason.is_empty(), "{text}: {mistake:?}");
        assert_eq!(&text[mistake.part.clone()], part, "{text}: {mistake:?}");
        assert!(!mistake.advice.is_empty(), "{text}");
    }
    let long = "true && ".repeat(1_000) + "true";
    assert!(compile(&long, Wanted::Condition, &mut Names::default()).is_err());
    let deep = "(".repeat(1_000) + "true" + &")".repeat(1_000);
    assert!(compile(&deep, Wanted::Condition, &mut Names::default()).is_err());
}

#[test]
fn simple_conditions_need_no_library_and_values_of_properties_keep_their_encoding() {
    let quick = |text, wanted| compile(text, wanted, &mut Names::default()).unwrap().quick;
    for text in [
        "properties.region == \"eu\"",
        "properties.region != 'eu' && key == 'x' || !has(properties.x)",
        "properties.size > 5",
        "properties.flag",
        "sequence_number <= 10",
        "properties.region in ['eu', 'us']",
        "key.startsWith('d-')",
    ] {
        assert!(matches!(quick(text, Wanted::Condition), Quick::Test(_)), "{text}");
    }
    assert!(matches!(quick("properties.a", Wanted::Value), Quick::Variable(Variable::Property(_))));
    assert!(matches!(quick("\"orders\"", Wanted::Value), Quick::Constant(Value::String(_))));
    assert!(matches!(quick("size(key) == 2", Wanted::Condition), Quick::None));
}

fn scalar() -> impl Strategy<Value = Scalar<'static>> {
    prop_oneof![
        Just(Scalar::Null),
        any::<bool>().prop_map(Scalar::Bool),
        (-3_i64..4).prop_map(Scalar::Int),
        Just(Scalar::Uint(u64::MAX)),
        Just(Scalar::Double(1.0)),
        prop_oneof![Just("a"), Just(""), Just("ab"), Just("b")]
            .prop_map(|text| Scalar::Text(text.as_bytes())),
        Just(Scalar::Bytes(b"a")),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    let variable =
        prop_oneof![Just("properties.a"), Just("properties[\"b\"]"), Just("key"), Just("sequence_number")];
    let literal = prop_oneof![
        Just("\"a\""),
        Just("\"\""),
        Just("1"),
        Just("-2"),
        Just("17"),
        Just("true"),
        Just("null"),
        Just("1.0"),
        Just("2u")
    ];
    let operator = prop_oneof![Just("=="), Just("!="), Just("<"), Just("<="), Just(">"), Just(">=")];
    let leaf = prop_oneof![
        (variable.clone(), operator, literal.clone())
            .prop_map(|(one, operator, other)| format!("{one} {operator} {other}")),
        (literal.clone(), variable.clone()).prop_map(|(one, other)| format!("{one} == {other}")),
        (variable.clone(), literal.clone(), literal).prop_map(|(one, a, b)| format!("{one} in [{a}, {b}]")),
        variable.clone().prop_map(|one| format!("{one}.startsWith(\"a\")")),
        variable.clone().prop_map(|one| format!("{one}.contains(\"\")")),
        variable.prop_map(str::to_owned),
        Just("has(properties.b)".to_owned()),
        Just("size(key) == 3".to_owned()),
    ];
    leaf.prop_recursive(3, 12, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}) && ({other})")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}) || ({other})")),
            inner.prop_map(|of| format!("!({of})")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn conditions_are_the_same_with_and_without_the_library(text in condition(), a in scalar(), b in scalar()) {
        let mut names = Names::default();
        let condition = compile(&text, Wanted::Condition, &mut names).map_err(|mistake| TestCaseError::fail(format!("{text}: {mistake:?}")))?;
        let event = Values { names, properties: BTreeMap::from([("a", a), ("b", b)]), key: Some("k-1") };
        prop_assert_eq!(condition.holds(&event), condition.holds_by_library(&event), "{}", text);
    }

    #[test]
    fn any_text_is_an_expression_or_a_mistake(text in "[a-z.\\[\\]()\"'&|!=<> \\\\0-9ü]{0,40}", other in ".{0,30}") {
        for text in [text, other] {
            if let Err(mistake) = compile(&text, Wanted::Value, &mut Names::default()) {
                prop_assert!(mistake.text.get(mistake.part.clone()).is_some(), "{:?}", mistake);
            }
        }
    }
}
