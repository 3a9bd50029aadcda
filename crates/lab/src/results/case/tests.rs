//! Cases made of trials: their figures, verdicts and findings.

use super::super::{Destination, Distributions, GeneratorHealth, Refusals};
use super::*;

fn plan(trials: u32) -> CasePlan {
    CasePlan {
        name: "fan_out=32".to_owned(),
        sweep: Some("fan_out".to_owned()),
        params: BTreeMap::from([("relay.fan_out".to_owned(), 32.into())]),
        shape: Shape::default(),
        system: None,
        measured_role: Role::Relay,
        trials,
        published: Some(
            Published::new("fan_out=32", [(Figure::ForwardedPerS, 1_000.0)]).with_source("a cloud"),
        ),
        order: OrderExpectation::Kept,
    }
}

fn record(number: u32, forwarded_per_s: f64, latencies: impl IntoIterator<Item = i64>) -> TrialRecord {
    let mut distributions = Distributions::default();
    latencies.into_iter().for_each(|latency| distributions.latency.record(latency));
    let trial = Trial {
        number,
        duration_s: 10.0,
        forwarded_per_s: Some(forwarded_per_s),
        delivery: Some(Delivery { sent: 100, received: Some(100), ..Delivery::default() }),
        ..Trial::default()
    };
    TrialRecord::new(trial, distributions)
}

#[test]
fn percentiles_of_a_case_come_from_all_samples_and_not_from_the_trials_percentiles() {
    let case = Case::from_trials(&plan(2), &[record(1, 1.0, 1..=900), record(2, 1.0, [5_000; 100])]);
    let latency = case.latency_us.unwrap();
    assert_eq!((latency.count, latency.p50), (1_000, Some(500)));
    assert!(latency.p999.is_some(), "together the trials support what neither does alone");
    assert!(case.trials.iter().all(|trial| trial.latency_us.as_ref().unwrap().p999.is_none()));
}

#[test]
fn rates_have_their_spread_and_the_ratio_is_of_the_median() {
    let records = [record(1, 3_000.0, []), record(2, 1_000.0, []), record(3, 2_000.0, [])];
    let case = Case::from_trials(&plan(3), &records);
    let summary = case.forwarded_per_s.unwrap();
    assert_eq!((summary.median, summary.min, summary.max), (2_000.0, 1_000.0, 3_000.0));
    assert_eq!(case.ratio_to_published().map(|published| published.ratio), Some(2.0));
    assert_eq!(case.status, Status::Passed);
}

#[test]
fn an_event_lost_in_one_trial_fails_the_case() {
    let mut records = [record(1, 1.0, []), record(2, 9.0, [])];
    records[1].trial.delivery.as_mut().unwrap().lost = 1;
    let case = Case::from_trials(&plan(2), &records);
    assert_eq!(case.status, Status::Failed);
    assert_eq!(case.delivery.unwrap().lost, 1);
    assert_eq!((case.findings[0].kind, case.findings[0].trial), (FindingKind::EventsLost, Some(2)));
}

#[test]
fn every_destination_has_its_figures_and_an_event_lost_at_any_of_them_fails_the_case() {
    let destination = |lost, rate| Destination {
        consumed_per_s: Some(rate),
        latency_us: None,
        delivery: Some(Delivery { sent: 100, received: Some(100 - lost), lost, ..Delivery::default() }),
    };
    let record = |number, lost| {
        let mut record = record(number, 1.0, []);
        let destinations = [("out", destination(0, 9.0)), ("audit", destination(lost, f64::from(number)))];
        record.trial.destinations = destinations.map(|(name, figures)| (name.to_owned(), figures)).into();
        record.trial.delivery.as_mut().unwrap().unknown = Some(2);
        for latency in 1..=100 {
            record.distributions.destinations.entry("audit".to_owned()).or_default().record(latency);
        }
        TrialRecord::new(record.trial, record.distributions)
    };
    let case = Case::from_trials(&plan(2), &[record(1, 0), record(2, 0)]);
    assert_eq!(case.status, Status::Passed);
    let kinds = case.findings.iter().map(|finding| finding.kind);
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [FindingKind::OutcomeUnknown; 2],
        "once a trial, not a destination"
    );
    let audit = &case.destinations["audit"];
    assert_eq!(audit.consumed_per_s.unwrap().median, 1.5);
    assert_eq!(audit.latency_us.as_ref().unwrap().count, 200);
    assert_eq!((audit.delivery.unwrap().received, case.delivery.unwrap().received), (Some(200), Some(200)));

    let case = Case::from_trials(&plan(2), &[record(1, 0), record(2, 3)]);
    assert_eq!((case.status, case.delivery.unwrap().lost), (Status::Failed, 0));
    let finding = &case.findings[0];
    assert_eq!((finding.kind, finding.trial), (FindingKind::EventsLost, Some(2)));
    let message = "at `audit`: 3 events of 100 sent were acknowledged and never arrived";
    assert_eq!(finding.message, message);
}

