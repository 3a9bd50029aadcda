//! What spans say of batches, sends and checkpoints.

use connect::sink::ErrorClass;
use telemetry::context::SpanContext;
use telemetry::fakes::SpanRecorder;
use telemetry::span::{Kind, Operation, Span, Value};

use super::*;
use crate::traces::{SendOperation, Tracing};

fn tracing(recorder: &SpanRecorder) -> Tracing {
    let operation =
        |name: &str, kind| Arc::new(Operation { name: name.to_owned(), kind, attributes: Vec::new() });
    Tracing {
        tracer: recorder.tracer(),
        process: operation("process", Kind::Consumer),
        sends: vec![SendOperation { operation: operation("send", Kind::Client), to_partitions: true }],
        checkpoint: operation("checkpoint", Kind::Client),
    }
}

/// Carries everything that was appended; gives the spans.
async fn traced(pipe: &mut Pipe, ratio: f64) -> Vec<Span> {
    let recorder = SpanRecorder::new(ratio);
    let relay = pipe.relay().traced(tracing(&recorder));
    let pipe = &*pipe;
    relay.run(async { pipe.wait_until(|| pipe.is_done()).await }).await.expect("neither end fails");
    recorder.take()
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.operation.name == name).collect()
}

fn attribute<'a>(span: &'a Span, name: &str) -> Option<&'a Value> {
    span.attributes.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
}

/// A message with a context whose span has this number.
fn message(span: u8, flags: u8) -> Vec<u8> {
    let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00000000000000{span:02x}-{flags:02x}");
    let map = [&b"\x02\xa1\x0btraceparent\xa1\x37"[..], parent.as_bytes()].concat();
    [&b"\x00\x53\x74\xc1"[..], &[map.len() as u8], &map, b"\x00\x53\x75\xa0\x01b"].concat()
}

fn append(pipe: &mut Pipe, contexts: &[(u8, u8)]) {
    for &(span, flags) in contexts {
        pipe.log.append(PartitionId(0), &message(span, flags));
        pipe.appended += 1;
    }
}

