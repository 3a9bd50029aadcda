//! What is compared, what is refused, and how it reads.

use super::*;
use crate::report::sample;
use crate::results::CpuSampling;
use crate::scenario::LoadMode;

/// A run with so many trials, each figure of the n-th trial scattered a little around `factor` times the sample's.
fn run(trials: u32, factor: f64) -> Results {
    let mut results = sample::complete();
    for case in &mut results.cases {
        let model = case.trials[0].clone();
        case.planned_trials = trials;
        case.trials = (1..=trials)
            .map(|number| {
                let mut trial = model.clone();
                trial.number = number;
                let scatter = 1.0 + f64::from(number % 5) * 0.002;
                trial.forwarded_per_s = trial.forwarded_per_s.map(|rate| rate * factor * scatter);
                trial
            })
            .collect();
    }
    results
}

fn compared(baseline: &Results, candidate: &Results, design: Design) -> Comparison {
    let side = |name, results| Side { name, results };
    Comparison::of(
        side("before", baseline),
        side("after", candidate),
        design,
        differences(baseline, candidate),
    )
    .expect("they have cases in common")
}

#[test]
fn a_faster_candidate_is_reported_with_the_difference() {
    for design in [Design::Independent, Design::Paired] {
        let comparison = compared(&run(8, 1.0), &run(8, 1.1), design);
        for case in &comparison.cases {
            let main = &case.figures[0];
            assert_eq!(main.figure, Figure::ForwardedPerS);
            assert_eq!(main.result.verdict, Verdict::Faster);
            assert!((main.result.difference_percent - 10.0).abs() < 1.0);
        }
        assert_eq!(comparison.more_trials(), None);
        let back = compared(&run(8, 1.1), &run(8, 1.0), design);
        assert!(back.is_worse_in(&[Figure::ForwardedPerS]));
        assert!(!back.is_worse_in(&[Figure::MemoryPeakBytes]));
    }
}

#[test]
fn the_same_run_twice_does_not_differ_and_three_trials_prove_nothing() {
    let comparison = compared(&run(8, 1.0), &run(8, 1.0), Design::Paired);
    for figure in comparison.cases.iter().flat_map(|case| &case.figures) {
        assert_eq!(figure.result.verdict, Verdict::NoDifference);
    }
    let few = compared(&run(3, 1.0), &run(3, 1.3), Design::Paired);
    assert_eq!(few.more_trials(), Some(3));
}

#[test]
fn latency_is_compared_only_where_it_is_not_the_time_that_events_wait_for_their_turn() {
    let comparison_in = |mode: LoadMode| {
        let [mut baseline, mut candidate] = [run(8, 1.0), run(8, 1.1)];
        for results in [&mut baseline, &mut candidate] {
            for case in &mut results.cases {
                case.shape.as_mut().expect("samples have a shape").load = mode;
            }
        }
        compared(&baseline, &candidate, Design::Independent)
    };
    let names = |comparison: Comparison| {
        let figures = comparison.cases[0].figures.iter();
        figures.map(|compared| compared.figure).collect::<Vec<_>>()
    };
    let all = [
        Figure::ForwardedPerS,
        Figure::CpuUsPerEvent,
        Figure::MemoryPeakBytes,
        Figure::LatencyP50,
        Figure::LatencyP99,
    ];
    assert_eq!(names(comparison_in(LoadMode::Open)), all);
    for mode in [LoadMode::Saturate, LoadMode::Backlog] {
        assert_eq!(names(comparison_in(mode)), all[..3]);
        assert!(comparison_in(mode).lacks(Figure::LatencyP99));
        assert!(!comparison_in(mode).lacks(Figure::MemoryPeakBytes));
    }
}

