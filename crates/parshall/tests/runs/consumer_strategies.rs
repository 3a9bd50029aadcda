//! `parshall run consumer-strategies` for a moment, through real processes: a topic and an archive that are both verified event by event,
//! and the stopwatches of the strategies. How fast that is is nobody's matter here.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_event_is_in_the_topic_and_in_the_archive_and_the_stopwatches_explain_the_rate() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_parshall"));
    command
        .args(["run", "consumer-strategies", "--quick", "--only", "twin=*r*", "--format", "json"])
        .current_dir(folder.path())
        .env_clear();
    for argument in [
        "phases.warm_up=100 ms",
        "phases.measure=600 ms",
        "load.max_lag=100",
        // The case in order would wait for a batch of a thousand, which this load never has ready.
        "relay.batch.wait=20 ms",
        "limits.relay={}",
        // A tenth of the study's times, so that a moment has some batches.
        "embedded.profile.service_time.entities.verified.send=1850 us",
        "embedded.profile.service_time.containers.archive=900 us",
        "embedded.profile.service_time.containers.checkpoints=2500 us",
    ] {
        command.args(["--set", argument]);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cases = results["cases"].as_array().unwrap();
    let names: Vec<&str> = cases.iter().filter_map(|case| case["name"].as_str()).collect();
    assert_eq!(names, ["twin=serial", "twin=ordered"]);
    for case in cases {
        for place in ["verified/verify", "archive"] {
            let delivery = &case["destinations"][place]["delivery"];
            assert_eq!(delivery["sent"], case["delivery"]["sent"], "{place}: {case:#}");
            assert!(delivery["received"].as_u64().unwrap() > 10, "{place}: {delivery}");
            for kind in ["lost", "duplicated", "corrupted", "unexpected", "unknown", "foreign"] {
                assert_eq!(delivery[kind], 0, "{place}: {delivery}");
            }
        }
        assert_eq!(case["status"], "passed", "{:#}", case["findings"]);
        for stage in ["forward", "archive", "total"] {
            assert!(case["stages"][stage]["mean"].as_f64().unwrap() > 0.0, "{stage}: {:#}", case["stages"]);
        }
        let awaits = case["name"] != "twin=ordered";
        assert_eq!(case["stages"]["checkpoint_share"].is_object(), awaits, "{:#}", case["stages"]);
    }
    let findings = results["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["kind"] == "rate-explained"), "{findings:#?}");
}
