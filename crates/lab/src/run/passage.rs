//! The parts of a record's way between two clients of Kafka, of which all see the same records: they add up to the whole.

use std::collections::BTreeMap;

use crate::{
    record::{ReadRecords, ServedRecords},
    results::{Mean, Stage},
};

/// The mean of each part, where the service has told of every record that the sink has read; none otherwise.
pub(super) fn means(read: &[ReadRecords], served: &[ServedRecords]) -> BTreeMap<Stage, Mean> {
    let of_both = read.iter().map(|read| read.records).eq(served.iter().map(|served| served.records));
    if !of_both || read.is_empty() {
        return BTreeMap::new();
    }
    let at_sink = |sum: fn(&ReadRecords) -> u64| read.iter().map(|read| i128::from(sum(read))).sum::<i128>();
    let at_service =
        |sum: fn(&ServedRecords) -> u64| served.iter().map(|served| i128::from(sum(served))).sum::<i128>();
    let records = read.iter().map(|read| read.records).sum();
    let instants = [
        at_sink(|read| read.intended_us),
        at_sink(|read| read.sent_us),
        at_service(|served| served.received_us),
        at_service(|served| served.appended_us),
        at_service(|served| served.visible_us),
        at_service(|served| served.asked_us),
        at_sink(|read| read.arrived_us),
    ];
    let parts = Stage::OF_RECORD.into_iter().zip(instants.windows(2));
    let means: BTreeMap<Stage, Mean> = parts
        .filter_map(|(stage, ends)| {
            let total_us = u64::try_from(ends[1] - ends[0]).ok()?;
            Some((stage, Mean { records, total_us }))
        })
        .collect();
    // Time does not run backwards: where a part is missing, the sums are not of the same records.
    if means.len() == Stage::OF_RECORD.len() { means } else { BTreeMap::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: ReadRecords = ReadRecords {
        partition: 0,
        first: 10,
        end: 14,
        records: 4,
        intended_us: 4_000,
        sent_us: 4_040,
        arrived_us: 6_400,
    };

    const SERVED: ServedRecords = ServedRecords {
        records: 4,
        received_us: 4_840,
        appended_us: 4_880,
        visible_us: 5_200,
        asked_us: 5_600,
    };

    #[test]
    fn the_means_of_the_parts_add_up_to_that_of_the_whole() {
        let other = ReadRecords { records: 1, arrived_us: 1_600, intended_us: 1_000, sent_us: 1_000, ..READ };
        let served = ServedRecords {
            records: 1,
            received_us: 1_100,
            appended_us: 1_100,
            visible_us: 1_100,
            asked_us: 1_100,
        };
        let means = means(&[READ, other], &[SERVED, served]);
        let mean = |stage: Stage| means[&stage].mean_us();
        assert_eq!(mean(Stage::Waiting), Some(8.0));
        assert_eq!(mean(Stage::Produce), Some(180.0));
        assert_eq!(mean(Stage::Fetch), Some(260.0));
        let sum: f64 = Stage::OF_RECORD.into_iter().filter_map(mean).sum();
        assert!((sum - 3_000.0 / 5.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn there_are_none_where_the_two_do_not_speak_of_the_same_records() {
        assert!(means(&[READ], &[]).is_empty());
        assert!(means(&[], &[]).is_empty());
        assert!(means(&[READ], &[ServedRecords { records: 3, ..SERVED }]).is_empty());
        assert!(
            means(&[READ], &[ServedRecords { received_us: 0, ..SERVED }]).is_empty(),
            "received before it was sent"
        );
    }
}
