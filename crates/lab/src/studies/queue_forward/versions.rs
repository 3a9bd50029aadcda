//! A version that takes as much memory for each send as the largest message has, beside one that does not.
//!
//! SDKs of Service Bus up to 7.15.0-beta.4 made a buffer for each message that they sent, as large as the largest one
//! that the service said it would take. Whether that is so, and whether it is what makes a version slow, follows from
//! what systems report of themselves: the bytes that they allocate for each message, and the time that their garbage
//! collectors take.

use crate::figure::{bytes, duration_us, percent, rate, ratio};
use crate::results::{
    Case, CrossCaseFinding, Figure, FindingKind, OwnFigures, Severity, SourceShape, Summary, without_system,
};

/// A finding for each system of a sweep that does so, if there is another one that does not.
pub(super) fn findings(sweep: &str, cases: &[&Case]) -> Vec<CrossCaseFinding> {
    let sides: Vec<Side<'_>> = cases.iter().filter_map(|case| Side::of(case)).collect();
    let mut found: Vec<CrossCaseFinding> = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for heavy in sides.iter().filter(|side| side.is_heavy()) {
        if known.contains(&heavy.system) {
            continue;
        }
        known.push(heavy.system);
        let Some(light) = counterpart(heavy, &sides) else {
            continue;
        };
        let pairs: Vec<(&Side<'_>, &Side<'_>)> = sides
            .iter()
            .filter(|side| side.system == heavy.system)
            .filter_map(|heavy| {
                let same = |side: &&Side<'_>| {
                    side.system == light
                        && without_system(&side.case.name) == without_system(&heavy.case.name)
                };
                Some((heavy, sides.iter().find(same)?))
            })
            .collect();
        found.extend(finding(sweep, &pairs));
    }
    found
}

/// One system in one case, as far as it tells of itself.
#[derive(Debug, Clone, Copy)]
struct Side<'a> {
    case: &'a Case,
    system: &'a str,
    forwarded_per_s: f64,
    /// Microseconds of CPU time for each message.
    cpu_us: Option<f64>,
    allocated_bytes: f64,
    collecting_percent: Option<f64>,
    heap_bytes: Option<f64>,
    largest_message: f64,
}

impl<'a> Side<'a> {
    fn of(case: &'a Case) -> Option<Self> {
        let system = case.system.as_ref().filter(|system| !system.ours)?;
        let SourceShape::Queue { largest_message_bytes, .. } = *case.shape().source()? else {
            return None;
        };
        let own = |figure: fn(&OwnFigures) -> Option<f64>| {
            let over_trials = case.over_trials(|trial| figure(trial.own_figures.as_ref()?))?;
            Some(over_trials.median)
        };
        let cpu_us = case.over_trials(|trial| {
            let usage = trial.roles.get(&case.measured_role)?;
            let forwarded = trial.forwarded_per_s? * trial.duration_s;
            (forwarded > 0.0).then(|| usage.cpu_seconds * 1e6 / forwarded)
        });
        Some(Self {
            case,
            system: &system.name,
            forwarded_per_s: case.forwarded_per_s?.median,
            cpu_us: cpu_us.map(|cpu| cpu.median),
            allocated_bytes: own(|own| own.allocated_bytes_per_event)?,
            collecting_percent: own(|own| own.collecting_percent),
            heap_bytes: own(|own| own.heap_bytes.map(|bytes| bytes as f64)),
            largest_message: largest_message_bytes as f64,
        })
    }

    fn is_heavy(&self) -> bool {
        self.allocated_bytes >= self.largest_message * HEAVY
    }

    fn is_light(&self) -> bool {
        self.allocated_bytes <= self.largest_message * LIGHT
    }
}

