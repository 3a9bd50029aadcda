//! The documented examples, mistakes with their places, and properties of reading and printing.

mod actions;
mod conditions;
mod mistakes;
mod round_trips;

use amqp::codec::Value;
use amqp::message::Properties;

use super::super::application::ApplicationProperties;
use super::super::message::{BrokerProperties, MessageProperties};
use super::parser;
use partition_log::UnixTime;

/// An order as the documentation of filters has it.
fn order() -> MessageProperties {
    MessageProperties {
        standard: Properties {
            message_id: Some("xxxx".into()),
            correlation_id: Some("abc-17".into()),
            subject: Some("Azure Service bus".into()),
            to: Some("Store5".into()),
            ..Properties::default()
        },
        application: ApplicationProperties::of(vec![
            ("color".into(), "red".into()),
            ("quantity".into(), Value::Int(10)),
            ("priority".into(), "high".into()),
            ("MessageProperty".into(), Value::Double(2.5)),
            ("StoreId".into(), "Store8".into()),
            ("SuperHero".into(), "SuperMan returns".into()),
            ("http://schemas.microsoft.com/xrm/2011/Claims/EntityLogicalName".into(), "account".into()),
            ("HR-EmployeeID".into(), Value::Long(7)),
            ("absent_minded".into(), Value::Null),
            ("urgent".into(), Value::Boolean(true)),
            ("price".into(), Value::Decimal128([0; 16])),
            ("first".into(), Value::Timestamp(1_000)),
            ("second".into(), Value::Timestamp(4_000)),
        ]),
        broker: BrokerProperties {
            sequence_number: Some(12),
            enqueued_time: Some(UnixTime::from_milliseconds(2_000)),
            ..BrokerProperties::default()
        },
    }
}

/// True, false, or unknown.
#[track_caller]
fn truth(text: &str) -> Option<bool> {
    match parser::predicate(text, &[]) {
        Ok(predicate) => predicate.holds(&order()),
        Err(error) => panic!("{text}: {error}"),
    }
}

#[track_caller]
fn assert_matches(text: &str) {
    assert_eq!(truth(text), Some(true), "{text}");
}

#[track_caller]
fn assert_fails(text: &str) {
    assert_eq!(truth(text), Some(false), "{text}");
}

#[track_caller]
fn assert_unknown(text: &str) {
    assert_eq!(truth(text), None, "{text}");
}
