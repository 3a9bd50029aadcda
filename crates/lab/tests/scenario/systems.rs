//! The section `suts` and the parameter `sut`: which system a case measures.

use std::time::Duration;

use lab::scenario::{CaseOptions, Done, End, Readiness, ScenarioError, SystemTransport, SystemUnderTest};
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

pub(crate) const CONSUMER: &str = "\
topology:
  entities: {in: {hub: events, partitions: 4}, orders: {queue: orders}, rest: {hub: rest, partitions: 4}}
  load: in
  pipeline: {from: in}
sut: {command: [x], done: line}
";

#[test]
fn a_consumer_that_forwards_nothing_says_what_shows_that_it_has_done_an_event() {
    let parameters = super::topology::parameters(CONSUMER, &[]);
    assert_eq!(parameters.sut.done, Some(Done::Line));
    let topology = parameters.topology();
    assert_eq!(topology.destinations().count(), 0);
    assert_eq!(
        topology.sinks.iter().map(End::to_string).collect::<Vec<_>>(),
        ["in"],
        "read by a sink as well"
    );
    let json = serde_json::to_string(&parameters).unwrap();
    assert_eq!(serde_json::from_str::<lab::scenario::Parameters>(&json).unwrap(), parameters);
    let tls = super::topology::parameters(CONSUMER, &["sut.transport=tls", "sut.done=checkpoint"]).topology();
    assert!(tls.pipeline.unwrap().from.connection.tls && !tls.sinks[0].connection.tls);

    let of_queue = ["topology.load=orders", "topology.pipeline.from=orders", "sut.done=settlement"];
    let of_queue = super::topology::parameters(CONSUMER, &of_queue).topology();
    assert_eq!(of_queue.sinks, [], "the service counts what is completed");
}

#[test]
fn what_a_consumer_has_done_is_asked_where_it_can_be_known() {
    let queue = ["topology.load=orders", "topology.pipeline.from=orders"];
    let settled = [queue[0], queue[1], "sut.done=settlement"];
    for (arguments, expected) in [
        (&["sut={command: [x]}"][..], "`topology.pipeline.to`: the pipeline sends to nothing"),
        (&["sut={done: line}"], "`sut.done`: the relay of Parshall forwards what it reads"),
        (&["topology.pipeline.to=rest"], "`sut.done`: is for a consumer that forwards nothing"),
        (&["topology.pipeline=null"], "`sut.done`: is for a consumer that forwards nothing"),
        (&["topology.sink=rest"], "`topology.sink`: nothing arrives there"),
        (&["topology.sinks=[rest]"], "`topology.sinks`: nothing arrives there"),
        (&["sut.done=settlement"], "`sut.done`: events of a hub are not settled"),
        (&queue, "`sut.done`: there are no positions in a queue"),
        (&[queue[0], queue[1], "sut.done=checkpoint"], "`sut.done`: there are no positions in a queue"),
        (&["sut.done=eventually"], "`sut.done`"),
        (&["topology.load=rest"], "`topology.pipeline`: the pipeline does not connect"),
        (&["topology.pipeline.from=nowhere"], "`topology.pipeline.from`: there is no entity `nowhere`"),
        (
            &[
                "target={command: [x], connection_string: Endpoint=sb://h;SharedAccessKeyName=n;SharedAccessKey=aw==, \
            ready: {after: 1 s}}",
            ],
            "`sut.done`: what a consumer has done is seen in the embedded service only",
        ),
        (&["roles.sink={launch: [ssh, far, --]}"], "`roles.sink`: what a consumer has done is dated"),
        (&[settled[0], settled[1], settled[2], "load.mode=capacity"], "`load.mode`: a search for a capacity"),
        (
            &[settled[0], settled[1], settled[2], "load.latency_at=50 %"],
            "`load.latency_at`: settlements have",
        ),
        (
            &[settled[0], settled[1], settled[2], "topology.measure=sink"],
            "`topology.measure`: there is no sink",
        ),
    ] {
        let told = told(CONSUMER, arguments);
        assert!(told.contains(expected), "{arguments:?}: {told}");
    }
    let short = told("sut: {command: [x], done: checkpoint}\n", &[]);
    assert!(short.contains("`sut.done`: is for a consumer that forwards nothing"), "{short}");
    // The place in the file is that of the key.
    let defined = "suts:\n  mine:\n    command: [x]\n    done: checkpoint\nsut: mine\n";
    let place = told(defined, &[]);
    assert!(place.contains(":5:"), "{place}");
}
