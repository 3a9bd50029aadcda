//! Programs that are shell scripts, which speak with nobody.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use connect::event::EventBatch;
use connect::sink::{OutgoingBatch, SendToken, Sink as _};
use connect::source::{Source as _, SourceEvent, StartPosition};

use connect::event::PartitionId;

use super::*;
use crate::roles::backend::MessageCodec as _;
use crate::roles::kafka_codec::KafkaCodec;

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

fn topic<'a>(program: &'a ClientProgram, properties: &'a KafkaProperties) -> Topic<'a> {
    Topic { program, name: "events", partitions: 2, properties, clock: RunClock::starting_now() }
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

#[tokio::test]
async fn the_document_names_the_variables_that_a_program_gets() {
    let document = include_str!("../../../../../docs/external-clients.md");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `PARSHALL_")?.split('`').next());
    let documented: Vec<String> = rows.map(|name| format!("PARSHALL_{name}")).collect();
    assert_eq!(documented.len(), 5);
    let script = r#"for name in $(env | sed -n 's/^\(PARSHALL_[A-Z_]*\)=.*/\1/p' | sort); do all="$all $name"; done
        echo "error$all""#;
    let error = sink(script).await.expect_err("it says them in place of a reason").to_string();
    let (_, told) = error.split_once(": ").expect("a reason");
    let told: Vec<&str> = told.split(' ').collect();
    assert!(documented.iter().all(|name| told.contains(&name.as_str())), "{told:?}");
}
