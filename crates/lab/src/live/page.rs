//! A run as people see it: a page with the charts of the trial that goes on, and the report of the cases that have ended.
//!
//! ```text
//! GET /           the page
//! GET /events     what has changed since the event that `Last-Event-ID` names, as server-sent events
//! GET /report     the report of the cases so far
//! ```
//!
//! An answer to `/events` ends at once and says when to ask again, so a watcher who sleeps takes nothing and nothing piles up for
//! one who is slow. The charts are those of the report, drawn here; the page only puts them in their place.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, UNIX_EPOCH};

use askama::Template;
use hyper::http::request::Parts;
use listen::http::{Page, serve_pages_beside};

use super::CONNECTIONS_MAX;
use crate::figure;
use crate::progress::{Observer, Progress};
use crate::report::course_so_far;
use crate::results::{Interval, Noun};

/// An observer that shows what it sees to browsers. Clones share it.
#[derive(Clone, Debug)]
pub struct LivePage {
    parts: Arc<LivePageParts>,
    seen: Arc<Mutex<Seen>>,
}

/// What a page is about.
#[derive(Debug)]
pub struct LivePageParts {
    /// The name of the scenario.
    pub scenario: String,
    /// What it says of itself; may be empty.
    pub description: String,
    /// What its load sends.
    pub noun: Noun,
    /// The file that the report of the cases so far is written to.
    pub report: PathBuf,
}

/// What was seen, of the present trial.
#[derive(Debug, Default)]
struct Seen {
    /// Counts the snapshots of the run.
    version: u64,
    progress: Option<Progress>,
    began: Option<Instant>,
    intervals: Vec<Interval>,
    /// How many snapshots the next interval has taken in, of those that each takes.
    taken: u32,
    stride: u32,
}

impl LivePage {
    /// A page about a run that has not begun.
    #[must_use]
    pub fn of(parts: LivePageParts) -> Self {
        Self { parts: Arc::new(parts), seen: Arc::default() }
    }

    /// Serves the page for as long as the process lives, and says where.
    ///
    /// # Errors
    /// The address can't be listened on, or the system gives no thread.
    pub fn serve(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let pages = self.clone();
        let page = move |head: Parts| {
            let pages = pages.clone();
            async move { pages.page(&head) }
        };
        serve_pages_beside(listener, "live page", page, CONNECTIONS_MAX)?;
        Ok(address)
    }

    fn page(&self, head: &Parts) -> Option<Page> {
        match head.uri.path() {
            "/" => Some(Page::of("text/html; charset=utf-8", self.shell()?)),
            "/live.js" => Some(Page::of("text/javascript; charset=utf-8", SCRIPT)),
            "/style.css" => Some(Page::of("text/css; charset=utf-8", STYLE)),
            "/events" => {
                let last = head.headers.get("last-event-id").and_then(|id| id.to_str().ok());
                Some(Page::of("text/event-stream", self.events(Known::of(last))))
            }
            "/report" => {
                let report = fs::read(&self.parts.report).ok()?;
                Some(Page::of("text/html; charset=utf-8", report))
            }
            _ => None,
        }
    }

    fn shell(&self) -> Option<String> {
        let report = fs::canonicalize(&self.parts.report).unwrap_or_else(|_| self.parts.report.clone());
        Shell { parts: &self.parts, report: report.display().to_string() }.render().ok()
    }

    /// What `known` lacks.
    fn events(&self, known: Known) -> String {
        let mut text = format!("retry: {ASK_AGAIN_MS}\n\n");
        let seen = self.seen();
        let present = Known { version: seen.version, report: self.report_version() };
        if present.version != known.version
            && let Some(now) = self.now(&seen)
        {
            event(&mut text, present.version, known.report, "now", &now);
        }
        if let (true, Some(report)) = (present.report != known.report, present.report) {
            event(&mut text, present.version, present.report, "report", &report.to_string());
        }
        text
    }

    /// The part of the page that changes each second, as HTML.
    fn now(&self, seen: &Seen) -> Option<String> {
        let progress = seen.progress.as_ref()?;
        let noun = self.parts.noun;
        let rate = |rate: Option<f64>, what: &str| Some((figure::rate(rate?), format!("{noun}/s {what}")));
        let cards = [
            rate(progress.offered_per_s, "offered"),
            rate(progress.received_per_s, "received"),
            rate(progress.forwarded_per_s, "forwarded"),
            progress.lag_events.map(|lag| (figure::count(lag), format!("{noun} waiting"))),
            Some((figure::count(progress.events.arrived), format!("{noun} arrived in this trial"))),
        ];
        let now = Now {
            heading: progress.heading(),
            clock: progress.clock(),
            percent: progress.share_done().map(|share| format!("{:.1}", share * 100.0)),
            cards: cards.into_iter().flatten().collect(),
            charts: course_so_far(&seen.intervals, noun),
        };
        now.render().ok()
    }