#[test]
fn a_tenth_of_sends_without_an_outcome_fails_a_case_and_less_does_not() {
    let unknown = |unknown| {
        let mut record = record(1, 1.0, []);
        record.trial.delivery.as_mut().unwrap().unknown = Some(unknown);
        Case::from_trials(&plan(1), &[record]).status
    };
    assert_eq!((unknown(9), unknown(10)), (Status::Passed, Status::Failed));
}

#[test]
fn a_throttled_case_says_so_by_what_its_clients_counted_and_advises_to_raise_nothing() {
    let mut throttled = record(1, 1.0, []);
    let refusals = |refused| Refusals { refused, throttled: refused, total: Some(1_000) };
    throttled.trial.refusals.insert(Role::Load, refusals(50));
    throttled.trial.refusals.insert(Role::Relay, refusals(99));
    throttled.trial.relay = Some(RelayActivity::default());
    let case = Case::from_trials(&plan(1), &[throttled.clone()]);
    assert_eq!(case.status, Status::Passed);
    let quota = &case.findings[0];
    assert_eq!(quota.kind, FindingKind::LimitedByQuota);
    assert!(quota.message.contains("load: 50, relay: 99"), "{}", quota.message);
    let hints = case.findings.iter().filter_map(|finding| finding.hint.as_deref());
    assert!(hints.clone().all(|hint| !hint.contains("raise")));

    throttled.trial.refusals.insert(Role::Relay, refusals(100));
    let case = Case::from_trials(&plan(1), &[throttled]);
    assert_eq!(case.status, Status::Failed);
    assert_eq!(case.findings[0].kind, FindingKind::SendErrors);
}

#[test]
fn events_that_retention_took_fail_a_case_and_are_not_the_relays_loss() {
    let mut missed = record(1, 1.0, []);
    missed.trial.delivery.as_mut().unwrap().lost = 30;
    let mut relay = RelayActivity::default();
    relay.whole_trial.missed_events = 25;
    missed.trial.relay = Some(relay);
    let case = Case::from_trials(&plan(1), &[missed]);
    assert_eq!(case.status, Status::Failed);
    let of = |kind| {
        let mut findings = case.findings.iter();
        let finding = findings.find(|finding| finding.kind == kind);
        finding.expect("there is one").message.clone()
    };
    let expected = "retention removed 25 events from the source before the relay read them";
    assert_eq!(of(FindingKind::EventsMissed), expected);
    assert!(of(FindingKind::EventsLost).contains("retention removed 25 of them"));
}

#[test]
fn disorder_fails_a_case_only_if_order_was_promised() {
    let mut disordered = record(1, 1.0, []);
    disordered.trial.delivery.as_mut().unwrap().reordered = Some(3);
    let unordered = CasePlan { order: OrderExpectation::NotPromised, ..plan(1) };
    let records = [disordered];
    assert_eq!(Case::from_trials(&plan(1), &records).status, Status::Failed);
    assert_eq!(Case::from_trials(&unordered, &records).status, Status::Passed);
}

#[test]
fn an_unhealthy_generator_makes_the_case_invalid_and_a_loss_outweighs_it() {
    let mut unhealthy = record(1, 1.0, []);
    unhealthy.trial.generator = Some(GeneratorHealth { healthy: false, ..GeneratorHealth::default() });
    assert_eq!(Case::from_trials(&plan(1), &[unhealthy.clone()]).status, Status::Invalid);
    unhealthy.trial.delivery.as_mut().unwrap().lost = 1;
    assert_eq!(Case::from_trials(&plan(1), &[unhealthy]).status, Status::Failed);
}

#[test]
fn an_interrupted_trial_gives_no_figure_and_leaves_the_case_incomplete() {
    let mut interrupted = record(2, 99.0, [1_000_000]);
    interrupted.trial.interrupted = true;
    interrupted.trial.delivery.as_mut().unwrap().lost = 50;
    let case = Case::from_trials(&plan(2), &[record(1, 7.0, [3]), interrupted]);
    assert_eq!(case.status, Status::Incomplete);
    assert_eq!(case.forwarded_per_s.unwrap().max, 7.0);
    assert_eq!(case.latency_us.unwrap().max, Some(3));
    assert_eq!((case.delivery.unwrap().lost, case.trials.len()), (0, 2));
}

