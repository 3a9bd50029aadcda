//! What a relay did, for a person.

use relay::metrics::Metrics;
use relay::{Ended, Summary};

/// What a relay did whose source settles its events, or does not.
pub(super) fn render(summary: &Summary, settles: bool) -> String {
    let Metrics {
        received_events,
        received_batches,
        forwarded_events,
        completed_events,
        missed_events,
        poison_events,
        unreadable_batches,
        unreadable_records,
        restarted_partitions,
        retries,
        failed_batches,
        doubtful_events,
        redelivered_events,
        abandoned_events,
        released_events,
        dead_lettered_events,
        lock_lost_events,
        unsettled_events,
        lock_renewals,
        failed_lock_renewals,
        checkpoints,
        failed_checkpoints,
        claimed_partitions,
        lost_partitions,
        returned_partitions,
        ..
    } = summary.metrics;
    let ended = match summary.ended {
        Ended::Finished => "Stopped gracefully.".to_owned(),
        Ended::TimedOut { batches } => {
            format!("Stopped with {batches} batches in flight, which will be read and sent again.")
        }
    };
    let shared = if claimed_partitions == 0 {
        String::new()
    } else {
        format!(
            "ownership    {claimed_partitions} partitions claimed, {lost_partitions} lost, {returned_partitions} \
             released\n"
        )
    };
    let restarted = match restarted_partitions {
        0 => String::new(),
        times => {
            format!("restarted    {times} partitions whose numbering the source restarted\n")
        }
    };
    let poison = match poison_events {
        0 => String::new(),
        events => {
            format!(
                "poison       {events} events refused permanently, {dead_lettered_events} dead-lettered\n"
            )
        }
    };
    let unreadable = match unreadable_batches {
        0 => String::new(),
        batches => format!("unreadable   {unreadable_records} records in {batches} batches\n"),
    };
    let filtered = match summary.metrics.filtered_events.iter().sum::<u64>() {
        0 => String::new(),
        events => format!("filtered     {events}, by a filter or the condition of a sink\n"),
    };
    let (events, batches) = match settles {
        true => ("messages", String::new()),
        false => ("events", format!(" in {received_batches} batches")),
    };
    let progress = if !settles {
        format!(
            "completed    {completed_events} events, in complete batches\n\
             missed       {missed_events} events removed before they were read\n{restarted}{poison}{unreadable}\
             in doubt     {doubtful_events} events of sends without an outcome\n\
             retries      {retries}, failed batches {failed_batches}\n\
             checkpoints  {checkpoints} written, {failed_checkpoints} failed\n{shared}"
        )
    } else {
        format!(
            "completed    {completed_events} messages, {redelivered_events} redelivered\n\
             returned     {abandoned_events} abandoned, {released_events} released\n\
             dead letters {dead_lettered_events} messages\n\
             locks        {lock_lost_events} lost, {lock_renewals} renewed, {failed_lock_renewals} not renewed\n\
             in doubt     {doubtful_events} sends without an outcome, {unsettled_events} settlements\n\
             retries      {retries}\n"
        )
    };
    format!(
        "{ended}\n\
         received     {received_events} {events}{batches}\n\
         forwarded    {forwarded_events} {events}\n{filtered}{progress}"
    )
}
