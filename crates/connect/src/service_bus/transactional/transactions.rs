//! The transactions of a connection, each from being declared to its end, and what is to be asked of the service next.
//!
//! ```text
//!  declared ─▶ open ─▶ closed ─────────▶ settling ─────────▶ committing ─▶ over
//!              │       its messages are  their completions   │
//!              │       being answered    are being answered  │
//!              └ takes messages   └─────────────────┴────────┴▶ rolling back ─▶ over
//! ```
//!
//! Completions are given only when every message of the transaction was accepted. So where one is refused, the others are still held by
//! their link, and can go with another transaction. Nothing is committed before every answer is there.
//!
//! Several are under way at once, so that a distant service is not waited for four times per transaction.

use std::collections::VecDeque;
use std::time::Instant;

use amqp::TransactionId;

use crate::service::ServiceError;
use crate::sink::SendToken;

/// All of them, in the order in which they were declared.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    /// The number of the first one in the ring.
    first: u64,
    ring: VecDeque<Transaction>,
    /// Bytes of the messages of all of them.
    bytes: usize,
}

/// One transaction.
#[derive(Debug)]
struct Transaction {
    stage: Stage,
    /// As the service named it; nothing before it has.
    id: Option<TransactionId>,
    members: Vec<Member>,
    bytes: usize,
    /// Members of which the service has not said what it makes of them in this stage.
    unanswered: usize,
    /// When completions were given in it, if they were.
    settled_at: Option<Instant>,
    /// Since when it is in its stage.
    since: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is to be declared, or that was asked for.
    Declaring {
        is_asked: bool,
    },
    /// It takes messages.
    Open,
    /// It takes no more.
    Closed,
    /// The completions were given.
    Settling,
    /// It is to be ended, or that was asked for.
    Ending {
        commits: bool,
        is_asked: bool,
    },
    Over,
}

/// A message that is carried.
#[derive(Debug)]
pub(in crate::service_bus) struct Member {
    /// What the one who sends it calls the send.
    pub(super) token: SendToken,
    /// Its delivery from the source.
    pub(in crate::service_bus) delivery: u32,
    /// Whether the service has said what it makes of it in this stage.
    is_answered: bool,
    /// Why it can't be carried.
    pub(super) error: Option<Box<ServiceError>>,
}

/// What is to be asked of the service.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To open another one.
    Declare { number: u64 },
    /// To complete the messages of one where they come from: those with these delivery ids.
    Settle { number: u64, transaction: TransactionId, deliveries: Vec<u32> },
    /// To end one.
    Discharge { number: u64, transaction: TransactionId, fail: bool },
}

/// A transaction that has ended.
#[derive(Debug)]
pub(in crate::service_bus) struct Ended {
    pub(in crate::service_bus) end: End,
    pub(in crate::service_bus) members: Vec<Member>,
    /// When the completions were given; where there were none, when its end was asked for.
    pub(in crate::service_bus) since: Instant,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::service_bus) enum End {
    /// Its messages are where they were to go, and not any more where they came from.
    Committed,
    /// Nothing has happened, and its messages are still held by the link that they came through.
    Undone,
    /// Nothing has happened, and the link holds them no more since they were completed through it. Their locks are what they were.
    LetGo,
}

impl Transactions {
    /// Where a message of so many bytes goes: the transaction that takes it, if one does now.
    pub(super) fn room(&self, bytes: usize) -> Option<(u64, TransactionId)> {
        if self.bytes > 0 && self.bytes.saturating_add(bytes) > HELD_BYTES_MAX {
            return None;
        }
        let open = |transaction: &Transaction| transaction.stage == Stage::Open && !transaction.is_full();
        let place = self.ring.iter().position(open)?;
        Some((self.first + place as u64, self.ring[place].id?))
    }

    /// A message was sent in a transaction. Returns its place there.
    pub(super) fn add(&mut self, number: u64, token: SendToken, delivery: u32, bytes: usize) -> usize {
        self.bytes += bytes;
        let Some(transaction) = self.get_mut(number) else { return 0 };
        transaction.bytes += bytes;
        transaction.unanswered += 1;
        transaction.members.push(Member { token, delivery, is_answered: false, error: None });
        transaction.members.len() - 1
    }

