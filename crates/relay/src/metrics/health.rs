//! The relay's health as gauges, and as the answer to whether it is ready.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use connect::event::PartitionId;
use connect::sink::ErrorClass;
use listen::MetricsWriter;

use super::table::{
    CONNECTED, HEALTH, LAG_EVENTS, LAG_SECONDS, LAST_CHECKPOINT, LAST_ENQUEUED, LAST_ERROR, POSITION,
    POSITION_MOVED, READY,
};
use crate::health::lag::Lag;
use crate::health::{Health, Position, Reason};

/// Writes the gauges, in the order of their list.
pub(super) fn encode(health: &Health, writer: &mut MetricsWriter<'_>) -> fmt::Result {
    for (name, help) in HEALTH {
        match *name {
            CONNECTED => {
                let sides = [("source", health.source_connected), ("sink", health.sink_connected)];
                writer.gauges(name, help, sides.map(|(side, is)| ([("side", side)], number(is))))
            }
            READY => writer.gauge(name, help, number(health.is_ready())),
            LAST_ERROR => {
                let errors = health.last_errors.iter().map(|error| {
                    let labels = [
                        ("place", error.place.name()),
                        ("class", class(error.class)),
                        ("condition", error.condition.as_str()),
                    ];
                    (labels, seconds(error.at))
                });
                writer.gauges(name, help, errors)
            }
            LAST_CHECKPOINT => match health.last_checkpoint {
                Some(at) => writer.gauge(name, help, seconds(at)),
                None => Ok(()),
            },
            POSITION_MOVED => {
                let moved = health.partitions.iter().filter_map(|progress| {
                    progress.moved.map(|at| of_partition(progress.partition, seconds(at)))
                });
                writer.gauges(name, help, moved)
            }
            POSITION => {
                let positions = health.partitions.iter().filter_map(|progress| match progress.position {
                    Position::After(number) => Some(of_partition(progress.partition, number as f64)),
                    Position::Beginning | Position::Unknown => None,
                });
                writer.gauges(name, help, positions)
            }
            LAST_ENQUEUED => {
                let last = |(partition, lag): &(PartitionId, Lag)| {
                    of_partition(*partition, lag.last_sequence_number as f64)
                };
                writer.gauges(name, help, health.lags.iter().map(last))
            }
            LAG_EVENTS => {
                let events = |(partition, lag): &(PartitionId, Lag)| {
                    lag.events.map(|events| of_partition(*partition, events as f64))
                };
                writer.gauges(name, help, health.lags.iter().filter_map(events))
            }
            LAG_SECONDS => {
                let age = |(partition, lag): &(PartitionId, Lag)| {
                    lag.age.map(|age| of_partition(*partition, age.as_secs_f64()))
                };
                writer.gauges(name, help, health.lags.iter().filter_map(age))
            }
            unknown => unreachable!("{unknown} is in the list of the relay's health"),
        }?;
    }
    Ok(())
}

