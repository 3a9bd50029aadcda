//! Metrics as a page, in the form that the scraper asks for.
//!
//! Metrics are written once, in the OpenMetrics text format. Who does not ask for that gets the older text format of
//! Prometheus, as its other clients do: the two differ in the comments on counters, and in an end that one of them has. A
//! reader of the older form that met the newer one would take every counter for a metric of an unknown type.

use std::sync::OnceLock;

use bytes::Bytes;
use hyper::header::{ACCEPT, HeaderMap};

use crate::http::Page;
use crate::process;

/// Metrics of one moment.
#[derive(Debug)]
pub struct Exposition {
    open_metrics: Bytes,
    plain: OnceLock<Bytes>,
}

impl Exposition {
    /// What this text in the OpenMetrics format says.
    #[must_use]
    pub fn new(open_metrics: impl Into<Bytes>) -> Self {
        Self { open_metrics: open_metrics.into(), plain: OnceLock::new() }
    }

    /// What this text in the OpenMetrics format says, and after it what there is to say of the process.
    #[must_use]
    pub fn with_process(mut open_metrics: String) -> Self {
        open_metrics.truncate(open_metrics.len() - if open_metrics.ends_with(END) { END.len() } else { 0 });
        open_metrics.push_str(&process::open_metrics());
        Self::new(open_metrics)
    }

    /// The text, in the OpenMetrics format.
    #[must_use]
    pub fn open_metrics(&self) -> &str {
        std::str::from_utf8(&self.open_metrics).unwrap_or_default()
    }

    /// The page for whoever sent these headers.
    #[must_use]
    pub fn page(&self, headers: &HeaderMap) -> Page {
        let accepts = headers.get_all(ACCEPT).iter().filter_map(|accepts| accepts.to_str().ok());
        match accepts.into_iter().any(|accepts| accepts.contains(OPEN_METRICS)) {
            true => Page::of(OPEN_METRICS_TYPE, self.open_metrics.clone()),
            false => Page::of(PLAIN_TYPE, self.plain().clone()),
        }
    }

    fn plain(&self) -> &Bytes {
        self.plain.get_or_init(|| plain(self.open_metrics()).into())
    }
}

/// The text of OpenMetrics in the older format.
fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // The comment that says what a metric is comes before the one that says of which type it is.
    let mut help = "";
    for line in open_metrics.lines() {
        let mut push = |parts: &[&str]| parts.iter().chain(&["\n"]).for_each(|part| text.push_str(part));
        let comment = line.strip_prefix("# ").map(|comment| comment.split_once(' ').unwrap_or((comment, "")));
        match comment {
            None => push(&[line]),
            Some(("HELP", rest)) => help = rest,
            Some(("TYPE", rest)) => {
                let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
                let suffix = if kind == "counter" { "_total" } else { "" };
                if let Some((_, said)) = help.split_once(' ').filter(|(of, _)| *of == name) {
                    push(&["# HELP ", name, suffix, " ", said]);
                }
                push(&["# TYPE ", name, suffix, " ", kind]);
            }
            // Units are in the names, and nothing marks the end.
            Some(_) => {}
        }
    }
    text
}

const OPEN_METRICS: &str = "application/openmetrics-text";
const OPEN_METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The end of a text of OpenMetrics.
const END: &str = "# EOF\n";

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    const TEXT: &str = "# HELP carried Events carried\n# TYPE carried counter\ncarried_total{to=\"a\"} 5\n\
                        # HELP held_bytes Bytes held\n# TYPE held_bytes gauge\n# UNIT held_bytes bytes\n\
                        held_bytes 7\n# EOF\n";

    #[test]
    fn counters_have_the_names_of_their_samples_where_open_metrics_is_not_asked_for() {
        let page = Exposition::new(TEXT).page(&HeaderMap::new());
        assert_eq!(page.content_type, "text/plain; version=0.0.4; charset=utf-8");
        let expected = "# HELP carried_total Events carried\n# TYPE carried_total counter\n\
                        carried_total{to=\"a\"} 5\n# HELP held_bytes Bytes held\n# TYPE held_bytes gauge\n\
                        held_bytes 7\n";
        assert_eq!(page.text, expected);
    }

    #[test]
    fn who_asks_for_open_metrics_gets_it_as_it_was_written() {
        let mut headers = HeaderMap::new();
        let accepts = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        headers.insert(ACCEPT, HeaderValue::from_static(accepts));
        let page = Exposition::new(TEXT).page(&headers);
        assert_eq!((page.content_type, &page.text[..]), (OPEN_METRICS_TYPE, TEXT.as_bytes()));
    }

    #[test]
    fn the_process_comes_after_what_it_carries_and_the_end_once() {
        let page = Exposition::with_process(TEXT.to_owned());
        let text = std::str::from_utf8(&page.open_metrics).expect("text");
        assert!(text.starts_with(TEXT.strip_suffix(END).expect("it has an end")), "{text}");
        assert!(text.ends_with(END) && text.matches("# EOF").count() == 1, "{text}");
        for name in ["parshall_build_info{version=", "process_cpu_seconds_total ", "process_open_fds "] {
            assert!(text.contains(name), "{name} is not in {text}");
        }
    }
}
