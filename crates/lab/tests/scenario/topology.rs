//! The section `topology`: what it means, what the short forms mean, and what it can't mean.

use lab::results::{Noun, Role};
use lab::scenario::{CaseOptions, Entity, Measured, Parameters, Pipeline, Target};
use serde_json::json;

use super::{cases, set, told};

const WITHOUT_PIPELINE: &str = "topology:
  entities: {in: {hub: events, partitions: 4}}
  load: in
  sink: in
  measure: load
";

fn parameters(text: &str, arguments: &[&str]) -> Parameters {
    let cases = cases(&format!("scenario: s\n{text}"), &set(arguments)).unwrap();
    cases.into_iter().next().unwrap().parameters
}

#[test]
fn the_short_forms_are_a_pipeline_between_a_source_and_a_destination() {
    for text in ["hubs: {}\n", "queues: {}\nrelay: {prefetch: 0}\n"] {
        let topology = parameters(text, &[]).topology();
        assert_eq!(topology.entities.keys().collect::<Vec<_>>(), ["destination", "source"]);
        assert_eq!((topology.load.as_str(), topology.sink.as_str()), ("source", "destination"));
        let pipeline = Pipeline { from: "source".to_owned(), to: "destination".to_owned() };
        assert_eq!(topology.pipeline, Some(pipeline));
        assert_eq!((topology.measure, topology.measured_role()), (Measured::Pipeline, Role::Relay));
    }
}

#[test]
fn a_topology_without_a_pipeline_has_no_relay_anywhere() {
    let case = &cases(&format!("scenario: s\n{WITHOUT_PIPELINE}"), &CaseOptions::default()).unwrap()[0];
    let topology = case.parameters.topology();
    assert_eq!(topology.of_pipeline(), None);
    assert_eq!((topology.measured_role(), topology.noun()), (Role::Load, Noun::Events));
    let Entity::Hub(hub) = topology.of_sink() else { panic!("it is a hub") };
    assert_eq!((hub.name.as_str(), hub.partitions, hub.consumer_group.as_str()), ("events", 4, "$Default"));
    let params = case.params();
    assert!(!params.contains_key("relay") && !params.contains_key("hubs"));
    assert_eq!(
        params["topology"],
        json!({
            "entities": {"in": {"hub": "events", "partitions": 4, "consumer_group": "$Default"}},
            "load": "in",
            "sink": "in",
            "measure": "load",
        })
    );
    let json = serde_json::to_string(&case.parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), case.parameters);
}

#[test]
fn a_topology_can_say_what_a_short_form_says() {
    let long = parameters(
        "topology:\n  entities: {source: {queue: a, lock_duration: 5 s}, destination: {queue: b, lock_duration: 5 s}}\n  \
         load: source\n  pipeline: {from: source, to: destination}\n  sink: destination\nrelay: {prefetch: 0}\n",
        &[],
    );
    let short = parameters(
        "queues: {source: {name: a}, destination: {name: b}, lock_duration: 5 s}\nrelay: {prefetch: 0}\n",
        &[],
    );
    assert_eq!(long.topology(), short.topology());
}

#[test]
fn its_parts_can_be_set() {
    let arguments = ["topology.entities.in.partitions=8", "topology.measure=service"];
    let topology = parameters(WITHOUT_PIPELINE, &arguments).topology();
    assert_eq!((topology.of_load().partitions(), topology.measure), (8, Measured::Service));
}

#[test]
fn what_does_not_fit_together_is_refused_at_its_place() {
    for (arguments, message) in [
        (&["topology.sink=out"][..], "`topology.sink`: there is no entity `out`"),
        (&["topology.measure=pipeline"], "`topology.measure`: there is no pipeline to measure"),
        (&["topology.entities.in.queue=q"], "an entity is a `hub` or a `queue`"),
        (&["topology.entities.in.lock_duration=1 s"], "a hub has `partitions` and `consumer_group`"),
        (&["topology.entities.in.partitions=0"], "`topology.entities.in.partitions`: 0 is out of range"),
        (&["topology.entities.out={hub: EVENTS}"], "`out` has the same name in the service"),
        (
            &["topology.entities.out={hub: out}", "topology.sink=out"],
            "`topology.sink`: without a pipeline, nothing that the load sends arrives there",
        ),
        (&["topology.pipeline={from: in, to: in}"], "events would loop"),
        (&["relay.fan_out=3"], "`relay`: it needs a pipeline, and the topology has none"),
        (&["load.mode=backlog"], "`load.mode`: a backlog is drained by a pipeline"),
        (&["sut={command: [x]}"], "`sut`: a command replaces a pipeline"),
        (&["hubs.source.partitions=1"], "a topology or hubs, not both"),
        (
            &[
                "topology.entities.out={queue: q}",
                "topology.sink=out",
                "topology.pipeline={from: in, to: out}",
            ],
            "`topology.pipeline`: a pipeline connects two hubs or two queues",
        ),
    ] {
        let error = told(WITHOUT_PIPELINE, arguments);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}

const COMMAND: &str = "target:
  command: [./service, --port, \"{port}\"]
  connection_string: Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=a;SharedAccessKey=b
  env: {KEY: secret}
  ready: {line: listening}
";

#[test]
fn a_command_can_be_the_service_and_its_secrets_stay_out_of_the_results() {
    let case = &cases(&format!("scenario: s\n{COMMAND}"), &CaseOptions::default()).unwrap()[0];
    let Target::Command(service) = &case.parameters.target else { panic!("it is a command") };
    assert_eq!((service.name(), service.command.len()), ("service", 3));
    let params = serde_json::to_string(&case.params()).unwrap();
    assert!(params.contains("command: ./service --port {port}") && !params.contains("secret"), "{params}");
    let json = serde_json::to_string(&case.parameters).unwrap();
    assert_eq!(serde_json::from_str::<Parameters>(&json).unwrap(), case.parameters);
    for (argument, message) in [
        ("target.command=[]", "`target.command`: must be a program and its arguments"),
        ("target.ready=first-event", "`target.ready`: nothing shows when clients may connect"),
        ("target.connection_string=x", "`target.connection_string`"),
    ] {
        let error = told(COMMAND, &[argument]);
        assert!(error.contains(message), "{error}");
    }
    let misplaced = told("target: {connection_string: x, ready: {line: a}}\n", &[]);
    assert!(misplaced.contains("are for a `command`"), "{misplaced}");
}
