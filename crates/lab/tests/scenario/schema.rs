//! The schema of scenario files: what the program's own files and types write is what it allows, and states as defaults.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use lab::scenario::{CaseOptions, Scenario};
use serde_json::{Map, Value, json};
use settings::{Content, Document, Node};

use super::systems::CONSUMER;
use super::{cases, set};

#[test]
fn scenarios_match_their_schema_and_the_schema_knows_every_key() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let mut seen = 0;
    for entry in std::fs::read_dir(root().join("scenarios")).unwrap() {
        let document = Document::read(&entry.unwrap().path()).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&json(document.root())).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        seen += 1;
    }
    assert_eq!(seen, Scenario::names().count(), "every file in scenarios/ is part of the program");

    // What the types write is what the schema allows, key by key.
    let mut file = Map::from_iter([("scenario".to_owned(), json!("s"))]);
    file.extend(
        cases(
            "scenario: s\n",
            &set(&[
                "load.rate=1/s",
                "limits.hub={cores: 1, memory: 1 GiB}",
                "roles={load: {launch: [ssh, vm1]}, sink: {launch: [env], program: /opt/parshall}}",
                "embedded.listen=0.0.0.0",
                "embedded.advertise=lab.example",
                "embedded.profile={name: cloud, tls: 1.3, round_trip: 2 ms, connection_setup: {mean: 5 ms}, quota: {ingress_bytes_per_s: 1 MB}, \
                 failures: {disconnect_per_s: 0.1}}",
            ]),
        )
        .unwrap()[0]
            .params(),
    );
    let errors: Vec<String> =
        validator.iter_errors(&Value::Object(file)).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let consumer = Document::parse("s.yaml", &format!("scenario: s\n{CONSUMER}")).unwrap();
    assert!(validator.is_valid(&json(consumer.root())));
    let prices = json!({"currency": "EUR", "core_hour": 0.04, "gib_hour": 0.005, "throughput_unit_hour": 0.03,
                        "million_operations": 0});
    assert!(validator.is_valid(&json!({"scenario": "s", "prices": prices})));
    assert!(!validator.is_valid(&json!({"scenario": "s", "prices": {"core_hour": 0.04}})));
    assert!(!validator.is_valid(&json!({"scenario": "s", "relays": {}})));
    assert!(!validator.is_valid(&json!({"scenario": "s", "relay": {"fan_out": "many"}})));
}

#[test]
fn the_schema_states_the_defaults_of_the_types() {
    let schema = schema();
    let params = cases("scenario: s\n", &CaseOptions::default()).unwrap()[0].params();
    for section in ["embedded", "load", "relay", "sink", "phases"] {
        let mut stated = BTreeMap::new();
        defaults(section, &schema["$defs"][section], &mut stated);
        for (path, default) in stated {
            let pointer = format!("/{}", path.replace('.', "/"));
            let actual = Value::Object(params.clone()).pointer(&pointer).cloned().unwrap();
            let durations = [&default, &actual]
                .map(|value| value.as_str().and_then(|text| units::duration::parse(text).ok()));
            let equal = actual == default
                || actual.as_f64().is_some_and(|number| Some(number) == default.as_f64())
                || (durations[0].is_some() && durations[0] == durations[1]);
            assert!(equal, "{path}: the schema says {default}, the types {actual}");
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema() -> Value {
    let text = std::fs::read_to_string(root().join("schema/scenario.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn defaults(path: &str, schema: &Value, stated: &mut BTreeMap<String, Value>) {
    if let Some(default) = schema.get("default") {
        stated.insert(path.to_owned(), default.clone());
    }
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        defaults(&format!("{path}.{key}"), schema, stated);
    }
}

/// A document as JSON, to be held against the schema.
fn json(node: &Node) -> Value {
    match &node.content {
        Content::Null => Value::Null,
        Content::Boolean(value) => json!(value),
        Content::Integer(number) => json!(i64::try_from(*number).unwrap()),
        Content::Float(number) => json!(number),
        Content::Text(text) => json!(text),
        Content::List(elements) => elements.iter().map(json).collect(),
        Content::Mapping(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), json(&entry.value))).collect())
        }
    }
}
