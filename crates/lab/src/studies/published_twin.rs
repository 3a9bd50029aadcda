//! How near a run comes to a published study where the service is shaped after that study's own figures.
//!
//! A profile with a name has a handful of figures, and a study published more cells than that. So most cells say something about the
//! model: whether the bounds that it has are those that the study met.

use crate::figure::ratio;
use crate::results::{Case, CrossCaseFinding, Figure, FindingKind, Quantity, Severity};

/// One published figure and the same in the run.
#[derive(Debug, Clone, Copy)]
struct Cell<'a> {
    case: &'a Case,
    figure: Figure,
    measured: f64,
    published: f64,
}

/// How the figures of a sweep compare with the published ones, if its service has a profile with a name.
pub(super) fn finding(sweep: &str, cases: &[&Case]) -> Option<CrossCaseFinding> {
    let cells: Vec<Cell<'_>> = cases.iter().filter_map(|case| Cell::of(case)).collect();
    let name = cells.first()?.profile()?;
    let near = cells.iter().filter(|cell| cell.is_near()).count();
    let texts: Vec<String> = cells.iter().map(Cell::text).collect();
    let mut message = format!(
        "the service has the profile `{name}`: {near} of {} published figures are met within {TOLERANCE_PERCENT:.0} %: {}",
        cells.len(),
        texts.join("; "),
    );
    message += &match reversed(&cells) {
        None => ". They are in the published order".to_owned(),
        Some((first, second)) => {
            format!(". The published order of {} and {} is reversed", first.case.name, second.case.name)
        }
    };
    Some(CrossCaseFinding {
        severity: Severity::Note,
        kind: FindingKind::PublishedTwin,
        sweep: sweep.to_owned(),
        cases: cells.iter().map(|cell| cell.case.name.clone()).collect(),
        message,
        hint: None,
    })
}

impl<'a> Cell<'a> {
    fn of(case: &'a Case) -> Option<Self> {
        let all = case.published.as_ref().filter(|_| case.passed)?;
        FIGURES.into_iter().find_map(|figure| {
            let (measured, published) = (figure.of_case(case)?, all.get(figure)?);
            let cell = Self { case, figure, measured, published };
            (measured > 0.0 && published > 0.0 && cell.profile().is_some()).then_some(cell)
        })
    }

    /// The name of the service's profile.
    fn profile(&self) -> Option<&'a str> {
        self.case.params.get(PROFILE)?.as_str()
    }

    fn ratio(&self) -> f64 {
        self.measured / self.published
    }

    fn is_near(&self) -> bool {
        (self.ratio() - 1.0).abs() <= TOLERANCE_PERCENT / 100.0
    }

    fn text(&self) -> String {
        let Self { case, figure, measured, published } = self;
        let unit = if figure.definition().quantity == Quantity::PerSecond { "/s" } else { "" };
        let [measured, published] = [measured, published].map(|value| figure.text(*value) + unit);
        format!("{} {measured} instead of {published} ({})", case.name, ratio(self.ratio()))
    }
}

/// Two cells that the study orders one way and the run the other.
fn reversed<'c, 'a>(cells: &'c [Cell<'a>]) -> Option<(&'c Cell<'a>, &'c Cell<'a>)> {
    let pairs = cells.iter().flat_map(|first| cells.iter().map(move |second| (first, second)));
    let mut told_apart = pairs.filter(|(first, second)| {
        first.figure == second.figure
            && first.published > second.published * (1.0 + TOLERANCE_PERCENT / 100.0)
    });
    told_apart.find(|(first, second)| first.measured <= second.measured)
}

/// What the tables of the studies have: a rate, or the time of a call.
const FIGURES: [Figure; 2] = [Figure::ProducedPerS, Figure::CallMean];

/// The parameter with the name of the profile.
const PROFILE: &str = "embedded.profile.name";

/// By how much a figure may differ that is met.
const TOLERANCE_PERCENT: f64 = 25.0;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::report::sample;
    use crate::results::{Published, Summary};

    fn case(name: &str, measured: f64, published: f64) -> Case {
        let mut case = sample::quick().cases.swap_remove(0);
        name.clone_into(&mut case.name);
        case.produced_per_s = Some(Summary::of_one(measured));
        case.published = Some(Published::new(name, [(Figure::ProducedPerS, published)]));
        case.params = BTreeMap::from([(PROFILE.to_owned(), json!("cloud"))]);
        case
    }

    fn said(cases: &[Case]) -> Option<String> {
        finding("twin", &cases.iter().collect::<Vec<_>>()).map(|finding| finding.message)
    }

    #[test]
    fn each_cell_stands_beside_the_published_one_with_its_ratio() {
        let mut cases = vec![case("a", 3_972.0, 3_311.0), case("b", 800.0, 809.0), case("c", 600.0, 1_000.0)];
        assert_eq!(
            said(&cases).unwrap(),
            "the service has the profile `cloud`: 2 of 3 published figures are met within 25 %: a 3,972/s instead of 3,311/s \
             (1.20×); b 800/s instead of 809/s (0.99×); c 600/s instead of 1,000/s (0.60×). They are in the published order"
        );
        cases[0].produced_per_s = Some(Summary::of_one(500.0));
        assert!(said(&cases).unwrap().ends_with("The published order of a and b is reversed"));
        cases[0].passed = false;
        assert!(said(&cases).unwrap().contains("1 of 2 published"));
    }

    #[test]
    fn a_service_without_such_a_profile_is_no_twin() {
        let mut cases = vec![case("a", 1.0, 1.0)];
        cases[0].params.clear();
        assert_eq!(said(&cases), None);
    }
}
