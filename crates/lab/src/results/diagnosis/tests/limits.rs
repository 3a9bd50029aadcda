//! What bounds the figures from outside: quota, memory, generator.

use super::*;

#[test]
fn a_quota_is_named_with_its_figures_and_explains_spare_cpu() {
    let symptom = only(|trial| {
        trial.roles.insert(Role::Relay, usage(40.0));
        let throttled = Some(1_200);
        let source = EntityCounters { throttled, ..EntityCounters::default() };
        trial.hub.insert("source".to_owned(), source);
        trial.hub.insert("other".to_owned(), EntityCounters::default());
    });
    assert_eq!(
        symptom.sentence(Noun::Events),
        "the service throttled 1,200 sends in 10 s (source: 1,200): the figures are those of its quota"
    );
}

#[test]
fn memory_is_near_its_limit_from_nine_tenths_on() {
    let holding = |peak: u64| {
        move |trial: &mut Trial| {
            let usage = trial.roles.get_mut(&Role::Relay).expect("it is measured");
            usage.memory_peak_bytes = peak;
        }
    };
    assert_eq!(
        only(holding(1_000 << 20)).sentence(Noun::Events),
        "the relay used 1000 MiB of its memory limit of 1.00 GiB (97.7 %)"
    );
    nothing(holding(900 << 20));
    nothing(|trial| {
        let usage = trial.roles.get_mut(&Role::Relay).expect("it is measured");
        usage.memory_peak_bytes = 8 << 30;
        usage.limit = None;
    });
}

#[test]
fn a_generator_that_fell_behind_makes_the_figures_void() {
    let unhealthy = |trial: &mut Trial| {
        let health = trial.generator.as_mut().expect("there was one");
        (health.healthy, health.late_events) = (false, Some(48_113));
    };
    let symptom = only(unhealthy);
    assert_eq!(symptom.severity(), Severity::Invalid);
    assert!(symptom.sentence(Noun::Events).contains(": 48,113 events late, 0 never sent"));
    // The runner has said so, with its reason.
    nothing(|trial| {
        unhealthy(trial);
        let finding = Finding::new(Severity::Invalid, FindingKind::GeneratorOverloaded, "late");
        trial.findings.push(finding);
    });
}

#[test]
fn use_of_the_machine_by_others_is_reported_from_a_fifth_of_it_on() {
    nothing(|trial| trial.other_cpu_seconds = Some(7.9));
    let symptom = only(|trial| trial.other_cpu_seconds = Some(12.0));
    assert_eq!(
        symptom.sentence(Noun::Events),
        "other processes used 1.2 of the machine's 4 cores during the measurement"
    );
    assert_eq!(symptom.severity(), Severity::Warning);
    let sampled = |cpu_seconds, seconds, cpus| {
        move |trial: &mut Trial| {
            trial.other_cpu_seconds = Some(cpu_seconds);
            trial.cpu_sampling = Some(CpuSampling { seconds, cpus });
        }
    };
    // CPU time is counted for a little longer than the phase lasts, and on CPUs of which a quota may leave only a part.
    nothing(sampled(9.0, 11.5, 4));
    nothing(sampled(12.0, 10.0, 16));
    let said = only(sampled(143.0, 10.0, 20)).sentence(Noun::Events);
    assert!(said.contains("14.3 of the machine's 20 cores"), "{said}");
}

#[test]
fn use_of_the_machine_by_others_is_not_guessed_from_a_moment() {
    nothing(|trial| {
        trial.other_cpu_seconds = Some(0.06);
        trial.cpu_sampling = Some(CpuSampling { seconds: 0.04, cpus: 4 });
    });
    // Older results say only how long the phase was.
    nothing(|trial| trial.other_cpu_seconds = Some(41.0));
}