#[test]
fn a_side_that_failed_is_not_compared() {
    let mut candidate = run(8, 1.1);
    candidate.cases[1].status = Status::Failed;
    let comparison = compared(&run(8, 1.0), &candidate, Design::Independent);
    let case = &comparison.cases[1];
    assert!(case.figures.is_empty());
    assert_eq!(case.obstacle().as_deref(), Some("the candidate failed"));
    assert!(!comparison.cases[0].figures.is_empty());
}

#[test]
fn a_candidate_that_failed_a_case_is_worse_whatever_figure_is_asked_for() {
    let baseline = run(8, 1.0);
    let mut candidate = run(8, 1.1);
    candidate.cases[1].status = Status::Failed;
    let comparison = compared(&baseline, &candidate, Design::Independent);
    assert!(comparison.is_worse_in(&[Figure::ForwardedPerS]));
    assert!(!comparison.is_worse_in(&[]), "no gate was asked for, so there is none");
    let back = compared(&candidate, &baseline, Design::Independent);
    assert!(!back.is_worse_in(&[Figure::MemoryPeakBytes]));
    // What the lab could not measure proves nothing.
    candidate.cases[1].status = Status::Invalid;
    let comparison = compared(&baseline, &candidate, Design::Independent);
    assert!(!comparison.is_worse_in(&[Figure::ForwardedPerS]));
}

#[test]
fn a_search_is_one_observation_and_its_ranges_are_shown_without_a_verdict() {
    let baseline = sample::searched();
    let mut candidate = baseline.clone();
    let capacity = candidate.cases[0].capacity.as_mut().expect("a search");
    capacity.lowest_failed_per_s = None;
    let comparison = compared(&baseline, &candidate, Design::Independent);
    let case = &comparison.cases[0];
    assert!(case.figures.is_empty());
    let [before, after] = case.searches.expect("both are searches");
    let obstacle = case.obstacle().expect("there is nothing to prove it with");
    assert!(
        obstacle.ends_with(&format!("the baseline sustains {before}, the candidate {after}")),
        "{obstacle}"
    );
    assert!(before.to_string().contains(" to "), "{before}");
    assert!(after.to_string().starts_with("at least "), "{after}");
    assert!(!comparison.is_worse_in(&[Figure::ForwardedPerS]));
}

#[test]
fn every_condition_that_is_not_the_same_is_named() {
    let mut baseline = run(8, 1.0);
    assert_eq!(differences(&baseline, &baseline), []);
    let mut other = baseline.clone();
    other.environment.kernel = "Linux 5.4".to_owned();
    other.environment.cores = 64;
    other.cases[2].params.insert("relay.batch.events".to_owned(), serde_json::Value::from(256));
    let role = other.cases[0].measured_role;
    let usage = other.cases[0].trials[0].roles.get_mut(&role);
    let limit = usage.and_then(|usage| usage.limit.as_mut());
    limit.expect("the sample is limited").cores = Some(2.0);
    // What is compared may differ, and so may the number of trials: more of them may be needed for a verdict.
    for (results, trials) in [(&mut baseline, 8), (&mut other, 12)] {
        let params = &mut results.cases[0].params;
        params.insert("trials".to_owned(), serde_json::Value::from(trials));
    }
    other.environment.version = "0.2.0".to_owned();
    other.environment.build = None;
    let found = differences(&baseline, &other);
    let names: Vec<&str> = found.iter().map(|difference| &*difference.what).collect();
    assert_eq!(
        names,
        ["cores", "system", "fan_out=1: limits of the relay", "fan_out=64: relay.batch.events",]
    );
    assert_eq!(found[1].to_string(), "system: Linux 6.18.0 and Linux 5.4");
}

#[test]
fn other_scenarios_and_other_cases_are_no_comparison() {
    let baseline = run(3, 1.0);
    let mut other = baseline.clone();
    other.scenario = "queue-forward".to_owned();
    let side = |name, results| Side { name, results };
    let error = Comparison::of(side("a", &baseline), side("b", &other), Design::Independent, Vec::new())
        .expect_err("other scenarios");
    assert_eq!(error.to_string(), "a is of the scenario fan-out, b of queue-forward");
    let mut other = baseline.clone();
    other.cases.clear();
    let error = Comparison::of(side("a", &baseline), side("b", &other), Design::Independent, Vec::new())
        .expect_err("no case");
    assert_eq!(error.to_string(), "a and b have no case in common");
}

