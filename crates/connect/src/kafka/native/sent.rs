//! What a sink has for one partition: the batch that is being filled, and those that have to go again.

use std::collections::VecDeque;

use bytes::Bytes;
use kafka::producer_batch::ProducerBatch;
use kafka::record_batch::{self, ProducerNumbers};
use tokio::time::Instant;

use crate::sink::SendToken;

/// A partition that is sent to.
#[derive(Debug, Default)]
pub(super) struct Destination {
    /// What the next sends are added to.
    pub(super) filling: ProducerBatch,
    /// The sends in it.
    pub(super) tokens: Vec<SendToken>,
    /// When the first of them was added.
    pub(super) since: Option<Instant>,
    /// Whether it stands among those that have something to send.
    pub(super) is_queued: bool,
    /// Batches that have to go again, before anything else, in the order of their sequences.
    pub(super) again: VecDeque<Sent>,
    /// Batches that await their answer.
    pub(super) under_way: usize,
    /// Whether its broker said that another one leads it, which is being asked for.
    pub(super) seeks_leader: bool,
    /// Most bytes to which sends are gathered, where a broker has refused as many as the settings allow.
    pub(super) gathered_max: Option<usize>,
    /// Who numbers its records. None before the first batch, and after one of which nobody knows whether it was appended.
    producer: Option<(i64, i16)>,
    next_sequence: i32,
    /// Whether what goes again has to be numbered anew: something before it was refused.
    is_renumbered: bool,
}

/// A batch that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) partition: usize,
    pub(super) bytes: Bytes,
    pub(super) tokens: Vec<SendToken>,
    pub(super) records: u32,
    pub(super) numbers: Option<ProducerNumbers>,
    /// When it is given up.
    pub(super) deadline: Instant,
}

impl Destination {
    /// Numbers for a new batch of so many records of a producer.
    pub(super) fn number(&mut self, producer: (i64, i16), records: u32) -> ProducerNumbers {
        let (id, epoch) = *self.producer.get_or_insert(producer);
        let numbers = ProducerNumbers { id, epoch, base_sequence: self.next_sequence };
        self.next_sequence = following(self.next_sequence, records);
        numbers
    }

    /// A batch comes back that has to go again.
    pub(super) fn retry(&mut self, sent: Sent) {
        let sequence = |sent: &Sent| sent.numbers.map_or(0, |numbers| numbers.base_sequence);
        let later = self.again.iter().position(|it| sequence(it).wrapping_sub(sequence(&sent)) > 0);
        self.again.insert(later.unwrap_or(self.again.len()), sent);
    }

    /// A batch was refused, and will not go again: its sequence is that of the next one.
    pub(super) fn close_gap(&mut self, refused: &Sent) {
        if let Some(numbers) = refused.numbers
            && self.producer == Some((numbers.id, numbers.epoch))
            && !(self.is_renumbered && numbers.base_sequence.wrapping_sub(self.next_sequence) > 0)
        {
            self.next_sequence = numbers.base_sequence;
            self.is_renumbered = true;
        }
    }

    /// Nobody knows what the broker has: what follows is another producer's.
    pub(super) fn forget_producer(&mut self) {
        self.producer = None;
        self.next_sequence = 0;
        self.is_renumbered = true;
    }

    /// Whether batches that are sent now could follow a gap.
    pub(super) const fn has_gap(&self) -> bool {
        self.is_renumbered
    }

    /// Numbers what goes again, once nothing is under way any more.
    pub(super) fn renumber(&mut self, producer: (i64, i16)) {
        if !std::mem::take(&mut self.is_renumbered) {
            return;
        }
        for sent in std::mem::take(&mut self.again) {
            let numbers = self.number(producer, sent.records);
            let mut bytes = Vec::from(sent.bytes);
            record_batch::renumber(&mut bytes, numbers);
            self.again.push_back(Sent { bytes: bytes.into(), numbers: Some(numbers), ..sent });
        }
    }
}

/// Sequences go round after the largest number of 31 bits.
const fn following(sequence: i32, records: u32) -> i32 {
    (sequence.cast_unsigned().wrapping_add(records) & i32::MAX.cast_unsigned()).cast_signed()
}

#[cfg(test)]
mod tests {
    use kafka::compression::Compression;
    use kafka::record_batch::RecordBatch;

    use super::*;

    const PRODUCER: (i64, i16) = (7, 1);

    fn send(to: &mut Destination, records: u32) -> Sent {
        for _ in 0..records {
            to.filling.push_tail(0, b"\x01\x02x\x00");
        }
        let numbers = Some(to.number(PRODUCER, records));
        let bytes = to.filling.complete(Compression::None, numbers, false).unwrap().into();
        Sent { partition: 0, bytes, tokens: Vec::new(), records, numbers, deadline: Instant::now() }
    }

    fn sequences(to: &Destination) -> Vec<(i64, i32)> {
        let numbers = |sent: &Sent| RecordBatch::check(&sent.bytes).unwrap().producer().unwrap();
        to.again.iter().map(numbers).map(|numbers| (numbers.id, numbers.base_sequence)).collect()
    }

    #[test]
    fn what_comes_back_goes_again_in_order_with_its_numbers() {
        let mut to = Destination::default();
        let [one, two, three] = [3, 2, 4].map(|records| send(&mut to, records));
        for sent in [two, three, one] {
            to.retry(sent);
        }
        to.renumber(PRODUCER);
        assert_eq!(sequences(&to), [(7, 0), (7, 3), (7, 5)]);
        assert_eq!(send(&mut to, 1).numbers.unwrap().base_sequence, 9);
    }

    #[test]
    fn what_follows_a_refused_batch_takes_its_place() {
        let mut to = Destination::default();
        let [one, two, three] = [3, 2, 4].map(|records| send(&mut to, records));
        to.close_gap(&one);
        to.retry(two);
        to.retry(three);
        assert!(to.has_gap());
        to.renumber(PRODUCER);
        assert_eq!(sequences(&to), [(7, 0), (7, 2)]);
        assert_eq!(send(&mut to, 1).numbers.unwrap().base_sequence, 6);
        assert!(!to.has_gap());
    }

    #[test]
    fn where_nobody_knows_what_the_broker_has_another_producer_begins() {
        let mut to = Destination::default();
        let [_lost, two] = [3, 2].map(|records| send(&mut to, records));
        to.forget_producer();
        to.retry(two);
        to.renumber((8, 0));
        assert_eq!(sequences(&to), [(8, 0)]);
        assert_eq!(send(&mut to, 1).numbers, Some(ProducerNumbers { id: 8, epoch: 0, base_sequence: 2 }));
    }

    #[test]
    fn sequences_go_round() {
        assert_eq!(following(i32::MAX, 1), 0);
        assert_eq!(following(i32::MAX - 1, 3), 1);
    }
}
