//! What arrives where, and how much is under way.

use super::*;

#[tokio::test(start_paused = true)]
async fn every_event_arrives_where_its_route_says_with_its_bytes() {
    let mut pipe = Pipe::new(2, 3);
    pipe.append(40);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(pipe.check_delivery(), 0);
    for (destination, events) in pipe.accepted() {
        assert!(events.iter().all(|(_, sequence_number)| sequence_number % 3 == i64::from(destination)));
    }
    let first = &pipe.script.writes()[0];
    assert_eq!(first.messages[0], format!("event {}", first.partition.0), "partition 0 got the even events");
    assert_eq!(summary.ended, Ended::Finished);
    let metrics = summary.metrics;
    assert_eq!((metrics.received_events, metrics.forwarded_events, metrics.received_batches), (40, 40, 10));
    assert_eq!(
        (metrics.completed_batches, metrics.batch_events.max(), metrics.process_us.len()),
        (10, 4, 10)
    );
    assert_eq!((metrics.received_bytes, metrics.forwarded_bytes), (310, 310));
    assert_eq!((metrics.batches_in_flight, metrics.held_bytes), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn all_groups_of_a_batch_are_sent_at_once() {
    let mut pipe = Pipe::new(1, 4);
    pipe.script.reply_by_default(Reply::Accept(ms(10)));
    pipe.fetch_single_batches();
    pipe.append(8);
    pipe.run_to_the_end().await;
    assert_eq!(pipe.sent_at(), [0, 0, 0, 0, 10, 10, 10, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_group_leaves_when_the_one_before_it_for_its_destination_is_accepted() {
    let mut pipe = Pipe::new(1, 2);
    pipe.script.reply_next(0, Reply::Accept(ms(10)));
    pipe.script.reply_next(1, Reply::Accept(ms(30)));
    pipe.run_while_appending(2, ms(5)).await;
    assert_eq!(pipe.sent(), [vec![0, 2], vec![1, 3], vec![4, 6], vec![5, 7]]);
    assert_eq!(pipe.sent_at(), [0, 0, 10, 30]);
    assert_eq!(pipe.written(), [3, 7], "the first batch at 30 ms");
}

#[tokio::test(start_paused = true)]
async fn what_waited_for_a_destination_leaves_in_one_send() {
    let mut pipe = Pipe::new(1, 1);
    pipe.source_options.prefetch = 100;
    pipe.script.reply_by_default(Reply::Accept(ms(20)));
    let metrics = pipe.run_while_appending(9, ms(4)).await.metrics;
    // Batches come at 0, 4, … 32 ms.
    let sizes: Vec<_> = pipe.sent().iter().map(Vec::len).collect();
    assert_eq!((pipe.sent_at(), sizes), (vec![0, 20, 40], vec![4, 20, 12]));
    assert_eq!(pipe.sent().concat(), (0..36).collect::<Vec<_>>());
    assert_eq!((metrics.completed_batches, metrics.forwarded_bytes), (9, metrics.received_bytes));
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_waits_together_is_no_larger_than_the_destination_takes() {
    let mut pipe = Pipe::new(1, 1);
    pipe.source_options.prefetch = 100;
    pipe.script.reply_by_default(Reply::Accept(ms(20)));
    // Two batches: an event encodes to 12 bytes at most.
    pipe.script.limit_batch_bytes(8 * 12);
    pipe.run_while_appending(4, ms(4)).await;
    let sizes: Vec<_> = pipe.sent().iter().map(Vec::len).collect();
    assert_eq!((pipe.sent_at(), sizes), (vec![0, 20, 40], vec![4, 8, 4]));
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_too_large_together_is_sent_apart_and_in_order_from_then_on() {
    let mut pipe = Pipe::new(1, 1);
    pipe.source_options.prefetch = 100;
    pipe.script.reply_by_default(Reply::Accept(ms(20)));
    pipe.script.reply_next(0, Reply::Accept(ms(20)));
    pipe.script.reply_next(0, Reply::refuse(connect::sink::ErrorClass::TooLarge));
    pipe.run_while_appending(6, ms(4)).await;
    let sizes: Vec<_> = pipe.sent().iter().map(Vec::len).collect();
    assert_eq!(sizes, [4, 20, 4, 8, 8], "no more than half of it again");
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_send_of_several_batches_is_tried_again_as_a_whole() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_next(0, Reply::Accept(ms(20)));
    pipe.script.reply_next(0, Reply::Lose);
    let metrics = pipe.run_while_appending(3, ms(4)).await.metrics;
    let again: Vec<i64> = (4..12).collect();
    assert_eq!(pipe.sent(), [(0..4).collect(), again.clone(), again]);
    assert_eq!(pipe.sent_at(), [0, 20, 1_120]);
    assert_eq!((metrics.doubtful_events, metrics.forwarded_events), (8, 12));
}

#[tokio::test(start_paused = true)]
async fn batches_grow_while_the_most_that_may_be_under_way_are() {
    let mut pipe = Pipe::new(1, 1);
    pipe.source_options.prefetch = 1_000;
    pipe.source_options.batch.max_events = 100;
    pipe.options.retry.try_timeout = ms(10_000);
    pipe.script.reply_next(0, Reply::Accept(ms(1_000)));
    let metrics = pipe.run_while_appending(100, ms(2)).await.metrics;
    // One on its way, 31 behind it, and the 272 events that came after these in two full batches and a last one.
    assert_eq!((metrics.received_batches, metrics.batch_events.max()), (35, 100));
    let sizes: Vec<_> = pipe.sent().iter().map(Vec::len).collect();
    assert_eq!(sizes, [4, 224, 100, 72], "32 batches at a time");
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn partitions_do_not_wait_for_one_another() {
    let mut pipe = Pipe::new(2, 1);
    pipe.options.retry.try_timeout = ms(10_000);
    pipe.script.reply_next(0, Reply::Accept(ms(5_000)));
    pipe.append(40);
    pipe.run_until(|pipe| pipe.start.elapsed() > ms(100)).await;
    let slow = pipe.script.writes()[0].partition;
    let others = pipe.script.accepted(0).iter().filter(|(partition, _)| *partition != slow).count();
    assert_eq!(others, 20);
}

#[tokio::test(start_paused = true)]
async fn several_sends_to_a_destination_may_be_under_way_and_the_checkpoint_waits_for_the_oldest() {
    let mut pipe = Pipe::new(1, 1);
    pipe.options.in_flight = 3;
    pipe.script.reply_next(0, Reply::Accept(ms(30)));
    pipe.run_while_appending(3, ms(4)).await;
    assert_eq!(pipe.sent_at(), [0, 4, 8]);
    assert_eq!(pipe.written(), [11]);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_too_large_at_once_is_sent_in_parts_one_after_the_other() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_by_default(Reply::Accept(ms(10)));
    // Each event is 7 bytes and encodes to 11: three fit, and the fourth is one byte too many.
    pipe.script.limit_batch_bytes(43);
    pipe.append(4);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(pipe.sent(), [vec![0, 1, 2], vec![3]]);
    assert_eq!(pipe.sent_at(), [0, 10]);
    assert_eq!((summary.metrics.split_sends, summary.metrics.forwarded_events), (1, 4));
}

#[tokio::test(start_paused = true)]
async fn a_group_that_just_fits_is_not_divided() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.limit_batch_bytes(44);
    pipe.append(4);
    pipe.run_to_the_end().await;
    assert_eq!(pipe.script.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_takes_less_than_it_said_gets_half() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.reply_next(0, Reply::refuse(connect::sink::ErrorClass::TooLarge));
    pipe.append(4);
    pipe.run_to_the_end().await;
    assert_eq!(pipe.sent(), [vec![0, 1, 2, 3], vec![0, 1], vec![2, 3]]);
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn single_events_of_a_batch_are_sent_without_waiting_and_the_next_batch_after_them() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.send_by(SendUnit::Event);
    pipe.script.reply_by_default(Reply::Accept(ms(10)));
    pipe.append(8);
    pipe.run_to_the_end().await;
    assert_eq!(pipe.sent_at(), [0, 0, 0, 0, 10, 10, 10, 10]);
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_busy_sink_holds_everything_up_and_nothing_is_lost_or_reordered() {
    let mut pipe = Pipe::new(3, 4);
    pipe.script.limit_unanswered(2);
    pipe.script.reply_by_default(Reply::Accept(ms(1)));
    pipe.append(120);
    let summary = pipe.run_to_the_end().await;
    assert_eq!(pipe.check_delivery(), 0);
    assert!(summary.metrics.busy_sink > 0);
    // At least 120 sends of no more than what was fetched, 2 at a time.
    assert!(pipe.start.elapsed() >= ms(20), "{:?}", pipe.start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_accepts_nothing_stops_the_source_at_its_prefetch() {
    let mut pipe = Pipe::new(1, 1);
    pipe.script.limit_unanswered(0);
    pipe.options.stop_timeout = ms(100);
    pipe.append(100);
    let summary = pipe.run_until(|pipe| pipe.start.elapsed() > ms(1_000)).await;
    assert_eq!(summary.metrics.received_events, 12);
    assert_eq!(summary.ended, Ended::TimedOut { batches: 3 });
}

#[tokio::test(start_paused = true)]
async fn no_more_bytes_are_held_than_allowed_but_for_one_batch() {
    let mut pipe = Pipe::new(8, 1);
    pipe.script.reply_by_default(Reply::Accept(ms(10)));
    pipe.options.max_held_bytes = 65;
    pipe.fetch_single_batches();
    pipe.append(64);
    pipe.run_to_the_end().await;
    // A batch is 28 bytes or a little more, so the third one reaches the bound.
    let sent_at = pipe.sent_at();
    let most = sent_at.iter().map(|at| sent_at.iter().filter(|other| *other == at).count()).max();
    assert_eq!(most, Some(3));
    assert_eq!(pipe.check_delivery(), 0);
}

#[tokio::test(start_paused = true)]
async fn more_destinations_than_the_sink_has_are_refused_at_once() {
    let mut pipe = Pipe::new(1, 4);
    for fan_out in [0, 5] {
        let options = RelayOptions { fan_out, ..pipe.options.clone() };
        let source = MemorySource::new(&pipe.log, pipe.source_options);
        let sink = pipe.sink.take().unwrap_or_else(|| pipe.script.sink());
        let refused =
            Relay::new(options, Box::new(source), vec![Box::new(sink)], Arc::new(pipe.store.clone()));
        assert!(matches!(refused, Err(RelayError::FanOut { destinations: 4, .. })));
    }
}
