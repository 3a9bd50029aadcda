//! Sweeps: the tables of the published study, which cases a file and its arguments make, and what each is set to.

use lab::results::Figure;
use lab::scenario::{CaseOptions, CheckpointPolicy, Payload, Prefetch, Scenario};
use units::ByteSize;

use super::{all_sweeps, cases, names, set};

#[test]
fn every_table_of_the_published_study_is_a_sweep_with_its_figures() {
    let scenario = Scenario::load("fan-out").unwrap();
    let cases = scenario.cases(&all_sweeps()).unwrap();
    let table = |sweep: &str| -> Vec<(&str, f64)> {
        let of_sweep = cases.iter().filter(|case| case.sweep.as_deref() == Some(sweep));
        let figure = |case: &lab::scenario::Case| case.published.as_ref()?.get(Figure::ForwardedPerS);
        of_sweep.filter_map(|case| Some((case.name.as_str(), figure(case)?))).collect()
    };
    assert_eq!(
        table("cores_memory"),
        [
            ("cores=1,memory=1 GiB", 11_859.0),
            ("cores=1,memory=2 GiB", 12_262.0),
            ("cores=2,memory=1 GiB", 22_287.0),
            ("cores=2,memory=2 GiB", 25_043.0),
        ]
    );
    assert_eq!(
        table("batch"),
        [("batch=32", 5_376.0), ("batch=64", 6_544.0), ("batch=128", 9_924.0), ("batch=256", 14_228.0),]
    );
    assert_eq!(
        table("payload"),
        [("payload=16 B", 11_859.0), ("payload=1 KiB", 9_924.0), ("payload=8 KiB", 5_476.0),]
    );
    assert_eq!(
        table("prefetch"),
        [
            ("prefetch=1", 11_859.0),
            ("prefetch=500", 11_646.0),
            ("prefetch=1000", 11_789.0),
            ("prefetch=2000", 11_400.0),
        ]
    );
    assert_eq!(table("fan_out").len(), 4);
    assert_eq!(table("sut"), [("sut=java-5.17.1", 6_092.0), ("sut=java-5.18.0", 11_859.0)]);
    assert_eq!(cases.len(), 27);
    let case = |name: &str| {
        let found = cases.iter().find(|case| case.name == name).unwrap();
        &found.parameters
    };
    let gibibytes = |count: u64| ByteSize::from_mebibytes(count * 1024);
    let kibibytes = |count| Payload::Size(ByteSize::from_kibibytes(count));
    for parameters in cases.iter().map(|case| &case.parameters) {
        assert_eq!(parameters.topology().of_load().partitions(), 32);
        assert_eq!(parameters.relay.checkpoint, CheckpointPolicy::EachBatch);
    }
    let two_cores = &case("cores=2,memory=2 GiB").limits.relay;
    assert_eq!((two_cores.cores, two_cores.memory), (Some(2.0), Some(gibibytes(2))));
    let instances = ["cores=1,memory=2 GiB", "cores=2,memory=2 GiB"].map(|name| case(name).relay.instances);
    assert_eq!(instances, [1, 2], "a relay process can't use two cores");
    let batch = case("batch=256");
    assert_eq!((batch.relay.batch.events, &batch.load.payload), (256, &kibibytes(1)));
    assert_eq!(batch.limits.relay.memory, Some(gibibytes(1)));
    let large = case("payload=8 KiB");
    assert_eq!(large.load.payload, kibibytes(8));
    assert_eq!(large.limits.relay.memory, Some(gibibytes(3)));
    assert_eq!(
        case("payload=16 B").limits.relay.memory,
        Some(gibibytes(1)),
        "what one value needs is not set for the others"
    );
    assert_eq!(case("prefetch=1").relay.prefetch, Prefetch::Events(1));
}

#[test]
fn sweeps_are_chosen_by_name_or_by_the_pattern_of_their_cases() {
    let text = "scenario: s\nsweeps:\n  a: {relay.fan_out: [1, 32]}\n  b: {load.batch: [32, 64]}\n  \
                c: {relay.prefetch: [32]}\n";
    let chosen = |sweeps: &[&str], only: Option<&str>| {
        let options = CaseOptions {
            sweeps: sweeps.iter().map(ToString::to_string).collect(),
            only: only.map(str::to_owned),
            ..CaseOptions::default()
        };
        cases(text, &options).map(|cases| names(&cases).join(" ")).unwrap_or_else(|error| error.to_string())
    };
    assert_eq!(chosen(&[], None), "fan_out=1 fan_out=32", "the first one");
    assert_eq!(chosen(&["c", "b"], None), "batch=32 batch=64 prefetch=32");
    assert_eq!(chosen(&["all"], Some("*=32")), "fan_out=32 batch=32 prefetch=32");
    assert_eq!(chosen(&[], Some("*=32")), "fan_out=32");
    assert_eq!(chosen(&[], Some("batch=*")), "batch=32 batch=64", "the sweep that has such cases is meant");
    assert_eq!(
        chosen(&["a"], Some("batch=*")),
        "no case of `s` matches `batch=*`; its cases are: fan_out=1, fan_out=32"
    );
    assert_eq!(chosen(&["batch"], None), "`s` has no sweep `batch`; there are: a, b, c");
    let without = cases("scenario: s\n", &all_sweeps()).unwrap();
    assert_eq!(names(&without), ["s"]);
}

