//! Programs that are shell scripts, which speak with nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use connect::event::EventBatch;
use connect::sink::{OutgoingBatch, SendToken, Sink as _};
use connect::source::{Source as _, SourceEvent, StartPosition};

use connect::event::PartitionId;

use super::reached::By;
use super::*;
use crate::clock::{RunClock, RunTime};
use crate::payload::{Header, PayloadWriter};
use crate::roles::amqp_codec::AmqpCodec;
use crate::roles::backend::MessageCodec as _;
use crate::roles::kafka_codec::KafkaCodec;
use crate::scenario::{Buffering, Connections, Delay, KafkaProperties, Producer, Protocol};

fn program(script: &str) -> ClientProgram {
    ClientProgram {
        name: "mine".to_owned(),
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        env: BTreeMap::new(),
        ready_within: Duration::from_secs(60),
        requires: Vec::new(),
        build: None,
    }
}

fn topic<'a>(program: &'a ClientProgram, properties: &'a KafkaProperties) -> Reached<'a> {
    Reached {
        program,
        protocol: Protocol::Kafka,
        name: "events",
        partitions: 2,
        clock: RunClock::starting_now(),
        by: By::Properties(properties),
        producer: None,
    }
}

fn hub<'a>(program: &'a ClientProgram, producer: &'a Producer) -> Reached<'a> {
    let by = By::ConnectionString { text: "Endpoint=sb://here", authority: Some("/tmp/ca.pem".as_ref()) };
    let clock = RunClock::starting_now();
    let producer = Some(producer);
    Reached { program, protocol: Protocol::Amqp, name: "events", partitions: 2, clock, by, producer }
}

async fn sink(script: &str) -> Result<ProgramSink, ProgramError> {
    let properties = KafkaProperties::from_iter([("bootstrap.servers", "here:1"), ("acks", "1")]);
    ProgramSink::start(&topic(&program(script), &properties)).await
}

/// Two records, the second of which is refused: the whole send is.
#[tokio::test]
async fn a_send_is_accepted_when_each_of_its_records_is() {
    let script = r#"test "$PARSHALL_CLIENT $PARSHALL_TOPIC $PARSHALL_PARTITIONS" = "producer events 2" || exit 7
        echo noise; echo ready
        while read word number partition payload; do
            case $payload in aGVsbG8=) echo "sent $number";; *) echo "failed $number too long";; esac
        done"#;
    let mut sink = sink(script).await.expect("it is ready");
    let mut batch = EventBatch::default();
    for payload in [&b"hello"[..], b"world"] {
        let mut message = BytesMut::new();
        KafkaCodec.encode(None, payload, &mut message);
        batch.push_message(&Bytes::from(message), 0);
    }
    sink.send(SendToken(1), OutgoingBatch::new(0, &batch, &[0])).expect("there is room");
    sink.send(SendToken(2), OutgoingBatch::new(1, &batch, &[0, 1])).expect("there is room");
    let mut outcomes = Vec::new();
    while outcomes.len() < 2 {
        poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.expect("it goes on");
    }
    assert_eq!(outcomes[0].token, SendToken(1));
    assert!(outcomes[0].result.is_ok());
    let error = outcomes[1].result.as_ref().expect_err("it is refused");
    assert_eq!((outcomes[1].token, error.description.as_str()), (SendToken(2), "too long"));
    Box::new(sink).shut_down().await;
}

#[tokio::test]
async fn records_come_in_batches_of_those_that_arrived_together() {
    let script = r#"echo ready; read one; read two
        test "$one $two" = "open 0 earliest open 1 7" || exit 7
        echo "received 0 0 100 YQ=="; echo "received 0 1 100 Yg=="; echo "received 1 7 100 Yw=="
        echo "received 1 8 200 ZA=="; read end"#;
    let (program, properties) = (program(script), KafkaProperties::default());
    let mut source = ProgramSource::start(&topic(&program, &properties)).await.expect("it is ready");
    source.open(PartitionId(0), StartPosition::Earliest);
    source.open(PartitionId(1), StartPosition::AfterSequenceNumber(6));
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let event = poll_fn(|context| source.poll_batch(context)).await.expect("it goes on");
        let SourceEvent::Batch(batch) = event else { panic!("{event:?}") };
        for event in batch.events() {
            let payload = KafkaCodec.decode(batch.message(event)).expect("a record").payload.to_vec();
            seen.push((batch.partition().0, event.sequence_number, batch.receipt().0, payload));
        }
        source.release(batch);
    }
    let expected = [(0, 0, 100, b"a"), (0, 1, 100, b"b"), (1, 7, 100, b"c"), (1, 8, 200, b"d")];
    assert_eq!(
        seen,
        expected.map(|(partition, offset, at, payload)| (partition, offset, at, payload.to_vec()))
    );
}

