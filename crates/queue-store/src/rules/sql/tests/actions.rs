//! What actions do to a message.

use amqp::codec::Value;

use super::super::SqlAction;
use super::super::operand::Operand;
use super::super::system::SystemProperty;
use super::{MessageProperties, order};

fn after(action: &str) -> MessageProperties {
    let mut message = order();
    SqlAction::parse(action).unwrap().apply(&mut message);
    message
}

#[test]
fn the_documented_action_halves_the_quantity_and_lowers_the_priority() {
    let message = after("SET quantity = quantity / 2; REMOVE priority;SET sys.CorrelationId = 'low';");
    assert_eq!(message.find("quantity"), Some(&Value::Int(5)));
    assert_eq!(message.find("priority"), None);
    assert_eq!(message.standard.correlation_id, Some("low".into()));
}

#[test]
fn statements_need_no_semicolon_and_see_what_those_before_them_did() {
    let message = after("SET a = 1 SET b = a + 1 REMOVE a");
    assert_eq!(message.find("a"), None);
    assert_eq!(message.find("b"), Some(&Value::Long(2)));
}

#[test]
fn setting_an_unknown_value_makes_an_application_property_null_and_takes_a_system_property_away() {
    let message = after("SET color = missing; SET sys.Label = NULL; SET sys.To = 17");
    assert_eq!(message.find("color"), Some(&Value::Null));
    assert_eq!(message.standard.subject, None);
    assert_eq!(message.standard.to.as_deref(), Some("17"));
}

#[test]
fn every_changeable_system_property_can_be_set_and_removed() {
    for property in [
        SystemProperty::MessageId,
        SystemProperty::CorrelationId,
        SystemProperty::Label,
        SystemProperty::To,
        SystemProperty::ReplyTo,
        SystemProperty::SessionId,
        SystemProperty::ReplyToSessionId,
        SystemProperty::ContentType,
    ] {
        let name = property.name();
        let mut message = after(&format!("SET sys.{name} = 'new'"));
        assert_eq!(property.value(&message), Operand::Text("new".into()));
        SqlAction::parse(format!("REMOVE sys.{name}")).unwrap().apply(&mut message);
        assert_eq!(property.value(&message), Operand::Unknown);
    }
    // It could not be sent.
    let message = after("SET sys.ContentType = 'a'; SET sys.ContentType = 'ä'");
    assert_eq!(message.standard.content_type, Some("a".into()));
}

#[test]
fn texts_that_actions_put_together_do_not_grow_without_end() {
    let message = after(&format!("SET a = 'aaaaaaaa'; {}", "SET a = a + a; ".repeat(30)));
    assert_eq!(message.find("a"), Some(&Value::Null));
}