#[test]
fn settings_of_a_sweep_hold_for_its_cases_only_and_arguments_have_the_last_word() {
    let text = "scenario: s\nsweeps:\n  a: {load.payload: 1 KiB, relay.batch.events: {name: batch, values: [32]}}\n  \
                b: {load.payload: [16 B, {value: 8 KiB, limits.relay.memory: 3 GiB, relay.prefetch: 7}]}\n";
    let found = |arguments: &[&str]| -> Vec<(String, String, Prefetch, Option<ByteSize>)> {
        let options =
            CaseOptions { set: arguments.iter().map(ToString::to_string).collect(), ..all_sweeps() };
        let cases = cases(text, &options).unwrap();
        let figures = cases.into_iter().map(|case| {
            let parameters = &case.parameters;
            let payload = case.params()["load"]["payload"].as_str().unwrap().to_owned();
            (case.name.clone(), payload, parameters.relay.prefetch, parameters.limits.relay.memory)
        });
        figures.collect()
    };
    let row = |name: &str, payload: &str, prefetch, memory: Option<u64>| {
        let memory = memory.map(|gibibytes| ByteSize::from_mebibytes(gibibytes * 1024));
        (name.to_owned(), payload.to_owned(), prefetch, memory)
    };
    let prefetch = cases("scenario: s\n", &CaseOptions::default()).unwrap()[0].parameters.relay.prefetch;
    assert_eq!(
        found(&[]),
        [
            row("batch=32", "1 KiB", prefetch, None),
            row("payload=16 B", "16 B", prefetch, None),
            row("payload=8 KiB", "8 KiB", Prefetch::Events(7), Some(3)),
        ]
    );
    assert_eq!(
        found(&["load.payload=8 KiB", "limits.relay={memory: 1 GiB}"]),
        [
            row("batch=32", "8 KiB", prefetch, Some(1)),
            row("payload=8 KiB", "8 KiB", Prefetch::Events(7), Some(1)),
        ]
    );
    assert_eq!(
        found(&["load.payload=2 KiB", "relay.prefetch=9"])[1],
        row("payload=2 KiB", "2 KiB", Prefetch::Events(9), None)
    );
}

#[test]
fn a_case_that_wants_more_cores_than_there_are_says_so() {
    let case = |arguments: &[&str]| cases("scenario: s\n", &set(arguments)).unwrap().remove(0);
    assert_eq!(case(&[]).obstacle(1), None);
    assert_eq!(case(&["limits.relay.cores=2"]).obstacle(2), None);
    assert_eq!(
        case(&["limits.relay.cores=2"]).obstacle(1).unwrap(),
        "the relay needs 2 cores and this machine has 1 core"
    );
    assert_eq!(
        case(&["limits.sink.cores=4.5"]).obstacle(4).unwrap(),
        "the sink needs 4.5 cores and this machine has 4 cores"
    );
}

#[test]
fn setting_a_swept_path_replaces_the_values_of_the_sweep() {
    let scenario = Scenario::load("fan-out").unwrap();
    let names = |argument: &str| -> Vec<String> {
        scenario.cases(&set(&[argument])).unwrap().into_iter().map(|case| case.name).collect()
    };
    assert_eq!(names("relay.fan_out=8"), ["fan_out=8"]);
    assert_eq!(names("relay.fan_out=[8, 16]"), ["fan_out=8", "fan_out=16"]);
}

#[test]
fn paths_of_one_sweep_are_crossed_and_sweeps_follow_one_another() {
    let text = "scenario: s\nsweeps:\n  a: {load.payload: [16 B, 1 KiB], relay.batch.events: [32, 64]}\n  b: {relay.fan_out: [1]}\n";
    let cases = cases(text, &all_sweeps()).unwrap();
    assert_eq!(
        names(&cases),
        [
            "payload=16 B,events=32",
            "payload=16 B,events=64",
            "payload=1 KiB,events=32",
            "payload=1 KiB,events=64",
            "fan_out=1"
        ]
    );
    assert_eq!(cases[3].parameters.load.payload, Payload::Size(ByteSize::from_kibibytes(1)));
    assert_eq!(cases[3].parameters.relay.batch.events, 64);
}

