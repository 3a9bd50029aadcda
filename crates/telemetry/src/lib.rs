//! OpenTelemetry: traces and metrics, pushed to a collector over OTLP.
//!
//! ```text
//!   relay ─ sampled batch ─▶ Tracer ─▶ queue, bounded ─┐
//!                                                      ├─▶ Exporter: a thread that gives way ─ OTLP over HTTP ─▶ collector
//!   whoever has a page of metrics ◀─ asked once a minute ─┘
//! ```
//!
//! Those who work must not notice. A batch that is not sampled costs a look at its first event and a random number; a span costs some
//! memory and a place in a queue, and where that is full the span is dropped and counted. Everything else, encoding
//! included, is done by a thread of its own, and a collector that is slow or gone holds up nothing but that thread.
//!
//! What is written is the protobuf of OTLP 1, by hand: some fifteen messages that are only ever written
//! ([decision](../../../docs/decisions/0065-opentelemetry.md)). Metrics are those of the page for Prometheus, read from its text,
//! so that both say the same under the same names.
//!
//! | module | what |
//! |---|---|
//! | [`context`] | which span a message belongs to: W3C Trace Context |
//! | [`span`] | spans, and what those of one kind have in common |
//! | [`options`] | the environment variables of OpenTelemetry, and what a file says instead |
//! | `sampler`, `tracer` | which batches are traced, and where their spans go |
//! | `exposition` | metrics, read from the text of a page |
//! | `protobuf`, `otlp` | requests as they are encoded, and what is read of answers |
//! | `client`, `exporter` | how they get to the collector, and what if they don't |
//! | [`fakes`] | a recorder of spans, for tests |
//! | `statistics` | what was exported and what was dropped, for the page itself |

pub mod context;
pub mod fakes;
pub mod options;
pub mod span;

mod client;
mod exporter;
mod exposition;
mod otlp;
mod protobuf;
mod sampler;
mod statistics;
mod tracer;

pub use exporter::{Exporter, MetricsPage};
pub use tracer::Tracer;
