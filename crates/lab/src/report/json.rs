//! `results.json`: the results themselves, as `schema/results.schema.json` describes them.

use super::{Report, ReportError};
use crate::results::Results;

/// The content of `results.json`.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonReport;

impl Report for JsonReport {
    fn render(&self, results: &Results) -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(results)?;
        text.push('\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn schema() -> jsonschema::Validator {
        let schema = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/results.schema.json"));
        let schema = serde_json::from_str(schema).unwrap();
        jsonschema::draft202012::meta::validate(&schema).unwrap();
        jsonschema::draft202012::new(&schema).unwrap()
    }

    fn errors(results: &serde_json::Value) -> Vec<String> {
        schema().iter_errors(results).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    #[test]
    fn every_kind_of_results_agrees_with_the_published_schema() {
        for results in sample::all() {
            let json = serde_json::from_str(&JsonReport.render(&results).unwrap()).unwrap();
            assert_eq!(errors(&json), Vec::<String>::new(), "{}", results.scenario);
        }
    }

    #[test]
    fn what_is_written_is_read_back_as_it_was() {
        for results in sample::all() {
            let read: Results = serde_json::from_str(&JsonReport.render(&results).unwrap()).unwrap();
            assert_eq!(read, results);
        }
    }

    #[test]
    fn the_schema_refuses_what_the_format_does_not_have() {
        let good = serde_json::to_value(sample::complete()).unwrap();
        let damages: [fn(&mut serde_json::Value); 6] = [
            |json| json["schema"] = 2.into(),
            |json| json["surplus"] = 1.into(),
            |json| json["cases"][0]["received_per_s"]["average"] = 1.into(),
            |json| json["cases"][0]["status"] = "fine".into(),
            |json| json["cases"][0]["delivery"]["lost"] = (-1).into(),
            |json| json["environment"]["started"] = serde_json::Value::Null,
        ];
        for (number, damage) in damages.into_iter().enumerate() {
            let mut bad = good.clone();
            damage(&mut bad);
            assert!(!errors(&bad).is_empty(), "damage {number} went unnoticed");
        }
    }
}
