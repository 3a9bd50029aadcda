//! What a call with a connection of its own spends before its event leaves.

use super::{Way, note};
use crate::figure::duration_us;
use crate::results::{CrossCaseFinding, FindingKind, Stage};

/// The set-up of such calls, of all cases of a sweep in which it takes most of the time.
pub(super) fn finding(sweep: &str, all: &[Way<'_>]) -> Option<CrossCaseFinding> {
    let (cases, sentences): (Vec<_>, Vec<_>) = all
        .iter()
        .filter(|way| way.is_isolated() && way.producer.batch == 1)
        .filter_map(|way| Some((way.case, sentence(way)?)))
        .unzip();
    let message = format!(
        "a call with a connection of its own is set-up before it is a send: {}",
        sentences.join("; ")
    );
    (!sentences.is_empty()).then(|| note(FindingKind::SetUpDominates, sweep, cases, message))
}

/// `79 % of it over AMQP (connect 70.0 µs, SASL 60.0 µs, …; the send takes 84.0 µs)`.
fn sentence(way: &Way<'_>) -> Option<String> {
    let mean = |stage: Stage| way.case.stages.get(&stage)?.mean;
    let parts: Vec<(Stage, f64)> =
        Stage::SET_UP.into_iter().filter_map(|stage| Some((stage, mean(stage)?))).collect();
    let set_up_us: f64 = parts.iter().map(|(_, us)| us).sum();
    let send_us = mean(Stage::Send)?;
    // How long the caller's thread was busy with other calls is nothing that the call does.
    let share = set_up_us / (set_up_us + send_us + mean(Stage::Close).unwrap_or(0.0));
    let parts: Vec<String> =
        parts.iter().map(|(stage, us)| format!("{stage} {}", duration_us(*us))).collect();
    (share >= MOST).then(|| {
        format!(
            "{:.0} % of it over {} ({}; the send takes {})",
            share * 100.0,
            way.protocol().name(),
            parts.join(", "),
            duration_us(send_us)
        )
    })
}

/// From this share on set-up is what a call is.
const MOST: f64 = 0.5;
