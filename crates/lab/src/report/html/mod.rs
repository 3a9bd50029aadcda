//! `report.html`: everything about a run on one page.
//!
//! The page is one file without scripts, fonts or addresses to load: styles and charts are in it. It follows
//! the reader's light or dark setting, prints, and folds to one column on a narrow screen. The order is that
//! of the questions a reader has: did it work; how fast, beside the published figures; how late; then each
//! case in detail; then what it ran on and how to repeat it.
//!
//! Charts are drawn by the modules beside this one; the text around them is `templates/report.html`.

mod bar_chart;
mod case_section;
mod drawing;
mod grid;
mod line_chart;
mod overview;
mod range_chart;
mod rate_chart;
mod relay_section;
mod row_chart;
mod scale;

use askama::Template;

use self::case_section::CaseSection;
use self::grid::Grid;
use self::overview::Card;
use super::verdict::{Remark, Verdict, footnotes, remarks};
use super::{Report, ReportError};
use crate::figure;
use crate::results::{Results, Severity, Status};

/// The content of `report.html`.
#[derive(Debug, Clone, Copy, Default)]
pub struct HtmlReport;

impl Report for HtmlReport {
    fn render(&self, results: &Results) -> Result<String, ReportError> {
        Ok(Page::of(results).render()?)
    }
}

/// What the template fills in.
#[derive(Debug, Template)]
#[template(path = "report.html")]
struct Page<'a> {
    results: &'a Results,
    verdict: Verdict,
    status: &'static str,
    mark: &'static str,
    cards: Vec<Card>,
    /// What speaks against the run, at the top.
    objections: Vec<Remark>,
    /// What else to know, at the end.
    remarks: Vec<Remark>,
    table: Option<Grid>,
    footnotes: Vec<String>,
    sources: Vec<&'a str>,
    /// Charts over all cases, as HTML.
    charts: Vec<String>,
    sections: Vec<CaseSection>,
    environment: Vec<(&'static str, String)>,
}

impl<'a> Page<'a> {
    fn of(results: &'a Results) -> Self {
        let verdict = Verdict::on(results);
        let (objections, remarks) =
            remarks(results).into_iter().partition(|remark| remark.severity <= Severity::Invalid);
        let mut sources: Vec<&str> =
            results.cases.iter().filter_map(|case| case.published.as_ref()?.source.as_deref()).collect();
        sources.dedup();
        Self {
            status: verdict.status.name(),
            mark: match verdict.status {
                Status::Passed | Status::Skipped => "✓",
                Status::Failed => "✗",
                Status::Invalid | Status::Incomplete => "!",
            },
            verdict,
            cards: overview::cards(results),
            objections,
            remarks,
            table: overview::table(results),
            footnotes: footnotes(results),
            sources,
            charts: overview::charts(results),
            sections: results
                .cases
                .iter()
                .enumerate()
                .map(|case| CaseSection::of(case, results.prices.as_ref()))
                .collect(),
            environment: environment(results),
            results,
        }
    }
}

