//! The command line as a person meets it: help, listings, and every kind of mistake with its exit status.
//!
//! The real binary is run in a directory of its own; what it writes to both streams is compared with a snapshot.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

use std::path::Path;
use std::process::Command;

/// Runs the binary in `directory` and gives exit status, standard output and standard error as one text.
fn run(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_parshall"))
        .args(arguments)
        .current_dir(directory)
        .env_clear()
        .output()
        .unwrap();
    let status = output.status.code().map_or_else(|| "none".to_owned(), |code| code.to_string());
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    format!("exit status: {status}\n--- standard output\n{stdout}--- standard error\n{stderr}")
}

fn anywhere(arguments: &[&str]) -> String {
    run(Path::new(env!("CARGO_MANIFEST_DIR")), arguments)
}

/// Asks for the cases of a file `mine.yaml` with the given content.
fn file(content: &str, arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("mine.yaml"), content).unwrap();
    let arguments: Vec<&str> = ["show", "mine.yaml", "--cases"].iter().chain(arguments).copied().collect();
    run(directory.path(), &arguments)
}

#[test]
fn help_describes_every_command_and_option() {
    insta::assert_snapshot!("help", anywhere(&["--help"]));
    insta::assert_snapshot!("help_list", anywhere(&["list", "--help"]));
    insta::assert_snapshot!("help_show", anywhere(&["show", "--help"]));
    insta::assert_snapshot!("help_relay", anywhere(&["relay", "--help"]));
    insta::assert_snapshot!("help_serve", anywhere(&["serve", "--help"]));
    insta::assert_snapshot!("help_hub", anywhere(&["hub", "--help"]));
    insta::assert_snapshot!("help_time", anywhere(&["time", "--help"]));
    insta::assert_snapshot!("help_time_advance", anywhere(&["time", "advance", "--help"]));
    insta::assert_snapshot!("help_health", anywhere(&["health", "--help"]));
    insta::assert_snapshot!("help_wait", anywhere(&["wait", "--help"]));
    insta::assert_snapshot!("help_send", anywhere(&["send", "--help"]));
    insta::assert_snapshot!("help_tail", anywhere(&["tail", "--help"]));
    insta::assert_snapshot!("help_peek", anywhere(&["peek", "--help"]));
    insta::assert_snapshot!("help_check", anywhere(&["check", "--help"]));
    insta::assert_snapshot!("help_hub_create", anywhere(&["hub", "create", "--help"]));
    insta::assert_snapshot!("help_queue", anywhere(&["queue", "--help"]));
    insta::assert_snapshot!("help_queue_create", anywhere(&["queue", "create", "--help"]));
    insta::assert_snapshot!("help_topic", anywhere(&["topic", "--help"]));
    insta::assert_snapshot!("help_subscription", anywhere(&["subscription", "--help"]));
    insta::assert_snapshot!("help_subscription_create", anywhere(&["subscription", "create", "--help"]));
    insta::assert_snapshot!("help_rule", anywhere(&["rule", "--help"]));
    insta::assert_snapshot!("help_rule_create", anywhere(&["rule", "create", "--help"]));
    insta::assert_snapshot!("help_completions", anywhere(&["completions", "--help"]));
    insta::assert_snapshot!("help_man", anywhere(&["man", "--help"]));
}

#[test]
fn the_version_names_the_commit_where_there_is_one() {
    let shown = anywhere(&["--version"]);
    let version = format!("exit status: 0\n--- standard output\nparshall {}", env!("CARGO_PKG_VERSION"));
    let commit = shown.strip_prefix(&version).unwrap().strip_suffix("\n--- standard error\n").unwrap();
    if !commit.is_empty() {
        let commit = commit.strip_prefix(" (").and_then(|commit| commit.strip_suffix(')')).unwrap();
        let digits = commit.split(", ").next().unwrap();
        assert!(digits.len() >= 10 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()), "{commit}");
    }
}

/// The commands of the top level, as the help lists them.
fn commands() -> Vec<String> {
    let help = anywhere(&["--help"]);
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .filter(|name| name != "help")
        .collect()
}

#[test]
fn every_shell_has_completions_for_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = anywhere(&["completions", shell]);
        for command in commands() {
            assert!(script.contains(&command), "{shell} does not know {command}");
        }
        assert!(script.contains("ready-file") && script.contains("data-dir"), "{shell}");
    }
    let script = anywhere(&["completions", "bash"]);
    let script =
        script.split_once("--- standard output\n").unwrap().1.rsplit_once("--- standard error").unwrap().0;
    // What the shell would offer for `parshall hub cr`.
    let ask = format!(
        "{script}\nCOMP_WORDS=(parshall hub cr); COMP_CWORD=2; _parshall parshall cr hub; echo \"${{COMPREPLY[@]}}\""
    );
    // From a file: it is longer than an argument may be.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ask.bash");
    std::fs::write(&file, ask).unwrap();
    let offered = Command::new("bash").arg("--norc").arg(&file).output().unwrap();
    assert_eq!(String::from_utf8(offered.stdout).unwrap(), "create\n");
}

