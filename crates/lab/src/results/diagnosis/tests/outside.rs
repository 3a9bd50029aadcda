//! A system that is seen only from the outside: called by its name, and nothing about its inside is guessed.

use super::*;

fn measured() -> MeasuredComponent {
    MeasuredComponent::Other("java-latest".to_owned())
}

/// A trial of a system that tells nothing of itself.
fn outside() -> Trial {
    Trial { relay: None, stages: BTreeMap::new(), intervals: Vec::new(), ..healthy() }
}

fn found(change: impl FnOnce(&mut Trial)) -> Vec<Symptom> {
    let mut trial = outside();
    change(&mut trial);
    examine(&shape(), &measured(), Role::Relay, &trial, false)
}

#[test]
fn nothing_is_guessed_of_its_inside() {
    assert_eq!(found(|_| {}), []);
    // Duplicates without a cause that is known.
    let duplicated = |trial: &mut Trial| {
        let delivery = trial.delivery.as_mut().expect("events were counted");
        delivery.duplicated = Some(99);
    };
    assert_eq!(found(duplicated), []);
}

#[test]
fn its_spare_cpu_is_reported_by_its_name_and_what_it_waits_for_is_unknown() {
    let idle = |trial: &mut Trial| {
        trial.roles.insert(Role::Relay, usage(40.0));
    };
    let symptoms = found(idle);
    assert_eq!(
        symptoms[0].sentence(Noun::Events),
        "java-latest used only 40.0 % of its CPU at 999,000 events/s; the cause is not visible from outside"
    );
    let symptoms = found(|trial| {
        idle(trial);
        use_up_machine(trial);
    });
    assert!(symptoms[0].sentence(Noun::Events).starts_with("java-latest used only"));
    assert!(
        !symptoms[0].advice(Noun::Events).contains("backlog"),
        "a command does not report when it has drained one"
    );
}

#[test]
fn memory_near_the_limit_is_reported_by_its_name() {
    let symptoms = found(|trial| {
        let usage = trial.roles.get_mut(&Role::Relay).expect("it is measured");
        usage.memory_peak_bytes = 1_000 << 20;
    });
    assert_eq!(
        symptoms[0].sentence(Noun::Events),
        "java-latest used 1000 MiB of its memory limit of 1.00 GiB (97.7 %)"
    );
}
