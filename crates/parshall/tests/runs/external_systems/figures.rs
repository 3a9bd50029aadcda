//! What is known of a command that works: its figures, its verdict, and our relay beside it.

use super::rig::{Bench, tls_pipeline};

#[test]
fn our_relay_as_a_command_is_measured_as_the_built_in_one_is() {
    let bench = Bench::new();
    let forwarder = bench.system("forwarder", "exec parshall relay pipeline.yaml", "");
    let finished = bench.run(&["parshall", "forwarder"], &forwarder);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    let ours = finished.intact("sut=parshall");
    assert_eq!(ours.get("system"), None, "our relay over plain TCP is the usual");
    assert_eq!(ours.get("parshall_ratio"), None);

    let case = finished.intact("sut=forwarder");
    assert_eq!(case["system"], serde_json::json!({"name": "forwarder", "ours": false, "transport": "tcp"}));
    let median = |figure: &str| case[figure]["median"].as_f64().unwrap();
    assert!(median("received_per_s") > 0.0 && median("forwarded_per_s") > 0.0);
    assert!(median("cpu_percent") > 0.0 && median("memory_peak_bytes") > 1e6);
    let relay = &case["trials"][0]["roles"]["relay"];
    assert!(relay["cpu_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(
        relay["per_million_events"].get("system_calls"),
        None,
        "nobody counts a command's calls on its sockets"
    );
    let notes = finished.findings("sut=forwarder", "other");
    assert!(notes[0].starts_with("measured from outside: "), "{notes:?}");

    let ratio = &case["parshall_ratio"];
    assert_eq!(ratio["case"], "sut=parshall");
    let expected = ours["forwarded_per_s"]["median"].as_f64().unwrap() / median("forwarded_per_s");
    assert!((ratio["forwarded"].as_f64().unwrap() - expected).abs() < 1e-9);
    assert!(ratio["memory_peak"].as_f64().unwrap() > 0.0);
    assert!(finished.stdout.contains("Parshall ÷ it"), "{}", finished.stdout);
}

#[test]
fn over_tls_a_command_is_held_against_our_relay_over_tls() {
    let bench = Bench::new();
    bench.file("tls.yaml", &tls_pipeline());
    let script = "case $PARSHALL_SOURCE_CONNECTION_STRING in *UseDevelopmentEmulator*) exit 9;; esac
exec parshall relay tls.yaml";
    let forwarder = bench.system("forwarder", script, ", transport: tls");
    let definitions = format!("  parshall-tls: {{transport: tls}}\n{forwarder}");
    let finished = bench.run(&["parshall", "parshall-tls", "forwarder"], &definitions);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    finished.intact("sut=parshall");
    let ours = finished.intact("sut=parshall-tls");
    assert_eq!(ours["system"], serde_json::json!({"name": "parshall-tls", "ours": true, "transport": "tls"}));
    let case = finished.intact("sut=forwarder");
    assert_eq!(case["parshall_ratio"]["case"], "sut=parshall-tls");
}

#[test]
fn a_command_that_sends_everything_twice_has_the_throughput_of_once_and_its_processes_count_together() {
    let bench = Bench::new();
    let script = "WHO=one parshall relay pipeline.yaml &
WHO=two parshall relay pipeline.yaml &
trap : TERM
wait
wait";
    let twice = bench.system("twice", script, "");
    let once = bench.system("once", "exec parshall relay pipeline.yaml", "");
    let finished = bench.run(&["once", "twice"], &format!("{once}{twice}"));
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    let case = finished.intact("sut=twice");
    assert!(case["delivery"]["duplicated"].as_u64().unwrap() > 0);
    let rate = |figure: &str| case[figure]["median"].as_f64().unwrap();
    let repetition = rate("with_duplicates_per_s") / rate("forwarded_per_s");
    assert!(repetition > 1.3, "{repetition}: {}", finished.stdout);
    assert_eq!(finished.findings("sut=twice", "events-duplicated").len(), 1);
    assert!(finished.stdout.contains("duplicates/s"), "{}", finished.stdout);
    let once = finished.case("sut=once");
    assert_eq!((once.get("with_duplicates_per_s"), &once["delivery"]["duplicated"]), (None, &0.into()));
    let memory = |name| {
        let peak = &finished.case(name)["memory_peak_bytes"]["median"];
        peak.as_f64().unwrap()
    };
    assert!(memory("sut=twice") > 1.5 * memory("sut=once"));
}

#[test]
fn a_command_that_uses_one_partition_of_three_is_noticed() {
    let bench = Bench::new();
    bench.file("one.yaml", &super::rig::PIPELINE.replace("${PARSHALL_FAN_OUT}", "1"));
    let narrow = bench.system("narrow", "exec parshall relay one.yaml", "");
    let finished = bench.run(&["narrow", "parshall"], &narrow);
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    finished.intact("sut=narrow");
    let found = finished.findings("sut=narrow", "few-partitions");
    assert!(found.len() == 1 && found[0].starts_with("reached 1 of 3 partitions"), "{found:?}");
    assert_eq!(finished.findings("sut=parshall", "few-partitions"), [""; 0]);
}

#[test]
fn a_command_that_leaves_a_partition_out_has_lost_its_events() {
    let bench = Bench::new();
    let some =
        super::rig::PIPELINE.replace("    consumer_group", "    partitions: [0, 1, 2]\n    consumer_group");
    bench.file("some.yaml", &some);
    let lossy = bench.system("lossy", "exec parshall relay some.yaml", "");
    let finished =
        bench.run(&["lossy"], &format!("{lossy}phases: {{warm_up: 100 ms, measure: 700 ms, drain: 1 s}}\n"));
    assert_eq!(finished.status, Some(1), "{}", finished.stderr);
    let case = finished.case("sut=lossy");
    assert_eq!(case["status"], "failed");
    assert!(case["delivery"]["lost"].as_u64().unwrap() > 0);
    assert_eq!(finished.findings("sut=lossy", "events-lost").len(), 1);
}
