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
mod course;
mod drawing;
mod grid;
mod line_chart;
mod overview;
mod range_chart;
mod rate_chart;
mod relay_section;
mod row_chart;
mod scale;
mod stage_sum;

use askama::Template;

use self::case_section::CaseSection;
pub(crate) use self::course::course_so_far;
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
                Status::Passed => "✓",
                Status::Skipped => "–",
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
    use crate::results::NegativeLatencies;

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

    /// The texts between an opening tag with this name and its end.
    fn elements<'a>(html: &'a str, tag: &str) -> Vec<&'a str> {
        let (open, close) = (format!("<{tag}"), format!("</{tag}>"));
        let parts = html.split(&open).skip(1);
        let whole = parts.filter(|part| part.starts_with([' ', '>']));
        whole.filter_map(|part| Some(part.split_once('>')?.1.split_once(&close)?.0)).collect()
    }

    /// How wide a table is at least, by a count of its characters that has nothing to do with the one that divides it:
    /// text of 14 pixels, small text of 12, of 0.56 em per character.
    fn width(table: &str) -> f64 {
        let mut columns: Vec<f64> = Vec::new();
        let mut note = |column: usize, width: f64| {
            columns.resize(columns.len().max(column + 1), 0.0);
            columns[column] = columns[column].max(width);
        };
        let (head, body) = table.split_once("<tbody>").unwrap();
        for (column, heading) in elements(head, "th").into_iter().enumerate() {
            let words = heading.split_whitespace().map(|word| word.chars().count());
            note(column, words.max().unwrap_or(0) as f64 * 12.8 * 0.56 + 16.0);
        }
        for row in elements(body, "tr") {
            let name = elements(row, "th")[0].split('<').next().unwrap_or_default();
            // Names wrap.
            note(0, (name.chars().count() as f64 * 14.0 * 0.6).min(272.0));
            for (column, cell) in elements(row, "td").into_iter().enumerate() {
                let value = cell.split('<').next().unwrap_or_default();
                note(column + 1, value.chars().count() as f64 * 14.0 * 0.56 + 16.0);
                for small in elements(cell, "small") {
                    // Sentences wrap.
                    note(column + 1, (small.chars().count() as f64 * 12.0 * 0.56).min(288.0) + 16.0);
                }
            }
        }
        columns.iter().sum()
    }

    #[test]
    fn no_figure_lies_beyond_the_right_edge_of_a_screen_of_1280_pixels() {
        // Margins of the page and of a section, and a scroll bar.
        let room = 1_280.0 - 15.0 - 2.0 * 24.0 - 2.0 * 23.4;
        let page_limit = 72.0 * 16.0 - 2.0 * 24.0 - 2.0 * 23.4;
        for mut results in sample::all() {
            for case in &mut results.cases {
                case.name = format!("{}, payload=1 KiB, relay.batch.events=128, instances=4", case.name);
                for summary in case.latency_us.iter_mut().chain(case.stages.values_mut()) {
                    summary.negative = Some(NegativeLatencies { count: 123_456_789, min: -123_456_789 });
                }
            }
            let page = render(&results);
            let tables = elements(&page, "table");
            for table in tables {
                let width = width(table);
                assert!(
                    width <= f64::min(room, page_limit),
                    "{width} px: {}",
                    text(&format!("<body>{table}"))
                );
            }
            // Nothing is left out for that.
            for heading in ["p99.9", "maximum", "negative"] {
                let is_there = page.contains(&format!("<th scope=\"col\">{heading}</th>"));
                assert!(is_there || results.cases.iter().all(|case| case.latency_us.is_none()), "{heading}");
            }
        }
        assert!(render(&sample::searched()).contains("<th scope=\"col\">verdict</th>"));
    }

    #[test]
    fn the_course_of_a_trial_shows_its_latency_over_time_and_the_peaks_of_its_lag() {
        let page = render(&sample::complete());
        assert!(page.contains("Latency over time") && page.contains("most in each second"));
        let words = text(&page);
        assert!(words.contains("events waiting at the beginning"), "the lag at both edges");
        assert!(words.contains("→ to destination") && words.contains("⇄ process"), "directions of stages");
        assert!(words.contains("On average, to destination "), "the stages add up");
    }

    #[test]
    fn of_a_consumer_nothing_is_shown_but_what_it_has_done() {
        let results = sample::consumed();
        let page = render(&results);
        assert!(page.contains("events consumed per second"));
        assert!(page.contains("<th scope=\"col\">done</th>"));
        for claim in ["corrupted", "duplicated", "reordered", "forwarded per second"] {
            assert!(!text(&page).contains(claim), "{claim}");
        }
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