#[test]
fn a_person_reads_the_difference_its_interval_and_the_verdict() {
    let mut baseline = run(8, 1.0);
    let mut candidate = run(8, 1.1);
    for results in [&mut baseline, &mut candidate] {
        results.cases.truncate(2);
    }
    candidate.cases[1].status = Status::Invalid;
    candidate.environment.kernel = "Linux 5.4".to_owned();
    let comparison = compared(&baseline, &candidate, Design::Independent);
    insta::assert_snapshot!("table", table(&comparison));
    insta::assert_snapshot!("markdown", markdown(&comparison));
}

#[test]
fn every_kind_of_comparison_agrees_with_the_published_schema() {
    let schema = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/comparison.schema.json"));
    let schema = serde_json::from_str(schema).expect("the schema is JSON");
    jsonschema::draft202012::meta::validate(&schema).expect("it is a schema");
    let schema = jsonschema::draft202012::new(&schema).expect("it is a schema");
    let mut let_pass = run(3, 1.3);
    let_pass.environment.cpu_model = "Another CPU".to_owned();
    let comparisons = [
        compared(&run(8, 1.0), &run(8, 1.1), Design::Paired),
        compared(&run(8, 1.1), &run(8, 1.0), Design::Independent),
        compared(&run(8, 1.0), &run(8, 1.0), Design::Paired),
        compared(&run(3, 1.0), &let_pass, Design::Independent),
        compared(&sample::searched(), &sample::searched(), Design::Independent),
        compared(&sample::failed(), &sample::quick(), Design::Independent),
    ];
    for comparison in comparisons {
        let json = serde_json::to_value(&comparison).expect("plain data");
        let errors: Vec<String> =
            schema.iter_errors(&json).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert_eq!(errors, Vec::<String>::new());
        let mut surplus = json;
        surplus["cases"][0]["figure"] = serde_json::Value::Null;
        assert!(!schema.is_valid(&surplus));
    }
}

#[test]
fn a_side_that_shared_the_machine_is_shown_and_proves_nothing() {
    let busy = |percent: f64| {
        let mut results = run(8, 0.5);
        for trial in results.cases.iter_mut().flat_map(|case| &mut case.trials) {
            trial.cpu_sampling = Some(CpuSampling { seconds: 10.0, cpus: 2 });
            trial.other_cpu_seconds = Some(0.2 * percent);
        }
        results
    };
    let mut idle = busy(1.0);
    for trial in idle.cases.iter_mut().flat_map(|case| &mut case.trials) {
        trial.forwarded_per_s = trial.forwarded_per_s.map(|rate| rate * 2.0);
    }
    let verdict =
        |candidate: &Results, design| compared(&idle, candidate, design).cases[0].figures[0].result.verdict;
    assert_eq!(verdict(&busy(5.0), Design::Independent), Verdict::Slower);
    for percent in [12.0, 45.0] {
        let comparison = compared(&idle, &busy(percent), Design::Independent);
        let undecided = Verdict::NoVerdict { more_trials: 0 };
        assert!(comparison.cases[0].figures.iter().all(|figure| figure.result.verdict == undecided));
        assert!(!comparison.is_worse_in(&[Figure::ForwardedPerS]));
        assert_eq!(comparison.undecided(&[Figure::ForwardedPerS]).len(), comparison.cases.len());
        let text = table(&comparison);
        let expected = format!(
            "other processes used 1 % of the machine in the baseline and {percent} % in the candidate"
        );
        assert!(text.contains(&expected), "{text}");
    }
    assert_eq!(verdict(&busy(45.0), Design::Paired), Verdict::Slower, "both suffer alike");
}