    /// What to ask for next, if anything; it is taken as asked for.
    pub(super) fn next_step(&mut self, now: Instant) -> Option<Step> {
        let mut under_way = 0;
        let mut spare = 0;
        for (place, transaction) in self.ring.iter_mut().enumerate() {
            let number = self.first + place as u64;
            if transaction.stage == Stage::Open && !transaction.members.is_empty() {
                // What more comes would only wait where little is under way.
                if transaction.is_full() || under_way < UNDER_WAY_MIN {
                    transaction.enter(Stage::Closed, now);
                }
            }
            match transaction.stage {
                Stage::Declaring { .. } | Stage::Open if transaction.members.is_empty() => spare += 1,
                Stage::Over => {}
                _ => under_way += 1,
            }
            let id = transaction.id;
            match (transaction.stage, id) {
                (Stage::Declaring { is_asked: false }, _) => {
                    transaction.enter(Stage::Declaring { is_asked: true }, now);
                    return Some(Step::Declare { number });
                }
                (Stage::Closed, Some(id)) if transaction.unanswered == 0 => {
                    if transaction.has_failed() {
                        transaction.enter(Stage::Ending { commits: false, is_asked: true }, now);
                        return Some(Step::Discharge { number, transaction: id, fail: true });
                    }
                    let deliveries = transaction.settle(now);
                    return Some(Step::Settle { number, transaction: id, deliveries });
                }
                (Stage::Settling, Some(id)) if transaction.unanswered == 0 => {
                    let fail = transaction.has_failed();
                    transaction.enter(Stage::Ending { commits: !fail, is_asked: true }, now);
                    return Some(Step::Discharge { number, transaction: id, fail });
                }
                (Stage::Ending { commits, is_asked: false }, Some(id)) => {
                    transaction.enter(Stage::Ending { commits, is_asked: true }, now);
                    return Some(Step::Discharge { number, transaction: id, fail: !commits });
                }
                _ => {}
            }
        }
        if spare < SPARE {
            self.ring.push_back(Transaction::new(now));
            return Some(Step::Declare { number: self.first + self.ring.len() as u64 - 1 });
        }
        None
    }

    /// A step could not be asked for now, so that it is still to come.
    pub(super) fn put_off(&mut self, step: &Step) {
        let (Step::Declare { number } | Step::Discharge { number, .. }) = step else { return };
        if let Some(transaction) = self.get_mut(*number) {
            match &mut transaction.stage {
                Stage::Declaring { is_asked } | Stage::Ending { is_asked, .. } => *is_asked = false,
                Stage::Open | Stage::Closed | Stage::Settling | Stage::Over => {}
            }
        }
    }

    /// The service has opened a transaction.
    pub(super) fn declared(&mut self, number: u64, id: TransactionId, now: Instant) {
        if let Some(transaction) = self.get_mut(number) {
            transaction.id = Some(id);
            transaction.enter(Stage::Open, now);
        }
    }

    /// The service has said what it makes of a message.
    pub(super) fn sent(&mut self, number: u64, place: usize, error: Option<ServiceError>) {
        if let Some(transaction) = self.get_mut(number) {
            transaction.answer(place, error);
        }
    }

    /// The service has said what it makes of completions, those of a range of deliveries.
    pub(super) fn settled(&mut self, first: u32, last: u32, error: Option<&ServiceError>) {
        let length = last.wrapping_sub(first);
        for transaction in self.ring.iter_mut().filter(|transaction| transaction.stage == Stage::Settling) {
            for place in 0..transaction.members.len() {
                if transaction.members[place].delivery.wrapping_sub(first) <= length {
                    transaction.answer(place, error.cloned());
                }
            }
        }
    }

    /// The service has ended a transaction as it was asked to, or has rolled it back for this reason.
    pub(super) fn ended(&mut self, number: u64, error: Option<ServiceError>) -> Option<Ended> {
        let transaction = self.get_mut(number)?;
        let Stage::Ending { commits, .. } = transaction.stage else { return None };
        transaction.stage = Stage::Over;
        let mut members = std::mem::take(&mut transaction.members);
        let end = match (commits && error.is_none(), transaction.settled_at.is_some()) {
            (true, _) => End::Committed,
            (false, false) => End::Undone,
            (false, true) => End::LetGo,
        };
        let since = transaction.settled_at.unwrap_or(transaction.since);
        let bytes = std::mem::take(&mut transaction.bytes);
        if let Some(error) = error.filter(|_| commits) {
            for member in &mut members {
                member.error.get_or_insert_with(|| Box::new(error.clone()));
            }
        }
        self.bytes -= bytes;
        while self.ring.front().is_some_and(|transaction| transaction.stage == Stage::Over) {
            self.ring.pop_front();
            self.first += 1;
        }
        Some(Ended { end, members, since })
    }

    /// Forgets all of them, and gives what they carried: their connection is gone, and with it whatever was not committed.
    pub(super) fn forget_all(&mut self) -> impl Iterator<Item = Member> + use<> {
        self.first += self.ring.len() as u64;
        self.bytes = 0;
        std::mem::take(&mut self.ring).into_iter().flat_map(|transaction| transaction.members)
    }

