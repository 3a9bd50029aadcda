//! The section `suts` and the parameter `sut`: which system a case measures.

use std::time::Duration;

use lab::scenario::{CaseOptions, Readiness, ScenarioError, SystemTransport, SystemUnderTest};
use serde_json::json;

use super::{cases, names, set, told};

const SYSTEMS: &str = "\
scenario: s
suts:
  parshall-tls: {transport: tls}
  mine:
    command: [./mine, --fast]
    env: {LEVEL: warn, KEY: \"${SURELY_NOT_SET:-secret}\"}
    ready: {line: listening}
    stop_within: 2 s
sweeps:
  sut: {sut: [parshall, parshall-tls, mine]}
";

fn system(text: &str) -> SystemUnderTest {
    let cases = cases(&format!("scenario: s\n{text}"), &CaseOptions::default()).unwrap();
    cases[0].parameters.sut.clone()
}

#[test]
fn a_sweep_goes_through_systems_by_their_names() {
    let cases = cases(SYSTEMS, &CaseOptions::default()).unwrap();
    let expected = ["sut=parshall", "sut=parshall-tls", "sut=mine"];
    assert_eq!(names(&cases), expected);
    let [ours, tls, mine] = [0, 1, 2].map(|index| cases[index].parameters.sut.clone());
    assert_eq!(ours, SystemUnderTest::default());
    assert!(tls.is_ours() && tls.transport == SystemTransport::Tls && tls.name == "parshall-tls");
    assert!(!mine.is_ours() && mine.transport == SystemTransport::Tcp);
    assert_eq!(mine.command.unwrap(), ["./mine", "--fast"]);
    assert_eq!(mine.ready, Readiness::Line("listening".to_owned()));
    assert_eq!(mine.stop_within, Duration::from_secs(2));
    assert_eq!(mine.env["KEY"].reveal(), "secret");
}

#[test]
fn the_parameters_of_a_case_show_its_system_and_hide_its_environment() {
    let cases = cases(SYSTEMS, &CaseOptions::default()).unwrap();
    assert_eq!(cases[0].params().get("sut"), None);
    let sut = &cases[2].params()["sut"];
    assert_eq!(sut["name"], "mine");
    assert_eq!(sut["command"], json!(["./mine", "--fast"]));
    assert_eq!(sut["env"], json!({"LEVEL": "***", "KEY": "***"}));
    assert!(!format!("{:?}", cases[2]).contains("secret"));
}

#[test]
fn a_system_can_be_described_in_place_and_is_called_after_its_program() {
    let mine = system("sut: {command: [/opt/forwarders/fast-one, x], ready: {after: 3 s}}");
    assert_eq!(mine.name, "fast-one");
    assert_eq!(mine.ready, Readiness::After(Duration::from_secs(3)));
    let named = system("sut: {name: other, command: [x], ready: first-event}");
    assert_eq!((named.name.as_str(), &named.ready), ("other", &Readiness::FirstEvent));
    assert!(system("sut: {transport: tls}").is_ours());
    assert_eq!(system("suts: {mine: {command: [x]}}\nsut: mine").name, "mine");
}

#[test]
fn an_argument_can_choose_the_system() {
    let chosen = cases(SYSTEMS, &set(&["sut=mine"])).unwrap();
    assert_eq!(names(&chosen), ["sut=mine"]);
    let text = "scenario: s\nsuts: {mine: {command: [x]}}\n";
    let chosen = cases(text, &set(&["sut=mine"])).unwrap();
    assert_eq!(chosen[0].parameters.sut.name, "mine");
    let ours = cases(text, &CaseOptions::default()).unwrap();
    assert!(ours[0].parameters.sut.is_ours());
}

#[test]
fn a_variable_of_a_system_that_is_not_chosen_need_not_be_set() {
    let text = "scenario: s\nsuts: {mine: {command: [\"${SURELY_NOT_SET}\"]}}\n";
    cases(text, &CaseOptions::default()).unwrap();
    cases(text, &set(&["sut=mine"])).unwrap_err();
}

#[test]
fn a_backlog_is_no_case_for_a_command() {
    let text = "scenario: s\nsut: {command: [x]}\nload: {mode: backlog}";
    let cases = cases(text, &CaseOptions::default()).unwrap();
    let obstacle = cases[0].obstacle(64).unwrap();
    assert!(obstacle.contains("drained a backlog"), "{obstacle}");
}

#[test]
fn mistakes_are_reported_with_advice() {
    for (text, expected) in [
        ("suts: {mine: {command: [x]}}\nsut: mien", "did you mean `mine`?"),
        ("sut: mine", "there are: parshall"),
        ("suts: {mine: {command: [x], name: y}}", "leave `name` out"),
        ("suts: {mine: [x]}", "must be a mapping that describes the system"),
        ("suts: {}", "must be a mapping of names to systems"),
        ("suts: {a b: {command: [x]}}", "a name consists of letters"),
        ("sut: {command: []}", "must be a program and its arguments"),
        ("sut: {comand: [x]}", "comand"),
        ("sut: {env: {A: b}}", "only a command has an environment"),
        ("sut: {command: [x], env: {PARSHALL_BATCH: \"1\"}}", "configure the command"),
        ("sut: {command: [x], ready: {line: \"\"}}", "every line contains this"),
        ("sut: {command: [x], ready: soon}", "first-event"),
        ("sut: {command: [x], transport: udp}", "tls"),
    ] {
        let text = format!("scenario: s\n{text}");
        let ScenarioError::Settings(error) = cases(&text, &CaseOptions::default()).unwrap_err() else {
            panic!("{text} is a mistake in the file");
        };
        let advice = error.mistake().and_then(|mistake| mistake.advice());
        let told = format!("{error}; {}", advice.unwrap_or_default());
        assert!(told.contains(expected), "{text}: {told}");
    }
    assert!(told("", &["suts.mine.command=[x]"]).contains("a case has no such parameter"));
}