fn seconds(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A figure of a partition, with its label.
const fn of_partition(partition: PartitionId, figure: f64) -> ([(&'static str, u32); 1], f64) {
    ([("partition", partition.0)], figure)
}

/// The readiness of relays as text, one reason per line. `waiting` are those that can't begin, and why; `warnings` is what will keep
/// relays from being ready if nobody does anything.
pub(super) fn text(
    relays: &[(Option<String>, Health)],
    waiting: &[(Option<String>, String)],
    warnings: &[String],
) -> String {
    let warned: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    if waiting.is_empty() && relays.iter().all(|(_, health)| health.is_ready()) {
        return format!("ready\n{warned}");
    }
    let mut text = "not ready\n".to_owned();
    let mut add = |topic: &Option<String>, reason: &dyn fmt::Display| {
        if let Some(topic) = topic {
            text.push_str(&format!("topic {topic}: "));
        }
        text.push_str(&format!("{reason}\n"));
    };
    for (topic, health) in relays {
        health.reasons.iter().for_each(|reason| add(topic, reason));
    }
    waiting.iter().for_each(|(topic, reason)| add(topic, reason));
    text + &warned
}

/// The readiness of relays as JSON. `waiting` and `warnings` are as in [`text`].
pub(super) fn json(
    relays: &[(Option<String>, Health)],
    waiting: &[(Option<String>, String)],
    warnings: &[String],
) -> String {
    let with_topic = |topic: &Option<String>, mut reason: serde_json::Value| {
        if let Some(topic) = topic {
            reason["topic"] = topic.as_str().into();
        }
        reason
    };
    let reason = |reason: &Reason| {
        let ids = reason.partitions.iter();
        serde_json::json!({
            "place": reason.place.name(),
            "condition": reason.condition,
            "description": reason.description,
            "lasted_seconds": reason.lasted.as_secs_f64(),
            "partitions": ids.map(|partition| partition.0).collect::<Vec<_>>(),
        })
    };
    let mut reasons = Vec::new();
    for (topic, health) in relays {
        reasons.extend(health.reasons.iter().map(|it| with_topic(topic, reason(it))));
    }
    for (topic, why) in waiting {
        reasons.push(with_topic(topic, serde_json::json!({"place": "start", "description": why})));
    }
    let is_ready = waiting.is_empty() && relays.iter().all(|(_, health)| health.is_ready());
    let mut json = serde_json::json!({"ready": is_ready, "reasons": reasons});
    if !warnings.is_empty() {
        json["warnings"] = warnings.into();
    }
    json.to_string()
}

fn number(is: bool) -> f64 {
    f64::from(u8::from(is))
}

const fn class(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Retryable => "retryable",
        ErrorClass::Throttled { .. } => "throttled",
        ErrorClass::Fatal => "fatal",
        ErrorClass::TooLarge => "too-large",
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::health::{LastError, PartitionProgress, Place};
    use crate::metrics::{Metrics, prometheus};

    fn unwell() -> Health {
        Health {
            source_connected: true,
            sink_connected: false,
            reasons: vec![Reason {
                place: Place::Sink,
                condition: "connection:lost".to_owned(),
                description: "connection:lost: reset".to_owned(),
                lasted: Duration::from_secs(3),
                partitions: vec![PartitionId(1)],
            }],
            last_errors: vec![LastError {
                place: Place::Sink,
                class: ErrorClass::Retryable,
                condition: "a \"name\"".to_owned(),
                at: SystemTime::UNIX_EPOCH + Duration::from_secs(7),
            }],
            last_checkpoint: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(5)),
            partitions: vec![PartitionProgress {
                partition: PartitionId(1),
                position: Position::After(41),
                oldest_held: None,
                moved: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(4_500)),
            }],
            lags: vec![(
                PartitionId(1),
                Lag { last_sequence_number: 50, events: Some(9), age: Some(Duration::from_millis(1_500)) },
            )],
        }
    }

    #[test]
    fn health_is_written_as_gauges() {
        let metrics = Metrics { health: unwell(), ..Metrics::new() };
        let text = prometheus::render(metrics);
        for line in [
            r#"parshall_relay_connected{side="source"} 1.0"#,
            r#"parshall_relay_connected{side="sink"} 0.0"#,
            "parshall_relay_ready 0.0",
            r#"parshall_relay_last_error_timestamp_seconds{place="sink",class="retryable",condition="a \"name\""} 7.0"#,
            "parshall_relay_last_checkpoint_timestamp_seconds 5.0",
            r#"parshall_relay_position_timestamp_seconds{partition="1"} 4.5"#,
            r#"parshall_relay_position_sequence_number{partition="1"} 41.0"#,
            r#"parshall_relay_last_enqueued_sequence_number{partition="1"} 50.0"#,
            r#"parshall_relay_lag_events{partition="1"} 9.0"#,
            r#"parshall_relay_lag_seconds{partition="1"} 1.5"#,
        ] {
            assert!(text.lines().any(|have| have == line), "{line} is not in:\n{text}");
        }
    }

    #[test]
    fn readiness_has_its_reasons_as_text_and_as_json() {
        let alone = [(None, unwell())];
        let expected = "not ready\nsink: connection:lost: reset (for 3 s; partitions 1)\n";
        assert_eq!(text(&alone, &[], &[]), expected);
        let json: serde_json::Value = serde_json::from_str(&json(&alone, &[], &[])).expect("JSON");
        assert_eq!(json["ready"], false);
        assert_eq!(json["reasons"][0]["condition"], "connection:lost");
        assert_eq!(json["reasons"][0]["partitions"][0], 1);
        assert_eq!(json["reasons"][0].get("topic"), None);
        assert_eq!(text(&[(None, Health::default())], &[], &[]), "ready\n");
    }

    #[test]
    fn one_of_several_relays_that_is_not_ready_is_named() {
        let relays = [(Some("orders".to_owned()), Health::default()), (Some("returns".to_owned()), unwell())];
        let waiting = [(Some("stock".to_owned()), "there is no hub".to_owned())];
        let expected = "not ready\ntopic returns: sink: connection:lost: reset (for 3 s; partitions 1)\n\
                        topic stock: there is no hub\n";
        assert_eq!(text(&relays, &waiting, &[]), expected);
        let shown: serde_json::Value = serde_json::from_str(&json(&relays, &waiting, &[])).expect("JSON");
        assert_eq!((&shown["ready"], &shown["reasons"][0]["topic"]), (&false.into(), &"returns".into()));
        assert_eq!(shown["reasons"][1]["description"], "there is no hub");
        assert_eq!(text(&relays[..1], &[], &[]), "ready\n");
        assert!(!text(&relays[..1], &waiting, &[]).starts_with("ready"));
    }

    #[test]
    fn a_warning_is_told_and_takes_nothing_from_readiness() {
        let (well, warnings) = ([(None, Health::default())], ["the token ends".to_owned()]);
        assert_eq!(text(&well, &[], &warnings), "ready\nwarning: the token ends\n");
        let shown: serde_json::Value = serde_json::from_str(&json(&well, &[], &warnings)).expect("JSON");
        assert_eq!(shown, serde_json::json!({"ready": true, "reasons": [], "warnings": ["the token ends"]}));
    }
}