    /// When the report was written last; `None` before the first case has ended.
    fn report_version(&self) -> Option<u128> {
        let modified = fs::metadata(&self.parts.report).ok()?.modified().ok()?;
        Some(modified.duration_since(UNIX_EPOCH).ok()?.as_micros())
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for LivePage {
    fn progress(&self, progress: &Progress) {
        self.seen().note(progress, Instant::now());
    }
}

impl Seen {
    fn note(&mut self, progress: &Progress, now: Instant) {
        let is_same =
            |other: &Progress| (other.case_number, other.trial) == (progress.case_number, progress.trial);
        if !self.progress.as_ref().is_some_and(is_same) {
            *self = Self { version: self.version, began: Some(now), stride: 1, ..Self::default() };
        }
        self.version += 1;
        self.progress = Some(progress.clone());
        // The first snapshot of a phase repeats the figures of the one before.
        if progress.phase_elapsed.is_zero() {
            return;
        }
        let at_s = self.began.map_or(0.0, |began| now.saturating_duration_since(began).as_secs_f64());
        let interval = interval(progress, at_s);
        match self.intervals.last_mut() {
            Some(last) if self.taken > 0 => *last = merged(last, &interval),
            _ => self.intervals.push(interval),
        }
        self.taken = (self.taken + 1) % self.stride;
        if self.intervals.len() > INTERVALS_MAX && self.taken == 0 {
            let pairs = self.intervals.chunks(2);
            self.intervals = pairs
                .map(|pair| pair.iter().skip(1).fold(pair[0].clone(), |one, next| merged(&one, next)))
                .collect();
            self.stride *= 2;
        }
    }
}

fn interval(progress: &Progress, at_s: f64) -> Interval {
    let roles = progress.roles.iter();
    Interval {
        at_s,
        offered_per_s: progress.offered_per_s,
        received_per_s: progress.received_per_s,
        forwarded_per_s: progress.forwarded_per_s,
        lag_events: progress.lag_events,
        lag_peak_events: progress.lag_events,
        cpu_percent: roles.clone().map(|(role, used)| (*role, used.cpu_percent)).collect(),
        memory_bytes: roles.map(|(role, used)| (*role, used.memory_bytes)).collect(),
    }
}

/// Two intervals that follow one another as one: its rates lie between theirs, and its peak is the higher one.
fn merged(one: &Interval, next: &Interval) -> Interval {
    let mean = |one: Option<f64>, next: Option<f64>| match (one, next) {
        (Some(one), Some(next)) => Some(f64::midpoint(one, next)),
        (one, next) => next.or(one),
    };
    Interval {
        offered_per_s: mean(one.offered_per_s, next.offered_per_s),
        received_per_s: mean(one.received_per_s, next.received_per_s),
        forwarded_per_s: mean(one.forwarded_per_s, next.forwarded_per_s),
        lag_peak_events: one.lag_peak_events.max(next.lag_peak_events),
        ..next.clone()
    }
}

/// What a watcher has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known {
    version: u64,
    report: Option<u128>,
}

impl Known {
    /// What somebody has who has seen the event with this id, as [`event`] writes it.
    fn of(id: Option<&str>) -> Self {
        let parts = id.and_then(|id| id.split_once('-'));
        let Some((version, report)) = parts else {
            return Self::default();
        };
        Self { version: version.parse().unwrap_or(0), report: report.parse().ok() }
    }
}

/// Adds an event to a stream of them.
fn event(text: &mut String, version: u64, report: Option<u128>, name: &str, data: &str) {
    let report = report.map_or_else(String::new, |report| report.to_string());
    // A line feed would end the data; HTML takes a space for it as well.
    let data = data.replace(['\n', '\r'], " ");
    write!(text, "id: {version}-{report}\nevent: {name}\ndata: {data}\n\n")
        .expect("writing to a String cannot fail");
}

#[derive(Debug, Template)]
#[template(path = "live.html")]
struct Shell<'a> {
    parts: &'a LivePageParts,
    report: String,
}

#[derive(Debug, Template)]
#[template(path = "live_now.html")]
struct Now {
    heading: String,
    clock: String,
    percent: Option<String>,
    /// Figures, and what they are.
    cards: Vec<(String, String)>,
    /// As HTML.
    charts: Vec<String>,
}

const SCRIPT: &str = include_str!("../../templates/live.js");

const STYLE: &str =
    concat!(include_str!("../../templates/report.css"), include_str!("../../templates/live.css"));

/// How long a watcher waits before it asks again. Snapshots come about once a second.
const ASK_AGAIN_MS: u64 = 1_000;

