//! JSON schemas of what the lab writes, made of the types that write it; `schema/` has them as files.
//!
//! Descriptions are the comments on types and fields. Where a type allows more than what is ever written (any number, any
//! text), an attribute beside the field says what is. See decision 0035.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::comparison::Comparison;
use crate::results::Results;

/// The schema of `results.json`.
#[must_use]
pub fn results() -> Value {
    schema_of::<Results>("Results of a Parshall run")
}

/// The schema of what `parshall compare --format json` prints.
#[must_use]
pub fn comparison() -> Value {
    schema_of::<Comparison>("Comparison of two Parshall runs")
}

fn schema_of<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(AsWritten);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), Value::from(title));
    schema.into()
}

/// A map whose keys are the names of an enumeration.
pub(crate) fn by_name<K: JsonSchema, V: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "propertyNames": generator.subschema_for::<K>(),
        "additionalProperties": generator.subschema_for::<V>(),
    })
}

/// For [`by_name`]: a number that is not negative.
pub(crate) enum NotNegative {}

impl JsonSchema for NotNegative {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "NotNegative".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0})
    }
}

/// Makes a schema say what is written, now and by older builds: what is absent is left out and never null, widths of
/// integers are no part of JSON, and comments lose their links.
#[derive(Debug, Clone)]
struct AsWritten;

impl Transform for AsWritten {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        object.remove("format");
        if object.get("default").is_some_and(Value::is_null) {
            object.remove("default");
        }
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = types.as_slice() {
                let only = only.clone();
                object.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
            choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
            if let [Value::Object(only)] = choices.as_slice() {
                let only = only.clone();
                object.remove("anyOf");
                object.extend(only);
            }
        }
        if let Some(Value::String(text)) = object.get_mut("description") {
            *text = text.replace("[`", "`").replace("`]", "`").replace('\n', " ");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Set, the files are written anew instead of compared.
    const UPDATE: &str = "PARSHALL_UPDATE_SCHEMAS";

    #[test]
    fn the_files_are_what_the_types_say() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema");
        for (name, schema) in [("results", results()), ("comparison", comparison())] {
            let path = folder.join(format!("{name}.schema.json"));
            if std::env::var_os(UPDATE).is_some() {
                let text = serde_json::to_string_pretty(&schema).expect("it is JSON");
                std::fs::write(&path, text + "\n").expect("the folder can be written");
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("it is checked in");
            let checked_in: Value = serde_json::from_str(&text).expect("it is JSON");
            assert!(
                checked_in == schema,
                "schema/{name}.schema.json is not what the types say. Write it anew with \
                 `{UPDATE}=1 cargo test -p lab --lib schema` and look at the difference"
            );
        }
    }

    #[test]
    fn what_is_absent_is_never_null_and_every_part_is_described() {
        for schema in [results(), comparison()] {
            let text = schema.to_string();
            assert!(!text.contains("null") && !text.contains("\"format\""), "{text}");
            for (name, definition) in schema["$defs"].as_object().expect("there are some") {
                assert!(definition["description"].is_string(), "{name}");
            }
        }
    }
}
