//! The service's counters and the clients' must agree to the last event, whoever of them is wrong.

use std::time::Duration;

use lab::results::{FindingKind, Status};
use lab::roles::memory::{Counter, Faults, Miscount};

use super::measured;

const ALL: [Counter; 6] = [
    Counter::SourceIncoming,
    Counter::SourceOutgoing,
    Counter::DestinationIncoming,
    Counter::DestinationOutgoing,
    Counter::RelayReceived,
    Counter::RelayForwarded,
];

#[tokio::test]
async fn one_event_too_many_or_too_few_in_any_counter_fails_the_case() {
    for counter in ALL {
        for by in [1, -1] {
            let faults = Faults { miscount: Some(Miscount { counter, by }), ..Faults::default() };
            let (case, _) = measured(&["load.mode=backlog", "load.backlog=3003"], faults).await;
            assert_eq!(case.status, Status::Failed, "{counter:?} {by}");
            assert!(case.has(FindingKind::CountersDisagree), "{counter:?} {by}");
            // Every event arrived: nothing but the counters is wrong.
            assert_eq!(case.delivery.unwrap().lost, 0);
        }
    }
}

#[tokio::test]
async fn counters_that_agree_are_no_finding() {
    for mode in ["backlog", "saturate", "closed"] {
        let mode = format!("load.mode={mode}");
        let faults = Faults { answer_after: Duration::from_millis(1), ..Faults::default() };
        let set = [mode.as_str(), "load.backlog=3003", "sink.workers=2"];
        let (case, _) = measured(&set, faults).await;
        assert!(!case.has(FindingKind::CountersDisagree), "{mode}: {:?}", case.findings);
        assert_eq!(case.status, Status::Passed, "{mode}: {:?}", case.findings);
    }
}

#[tokio::test]
async fn an_acknowledgement_of_what_was_never_stored_is_a_loss_and_a_disagreement() {
    let faults =
        Faults { forget_every: Some(10), answer_after: Duration::from_millis(1), ..Faults::default() };
    let (case, _) = measured(&["load.mode=closed", "phases.drain=100 ms"], faults).await;
    let delivery = case.delivery.unwrap();
    // Every send has ten events, and every tenth is forgotten.
    assert!(delivery.lost > 0);
    assert_eq!(delivery.lost, delivery.sent / 100 * 10);
    assert!(case.has(FindingKind::CountersDisagree) && case.has(FindingKind::EventsLost));
    assert_eq!(case.status, Status::Failed);
}