#[test]
fn a_list_for_a_parameter_with_a_single_value_is_one_more_axis() {
    let made = |text: &str, arguments: &[&str]| -> Vec<String> {
        let found = cases(text, &set(arguments));
        let found = found.unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
        names(&found).into_iter().map(str::to_owned).collect()
    };
    let plain = "scenario: s\n";
    assert_eq!(made(plain, &["relay.instances=[1,2,4]"]), ["instances=1", "instances=2", "instances=4"]);
    assert_eq!(made(plain, &["load.payload=[16 B, 1 KiB]"]), ["payload=16 B", "payload=1 KiB"]);
    let swept = "scenario: s\nsuts: {mine: {command: [./mine]}}\nsweeps:\n  a: {relay.fan_out: [1, 32]}\n";
    assert_eq!(
        made(swept, &["relay.instances=[1,2]", "sut=[parshall, mine]"]),
        [
            "fan_out=1,instances=1,sut=parshall",
            "fan_out=1,instances=1,sut=mine",
            "fan_out=1,instances=2,sut=parshall",
            "fan_out=1,instances=2,sut=mine",
            "fan_out=32,instances=1,sut=parshall",
            "fan_out=32,instances=1,sut=mine",
            "fan_out=32,instances=2,sut=parshall",
            "fan_out=32,instances=2,sut=mine",
        ]
    );
    assert_eq!(
        made("scenario: s\nsweeps: {a: {relay.batch.events: [8]}}\n", &["relay.dispatch.events=[1, 2]"]),
        ["events=8,relay.dispatch.events=1", "events=8,relay.dispatch.events=2"],
        "two axes can't have one name"
    );
    let found = cases(plain, &set(&["relay.instances=[1,2]", "relay.checkpoint_store=blob"])).unwrap();
    let instances: Vec<_> = found.iter().map(|case| case.parameters.relay.instances).collect();
    assert_eq!(instances, [1, 2]);
    assert_eq!(found[1].axes[0].path, "relay.instances");
}

#[test]
fn prices_are_of_the_scenario_and_no_parameter_of_a_case() {
    let text = "scenario: s\nprices: {currency: EUR, core_hour: 0.04, million_operations: 0}\n";
    let scenario = Scenario::parse("s.yaml", text).unwrap();
    let prices = scenario.prices().unwrap();
    assert_eq!((prices.core_hour, prices.gib_hour, prices.million_operations), (Some(0.04), None, Some(0.0)));
    assert!(scenario.cases(&set(&[])).is_ok());
    assert!(scenario.cases(&set(&["prices.core_hour=1"])).is_err());
    for (prices, expected) in [
        ("{core_hour: 1}", "`prices` lacks the key `currency`"),
        ("{currency: EUR, core_hour: -1}", "a price is a number from 0 on"),
        ("{currency: '', core_hour: 1}", "a currency is a short name"),
        ("{currency: EUR, cpu: 1}", "cpu"),
    ] {
        let error =
            Scenario::parse("s.yaml", &format!("scenario: s\nprices: {prices}\n")).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_parameter_that_takes_a_list_keeps_it_and_a_list_that_makes_no_cases_is_refused_at_its_place() {
    let command = cases("scenario: s\n", &set(&["sut.command=[./mine, --fast]"])).unwrap();
    assert_eq!(names(&command), ["s"]);
    assert_eq!(command[0].parameters.sut.command.as_deref().unwrap(), ["./mine", "--fast"]);
    for (argument, expected) in [
        ("relay.instances=[]", "must have at least one value"),
        ("relay.instances=[2, 2]", "makes two cases of the same name"),
        ("relay.instances=[1, [2]]", "can only be swept through single values"),
        ("relay.instances=[1, x]", "--set:1:21: `relay.instances`"),
        ("relay.fan_out=[]", "must have at least one value"),
    ] {
        let text = "scenario: s\nsweeps: {a: {relay.fan_out: [1, 2]}}\n";
        let error = cases(text, &set(&[argument])).unwrap_err().to_string();
        assert!(error.contains(expected), "{argument}: {error}");
    }
}

#[test]
fn a_value_may_have_another_name_than_itself_and_keeps_it_where_it_is_set() {
    let text = "scenario: s\nload: {mode: burst, rate: 300/s}\nsweeps:\n  load:\n    load.mode:\n    - burst\n    \
                - {value: burst, name: one by one, load.burst: 1}\n    - open\n";
    let made = cases(text, &CaseOptions::default()).unwrap();
    assert_eq!(names(&made), ["mode=burst", "mode=one by one", "mode=open"]);
    assert_eq!(made[1].axes[0].value, "one by one");
    let bursts: Vec<u32> = made.iter().map(|case| case.parameters.load.burst_events()).collect();
    assert_eq!(bursts, [300, 1, 300], "a second's worth, if it is not given");
    let rates =
        "scenario: s\nsweeps: {a: {load.rate: [{value: 1/s, name: slow}, {value: 2/s, name: fast}]}}\n";
    assert_eq!(names(&cases(rates, &set(&["load.rate=[2/s, 3/s]"])).unwrap()), ["rate=fast", "rate=3/s"]);
    let nameless = text.replace("name: one by one", "name: []");
    let told = cases(&nameless, &CaseOptions::default()).unwrap_err().to_string();
    assert!(told.contains("must have a string as its name"), "{told}");
}
