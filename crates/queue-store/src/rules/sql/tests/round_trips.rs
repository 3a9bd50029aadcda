//! Printing and reading are inverse, and no text makes reading or evaluation fail.

use proptest::prelude::*;

use super::super::syntax::{Comparison, Constant, Expression, Operator, Predicate, Property, Statement};
use super::super::system::SystemProperty;
use super::super::{check_any_text, parser};
use super::order;

#[test]
fn printing_puts_parentheses_where_they_matter() {
    let printed = |text: &str| parser::predicate(text, &[]).unwrap().to_string();
    assert_eq!(printed("((a=1))and((b)=2 or c!=3)"), "a = 1 AND (b = 2 OR c <> 3)");
    assert_eq!(printed("a-(b-c)-d=-(1+2)*3"), "a - (b - c) - d = -(1 + 2) * 3");
    assert_eq!(printed("not(a is not null)"), "NOT a IS NOT NULL");
    assert_eq!(printed("\"and\" not in(sys.label,[x ]]y])"), "[and] NOT IN (sys.Label, [x ]]y])");
}

#[test]
fn texts_that_fuzzing_starts_from_pass_its_check() {
    for text in [
        "a LIKE '%''_' ESCAPE '''' AND [b c] IS NULL",
        "SET a = -1.5E3 + p('b') % 2; REMOVE sys.To",
        "'\u{0}",
        "((((",
    ] {
        check_any_text(text);
    }
}

fn constant() -> impl Strategy<Value = Constant> {
    prop_oneof![
        Just(Constant::Null),
        any::<bool>().prop_map(Constant::Boolean),
        (0..=i64::MAX).prop_map(Constant::Integer),
        any::<f64>()
            .prop_filter("numbers are written without a sign", |number| number.is_finite())
            .prop_map(|number| Constant::Double(number.abs())),
        ".{0,8}".prop_map(Constant::Text),
    ]
}

fn property() -> impl Strategy<Value = Property> {
    let system = prop_oneof![
        Just(SystemProperty::Label),
        Just(SystemProperty::MessageId),
        Just(SystemProperty::TimeToLive)
    ];
    prop_oneof![
        "[a-zA-Z][a-z0-9_]{0,5}|.{1,6}|and|SET|p|sys|user".prop_map(Property::User),
        system.prop_map(Property::System),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    let leaf =
        prop_oneof![constant().prop_map(Expression::Constant), property().prop_map(Expression::Property),];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let chain = |operators: &'static [Operator], inner: BoxedStrategy<Expression>| {
            let rest = (prop::sample::select(operators), inner.clone());
            (inner, prop::collection::vec(rest, 1..3))
                .prop_map(|(first, rest)| Expression::Chain { first: Box::new(first), rest })
        };
        let inner = inner.boxed();
        prop_oneof![
            chain(&[Operator::Add, Operator::Subtract], inner.clone()),
            chain(&[Operator::Multiply, Operator::Divide, Operator::Remainder], inner.clone()),
            (any::<bool>(), inner.clone())
                .prop_map(|(is_minus, operand)| Expression::Sign { is_minus, operand: Box::new(operand) }),
            inner.prop_map(|name| Expression::PropertyNamed(Box::new(name))),
        ]
    })
}

fn a_predicate() -> impl Strategy<Value = Predicate> {
    let comparisons = prop::sample::select(&[
        Comparison::Equal,
        Comparison::NotEqual,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ]);
    let leaf = prop_oneof![
        (expression(), comparisons, expression())
            .prop_map(|(left, comparison, right)| { Predicate::Compare { left, comparison, right } }),
        (property(), any::<bool>()).prop_map(|(property, negated)| Predicate::IsNull { property, negated }),
        (expression(), prop::collection::vec(expression(), 1..4), any::<bool>())
            .prop_map(|(operand, list, negated)| Predicate::In { operand, list, negated }),
        (expression(), expression(), any::<Option<char>>(), any::<bool>()).prop_map(
            |(operand, pattern, escape, negated)| Predicate::Like { operand, pattern, escape, negated }
        ),
        property().prop_map(Predicate::Exists),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Predicate::And),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Predicate::Or),
            inner.prop_map(|predicate| Predicate::Not(Box::new(predicate))),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_as_the_same_condition(predicate in a_predicate()) {
        let printed = predicate.to_string();
        prop_assert_eq!(parser::predicate(&printed, &[]), Ok(predicate), "{}", printed);
    }

    #[test]
    fn what_is_printed_reads_back_as_the_same_action(
        steps in prop::collection::vec(
            ("[a-z ]{1,5}", prop::option::of(expression())),
            1..5,
        )
    ) {
        let statements: Vec<Statement> = steps
            .into_iter()
            .map(|(name, value)| {
                let property = Property::User(name);
                match value {
                    Some(value) => Statement::Set { property, value },
                    None => Statement::Remove(property),
                }
            })
            .collect();
        let printed: Vec<String> = statements.iter().map(ToString::to_string).collect();
        prop_assert_eq!(parser::statements(&printed.join(" "), &[]), Ok(statements));
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,60}") {
        check_any_text(&text);
    }

    #[test]
    fn any_words_are_read_or_refused(
        words in prop::collection::vec(
            prop::sample::select(&[
                "a", "b", "sys.Label", "user.", "sys", "1", "2.5", "'x'", "[y z]", "(", ")", ",", ";", "=", "<>", "<",
                "+", "-", "*", "/", "%", ".", "AND", "OR", "NOT", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "EXISTS",
                "SET", "REMOVE", "p(", "'", "@",
            ][..]),
            0..24,
        )
    ) {
        check_any_text(&words.join(" "));
    }

    #[test]
    fn evaluation_never_fails(predicate in a_predicate()) {
        let _ = predicate.holds(&order());
    }
}
