//! Requests of OTLP as they are encoded, and what is read of the answers.
//!
//! ```text
//!   request ─ 1: what there is of one resource
//!               ├─ 1: resource ─ 1: attributes
//!               ├─ 2: of one scope
//!               │     ├─ 1: scope (1: name, 2: version)
//!               │     ├─ 2: spans, or metrics
//!               │     └─ 3: the version of the semantic conventions
//! ```

use std::time::{SystemTime, UNIX_EPOCH};

use crate::context::SpanContext;
use crate::exposition::{Data, Family, Histogram, Labels, Number};
use crate::protobuf::{Field, Fields, Writer};
use crate::span::{Kind, Link, Span, Value};

/// A request with spans.
pub(crate) fn traces(resource: &[(String, String)], spans: &[Span]) -> Vec<u8> {
    request(resource, SEMANTIC_CONVENTIONS, |scope| {
        spans.iter().for_each(|one| scope.message(2, |writer| span(writer, one)));
    })
}

/// A request with metrics as they are `now`; what is counted was counted since `start`.
pub(crate) fn metrics(
    resource: &[(String, String)],
    families: &[Family<'_>],
    start: SystemTime,
    now: SystemTime,
) -> Vec<u8> {
    let times = (unix_nanoseconds(start), unix_nanoseconds(now));
    // These names are those of the page, not of the conventions.
    request(resource, "", |scope| {
        families.iter().for_each(|one| scope.message(2, |writer| family(writer, one, times)));
    })
}

/// What the collector did not take although it accepted a request: how many, and why.
pub(crate) fn rejected(response: &[u8]) -> Option<(u64, String)> {
    let partial_success = Fields::new(response).find_map(|field| match field {
        (1, Field::Bytes(message)) => Some(message),
        _ => None,
    })?;
    let (mut count, mut reason) = (0, String::new());
    for field in Fields::new(partial_success) {
        match field {
            (1, Field::Number(number)) => count = number,
            (2, Field::Bytes(text)) => {
                reason = String::from_utf8_lossy(text).chars().take(REASON_MAX).collect()
            }
            _ => {}
        }
    }
    (count > 0).then_some((count, reason))
}

fn request(resource: &[(String, String)], schema: &str, items: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut request = Writer::default();
    request.message(1, |of_resource| {
        of_resource.message(1, |writer| {
            resource.iter().for_each(|(name, value)| text_attribute(writer, 1, name, value));
        });
        of_resource.message(2, |of_scope| {
            of_scope.message(1, |scope| {
                scope.text(1, SCOPE);
                scope.text(2, env!("CARGO_PKG_VERSION"));
            });
            items(of_scope);
            of_scope.text(3, schema);
        });
    });
    request.into_bytes()
}

fn span(writer: &mut Writer, span: &Span) {
    let ended = unix_nanoseconds(span.ended);
    let lasted = u64::try_from(span.lasted.as_nanos()).unwrap_or(u64::MAX);
    writer.bytes(1, &span.context.trace.0);
    writer.bytes(2, &span.context.span.0);
    if let Some(parent) = span.parent {
        writer.bytes(4, &parent.0);
    }
    writer.text(5, &span.operation.name);
    writer.uint(
        6,
        match span.operation.kind {
            Kind::Client => 3,
            Kind::Consumer => 5,
        },
    );
    writer.fixed64(7, ended.saturating_sub(lasted));
    writer.fixed64(8, ended);
    let error = span.failure.as_ref().map(|failure| ("error.type", Value::from(failure.kind.clone())));
    for (name, value) in span.operation.attributes.iter().chain(&span.attributes).chain(&error) {
        attribute(writer, 9, name, value);
    }
    span.links.iter().for_each(|one| writer.message(13, |writer| link(writer, one)));
    writer.uint(14, span.dropped_links.into());
    if let Some(failure) = &span.failure {
        writer.message(15, |status| {
            status.text(2, &failure.description);
            status.uint(3, STATUS_ERROR);
        });
    }
    writer.fixed32(16, flags(span.context));
}

fn link(writer: &mut Writer, link: &Link) {
    writer.bytes(1, &link.context.trace.0);
    writer.bytes(2, &link.context.span.0);
    writer.text(3, link.state.as_deref().unwrap_or_default());
    writer.fixed32(6, flags(link.context) | HAS_IS_REMOTE | IS_REMOTE);
}

fn flags(context: SpanContext) -> u32 {
    u32::from(context.sampled)
}

fn attribute(writer: &mut Writer, field: u32, name: &str, value: &Value) {
    match value {
        Value::Text(text) => text_attribute(writer, field, name, text),
        Value::Number(number) => writer.message(field, |writer| {
            writer.text(1, name);
            writer.message(2, |value| value.present_uint(3, number.cast_unsigned()));
        }),
    }
}

fn text_attribute(writer: &mut Writer, field: u32, name: &str, text: &str) {
    writer.message(field, |writer| {
        writer.text(1, name);
        writer.message(2, |value| value.present_bytes(1, text.as_bytes()));
    });
}

fn family(writer: &mut Writer, family: &Family<'_>, times: (u64, u64)) {
    let suffix = if matches!(family.data, Data::Counter(_)) { "_total" } else { "" };
    writer.text(1, &format!("{}{suffix}", family.name));
    writer.text(2, &family.help);
    writer.text(3, unit(family.name));
    match &family.data {
        Data::Gauge(series) => writer.message(5, |gauge| {
            // A value of the moment has no beginning.
            series.iter().for_each(|one| gauge.message(1, |point| number(point, one, (0, times.1))));
        }),
        Data::Counter(series) => writer.message(7, |sum| {
            series.iter().for_each(|one| sum.message(1, |point| number(point, one, times)));
            sum.uint(2, CUMULATIVE);
            sum.uint(3, 1);
        }),
        Data::Histogram(series) => writer.message(9, |histograms| {
            series.iter().for_each(|one| histograms.message(1, |point| histogram(point, one, times)));
            histograms.uint(2, CUMULATIVE);
        }),
    }
}

fn number(point: &mut Writer, number: &Number<'_>, (start, now): (u64, u64)) {
    point.fixed64(2, start);
    point.fixed64(3, now);
    point.present_double(4, number.value);
    labels(point, 7, &number.labels);
}

fn histogram(point: &mut Writer, histogram: &Histogram<'_>, (start, now): (u64, u64)) {
    point.fixed64(2, start);
    point.fixed64(3, now);
    point.fixed64(4, histogram.count);
    point.present_double(5, histogram.sum);
    point.packed(6, histogram.counts());
    point.packed(7, histogram.bounds().map(f64::to_bits));
    labels(point, 9, &histogram.labels);
}

fn labels(point: &mut Writer, field: u32, labels: &Labels<'_>) {
    labels.iter().for_each(|(name, value)| text_attribute(point, field, name, value));
}

/// The unit that a name says, as OpenTelemetry writes it.
fn unit(name: &str) -> &'static str {
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        Some("ratio") => "1",
        _ => "",
    }
}

fn unix_nanoseconds(time: SystemTime) -> u64 {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}

/// What makes the spans and metrics.
const SCOPE: &str = "parshall";

/// The conventions that names of spans and attributes are from. Those of messaging are not stable yet.
const SEMANTIC_CONVENTIONS: &str = "https://opentelemetry.io/schemas/1.44.0";

const STATUS_ERROR: u64 = 2;
const CUMULATIVE: u64 = 2;

/// Whether a span is another process's is known, and it is.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// A collector's reason goes into the log; so much of it is enough.
const REASON_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_collector_rejects_is_read() {
        assert_eq!(rejected(b""), None);
        assert_eq!(rejected(b"\x0a\x00"), None);
        assert_eq!(rejected(b"\x0a\x07\x08\x03\x12\x03why"), Some((3, "why".to_owned())));
        assert_eq!(rejected(b"\x0a\x05\x12\x03why"), None, "a warning");
        assert_eq!(rejected(b"{}"), None);
    }

    #[test]
    fn units_are_those_of_names() {
        let units = ["process_cpu_seconds", "held_bytes", "ready"].map(unit);
        assert_eq!(units, ["s", "By", ""]);
    }
}