    /// Since when the service has owed an answer.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let waits = |transaction: &&Transaction| match transaction.stage {
            Stage::Declaring { is_asked } | Stage::Ending { is_asked, .. } => is_asked,
            Stage::Closed | Stage::Settling => true,
            Stage::Open | Stage::Over => false,
        };
        self.ring.iter().filter(waits).map(|transaction| transaction.since).min()
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Transaction> {
        let place = number.checked_sub(self.first)?;
        self.ring.get_mut(usize::try_from(place).ok()?)
    }
}

impl Transaction {
    const fn new(now: Instant) -> Self {
        Self {
            stage: Stage::Declaring { is_asked: true },
            id: None,
            members: Vec::new(),
            bytes: 0,
            unanswered: 0,
            settled_at: None,
            since: now,
        }
    }

    fn is_full(&self) -> bool {
        self.members.len() >= MESSAGES_MAX || self.bytes >= BYTES_MAX
    }

    fn has_failed(&self) -> bool {
        self.members.iter().any(|member| member.error.is_some())
    }

    fn enter(&mut self, stage: Stage, now: Instant) {
        self.stage = stage;
        self.since = now;
    }

    /// Begins to complete its messages. Gives their deliveries.
    fn settle(&mut self, now: Instant) -> Vec<u32> {
        self.enter(Stage::Settling, now);
        self.settled_at = Some(now);
        self.unanswered = self.members.len();
        let members = self.members.iter_mut();
        members
            .map(|member| {
                member.is_answered = false;
                member.delivery
            })
            .collect()
    }

    fn answer(&mut self, place: usize, error: Option<ServiceError>) {
        let Some(member) = self.members.get_mut(place).filter(|member| !member.is_answered) else {
            return;
        };
        member.is_answered = true;
        self.unanswered -= 1;
        if let Some(error) = error {
            member.error.get_or_insert_with(|| Box::new(error));
        }
    }
}

/// Most messages of a transaction. The service takes 100.
pub(super) const MESSAGES_MAX: usize = 64;

/// Bytes of messages with which a transaction takes no more.
const BYTES_MAX: usize = 1024 * 1024;

/// Bytes of messages that transactions may have together, before another one is added. The embedded service keeps 32 MiB for each
/// connection.
const HELD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A transaction that is not full is closed where fewer are under way.
const UNDER_WAY_MIN: usize = 2;

