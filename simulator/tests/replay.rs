//! A seed is all that it takes to see a history again.

use simulator::{Config, Defect, simulate};

#[test]
fn the_same_seed_gives_the_same_history_and_another_seed_another() {
    for config in [Config::from_seed, Config::shared_from_seed] {
        let mut hashes = Vec::new();
        for seed in 0..40 {
            let once = simulate(&config(seed), 0).expect("every invariant holds");
            let again = simulate(&config(seed), 0).expect("every invariant holds");
            assert_eq!(once, again, "seed {seed}");
            hashes.push(once.hash);
        }
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 40);
    }
}

#[test]
fn a_history_does_not_depend_on_its_thread_or_on_those_before_it() {
    let config = Config::shared_from_seed(7);
    let here = simulate(&config, 0).expect("every invariant holds");
    let there = std::thread::spawn(move || {
        simulate(&Config::from_seed(1), 0).expect("every invariant holds");
        simulate(&Config::shared_from_seed(7), 0)
    });
    let there = there.join().expect("it does not panic");
    assert_eq!(here, there.expect("every invariant holds"));
}

#[test]
fn a_failure_says_what_was_broken_and_how_to_see_it_again() {
    let config = Config::from_seed(0).with_defect(Defect::CheckpointBeyond);
    let failure = simulate(&config, 20).expect_err("the defect is found");
    let text = failure.to_string();
    assert_eq!(failure.lines.len(), 20);
    assert!(text.contains("seed 0: relay"), "{text}");
    assert!(text.contains("writes checkpoint"), "{text}");
    assert!(text.ends_with("cargo run -p simulator -- --seed 0 --trace --defect CheckpointBeyond"), "{text}");
    let again = simulate(&config, 20).expect_err("the defect is found again");
    assert_eq!(again.violation, failure.violation);
    assert_eq!(again.lines, failure.lines);
}
