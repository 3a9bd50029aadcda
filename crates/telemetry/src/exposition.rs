//! Metrics, read from a page of them in the OpenMetrics text format.
//!
//! The page is our own, as `listen` writes it: each family has its comments first, then its samples. A line that can't be read is
//! left out, so that no other text can do more harm than to say nothing.
//!
//! ```text
//!   # HELP carried_seconds Time that events were carried         family: name, help, kind
//!   # TYPE carried_seconds histogram
//!   carried_seconds_sum{to="a"} 2.5                              series of it: labels, and what is said of them
//!   carried_seconds_count{to="a"} 3
//!   carried_seconds_bucket{le="1.0",to="a"} 1                    so many of at most 1.0, those of lower bounds included
//!   carried_seconds_bucket{le="+Inf",to="a"} 3
//! ```

use std::borrow::Cow;

/// Series that have a name in common.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Family<'a> {
    /// Without the suffixes of its samples.
    pub(crate) name: &'a str,
    pub(crate) help: Cow<'a, str>,
    pub(crate) data: Data<'a>,
}

/// What there is of each series.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data<'a> {
    Counter(Vec<Number<'a>>),
    Gauge(Vec<Number<'a>>),
    Histogram(Vec<Histogram<'a>>),
}

/// Names and values, in the order of the text.
pub(crate) type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Number<'a> {
    pub(crate) labels: Labels<'a>,
    pub(crate) value: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Histogram<'a> {
    pub(crate) labels: Labels<'a>,
    pub(crate) sum: f64,
    pub(crate) count: u64,
    /// Upper bounds, and how many there are up to each; the last one has no bound.
    pub(crate) buckets: Vec<(f64, u64)>,
}

impl Histogram<'_> {
    /// How many there are in each bucket alone.
    pub(crate) fn counts(&self) -> impl ExactSizeIterator<Item = u64> {
        let mut below = 0;
        self.buckets.iter().map(move |&(_, up_to)| {
            let count = up_to.saturating_sub(below);
            below = up_to;
            count
        })
    }

    /// The upper bounds, but for the last one, which there is not.
    pub(crate) fn bounds(&self) -> impl ExactSizeIterator<Item = f64> {
        let bounded = self.buckets.len().saturating_sub(1);
        self.buckets[..bounded].iter().map(|&(bound, _)| bound)
    }
}

/// The families of a page that have samples, in its order.
pub(crate) fn families(page: &str) -> Vec<Family<'_>> {
    let mut families: Vec<Family<'_>> = Vec::new();
    let mut help = ("", "");
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').unwrap_or((rest, ""));
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            let data = match kind {
                "counter" => Data::Counter(Vec::new()),
                "histogram" => Data::Histogram(Vec::new()),
                _ => Data::Gauge(Vec::new()),
            };
            let help = if help.0 == name { unescaped(help.1) } else { Cow::default() };
            families.push(Family { name, help, data });
        } else if !line.starts_with('#')
            && let Some(family) = families.last_mut()
            && let Some((name, labels, value)) = sample(line)
        {
            family.take(name, labels, value);
        }
    }
    families.retain(|family| !family.is_empty());
    families
}

impl<'a> Family<'a> {
    const fn is_empty(&self) -> bool {
        match &self.data {
            Data::Counter(numbers) | Data::Gauge(numbers) => numbers.is_empty(),
            Data::Histogram(histograms) => histograms.is_empty(),
        }
    }

