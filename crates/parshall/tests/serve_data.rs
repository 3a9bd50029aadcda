//! `parshall serve --data-dir` as a process: what a restart finds, and what is told where it can't start.

#![expect(
    clippy::unwrap_used,
    reason = "what panics in a test fails it, and says where"
)]

mod serving;

use std::path::Path;

use rustix::process::Signal;
use serving::{Serving, outcome, parshall, refusal};

/// Runs `parshall hub` with these arguments against a service.
fn hub(serving: &Serving, arguments: &[&str]) -> String {
    let mut command = parshall(&[&["hub"], arguments].concat());
    command.env("EVENT_HUBS_CONNECTION_STRING", serving.told("all hubs"));
    let (status, stdout, stderr) = outcome(&mut command);
    assert_eq!(status, Some(0), "{stderr}");
    stdout
}

fn data(directory: &tempfile::TempDir) -> String {
    let path: &Path = directory.path();
    path.join("data").to_str().unwrap().to_owned()
}

/// A refusal in one line without the paths that differ from run to run.
fn refused(directory: &tempfile::TempDir, arguments: &[&str]) -> (Option<i32>, String) {
    let (status, stdout, stderr) = refusal(arguments);
    assert_eq!(stdout, "");
    (status, stderr.replace(&data(directory), "DATA"))
}

#[test]
fn hubs_are_there_again_after_a_restart_however_the_process_ended() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let serving = Serving::start(&["--data-dir", &path]);
    assert_eq!(serving.hubs(), ["events (4 partitions)"]);
    assert!(
        serving
            .announcement
            .contains(&format!("Data               {path} (sync: 50 ms)\n")),
        "{}",
        serving.announcement
    );
    hub(
        &serving,
        &[
            "create",
            "orders",
            "--partitions",
            "2",
            "--consumer-group",
            "billing",
        ],
    );
    hub(&serving, &["delete", "events"]);
    assert_eq!(serving.end(Signal::KILL), None);

    let serving = Serving::start(&["--data-dir", &path, "--sync", "always"]);
    assert_eq!(
        serving.hubs(),
        ["orders (2 partitions)"],
        "the default hub was deleted and stays so"
    );
    assert!(hub(&serving, &["show", "orders"]).contains("consumer groups  $Default, billing\n"));
    assert_eq!(serving.end(Signal::TERM), Some(0));

    let serving = Serving::start(&["--data-dir", &path, "--hub", "orders:2", "--hub", "audit:1"]);
    assert_eq!(
        serving.hubs(),
        ["orders (2 partitions)", "audit (1 partition)"]
    );
}

#[test]
fn a_second_process_is_told_who_has_the_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let serving = Serving::start(&["--data-dir", &path]);
    let (status, stderr) = refused(
        &directory,
        &[
            "--amqp",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--data-dir",
            &path,
        ],
    );
    assert_eq!(status, Some(3));
    let process = serving.process_id();
    assert_eq!(
        stderr,
        format!("  x the data directory DATA is in use by process {process}\n")
    );
}

#[test]
fn a_newer_version_and_a_foreign_directory_are_one_clear_line_and_status_3() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    std::fs::create_dir(&path).unwrap();
    let file = |name: &str| Path::new(&path).join(name);
    std::fs::write(file("notes.txt"), "mine").unwrap();
    let arguments = ["--data-dir", path.as_str()];
    assert_eq!(
        refused(&directory, &arguments),
        (
            Some(3),
            "  x the directory DATA is not empty and is no data directory\n".to_owned()
        )
    );
    std::fs::remove_file(file("notes.txt")).unwrap();
    std::fs::write(file("VERSION"), "parshall data directory, version 12\n").unwrap();
    assert_eq!(
        refused(&directory, &arguments),
        (
            Some(3),
            "  x the data directory DATA has version 12; this program knows versions up to 1\n"
                .to_owned()
        )
    );
}

#[test]
fn a_declaration_that_contradicts_what_is_kept_is_told_with_both_and_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let serving = Serving::start(&["--data-dir", &path, "--hub", "orders:4"]);
    assert_eq!(serving.end(Signal::TERM), Some(0));
    let (status, stderr) = refused(&directory, &["--data-dir", &path, "--hub", "orders:8"]);
    assert_eq!(status, Some(2));
    insta::assert_snapshot!("contradiction_argument", stderr);

    let file = directory.path().join("mine.yaml");
    let yaml = file.to_str().unwrap();
    std::fs::write(
        &file,
        "hubs:\n  - {name: audit, partitions: 1}\n  - {name: orders, partitions: 8}\n",
    )
    .unwrap();
    let (status, stderr) = refused(&directory, &["--data-dir", &path, "--config", yaml]);
    assert_eq!(status, Some(2));
    insta::assert_snapshot!("contradiction_file", stderr.replace(yaml, "mine.yaml"));

    let file = directory.path().join("Config.json");
    let json = file.to_str().unwrap();
    let entities = r#"[{"Name": "orders", "PartitionCount": "8"}]"#;
    std::fs::write(
        &file,
        format!("{{\"UserConfig\": {{\"NamespaceConfig\": [{{\"Entities\": {entities}}}]}}}}\n"),
    )
    .unwrap();
    let (status, stderr) = refused(&directory, &["--data-dir", &path, "--config", json]);
    assert_eq!(status, Some(2));
    insta::assert_snapshot!(
        "contradiction_emulator",
        stderr.replace(json, "Config.json")
    );
}

#[test]
fn a_torn_tail_is_told_in_one_line_per_hub() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(&directory);
    let serving = Serving::start(&["--data-dir", &path, "--hub", "orders:2"]);
    assert_eq!(serving.end(Signal::TERM), Some(0));
    // As a crash in the middle of a write would leave it.
    let partition = Path::new(&path).join("hubs/orders~1.1");
    std::fs::create_dir(&partition).unwrap();
    std::fs::write(partition.join("00000000000000000000.log"), [7; 100]).unwrap();
    let serving = Serving::start_with_log(&["--data-dir", &path]);
    let log = serving.end_with_log();
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("hub=\"orders\""))
        .collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("cut 100 bytes off"), "{log}");
}