fn environment(results: &Results) -> Vec<(&'static str, String)> {
    let environment = &results.environment;
    let load = environment.load_average.map(|[one, five, fifteen]| {
        format!("{one:.2}, {five:.2}, {fifteen:.2} over 1, 5 and 15 minutes, when the run began")
    });
    let limits = environment.limits.as_ref().map(|limits| {
        let cores = limits.cores.map(|cores| format!("{cores} cores"));
        let memory = limits.memory_bytes.map(|bytes| format!("{} of memory", figure::bytes(bytes as f64)));
        let bounds: Vec<String> = cores.into_iter().chain(memory).collect();
        bounds.join(", ")
    });
    [
        ("Scenario", Some(results.scenario.clone())),
        ("Target", Some(environment.target.clone())),
        ("Parshall", Some(environment.version.clone())),
        ("Build", environment.build.clone()),
        ("Seed", Some(environment.seed.to_string())),
        ("Started", Some(environment.started.to_string())),
        ("Finished", environment.finished.as_ref().map(ToString::to_string)),
        ("Processor", Some(environment.cpu_model.clone())),
        ("Cores", Some(environment.cores.to_string())),
        ("Memory", Some(figure::bytes(environment.memory_bytes as f64))),
        ("System", Some(environment.kernel.clone())),
        ("Limits of the whole run", limits),
        ("Huge pages", environment.huge_pages.clone()),
        ("Clock source", environment.clock_source.clone()),
        ("Load average", load),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn render(results: &Results) -> String {
        HtmlReport.render(results).unwrap()
    }

    /// The words of a page in their order, without markup and styles.
    fn text(page: &str) -> String {
        let body = page.split_once("<body").unwrap().1;
        let mut text = String::new();
        let mut inside_tag = false;
        for character in body.chars() {
            match character {
                '<' => inside_tag = true,
                '>' => {
                    inside_tag = false;
                    text.push(' ');
                }
                other if !inside_tag => text.push(other),
                _ => {}
            }
        }
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_kind_of_results_becomes_a_page_without_broken_numbers() {
        for results in sample::all() {
            let page = render(&results);
            for broken in ["NaN", "inf\"", ">inf<", "None", "Some("] {
                assert!(!page.contains(broken), "{broken} in the page of {}", results.scenario);
            }
        }
    }

    #[test]
    fn the_page_loads_nothing() {
        let page = render(&sample::complete());
        for loading in ["http:", "https:", "src=", "url(", "@import", "<link", "<script"] {
            assert!(!page.contains(loading), "{loading}");
        }
    }

    #[test]
    fn the_page_answers_questions_in_the_order_in_which_readers_have_them() {
        let text = text(&render(&sample::complete()));
        let places = [
            "4 of 4 cases passed",
            "Results",
            "Throughput",
            "Latency percentiles",
            "fan_out=1 passed",
            "Course",
            "Stages",
            "Inside the relay",
            "What its loop waited for",
            "Delivery",
            "Load generator",
            "Resources",
            "Environment",
            "parshall run fan-out --set load.seed=7",
        ]
        .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} is missing")));
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn a_failed_run_says_so_before_any_figure() {
        let text = text(&render(&sample::failed()));
        let lost = text.find("1,204 events of").expect("the loss is told");
        assert!(
            text.find("2 of 4 cases passed, 1 failed, 1 invalid").expect("the verdict is reported") < lost
        );
        assert!(lost < text.find("Results").expect("there is a table"));
        assert!(text.contains("run as root"), "hints are shown");
    }

    #[test]
    fn a_partial_page_says_what_is_missing() {
        let text = text(&render(&sample::interrupted()));
        assert!(text.contains("2 cases did not run: fan_out=64, fan_out=100"), "{text}");
        assert!(text.contains("fan_out=32 has 0 of 2 trials"), "{text}");
    }

    #[test]
    fn markup_in_names_and_messages_is_shown_and_not_obeyed() {
        let attack = "<script>alert('x')</script>\"&";
        let mut results = sample::failed();
        results.scenario = attack.to_owned();
        results.description = Some(attack.to_owned());
        results.missing.push(attack.to_owned());
        results.environment.command = attack.to_owned();
        results.environment.cpu_model = attack.to_owned();
        for case in &mut results.cases {
            case.name = attack.to_owned();
            case.params.insert(attack.to_owned(), attack.into());
            case.findings[0].message = attack.to_owned();
            case.findings[0].hint = Some(attack.to_owned());
            if let Some(published) = &mut case.published {
                published.source = Some(attack.to_owned());
            }
            for trial in &mut case.trials {
                trial.hub = trial.hub.values().map(|counters| (attack.to_owned(), *counters)).collect();
                for usage in trial.roles.values_mut() {
                    if let Some(limit) = &mut usage.limit {
                        limit.note = Some(attack.to_owned());
                    }
                }
            }
        }
        let page = render(&results);
        assert!(!page.contains("<script"), "markup got through");
        assert!(!page.contains("alert('x')"), "quotes got through");
        assert!(text(&page).contains("alert("), "the text itself is shown");
    }
}