/// Transactions that are declared ahead, so that messages don't wait for that.
const SPARE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::ErrorClass;

    fn now() -> Instant {
        Instant::now()
    }

    fn id(number: u64) -> TransactionId {
        TransactionId::new(&number.to_be_bytes()).expect("a short id")
    }

    fn error() -> ServiceError {
        ServiceError {
            class: ErrorClass::Retryable,
            condition: "amqp:internal-error".to_owned(),
            description: "no".to_owned(),
        }
    }

    /// Transactions that are declared as soon as that is asked for.
    fn declared() -> Transactions {
        let mut transactions = Transactions::default();
        declare(&mut transactions);
        transactions
    }

    /// Takes the steps that there are, and answers those that declare. Gives the others.
    fn declare(transactions: &mut Transactions) -> Vec<Step> {
        let mut others = Vec::new();
        while let Some(step) = transactions.next_step(now()) {
            match step {
                Step::Declare { number } => transactions.declared(number, id(number), now()),
                other => others.push(other),
            }
        }
        others
    }

    /// Adds messages with these deliveries.
    fn add(transactions: &mut Transactions, deliveries: std::ops::Range<u32>) {
        for delivery in deliveries {
            let (number, _) = transactions.room(10).expect("there is room");
            transactions.add(number, SendToken(delivery.into()), delivery, 10);
        }
    }

    fn deliveries(ended: &Ended) -> Vec<u32> {
        ended.members.iter().map(|member| member.delivery).collect()
    }

    fn settle(number: u64, deliveries: std::ops::Range<u32>) -> Step {
        Step::Settle { number, transaction: id(number), deliveries: deliveries.collect() }
    }

    fn discharge(number: u64, fail: bool) -> Step {
        Step::Discharge { number, transaction: id(number), fail }
    }

    #[test]
    fn messages_are_completed_once_all_are_accepted_and_committed_once_all_are_completed() {
        let mut transactions = declared();
        add(&mut transactions, 5..8);
        assert_eq!(declare(&mut transactions), []);
        transactions.sent(0, 0, None);
        transactions.sent(0, 2, None);
        // What is answered twice counts once.
        transactions.sent(0, 2, None);
        assert_eq!(declare(&mut transactions), []);
        transactions.sent(0, 1, None);
        assert_eq!(declare(&mut transactions), [settle(0, 5..8)]);
        // A range may be wider than what there is.
        transactions.settled(0, 6, None);
        assert_eq!(declare(&mut transactions), []);
        transactions.settled(7, 7, None);
        assert_eq!(declare(&mut transactions), [discharge(0, false)]);
        let ended = transactions.ended(0, None).expect("it has ended");
        assert_eq!((ended.end, deliveries(&ended)), (End::Committed, vec![5, 6, 7]));
        assert!(transactions.ended(0, None).is_none(), "it ends once");
        assert_eq!(transactions.bytes, 0);
    }

    #[test]
    fn a_message_that_is_refused_rolls_back_and_the_others_are_still_held() {
        let mut transactions = declared();
        add(&mut transactions, 0..3);
        declare(&mut transactions);
        transactions.sent(0, 0, None);
        transactions.sent(0, 1, Some(error()));
        transactions.sent(0, 2, None);
        assert_eq!(declare(&mut transactions), [discharge(0, true)]);
        // Whatever is said to that, it has not happened.
        let ended = transactions.ended(0, Some(error())).expect("it has ended");
        assert_eq!(ended.end, End::Undone);
        let refused: Vec<bool> = ended.members.iter().map(|member| member.error.is_some()).collect();
        assert_eq!(refused, [false, true, false]);
    }

    #[test]
    fn after_completions_were_given_a_failure_lets_all_of_them_go() {
        for fails in [true, false] {
            let mut transactions = declared();
            add(&mut transactions, 0..2);
            declare(&mut transactions);
            (0..2).for_each(|place| transactions.sent(0, place, None));
            declare(&mut transactions);
            // Either a lock was lost, or the commit is refused.
            transactions.settled(0, 1, fails.then(error).as_ref());
            assert_eq!(declare(&mut transactions), [discharge(0, fails)]);
            let ended = transactions.ended(0, (!fails).then(error)).expect("it has ended");
            assert_eq!((ended.end, deliveries(&ended)), (End::LetGo, vec![0, 1]));
            assert!(ended.members.iter().all(|member| member.error.is_some()));
        }
    }

    #[test]
    fn a_full_one_is_closed_and_a_part_of_one_where_little_is_under_way() {
        let mut transactions = declared();
        let most = MESSAGES_MAX as u32;
        add(&mut transactions, 0..3 * most + 1);
        declare(&mut transactions);
        assert!(transactions.waiting_since().is_some());
        for number in 0..3 {
            (0..MESSAGES_MAX).for_each(|place| transactions.sent(number, place, None));
        }
        // The fourth has one message, and three are under way.
        transactions.sent(3, 0, None);
        assert_eq!(
            declare(&mut transactions),
            [settle(0, 0..most), settle(1, most..2 * most), settle(2, 2 * most..3 * most)]
        );
        transactions.settled(0, 2 * most - 1, None);
        assert_eq!(declare(&mut transactions), [discharge(0, false), discharge(1, false)]);
        for number in [1, 0] {
            transactions.ended(number, None).expect("it has ended");
        }
        assert_eq!(declare(&mut transactions), [settle(3, 3 * most..3 * most + 1)]);
    }

    #[test]
    fn large_messages_have_room_one_by_one() {
        let mut transactions = declared();
        let (first, _) = transactions.room(usize::MAX).expect("one is always let in");
        transactions.add(first, SendToken(0), 0, HELD_BYTES_MAX);
        assert_eq!(transactions.room(1), None);
        declare(&mut transactions);
        transactions.sent(first, 0, Some(error()));
        declare(&mut transactions);
        transactions.ended(first, None).expect("it has ended");
        assert!(transactions.room(1).is_some());
    }

    #[test]
    fn what_could_not_be_asked_for_is_asked_for_again() {
        let mut transactions = Transactions::default();
        let step = transactions.next_step(now()).expect("one is declared ahead");
        transactions.put_off(&step);
        assert_eq!(transactions.waiting_since(), None);
        assert_eq!(transactions.next_step(now()), Some(step));
    }

    #[test]
    fn what_a_connection_takes_with_it_is_told_once() {
        let mut transactions = declared();
        add(&mut transactions, 0..100);
        declare(&mut transactions);
        let lost: Vec<u32> = transactions.forget_all().map(|member| member.delivery).collect();
        assert_eq!(lost, (0..100).collect::<Vec<_>>());
        assert_eq!(transactions.forget_all().count(), 0);
        // Answers that come all the same find nothing, and numbers go on.
        transactions.sent(0, 0, None);
        assert!(transactions.ended(0, None).is_none());
        assert_eq!(transactions.room(1), None);
        declare(&mut transactions);
        assert!(transactions.room(1).is_some_and(|(number, _)| number > 1));
    }
}