#[test]
fn every_command_has_a_man_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    run(directory.path(), &["man", "man1"]);
    for command in commands() {
        let page = std::fs::read_to_string(pages.join(format!("parshall-{command}.1"))).unwrap();
        assert!(page.contains(".TH ") && page.contains(&format!("parshall\\-{command}")), "{page}");
    }
    assert!(pages.join("parshall.1").exists());
    assert!(pages.join("parshall-hub-create.1").exists());
    assert!(!pages.join("parshall-role.1").exists(), "the lab's own");
    let refused = run(directory.path(), &["man", "man1/parshall.1"]);
    assert!(refused.starts_with("exit status: 3\n"), "{refused}");
}

#[test]
fn list_shows_every_scenario_and_its_cases() {
    insta::assert_snapshot!("list", anywhere(&["list"]));
}

#[test]
fn show_prints_the_file_as_it_is() {
    let file =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/fan-out.yaml"));
    let expected = format!("exit status: 0\n--- standard output\n{}--- standard error\n", file.unwrap());
    assert_eq!(anywhere(&["show", "fan-out"]), expected);
}

#[test]
fn show_prints_the_cases_that_options_make() {
    let arguments = ["show", "fan-out", "--quick", "--only", "fan_out=64", "--set", "load.mode=backlog"];
    insta::assert_snapshot!("show_cases", anywhere(&arguments));
}

#[test]
fn a_wrong_command_line_is_refused() {
    insta::assert_snapshot!("unknown_command", anywhere(&["measure"]));
    insta::assert_snapshot!("unknown_option", anywhere(&["show", "fan-out", "--quik"]));
    insta::assert_snapshot!("unknown_target", anywhere(&["show", "fan-out", "--target", "cloud"]));
    insta::assert_snapshot!("unknown_scenario", anywhere(&["show", "fanout"]));
    insta::assert_snapshot!("unknown_case", anywhere(&["show", "fan-out", "--only", "fan_out=2"]));
    insta::assert_snapshot!("no_such_file", anywhere(&["show", "./none.yaml"]));
}

#[test]
fn a_wrong_file_is_refused_with_the_line_that_is_wrong() {
    insta::assert_snapshot!(
        "unknown_key",
        file("scenario: mine\nrelay:\n  fan_out: 8\n  batch: {event: 64}\n", &[])
    );
    insta::assert_snapshot!("missing_key", file("relay:\n  fan_out: 8\n", &[]));
    insta::assert_snapshot!("wrong_type", file("scenario: mine\nrelay:\n  fan_out: many\n", &[]));
    insta::assert_snapshot!("wrong_choice", file("scenario: mine\nrelay: {route: rondom}\n", &[]));
    insta::assert_snapshot!("wrong_unit", file("scenario: mine\nphases: {measure: 60}\n", &[]));
    insta::assert_snapshot!("out_of_range", file("scenario: mine\nload: {batch: 0}\n", &[]));
    insta::assert_snapshot!("relation", file("scenario: mine\nhubs:\n  destination: {partitions: 8}\n", &[]));
    insta::assert_snapshot!("sweep", file("scenario: mine\nsweeps:\n  a: {relay.fan_out: [1, x]}\n", &[]));
    insta::assert_snapshot!("not_yaml", file("scenario: mine\nrelay: {fan_out: 8\nload: {}\n", &[]));
    let target = "scenario: mine\ntarget:\n  connection_string: \"${EVENT_HUBS_CONNECTION_STRING:?paste it from the portal}\"\n";
    insta::assert_snapshot!("missing_variable", file(target, &[]));
}

#[test]
fn a_wrong_argument_of_set_is_refused_like_a_wrong_file() {
    let set = |argument| anywhere(&["show", "fan-out", "--set", argument]);
    insta::assert_snapshot!("set_unknown_key", set("relay.fanout=8"));
    insta::assert_snapshot!("set_wrong_type", set("relay.batch.wait=soon"));
    insta::assert_snapshot!("set_out_of_range", set("trials=1000"));
    insta::assert_snapshot!("set_without_value", set("relay.fan_out"));
    insta::assert_snapshot!("set_no_parameter", set("sweeps.fan_out=8"));
}

#[test]
fn the_namespace_of_the_environment_is_named_when_it_is_missing() {
    insta::assert_snapshot!("target_namespace", anywhere(&["show", "fan-out", "--target", "namespace"]));
}

#[test]
fn a_reader_that_had_enough_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_parshall"))
        .args(["show", "fan-out"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}
