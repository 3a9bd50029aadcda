//! Checkpoints, renewals at the same store, and what a loss of ownership brings.

use super::*;

#[test]
fn checkpoints_are_slow_against_the_renewal_of_claims_at_the_same_store() {
    let symptom = only(|trial| {
        trial.stages.insert(Stage::Checkpoint, times(1_000, 100_000, 2_500_000));
    });
    assert_eq!(
        symptom.sentence(Noun::Events),
        "checkpoint store p99 is 2.50 s, but claims are renewed there every 10.0 s and expire after 60.0 s"
    );
    nothing(|trial| {
        trial.stages.insert(Stage::Checkpoint, times(1_000, 100_000, 2_499_999));
    });
    only(|trial| {
        trial.stages.insert(Stage::Ownership, times(6, 1_000_000, 5_000_000));
    });
    // Nobody shares the partitions, so nothing is to be renewed.
    nothing(|trial| {
        relay(trial).ownership = None;
        trial.stages.insert(Stage::Checkpoint, times(1_000, 100_000, 2_500_000));
    });
}

#[test]
fn checkpoints_that_fail_are_a_symptom_from_one_in_a_hundred_on() {
    let failing = |failed| {
        move |trial: &mut Trial| {
            let written = 1_000 - failed;
            relay(trial).checkpoints = CheckpointCounts { written, failed, refused: 0 };
        }
    };
    assert_eq!(
        only(failing(10)).sentence(Noun::Events),
        "10 of 1,000 checkpoints could not be written (1.0 %)"
    );
    nothing(failing(9));
}

#[test]
fn duplicates_are_laid_to_a_loss_of_ownership_only_if_there_was_one() {
    let duplicated = |lost_partitions| {
        move |trial: &mut Trial| {
            let delivery = trial.delivery.as_mut().expect("events were counted");
            delivery.duplicated = Some(384);
            relay(trial).whole_trial = WholeTrial { lost_partitions, ..WholeTrial::default() };
        }
    };
    assert_eq!(
        only(duplicated(3)).sentence(Noun::Events),
        "384 events arrived more than once; 3 partitions changed owner with batches in flight"
    );
    nothing(duplicated(0));
    nothing(|trial| relay(trial).whole_trial.lost_partitions = 3);
}