#[tokio::test]
async fn a_program_that_can_not_be_the_client_says_why() {
    let error = sink("echo 'error no broker at here:1'; sleep 100").await.expect_err("it refuses");
    assert_eq!(error.to_string(), "the client `mine` can't go on: no broker at here:1");
    let error = sink("exit 3").await.expect_err("it ends");
    assert!(error.to_string().contains("ended before it was ready (exit status: 3)"), "{error}");
    let mut impatient = program("sleep 100");
    impatient.ready_within = Duration::from_millis(10);
    let properties = KafkaProperties::default();
    let error = ProgramSink::start(&topic(&impatient, &properties)).await.expect_err("it is late");
    assert!(error.to_string().contains("did not say `ready` within 10 ms"), "{error}");
    let properties = KafkaProperties::from_iter([("ssl.key.pem", "one\ntwo")]);
    let error = ProgramSink::start(&topic(&impatient, &properties)).await.expect_err("it is several lines");
    assert!(error.to_string().contains("ssl.key.pem"), "{error}");
}

#[tokio::test]
async fn a_program_that_ends_ends_the_sink_and_the_source() {
    let mut sink = sink("echo ready").await.expect("it is ready");
    let error = poll_fn(|context| sink.poll_outcomes(context, &mut Vec::new())).await.expect_err("it ended");
    assert!(error.to_string().contains("it ended"), "{error}");
    for (script, reason) in [
        ("echo ready", "mine: it ended"),
        ("echo ready; echo 'received 2 0 0 YQ=='; read end", "it says what can't be understood: `received 2"),
        ("echo ready; echo 'error the topic is gone'; read end", "mine: the topic is gone"),
    ] {
        let (program, properties) = (program(script), KafkaProperties::default());
        let mut source = ProgramSource::start(&topic(&program, &properties)).await.expect("it is ready");
        let error = poll_fn(|context| source.poll_batch(context)).await.expect_err("it failed");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

/// Two events are one line, and one answer.
#[tokio::test]
async fn a_call_is_a_line_with_the_heads_of_its_events() {
    let script = r#"test "$PARSHALL_PROTOCOL $PARSHALL_CONNECTIONS $PARSHALL_POOL" = "amqp pooled 7" || exit 7
        echo ready
        while read word number bytes heads; do
            case "$word $number $bytes" in "call 0 32") echo "sent 0";; *) echo "failed $number $heads";; esac
        done"#;
    let producer = Producer { connections: Connections::Pooled, pool: 7, ..Producer::default() };
    let program = program(script);
    let mut sink = ProgramSink::start(&hub(&program, &producer)).await.expect("it is ready");
    assert_eq!(sink.destinations(), 1, "who sends chooses the partition");
    let writer = PayloadWriter::new(32, 1).expect("a possible length");
    let mut batch = EventBatch::default();
    let mut heads = Vec::new();
    for sequence in 0..2 {
        let header = Header { run: 1, stream: 2, sequence, intended: RunTime::from_micros(3) };
        let mut payload = [0; 32];
        writer.write(header, RunTime::from_micros(4), &mut payload);
        heads.extend_from_slice(&header.to_bytes());
        let mut message = BytesMut::new();
        AmqpCodec.encode(None, &payload, &mut message);
        batch.push_message(&Bytes::from(message), 0);
    }
    for token in [1, 2] {
        sink.send(SendToken(token), OutgoingBatch::new(0, &batch, &[0, 1])).expect("there is room");
    }
    let mut outcomes = Vec::new();
    while outcomes.len() < 2 {
        poll_fn(|context| sink.poll_outcomes(context, &mut outcomes)).await.expect("it goes on");
    }
    assert!(outcomes[0].result.is_ok());
    let error = outcomes[1].result.as_ref().expect_err("it is refused");
    assert_eq!(error.description, STANDARD.encode(&heads), "all heads, and nothing else");
    Box::new(sink).shut_down().await;
}

/// The variables in the document, and those that programs of all kinds get.
#[test]
fn the_document_names_the_variables_that_a_program_gets() {
    let document = include_str!("../../../../../docs/external-clients.md");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `PARSHALL_")?.split('`').next());
    let documented: BTreeSet<String> = rows.map(|name| format!("PARSHALL_{name}")).collect();
    let program = program("true");
    let properties = KafkaProperties::from_iter([("acks", "1")]);
    let producer = Producer {
        connections: Connections::Pooled,
        buffering: Buffering::Safe,
        delay: Delay::After(Duration::from_millis(5)),
        ..Producer::default()
    };
    let of = |reached: &Reached<'_>| reached.variables(Half::Producer).expect("no property has two lines");
    let told = [of(&topic(&program, &properties)), of(&hub(&program, &producer))];
    let told: BTreeSet<String> = told.iter().flat_map(|all| all.keys().map(ToString::to_string)).collect();
    assert_eq!(documented, told);
}
