//! A graceful stop, and metrics while the relay runs.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_stop_finishes_what_is_under_way_and_takes_up_nothing_new() {
    let mut pipe = Pipe::new(1, 2);
    pipe.options.checkpoint = CheckpointPolicy::Every(ms(60_000));
    pipe.script.reply_by_default(Reply::Accept(ms(100)));
    pipe.append(100);
    let summary = pipe.run_until(|pipe| pipe.start.elapsed() >= ms(150)).await;
    assert_eq!(summary.ended, Ended::Finished);
    assert_eq!((pipe.start.elapsed().as_millis(), pipe.accepted_count()), (200, 24));
    assert_eq!(pipe.checkpoint(0), Some(23), "written at the stop, long before its interval");
    pipe.run_to_the_end().await;
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_has_its_limit() {
    let mut pipe = Pipe::new(2, 1);
    pipe.options.retry.try_timeout = ms(60_000);
    pipe.options.stop_timeout = ms(700);
    pipe.script.reply_by_default(Reply::Lose);
    pipe.append(8);
    let summary = pipe.run_until(|pipe| pipe.start.elapsed() >= ms(100)).await;
    assert_eq!(summary.ended, Ended::TimedOut { batches: 2 });
    assert_eq!(pipe.start.elapsed().as_millis(), 800);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_a_checkpoint_that_is_being_written() {
    let mut pipe = Pipe::new(1, 1);
    pipe.store.delay_updates(ms(300));
    pipe.append(4);
    let summary = pipe.run_until(|pipe| pipe.accepted_count() == 4).await;
    assert_eq!((summary.ended, pipe.checkpoint(0)), (Ended::Finished, Some(3)));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_during_a_stop_does_not_start_its_partition_again() {
    let mut pipe = Pipe::new(1, 1);
    let refused = connect::sink::SendError {
        class: connect::sink::ErrorClass::Fatal,
        condition: "test:refused".to_owned(),
        description: "refused".to_owned(),
    };
    pipe.script.reply_next(0, Reply::Refuse(ms(100), refused));
    pipe.append(8);
    let summary = pipe.run_until(|pipe| pipe.start.elapsed() >= ms(50)).await;
    assert_eq!(summary.ended, Ended::Finished);
    assert_eq!((pipe.start.elapsed().as_millis(), pipe.log.opened().len()), (100, 1));
}

#[tokio::test(start_paused = true)]
async fn a_stop_before_the_start_stops() {
    let mut pipe = Pipe::new(1, 1);
    let summary = pipe.run_until(|_| true).await;
    assert_eq!((summary.ended, pipe.log.opened().len()), (Ended::Finished, 0));
}

#[tokio::test(start_paused = true)]
async fn metrics_can_be_asked_for_while_it_runs_and_not_after() {
    let mut pipe = Pipe::new(2, 1);
    pipe.script.reply_by_default(Reply::Lose);
    pipe.append(8);
    let relay = pipe.relay();
    let handle = relay.metrics_handle();
    let shutdown = async {
        tokio::time::sleep(ms(50)).await;
        let metrics = handle.metrics().await.expect("the relay runs");
        assert_eq!((metrics.received_events, metrics.batches_in_flight, metrics.open_partitions), (8, 2, 2));
        assert_eq!(metrics.held_bytes, 56);
    };
    pipe.options.stop_timeout = ms(1);
    relay.run(shutdown).await.expect("neither end fails");
    assert!(handle.metrics().await.is_none());
}
