//! A relay that ends because of an error: it stops in good order, as far as that is possible, and does not take long.

use connect::event::Encoding;
use connect::fakes::{MemoryQueue, MessageState, QueueSource};
use connect::service::ServiceError;
use connect::sink::{ErrorClass, OutgoingBatch, SendError, SendToken, SinkBusy};

use super::sharing::Group;
use super::*;
use crate::options::SettlingOptions;

const FORBIDDEN: &str = "amqp:unauthorized-access";

fn source_error() -> SourceError {
    SourceError {
        class: ErrorClass::Fatal,
        condition: "amqp:not-found".to_owned(),
        description: "said the service".to_owned(),
    }
}

fn sink_error() -> SinkError {
    SinkError { condition: FORBIDDEN.to_owned(), description: "said the service".to_owned() }
}

fn forbidden(delay: Duration) -> Reply {
    let error = SendError {
        class: ErrorClass::Fatal,
        condition: FORBIDDEN.to_owned(),
        description: "said the service".to_owned(),
    };
    Reply::Refuse(delay, error)
}

fn throttled() -> Reply {
    Reply::refuse(ErrorClass::Throttled { retry_after: ms(30_000) })
}

/// Runs a relay that shares partitions until something ends it, and checks that it has given all of them back.
async fn gives_its_claims_back(
    end: impl FnOnce(&Group, &SinkScript),
    expected: impl FnOnce(&RelayError) -> bool,
) {
    let group = Group::new();
    let relay = group.relay("a");
    group.until_shares_are(&[("a", 8)]).await;
    group.append(16);
    group.until_done().await;
    end(&group, &relay.script);
    group.append(8);
    let ended = relay.task.await.expect("no panic");
    let error = ended.expect_err("it can't go on");
    assert!(expected(&error), "{error}");
    group.until_shares_are(&[("", 8)]).await;
}