/// The system to hold it against: one of the study, if it is of the study as well, or else the fastest.
fn counterpart<'a>(heavy: &Side<'a>, sides: &[Side<'a>]) -> Option<&'a str> {
    let light = sides.iter().filter(|side| side.is_light() && is_alike(side, heavy));
    let is_published = |side: &Side<'_>| side.case.published.is_some();
    let rank = |side: &Side<'_>| (is_published(side) && is_published(heavy), side.forwarded_per_s);
    let best = light.max_by(|one, other| {
        let (one, other) = (rank(one), rank(other));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    });
    best.map(|side| side.system)
}

fn is_alike(side: &Side<'_>, other: &Side<'_>) -> bool {
    without_system(&side.case.name) == without_system(&other.case.name)
}

fn finding(sweep: &str, pairs: &[(&Side<'_>, &Side<'_>)]) -> Option<CrossCaseFinding> {
    let (heavy, light) = pairs.first()?;
    let places = pairs.iter().map(|(heavy, light)| place(heavy, light));
    let cause = cause(pairs).unwrap_or_else(|| "its cost is not reported".to_owned());
    let message = format!(
        "{} allocates a buffer of the largest message size for each send, {} does not: {cause}. {}",
        heavy.system,
        light.system,
        places.collect::<Vec<_>>().join("; ")
    );
    let cases = pairs.iter().flat_map(|(heavy, light)| [heavy.case.name.clone(), light.case.name.clone()]);
    Some(CrossCaseFinding {
        severity: Severity::Note,
        kind: FindingKind::BufferPerSend,
        sweep: sweep.to_owned(),
        cases: cases.collect(),
        message,
        hint: Some("use the version that does not, or lower `queues.largest_message`".to_owned()),
    })
}

/// What the buffers cost: collections, or else CPU time. Whether all of that is theirs is not known.
fn cause(pairs: &[(&Side<'_>, &Side<'_>)]) -> Option<String> {
    let median = |figure: fn(&Side<'_>) -> Option<f64>| {
        let heavy = Summary::of(pairs.iter().filter_map(|(heavy, _)| figure(heavy)))?;
        let light = Summary::of(pairs.iter().filter_map(|(_, light)| figure(light)))?;
        Some((heavy.median, light.median))
    };
    let (much, little) = median(|side| side.collecting_percent)?;
    let collecting = format!("{} % of its time ({} % of the other's)", percent(much), percent(little));
    if much >= MUCH_COLLECTING_PERCENT && much >= 2.0 * little {
        return Some(format!("the cost is garbage collection, {collecting}"));
    }
    let (heavy_us, light_us) = median(|side| side.cpu_us)?;
    Some(match heavy_us >= MUCH_CPU * light_us {
        true => format!(
            "it takes {} more CPU time per message; garbage collection is {collecting}, the rest is allocating and clearing \
             that memory, and other differences of the two",
            duration_us(heavy_us - light_us)
        ),
        false => format!(
            "garbage collection takes {collecting} and each message about as much CPU time, so the buffers make no difference \
             here"
        ),
    })
}

/// What the two did under the same conditions, the lighter one first and the other in brackets.
fn place(heavy: &Side<'_>, light: &Side<'_>) -> String {
    let mut parts = vec![format!(
        "{} ({}) allocated per message of at most {}",
        bytes(light.allocated_bytes),
        bytes(heavy.allocated_bytes),
        bytes(heavy.largest_message)
    )];
    let both = |figure: fn(&Side<'_>) -> Option<f64>| figure(light).zip(figure(heavy));
    parts.extend(
        both(|side| side.heap_bytes)
            .map(|(light, heavy)| format!("a heap of {} ({})", bytes(light), bytes(heavy))),
    );
    parts.extend(
        both(|side| Some(side.case.cpu_percent?.median))
            .map(|(light, heavy)| format!("{} % CPU ({} %)", percent(light), percent(heavy))),
    );
    parts.extend(
        both(|side| side.cpu_us).map(|(light, heavy)| {
            format!("{} of it per message ({})", duration_us(light), duration_us(heavy))
        }),
    );
    let published = |side: &Side<'_>| side.case.published.as_ref()?.get(Figure::ForwardedPerS);
    let of_study = published(light)
        .zip(published(heavy))
        .map(|(light, heavy)| format!(", published {}", ratio(light / heavy)));
    let conditions = without_system(&heavy.case.name).join(",");
    let at = match conditions.is_empty() {
        true => String::new(),
        false => format!("{conditions}: "),
    };
    format!(
        "{at}{} as many messages ({}/s against {}/s{}), with {}",
        ratio(light.forwarded_per_s / heavy.forwarded_per_s),
        rate(light.forwarded_per_s),
        rate(heavy.forwarded_per_s),
        of_study.unwrap_or_default(),
        parts.join(", ")
    )
}

/// A buffer for each message is all of the largest one; what else is allocated comes on top.
const HEAVY: f64 = 0.9;

/// Who has no such buffer allocates some tens of KiB for each message.
const LIGHT: f64 = 0.6;

/// A collector that takes less is no reason for twice the time.
const MUCH_COLLECTING_PERCENT: f64 = 10.0;

/// How many times the CPU time of the other one is more than what differs from run to run.
const MUCH_CPU: f64 = 1.3;

#[cfg(test)]
mod tests {
    use super::super::occupancy::tests::shape;
    use super::*;
    use crate::report::sample;
    use crate::results::{MeasuredSystem, Published};

    fn case(system: &str, memory: &str, forwarded: f64, own: OwnFigures, published: f64) -> Case {
        let mut case = sample::quick().cases.swap_remove(0);
        case.name = format!("sut={system},memory={memory}");
        case.sweep = Some("version".to_owned());
        case.system =
            Some(MeasuredSystem { name: system.to_owned(), ours: false, transport: "tls".to_owned() });
        case.shape = Some(shape(8, None));
        case.forwarded_per_s = Some(Summary::of_one(forwarded));
        case.published = Some(Published::new(&case.name, [(Figure::ForwardedPerS, published)]));
        for trial in &mut case.trials {
            trial.own_figures = Some(own);
        }
        case
    }

    fn own(allocated: f64, collecting: f64) -> OwnFigures {
        OwnFigures {
            allocated_bytes_per_event: Some(allocated),
            collecting_percent: Some(collecting),
            heap_bytes: Some(100 << 20),
        }
    }

    #[test]
    fn a_buffer_for_each_send_shows_in_the_allocations_and_its_cost_in_the_collector() {
        let cases = [
            case("old", "2 GiB", 500.0, own(290_000.0, 40.0), 480.0),
            case("new", "2 GiB", 2_000.0, own(30_000.0, 2.0), 2_400.0),
            case("old", "6 GiB", 1_000.0, own(290_000.0, 20.0), 1_350.0),
            case("new", "6 GiB", 2_000.0, own(30_000.0, 2.0), 2_700.0),
        ];
        let found = findings("version", &cases.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].cases.len(), 4);
        for part in [
            "old allocates a buffer of the largest message size for each send, new does not",
            "the cost is garbage collection, 30.0 % of its time (2.0 % of the other's)",
            "memory=2 GiB: 4.00× as many messages (2,000/s against 500/s, published 5.00×)",
            "29.3 KiB (283 KiB) allocated per message of at most 256 KiB",
            "memory=6 GiB: 2.00× as many messages (2,000/s against 1,000/s, published 2.00×)",
        ] {
            assert!(found[0].message.contains(part), "{part}\n{}", found[0].message);
        }
    }

    #[test]
    fn buffers_that_cost_no_collection_are_not_called_the_cause() {
        let cases = [
            case("old", "2 GiB", 500.0, own(290_000.0, 3.0), 480.0),
            case("new", "2 GiB", 2_000.0, own(30_000.0, 2.0), 2_400.0),
        ];
        let found = findings("version", &cases.iter().collect::<Vec<_>>());
        assert!(found[0].message.contains("so the buffers make no difference here"), "{}", found[0].message);
    }

    #[test]
    fn buffers_that_cost_cpu_time_are_reported_with_it() {
        let mut cases = [
            case("old", "2 GiB", 500.0, own(290_000.0, 3.0), 480.0),
            case("new", "2 GiB", 2_000.0, own(30_000.0, 2.0), 2_400.0),
        ];
        for (case, seconds) in cases.iter_mut().zip([9.0, 4.0]) {
            for trial in &mut case.trials {
                (trial.forwarded_per_s, trial.duration_s) = (Some(1_000.0), 10.0);
                let usage = trial.roles.get_mut(&case.measured_role).expect("it is measured");
                usage.cpu_seconds = seconds;
            }
        }
        let found = findings("version", &cases.iter().collect::<Vec<_>>());
        let expected = "it takes 500 µs more CPU time per message; garbage collection is 3.0 % of its time (2.0 % of the other's)";
        assert!(found[0].message.contains(expected), "{}", found[0].message);
    }

    #[test]
    fn there_is_no_finding_where_only_one_of_the_two_was_run_or_neither_reports_figures() {
        let alone = [case("old", "2 GiB", 500.0, own(290_000.0, 40.0), 480.0)];
        assert_eq!(findings("version", &alone.iter().collect::<Vec<_>>()), []);
        let silent = [
            case("old", "2 GiB", 500.0, OwnFigures::default(), 480.0),
            case("new", "2 GiB", 2_000.0, OwnFigures::default(), 2_400.0),
        ];
        assert_eq!(findings("version", &silent.iter().collect::<Vec<_>>()), []);
    }
}