/// How many intervals a chart has at most; then two become one. A chart is 400 units wide.
const INTERVALS_MAX: usize = 400;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use hyper::Request;

    use super::*;
    use crate::progress::{EventTotals, Phase, RoleProgress};
    use crate::results::Role;

    fn page(report: PathBuf) -> LivePage {
        LivePage::of(LivePageParts {
            scenario: "<b>fan-out</b>".to_owned(),
            description: String::new(),
            noun: Noun::Events,
            report,
        })
    }

    fn measuring(trial: u32, second: u64) -> Progress {
        Progress {
            case: "<script>alert(1)</script>".to_owned(),
            case_number: 1,
            cases: 4,
            trial,
            trials: 3,
            tried_per_s: None,
            least_remaining: None,
            phase: Phase::Measuring,
            phase_elapsed: Duration::from_secs(second),
            phase_length: Some(Duration::from_secs(60)),
            offered_per_s: Some(100.0),
            received_per_s: Some(99.0),
            forwarded_per_s: Some(98.0),
            lag_events: Some(second),
            events: EventTotals { sent: 100, received: 99, forwarded: 98, arrived: 97 },
            roles: BTreeMap::from([(Role::Relay, RoleProgress { cpu_percent: 50.0, memory_bytes: 1 << 20 })]),
        }
    }

    fn get(page: &LivePage, path: &str, last: Option<&str>) -> Option<String> {
        let mut request = Request::get(path);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let page = page.page(&request.body(()).unwrap().into_parts().0)?;
        Some(String::from_utf8(page.text.to_vec()).unwrap())
    }

    fn last_id(events: &str) -> String {
        let id = events.lines().rev().find_map(|line| line.strip_prefix("id: "));
        id.unwrap().to_owned()
    }

    #[test]
    fn a_watcher_gets_what_is_new_and_nothing_twice() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.html");
        let page = page(report.clone());
        let nothing = format!("retry: {ASK_AGAIN_MS}\n\n");
        assert_eq!(get(&page, "/events", None), Some(nothing.clone()), "nothing has begun");
        assert_eq!(get(&page, "/report", None), None);
        for second in 1..=3 {
            page.progress(&measuring(1, second));
        }
        let first = get(&page, "/events", None).unwrap();
        assert!(first.contains("event: now\n") && !first.contains("event: report\n"), "{first}");
        for shown in ["trial 1 of 3: measuring", "3 s of 60 s", "98", "Throughput", "Lag", "CPU", "Memory"] {
            assert!(first.contains(shown), "{shown} is not in {first}");
        }
        assert_eq!(get(&page, "/events", Some(&last_id(&first))), Some(nothing.clone()));
        fs::write(&report, "<!DOCTYPE html>").unwrap();
        let second = get(&page, "/events", Some(&last_id(&first))).unwrap();
        assert!(second.contains("event: report\n") && !second.contains("event: now\n"), "{second}");
        assert_eq!(get(&page, "/report", None).as_deref(), Some("<!DOCTYPE html>"));
        assert_eq!(get(&page, "/events", Some(&last_id(&second))), Some(nothing));
        for foreign in ["", "-", "x-y", "99999999999999999999999-1"] {
            let all = get(&page, "/events", Some(foreign)).unwrap();
            assert!(all.contains("event: now\n") && all.contains("event: report\n"), "{foreign}");
        }
    }

    #[test]
    fn names_of_users_stay_texts_and_an_event_is_one_line() {
        let page = page(PathBuf::from("report.html"));
        page.progress(&Progress { case: "a\nevent: evil\ndata: <u>".to_owned(), ..measuring(1, 1) });
        let events = get(&page, "/events", None).unwrap();
        assert_eq!(events.lines().filter(|line| line.starts_with("event: ")).count(), 1, "{events}");
        assert!(!events.contains("<u>"));
        page.progress(&measuring(2, 1));
        assert!(!get(&page, "/events", None).unwrap().contains("<script"));
        let shell = get(&page, "/", None).unwrap();
        assert!(!shell.contains("<b>fan-out") && shell.matches("<script").count() == 1, "{shell}");
    }

    #[test]
    fn the_page_loads_only_what_is_served_beside_it() {
        let page = page(PathBuf::from("report.html"));
        let shell = get(&page, "/", None).unwrap();
        for loading in ["http:", "https:", "url(", "@import"] {
            assert!(
                !shell.contains(loading) && !STYLE.contains(loading) && !SCRIPT.contains(loading),
                "{loading}"
            );
        }
        let addresses = shell.split("=\"/").skip(1).filter_map(|rest| rest.split_once('"'));
        for (address, _) in addresses {
            assert!(get(&page, &format!("/{address}"), None).is_some(), "{address}");
        }
    }

    #[test]
    fn a_trial_of_any_length_takes_bounded_room_and_keeps_its_peaks() {
        let mut seen = Seen::default();
        let begin = Instant::now();
        for second in 1..=10_000 {
            let lag_events = Some(if second == 1_234 { 77 } else { 1 });
            let progress = Progress { lag_events, ..measuring(1, second) };
            seen.note(&progress, begin + Duration::from_secs(second));
            assert!(seen.intervals.len() <= INTERVALS_MAX + 1);
        }
        assert!(seen.intervals.len() > INTERVALS_MAX / 2);
        assert!(seen.intervals.iter().any(|interval| interval.lag_peak_events == Some(77)));
        let times: Vec<f64> = seen.intervals.iter().map(|interval| interval.at_s).collect();
        assert!(
            times.is_sorted() && times.last() == Some(&9_999.0),
            "the trial began with the first snapshot"
        );
        seen.note(&measuring(2, 1), begin);
        assert_eq!((seen.intervals.len(), seen.version), (1, 10_001), "another trial begins anew");
    }
}