#[tokio::test(start_paused = true)]
async fn claims_are_given_back_whatever_ends_the_relay() {
    gives_its_claims_back(
        |group, _| group.log.fail_partition(PartitionId(1), source_error()),
        |error| matches!(error, RelayError::Source(_)),
    )
    .await;
    gives_its_claims_back(
        |group, _| group.log.fail(source_error()),
        |error| matches!(error, RelayError::Source(_)),
    )
    .await;
    gives_its_claims_back(
        |_, script| script.reply_next(0, forbidden(ms(1))),
        |error| matches!(error, RelayError::Sink { .. }),
    )
    .await;
    gives_its_claims_back(
        |_, script| script.fail(sink_error()),
        |error| matches!(error, RelayError::Sink { .. }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn claims_are_given_back_when_the_first_checkpoints_can_not_be_read() {
    let group = Group::new();
    group.store.fail_lists(1);
    let ended = group.relay("a").task.await.expect("no panic");
    assert!(matches!(ended, Err(RelayError::Store(_))), "{ended:?}");
    group.until_shares_are(&[("", 8)]).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_when_the_source_fails_is_finished_and_covered() {
    for whole in [false, true] {
        let mut pipe = Pipe::new(2, 1);
        pipe.script.reply_by_default(Reply::Accept(ms(200)));
        pipe.append(8);
        let relay = pipe.relay();
        let pipe = &pipe;
        let fail = async {
            pipe.wait_until(|| pipe.sent().len() == 2).await;
            match whole {
                true => pipe.log.fail(source_error()),
                false => pipe.log.fail_partition(PartitionId(1), source_error()),
            }
            pipe.log.append(PartitionId(0), b"comes too late");
            std::future::pending().await
        };
        let ended = relay.run(fail).await;
        assert!(matches!(ended, Err(RelayError::Source(_))), "{ended:?}");
        let covered = [0, 1].map(|partition| pipe.checkpoint(partition));
        assert_eq!(covered, [Some(3), Some(3)]);
        assert_eq!(pipe.sent().len(), 2, "nothing new is taken up");
        assert!(pipe.start.elapsed() < ms(300), "{:?}", pipe.start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_refuses_for_good_is_tried_no_more_by_anyone() {
    let mut pipe = Pipe::new(3, 1);
    pipe.script.reply_next(0, throttled());
    pipe.script.reply_next(0, forbidden(ms(50)));
    pipe.script.reply_next(0, Reply::refuse(ErrorClass::Retryable));
    pipe.append(12);
    let ended = pipe.relay().run(std::future::pending()).await;
    assert!(matches!(ended, Err(RelayError::Sink { .. })), "{ended:?}");
    // The others waited for another try, one of them for half a minute.
    assert_eq!(pipe.sent().len(), 3);
    assert!(pipe.start.elapsed() < ms(100), "{:?}", pipe.start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_was_accepted_before_the_sink_failed_is_covered() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.checkpoint = CheckpointPolicy::Every(ms(60_000));
    pipe.append(4);
    let relay = pipe.relay();
    let pipe = &mut pipe;
    let script = pipe.script.clone();
    let log = pipe.log.clone();
    let fail = async {
        while script.accepted(0).len() < 4 {
            tokio::time::sleep(ms(1)).await;
        }
        tokio::time::sleep(ms(10)).await;
        script.reply_by_default(Reply::Lose);
        for _ in 0..4 {
            log.append(PartitionId(0), b"is never answered");
        }
        tokio::time::sleep(ms(10)).await;
        script.fail(sink_error());
        std::future::pending().await
    };
    let ended = relay.run(fail).await;
    assert!(matches!(ended, Err(RelayError::Sink { .. })), "{ended:?}");
    assert_eq!(pipe.checkpoint(0), Some(3));
    assert!(pipe.start.elapsed() < ms(100), "{:?}", pipe.start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_sink_without_a_connection_is_not_waited_for() {
    let mut pipe = Pipe::new(1, 1);
    pipe.append(4);
    pipe.script.reply_by_default(Reply::Lose);
    let sink = Unreachable(pipe.sink.take().expect("the first relay"));
    let source = MemorySource::new(&pipe.log, pipe.source_options);
    let store = Arc::new(pipe.store.clone());
    let relay = Relay::new(pipe.options.clone(), Box::new(source), vec![Box::new(sink)], store)
        .expect("one destination");
    let pipe = &pipe;
    let fail = async {
        pipe.wait_until(|| pipe.sent().len() == 1).await;
        pipe.log.fail_partition(PartitionId(0), source_error());
        std::future::pending().await
    };
    let ended = relay.run(fail).await;
    assert!(matches!(ended, Err(RelayError::Source(_))), "{ended:?}");
    assert!(pipe.start.elapsed() < ms(100), "{:?}", pipe.start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn messages_are_given_back_at_no_cost_when_the_destination_is_gone() {
    let queue = MemoryQueue::new();
    for _ in 0..8 {
        queue.put(b"message");
    }
    let (sink, script) = ScriptedSink::new(1);
    script.send_by(connect::sink::SendUnit::Event);
    script.reply_next(0, Reply::Accept(ms(20)));
    script.reply_next(0, throttled());
    script.reply_by_default(forbidden(ms(5)));
    let source = QueueSource::new(&queue, 4);
    let relay = Relay::settling(SettlingOptions::default(), Box::new(source), vec![Box::new(sink)])
        .expect("one destination");
    let start = Instant::now();
    let ended = relay.run(std::future::pending()).await;
    assert!(matches!(ended, Err(RelayError::Sink { .. })), "{ended:?}");
    assert_eq!(queue.count(MessageState::Completed), 1);
    assert_eq!(queue.count(MessageState::Locked), 0);
    assert_eq!(queue.delivery_counts(), [0; 8]);
    assert!(start.elapsed() < ms(100), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn without_its_queue_a_relay_has_nothing_to_wait_for() {
    let queue = MemoryQueue::new();
    queue.put(b"message");
    let (sink, script) = ScriptedSink::new(1);
    script.reply_by_default(Reply::Lose);
    let source = QueueSource::new(&queue, 4);
    let relay = Relay::settling(SettlingOptions::default(), Box::new(source), vec![Box::new(sink)])
        .expect("one destination");
    let start = Instant::now();
    let fail = async {
        tokio::time::sleep(ms(10)).await;
        queue.fail(source_error());
        queue.put(b"wakes it");
        std::future::pending().await
    };
    let ended = relay.run(fail).await;
    assert!(matches!(ended, Err(RelayError::Source(_))), "{ended:?}");
    assert!(start.elapsed() < ms(100), "{:?}", start.elapsed());
}

/// A sink whose connection is gone as soon as something was sent.
#[derive(Debug)]
struct Unreachable(ScriptedSink);

impl Sink for Unreachable {
    fn takes(&self, encoding: Encoding) -> bool {
        self.0.takes(encoding)
    }

    fn destinations(&self) -> u32 {
        self.0.destinations()
    }

    fn max_batch_bytes(&self, destination: u32) -> usize {
        self.0.max_batch_bytes(destination)
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        self.0.encoded_len(message_len)
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        self.0.poll_ready(context)
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        self.0.send(token, outgoing)
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        self.0.poll_outcomes(context, outcomes)
    }

    fn outage(&self) -> Option<&ServiceError> {
        static GONE: std::sync::LazyLock<ServiceError> = std::sync::LazyLock::new(|| ServiceError {
            class: ErrorClass::Retryable,
            condition: "connection:lost".to_owned(),
            description: "reset by peer".to_owned(),
        });
        Some(&GONE)
    }
}