fn linked(span: &Span) -> Vec<u8> {
    span.links.iter().map(|link| link.context.span.0[7]).collect()
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_a_span_with_its_sends_and_its_checkpoint_as_parts() {
    let mut pipe = Pipe::new(1, 2);
    pipe.script.reply_by_default(Reply::Accept(ms(30)));
    pipe.append(4);
    let spans = traced(&mut pipe, 1.0).await;
    let [process] = named(&spans, "process")[..] else { panic!("{spans:?}") };
    assert_eq!((process.parent, &process.links[..], &process.failure), (None, &[][..], &None));
    assert!(process.lasted >= ms(30) && process.lasted < ms(40), "{:?}", process.lasted);
    assert_eq!(attribute(process, "messaging.batch.message_count"), Some(&Value::Number(4)));
    assert_eq!(attribute(process, "messaging.destination.partition.id"), Some(&Value::from("0")));
    assert_eq!(attribute(process, "parshall.batch.last_sequence_number"), Some(&Value::Number(3)));
    let sends = named(&spans, "send");
    let counts: Vec<_> = sends.iter().map(|send| attribute(send, "messaging.batch.message_count")).collect();
    assert_eq!(counts, [Some(&Value::Number(2)); 2]);
    let mut partitions: Vec<_> = sends
        .iter()
        .map(|send| format!("{:?}", attribute(send, "messaging.destination.partition.id")))
        .collect();
    partitions.sort();
    assert_eq!(partitions, ["0", "1"].map(|id| format!("{:?}", Some(Value::from(id)))));
    let [checkpoint] = named(&spans, "checkpoint")[..] else { panic!("{spans:?}") };
    let began = |span: &Span| span.ended - span.lasted;
    for send in &sends {
        assert!(
            began(send) >= began(process) && send.ended <= process.ended,
            "{send:?} is not within {process:?}"
        );
    }
    assert!(began(checkpoint) >= process.ended, "{checkpoint:?} covers {process:?}");
    for part in sends.into_iter().chain([checkpoint]) {
        assert_eq!((part.parent, part.context.trace), (Some(process.context.span), process.context.trace));
        assert_ne!(part.context.span, process.context.span);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_event_decides_for_its_batch() {
    for (first, spans_expected) in [(1, 1), (0, 0)] {
        let mut pipe = Pipe::new(1, 1);
        // What the ratio would say is the opposite.
        append(&mut pipe, &[(1, first), (2, 1 - first), (3, 1), (4, 0)]);
        let spans = traced(&mut pipe, 1.0 - f64::from(first)).await;
        assert_eq!(named(&spans, "process").len(), spans_expected, "{spans:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_linked_to_the_sampled_spans_of_its_producers() {
    let mut pipe = Pipe::new(1, 1);
    append(&mut pipe, &[(1, 1), (2, 0), (3, 1), (1, 1)]);
    let spans = traced(&mut pipe, 0.0).await;
    let process = named(&spans, "process")[0];
    assert_eq!(linked(process), [1, 3], "each once");
    assert_eq!(
        process.links[0].context.trace,
        SpanContext::parse(&message(1, 1)[21..76]).expect("one").trace
    );
    assert_ne!(process.context.trace, process.links[0].context.trace, "a batch has many producers");
    assert!(named(&spans, "send")[0].links.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_traced_without_need() {
    let mut pipe = Pipe::new(2, 1);
    pipe.append(40);
    assert!(traced(&mut pipe, 0.0).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_try_of_a_send_is_a_span_and_those_that_fail_say_why() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    pipe.script.reply_next(0, Reply::Lose);
    pipe.append(4);
    let spans = traced(&mut pipe, 1.0).await;
    let sends = named(&spans, "send");
    let kinds: Vec<_> =
        sends.iter().map(|send| send.failure.as_ref().map(|failure| &*failure.kind)).collect();
    assert_eq!((kinds.len(), kinds[1], kinds[2]), (3, Some("timeout"), None), "{kinds:?}");
    assert!(kinds[0].is_some());
    assert_eq!(sends[1].lasted, ms(1_000));
    assert_eq!(named(&spans, "process")[0].failure, None, "it was accepted in the end");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_given_up_says_so_and_comes_again() {
    let mut pipe = Pipe::new(1, 1);
    for _ in 0..3 {
        pipe.script.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    }
    pipe.append(4);
    let spans = traced(&mut pipe, 1.0).await;
    let failures: Vec<_> = named(&spans, "process")
        .iter()
        .map(|process| process.failure.as_ref().map(|failure| failure.kind.clone()))
        .collect();
    assert_eq!(failures, [Some("given-up".to_owned()), None]);
    assert_eq!(named(&spans, "checkpoint").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_covers_several_batches_is_linked_to_them() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.checkpoint = CheckpointPolicy::Every(ms(500));
    pipe.append(12);
    let spans = traced(&mut pipe, 1.0).await;
    let [first, second, third] = named(&spans, "process")[..] else { panic!("{spans:?}") };
    let checkpoint = named(&spans, "checkpoint")[0];
    assert_eq!(checkpoint.parent, Some(first.context.span));
    let links: Vec<_> = checkpoint.links.iter().map(|link| link.context).collect();
    assert_eq!(links, [second.context, third.context]);
}

#[tokio::test(start_paused = true)]
async fn events_that_go_one_by_one_are_traced_up_to_a_bound() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.dispatch_unit = DispatchUnit::Event;
    pipe.options.events_at_once = 8;
    pipe.source_options.batch.max_events = 200;
    pipe.source_options.prefetch = 200;
    pipe.append(200);
    let spans = traced(&mut pipe, 1.0).await;
    assert_eq!(named(&spans, "send").len(), 128);
    assert_eq!(
        attribute(named(&spans, "send")[0], "messaging.batch.message_count"),
        None,
        "one message each"
    );
    let process = named(&spans, "process")[0];
    assert_eq!(attribute(process, "parshall.batch.omitted_send_spans"), Some(&Value::Number(72)));
}
