//! How the stages of a case add up, in sentences.

use crate::figure;
use crate::results::{Case, Stage};

/// How those in one direction add up to the latency, and those of a call to the call; `None` where there are none.
pub(super) fn stage_sum(case: &Case) -> Option<String> {
    let sentences: Vec<String> = [end_to_end_sum(case), call_sum(case)].into_iter().flatten().collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

fn end_to_end_sum(case: &Case) -> Option<String> {
    let whole = case.latency_us.as_ref()?.mean?;
    let means = |stages: &[Stage]| -> Option<Vec<(Stage, f64)>> {
        stages.iter().map(|stage| Some((*stage, case.stages.get(stage)?.mean?))).collect()
    };
    let means = means(&Stage::OF_RECORD).or_else(|| means(&Stage::WHOLE))?;
    Some(format!(
        "On average, {} = {} end to end. Stages in one direction (→) are parts of that. Round trips (⇄) take the way \
         back as well, for which no {} waits, and overlap with the others: they don’t add up.",
        sum(&means),
        figure::duration_us(whole),
        case.shape().noun.one()
    ))
}

/// Of calls with a connection of their own.
fn call_sum(case: &Case) -> Option<String> {
    let mean = |stage: Stage| case.stages.get(&stage)?.mean;
    mean(Stage::Turn)?;
    let means: Vec<(Stage, f64)> =
        Stage::OF_ISOLATED_CALL.into_iter().filter_map(|stage| Some((stage, mean(stage)?))).collect();
    Some(format!(
        "A call, with a connection of its own, is {} = {} on average.",
        sum(&means),
        figure::duration_us(mean(Stage::Acknowledge)?),
    ))
}

fn sum(means: &[(Stage, f64)]) -> String {
    let parts = means.iter().map(|(stage, mean)| format!("{stage} {}", figure::duration_us(*mean)));
    parts.collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::sample;
    use crate::results::LatencySummary;

    #[test]
    fn the_stages_of_a_call_are_a_sum_of_those_that_it_has() {
        let mut case = sample::quick().cases.swap_remove(0);
        case.latency_us = None;
        let mean = |us: f64| LatencySummary { mean: Some(us), ..LatencySummary::default() };
        case.stages = BTreeMap::from([
            (Stage::Acknowledge, mean(250.0)),
            (Stage::Turn, mean(20.0)),
            (Stage::Connect, mean(80.0)),
            (Stage::Send, mean(140.0)),
            (Stage::Close, mean(10.0)),
        ]);
        assert_eq!(
            stage_sum(&case).as_deref(),
            Some(
                "A call, with a connection of its own, is turn 20 µs + connect 80 µs + send 140 µs + close 10 µs = 250 µs on \
                 average."
            )
        );
        case.stages.remove(&Stage::Turn);
        assert_eq!(stage_sum(&case), None);
    }
}