#[test]
fn a_case_without_trials_has_no_figures_and_is_incomplete() {
    let case = Case::from_trials(&plan(3), &[]);
    assert_eq!(case.status, Status::Incomplete);
    let json = serde_json::to_value(&case).unwrap();
    for absent in ["received_per_s", "latency_us", "delivery", "stages", "memory_peak_bytes"] {
        assert!(json.get(absent).is_none(), "{absent} was not measured");
    }
}

#[test]
fn negative_latencies_are_a_warning_and_not_a_failure() {
    let case = Case::from_trials(&plan(1), &[record(1, 1.0, [-8, 5])]);
    assert_eq!(case.status, Status::Passed);
    assert_eq!(case.findings[0].kind, FindingKind::NegativeLatency);
    assert_eq!(case.latency_us.unwrap().negative.unwrap().min, -8);
}

#[test]
fn a_published_figure_has_a_ratio_only_where_that_means_something() {
    let ratio = |plan: &CasePlan| {
        let case = Case::from_trials(plan, &[record(1, 2_000.0, [])]);
        case.ratio_to_published().map(|published| (published.ratio, published.source.to_owned()))
    };
    let plan = plan(1);
    assert_eq!(ratio(&plan), Some((2.0, "a cloud".to_owned())));
    let open = Shape { load: LoadMode::Open, ..Shape::default() };
    assert_eq!(ratio(&CasePlan { shape: open, ..plan.clone() }), None, "somebody chose the rate");
    let java = MeasuredSystem { name: "java".to_owned(), ours: false, transport: "tls".to_owned() };
    assert_eq!(ratio(&CasePlan { system: Some(java), ..plan.clone() }), None, "it is another system's");
    let unknown = Published::new("fan_out=32", [(Figure::ForwardedPerS, 1_000.0)]);
    assert_eq!(ratio(&CasePlan { published: Some(unknown), ..plan }), None, "its condition is unknown");
}

#[test]
fn a_paced_trial_gives_the_case_a_latency_and_counts_its_events() {
    let case = Case::from_trials(&plan(1), &[record(1, 2_000.0, [900_000])]);
    let paced = record(2, 1_000.0, [800; 1_000]);
    let case = case.with_paced(&plan(1), 50.0, 1_000.0, &paced);
    assert_eq!((case.status, case.delivery.unwrap().sent), (Status::Passed, 200));
    assert_eq!(case.paced.as_ref().unwrap().latency_us().unwrap().p50, Some(800));
    assert!(case.is_complete());
}

#[test]
fn an_event_lost_in_a_paced_trial_fails_the_case_and_a_late_generator_costs_it_only_the_latency() {
    let case = || Case::from_trials(&plan(1), &[record(1, 2_000.0, [1])]);
    let mut lost = record(2, 1_000.0, [1]);
    lost.trial.delivery.as_mut().unwrap().lost = 1;
    let failed = case().with_paced(&plan(1), 50.0, 1_000.0, &lost);
    assert_eq!(failed.status, Status::Failed);
    assert!(failed.findings[0].message.starts_with("at 50 % of the rate: 1 event of 100 sent"), "{failed:?}");

    let mut late = record(2, 1_000.0, [1]);
    late.trial.generator = Some(GeneratorHealth { healthy: false, ..GeneratorHealth::default() });
    late.trial.findings = vec![Finding::new(Severity::Invalid, FindingKind::GeneratorOverloaded, "late")];
    let case = case().with_paced(&plan(1), 50.0, 1_000.0, &late);
    assert_eq!((case.status, case.findings[0].severity), (Status::Passed, Severity::Warning));
    assert_eq!(case.paced.unwrap().latency_us(), None);
}

#[test]
fn a_paced_trial_that_was_interrupted_leaves_the_case_incomplete() {
    let mut cut = record(2, 1_000.0, [1]);
    cut.trial.interrupted = true;
    let case =
        Case::from_trials(&plan(1), &[record(1, 2_000.0, [1])]).with_paced(&plan(1), 50.0, 1_000.0, &cut);
    assert_eq!((case.status, case.is_complete()), (Status::Incomplete, false));
    assert_eq!(case.paced.unwrap().latency_us(), None);
}
