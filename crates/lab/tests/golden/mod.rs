//! Results that an earlier build wrote, as its runs left them: they stay valid, and every reader says of them what it
//! said then.
//!
//! The files are of real runs (`parshall run`, two trials of three seconds), with fewer seconds in the course of a trial
//! and fewer points in the curves than the runs had.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::path::{Path, PathBuf};

use lab::comparison::{self, Comparison, Side};
use lab::report::{Colour, CsvReport, HtmlReport, JsonReport, MarkdownReport, Report as _, TableReport};
use lab::results::{Figure, Results};
use lab::statistics::Design;
use serde_json::Value;

const STUDIES: [&str; 2] = ["fan-out", "queue-forward"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn text(study: &str) -> String {
    std::fs::read_to_string(folder().join(format!("{study}.json"))).unwrap()
}

fn golden(study: &str) -> Results {
    serde_json::from_str(&text(study)).unwrap()
}

#[test]
fn they_agree_with_the_schema_of_today() {
    let schema = folder().join("../../../../schema/results.schema.json");
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for study in STUDIES {
        let json = serde_json::from_str(&text(study)).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&json).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert_eq!(errors, Vec::<String>::new(), "{study}");
    }
}

#[test]
fn what_was_written_is_written_again() {
    for study in STUDIES {
        let written: Value = serde_json::from_str(&JsonReport.render(&golden(study)).unwrap()).unwrap();
        let before: Value = serde_json::from_str(&text(study)).unwrap();
        assert_eq!(written, with_empty_findings(before), "{study}");
    }
}

/// A run, a case and a trial without findings say so today. Those builds left the list out.
fn with_empty_findings(mut results: Value) -> Value {
    let add = |place: &mut Value| {
        place.as_object_mut().unwrap().entry("findings").or_insert_with(|| Value::Array(Vec::new()));
    };
    add(&mut results);
    for case in results["cases"].as_array_mut().unwrap() {
        add(case);
        case["trials"].as_array_mut().unwrap().iter_mut().for_each(add);
    }
    results
}

#[test]
fn reports_say_of_them_what_they_said() {
    for study in STUDIES {
        let results = golden(study);
        let table = TableReport { width: Some(120), colour: Colour::Never }.render(&results).unwrap();
        insta::assert_snapshot!(format!("{study}-table"), table);
        insta::assert_snapshot!(format!("{study}-markdown"), MarkdownReport.render(&results).unwrap());
        insta::assert_snapshot!(format!("{study}-csv"), first_columns(&CsvReport.render(&results).unwrap()));
        let page = HtmlReport.render(&results).unwrap();
        let nouns = [("fan-out", "event"), ("queue-forward", "message")];
        let (_, noun) = nouns.into_iter().find(|(name, _)| *name == study).unwrap();
        for sentence in [
            format!("{noun}s/s in the fastest case"),
            format!("{noun}, from its intended instant"),
            format!("CPU per {noun}"),
            format!("{noun}s in"),
        ] {
            assert!(page.contains(&sentence), "{study}: {sentence}");
        }
    }
}

/// The columns that a CSV file had then: new ones may only follow.
fn first_columns(csv: &str) -> String {
    let cut = |line: &str| line.split(',').take(38).collect::<Vec<_>>().join(",") + "\n";
    csv.lines().map(cut).collect()
}

#[test]
fn they_compare_as_they_did() {
    for study in STUDIES {
        let results = golden(study);
        assert!(comparison::differences(&results, &results).is_empty());
        let side = |name| Side { name, results: &results };
        let comparison = Comparison::of(side("before"), side("after"), Design::Paired, Vec::new()).unwrap();
        assert!(!comparison.is_worse_in(&[Figure::ForwardedPerS]));
        insta::assert_snapshot!(format!("{study}-comparison"), comparison::table(&comparison));
    }
}