    fn take(&mut self, name: &str, mut labels: Labels<'a>, value: f64) {
        let Some(suffix) = name.strip_prefix(self.name) else {
            return;
        };
        match (&mut self.data, suffix) {
            (Data::Counter(numbers), "_total") | (Data::Gauge(numbers), "") => {
                numbers.push(Number { labels, value });
            }
            (Data::Histogram(histograms), "_bucket" | "_sum" | "_count") => {
                let bound = labels.iter().position(|(name, _)| *name == "le");
                let bound = bound.map(|index| labels.remove(index).1.parse::<f64>());
                // All samples of a series stand together.
                if histograms.last().is_none_or(|last| last.labels != labels) {
                    histograms.push(Histogram { labels, ..Histogram::default() });
                }
                let Some(series) = histograms.last_mut() else {
                    return;
                };
                match (suffix, bound) {
                    ("_sum", None) => series.sum = value,
                    ("_count", None) => series.count = value as u64,
                    ("_bucket", Some(Ok(bound))) => series.buckets.push((bound, value as u64)),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// Name, labels and value of a sample.
fn sample(line: &str) -> Option<(&str, Labels<'_>, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    // What may follow the value, ours never has.
    let value = rest.strip_prefix(' ')?.split(' ').next()?;
    Some((name, labels, value.parse().ok()?))
}

/// `name="value",name="value"}`, and what follows it.
fn labels(mut rest: &str) -> Option<(Labels<'_>, &str)> {
    let mut labels = Vec::new();
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, value) = rest.split_once("=\"")?;
        let end = end_of_value(value)?;
        labels.push((name, unescaped(&value[..end])));
        rest = &value[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// Where the quotation mark is that ends a value.
fn end_of_value(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    })
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some(escaped) => escaped,
                None => '\\',
            },
            other => other,
        });
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: &str = "# HELP carried Events\\nthat were carried\n# TYPE carried counter\n\
        carried_total{to=\"a\",as=\"b \\\"c\\\"\"} 5\ncarried_total{to=\"b\"} 7\n\
        # HELP none Nothing\n# TYPE none counter\n\
        # HELP held_bytes Bytes held\n# TYPE held_bytes gauge\n# UNIT held_bytes bytes\nheld_bytes 7.5\n\
        # HELP took_seconds Time\n# TYPE took_seconds histogram\n\
        took_seconds_sum{to=\"a\"} 2.5\ntook_seconds_count{to=\"a\"} 3\n\
        took_seconds_bucket{le=\"1.0\",to=\"a\"} 1\ntook_seconds_bucket{le=\"2.0\",to=\"a\"} 1\n\
        took_seconds_bucket{le=\"+Inf\",to=\"a\"} 3\n\
        took_seconds_sum{to=\"b\"} 0.0\ntook_seconds_count{to=\"b\"} 0\n\
        took_seconds_bucket{le=\"+Inf\",to=\"b\"} 0\n# EOF\n";

    #[test]
    fn counters_and_gauges_have_their_labels_and_values() {
        let families = families(PAGE);
        assert_eq!(
            families.iter().map(|family| family.name).collect::<Vec<_>>(),
            ["carried", "held_bytes", "took_seconds"]
        );
        assert_eq!(families[0].help, "Events\nthat were carried");
        let Data::Counter(numbers) = &families[0].data else { panic!("{:?}", families[0]) };
        assert_eq!(numbers[0].labels, [("to", "a".into()), ("as", "b \"c\"".into())]);
        assert_eq!((numbers[0].value, numbers[1].value), (5.0, 7.0));
        let held = Number { labels: Vec::new(), value: 7.5 };
        assert_eq!(families[1].data, Data::Gauge(vec![held]));
    }

    #[test]
    fn the_samples_of_a_histogram_are_one_series() {
        let families = families(PAGE);
        let Data::Histogram(series) = &families[2].data else { panic!("{:?}", families[2]) };
        let [a, b] = &series[..] else { panic!("{series:?}") };
        assert_eq!((a.sum, a.count), (2.5, 3));
        assert_eq!(a.bounds().collect::<Vec<_>>(), [1.0, 2.0]);
        assert_eq!(a.counts().collect::<Vec<_>>(), [1, 0, 2]);
        assert_eq!((b.labels.clone(), b.counts().collect::<Vec<_>>()), (vec![("to", "b".into())], vec![0]));
    }

    #[test]
    fn what_listen_writes_is_read() {
        let page = listen::Exposition::with_process(String::new());
        let families = families(page.open_metrics());
        let build = families.iter().find(|family| family.name == "parshall_build_info").expect("it is there");
        let Data::Gauge(numbers) = &build.data else { panic!("{build:?}") };
        assert_eq!(numbers[0].labels[0].0, "version");
        assert!(families.iter().any(|family| matches!(&family.data, Data::Counter(_))), "{families:?}");
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(page in "(# (TYPE|HELP) a [a-z]*\n)?(a(_total|_sum)?[{]?[a-z=\",{}\\\\ 0-9]*\n)*") {
            let _ = families(&page);
        }
    }
}
