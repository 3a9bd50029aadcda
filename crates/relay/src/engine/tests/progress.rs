//! Checkpoints: when they are written, what they cover, and where partitions start.

use super::*;

#[tokio::test(start_paused = true)]
async fn each_batch_is_checkpointed_when_the_store_keeps_up() {
    let mut pipe = Pipe::new(1, 2);
    pipe.fetch_single_batches();
    pipe.append(12);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(pipe.written(), [3, 7, 11]);
    assert_eq!((summary.metrics.checkpoints, summary.metrics.checkpoint_us.len()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn while_one_checkpoint_is_written_the_others_coalesce() {
    let mut pipe = Pipe::new(1, 1);
    pipe.store.delay_updates(ms(50));
    pipe.script.reply_by_default(Reply::Accept(ms(10)));
    pipe.fetch_single_batches();
    pipe.append(80);
    let summary = pipe.run_to_the_end().await;
    // A batch is accepted every 10 ms; a checkpoint takes 50.
    assert_eq!(pipe.written(), [3, 23, 43, 63, 79]);
    assert_eq!(summary.metrics.checkpoint_us.max() / 1_000, 50);
    assert_eq!(
        pipe.start.elapsed().as_millis(),
        261,
        "the last one begins at 210 ms, and is seen 1 ms later"
    );
}

#[tokio::test(start_paused = true)]
async fn progress_is_written_at_intervals_if_so_chosen() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.checkpoint = CheckpointPolicy::Every(ms(100));
    pipe.script.reply_by_default(Reply::Accept(ms(10)));
    pipe.fetch_single_batches();
    pipe.append(100);
    pipe.run_until(|pipe| pipe.accepted_count() == 100).await;
    // 25 batches in 250 ms: two intervals, what is there when the stop begins, and the last batch.
    let written = pipe.written();
    assert_eq!(written.len(), 4, "{written:?}");
    assert_eq!(written[3], 99);
}

#[tokio::test(start_paused = true)]
async fn partitions_take_turns_at_the_pace_of_the_store() {
    const PARTITIONS: u32 = 8;
    let mut pipe = Pipe::new(PARTITIONS, 1);
    pipe.store.ask_for_pace(ms(10));
    pipe.append(32_000);
    let summary = pipe.run_until(|pipe| pipe.accepted_count() == 32_000).await;
    // Some more at once in the beginning, one per 10 ms from then on, and the last of each partition.
    let most = 33 + pipe.start.elapsed().as_millis() as u64 / 10 + u64::from(PARTITIONS);
    let written = summary.metrics.checkpoints;
    assert!(written <= most, "{written} in {:?}", pipe.start.elapsed());
    let of = |partition| {
        let updates = pipe.store.updates().into_iter();
        updates.filter(move |it| it.partition == PartitionId(partition)).count()
    };
    let (least, most) = (0..PARTITIONS)
        .map(of)
        .fold((usize::MAX, 0), |(least, most), count| (least.min(count), most.max(count)));
    assert!(most <= least + 3, "from {least} to {most} per partition");
    assert!(pipe.is_done(), "the last ones are not kept waiting");
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_cannot_be_written_is_tried_again() {
    let mut pipe = Pipe::new(1, 1);
    pipe.store.fail_updates(2);
    pipe.append(4);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(summary.metrics.failed_checkpoints, 2);
    assert_eq!(pipe.start.elapsed().as_millis(), 301, "after 100 and 200 ms, noticed after 1 ms");
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_partition_whose_checkpoints_fail_for_good_stops_and_starts_again() {
    let mut pipe = Pipe::new(1, 1);
    pipe.store.fail_updates(3);
    pipe.append(4);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(summary.metrics.failed_checkpoints, 3);
    assert_eq!(pipe.sent_at(), [0, 800], "given up at 300 ms, reopened 500 ms later");
    assert_eq!(pipe.check_delivery(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_partition_starts_after_its_checkpoint_and_otherwise_where_the_options_say() {
    let mut pipe = Pipe::new(3, 1);
    pipe.options.start_position = StartPosition::Latest;
    let (sequence_number, offset) = (Some(41), Some("opaque".to_owned()));
    for (partition, sequence_number, offset) in [(0, sequence_number, offset), (2, Some(7), None)] {
        let partition = PartitionId(partition);
        let checkpoint =
            Checkpoint { group: group(), partition, sequence_number, offset, log_id: None, etag: None };
        pipe.store.update_checkpoint(checkpoint).await.expect("the store works");
    }
    pipe.run_until(|_| true).await;
    pipe.run_until(|pipe| pipe.start.elapsed() > ms(5)).await;
    let opened: Vec<_> = pipe.log.opened().into_iter().map(|(_, position)| position).collect();
    let after_offset = StartPosition::AfterOffset("opaque".to_owned());
    assert_eq!(opened, [after_offset, StartPosition::Latest, StartPosition::AfterSequenceNumber(7)]);
}

#[tokio::test(start_paused = true)]
async fn checkpoints_that_cannot_be_read_at_the_start_end_the_relay() {
    let mut pipe = Pipe::new(1, 1);
    pipe.store.fail_lists(1);
    let relay = pipe.relay();
    assert!(matches!(relay.run(std::future::pending()).await, Err(RelayError::Store(_))));
}

#[tokio::test(start_paused = true)]
async fn checkpoints_that_cannot_be_read_at_a_restart_let_the_partition_rest_once_more() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_next(0, Reply::refuse(connect::sink::ErrorClass::Fatal));
    pipe.append(4);
    let relay = pipe.relay();
    let shutdown = async {
        pipe.wait_until(|| pipe.script.writes().len() == 1).await;
        pipe.store.fail_lists(1);
        pipe.wait_until(|| pipe.is_done()).await;
    };
    relay.run(shutdown).await.expect("neither end fails");
    assert_eq!(pipe.sent_at(), [0, 1_000]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_starts_again_only_after_its_last_checkpoint_is_written() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.retry.try_timeout = ms(5_000);
    pipe.store.delay_updates(ms(2_000));
    pipe.script.reply_next(0, Reply::Accept(ms(1)));
    pipe.script.reply_next(0, Reply::refuse(connect::sink::ErrorClass::Fatal));
    pipe.fetch_single_batches();
    pipe.append(8);
    pipe.run_to_the_end().await;
    assert_eq!(pipe.sent_at(), [0, 1, 2_001]);
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_in_time_has_failed() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.retry.try_timeout = ms(1_000);
    pipe.store.delay_updates(Duration::MAX);
    pipe.append(4);
    let relay = pipe.relay();
    let shutdown = async {
        pipe.wait_until(|| pipe.start.elapsed() > ms(1_500)).await;
        pipe.store.delay_updates(Duration::ZERO);
        pipe.wait_until(|| pipe.is_done()).await;
    };
    let summary = relay.run(shutdown).await.expect("neither end fails");
    // The first writing, and two more, which wait for the first to come to its end. Then the partition starts again and
    // again, until the first is taken for lost.
    assert_eq!(summary.metrics.failed_checkpoints, 3);
    assert!(pipe.start.elapsed() > ms(10_000), "it was not waited for");
    assert_eq!(pipe.written(), [3]);
    assert_eq!(pipe.check_delivery(), 4);
}
