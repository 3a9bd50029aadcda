//! The queue against a naive one: a list of messages that is gone through from the front for everything.

use super::super::journal::SKIPPED_NUMBERS;
use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
pub(super) enum Step {
    Send {
        count: usize,
        time_to_live: Option<i64>,
        delay: Option<i64>,
    },
    /// Reserves numbers for messages, sends others, and then those.
    Reserve {
        count: usize,
        delay: i64,
        others: usize,
    },
    Receive {
        count: usize,
        deletes: bool,
    },
    /// Settles some of the messages that were ever locked, settled or lost as they may be.
    Settle {
        from: usize,
        count: usize,
        how: How,
    },
    Renew {
        from: usize,
        count: usize,
    },
    ReceiveDeferred(usize),
    Cancel(usize),
    Wait(i64),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    Complete,
    Abandon,
    Defer,
    DeadLetter,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Standing {
    Ready,
    Deferred,
    Locked { token: LockToken, until: i64, was_deferred: bool },
    Scheduled { at: i64 },
}

#[derive(Clone, Debug)]
struct Message {
    number: u64,
    text: String,
    count: u32,
    expires_at: i64,
    standing: Standing,
}

pub(super) struct Model {
    now: i64,
    next_number: u64,
    messages: Vec<Message>,
    /// Text and reason.
    dead_letters: Vec<(String, String)>,
}

const MAXIMUM_DELIVERY_COUNT: u32 = 3;
const LOCK_DURATION: i64 = 100;
const TIME_TO_LIVE: i64 = 700;

impl Model {
    pub(super) fn new() -> Self {
        Self { now: 0, next_number: 1, messages: Vec::new(), dead_letters: Vec::new() }
    }

    /// The process has ended: nobody has locked anything, and numbers go on later.
    pub(super) fn start_again(&mut self) {
        self.next_number += SKIPPED_NUMBERS;
        for index in 0..self.messages.len() {
            if matches!(self.messages[index].standing, Standing::Locked { .. }) {
                self.unlock(index, false);
            }
        }
    }

    fn push(&mut self, text: String, expires_at: i64, standing: Standing) {
        self.insert(self.next_number, text, expires_at, standing);
        self.next_number += 1;
    }

    fn insert(&mut self, number: u64, text: String, expires_at: i64, standing: Standing) {
        let place = self.messages.partition_point(|message| message.number < number);
        self.messages.insert(place, Message { number, text, count: 0, expires_at, standing });
    }

    fn unlock(&mut self, index: usize, failed: bool) {
        let message = &mut self.messages[index];
        let Standing::Locked { was_deferred, .. } = message.standing else {
            panic!("it is locked");
        };
        message.standing = match was_deferred {
            true => Standing::Deferred,
            false => Standing::Ready,
        };
        message.count += u32::from(failed);
        if failed && message.count == MAXIMUM_DELIVERY_COUNT {
            let message = self.messages.remove(index);
            let reason = "MaxDeliveryCountExceeded".to_owned();
            self.dead_letters.push((message.text, reason));
        }
    }

    /// What is due.
    fn sweep(&mut self) {
        let numbers: Vec<u64> = self.messages.iter().map(|message| message.number).collect();
        for number in numbers {
            let Some(index) = self.index(number) else {
                continue;
            };
            if let Standing::Locked { until, .. } = self.messages[index].standing
                && until <= self.now
            {
                self.unlock(index, true);
            }
        }
        let now = self.now;
        let expired = self.messages.extract_if(.., |message| {
            matches!(message.standing, Standing::Ready | Standing::Deferred) && message.expires_at <= now
        });
        let expired = expired.map(|message| (message.text, "TTLExpiredException".to_owned()));
        self.dead_letters.extend(expired);
        let mut due: Vec<_> = self
            .messages
            .extract_if(.., |message| matches!(message.standing, Standing::Scheduled { at } if at <= now))
            .collect();
        due.sort_by_key(|message| match message.standing {
            Standing::Scheduled { at } => (at, message.number),
            _ => unreachable!("only those were taken"),
        });
        for message in due {
            let Standing::Scheduled { at } = message.standing else {
                continue;
            };
            let expires_at = now + message.expires_at - at;
            self.push(message.text, expires_at, Standing::Ready);
        }
    }

    fn index(&self, number: u64) -> Option<usize> {
        self.messages.iter().position(|message| message.number == number)
    }

    fn held(&self, token: LockToken) -> Option<usize> {
        self.messages.iter().position(
            |message| matches!(message.standing, Standing::Locked { token: held, .. } if held == token),
        )
    }
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let how = prop_oneof![
        4 => Just(How::Complete),
        2 => Just(How::Abandon),
        1 => Just(How::Defer),
        1 => Just(How::DeadLetter),
        1 => Just(How::Release),
    ];
    prop_oneof![
        4 => (1_usize..90, proptest::option::weighted(0.2, 1_i64..300), proptest::option::weighted(0.2, 1_i64..300))
            .prop_map(|(count, time_to_live, delay)| Step::Send { count, time_to_live, delay }),
        1 => (1_usize..90, -1_i64..300, 0_usize..400)
            .prop_map(|(count, delay, others)| Step::Reserve { count, delay, others }),
        4 => (1_usize..90, proptest::bool::weighted(0.2))
            .prop_map(|(count, deletes)| Step::Receive { count, deletes }),
        6 => (0_usize..1000, 1_usize..150, how)
            .prop_map(|(from, count, how)| Step::Settle { from, count, how }),
        1 => (0_usize..1000, 1_usize..50).prop_map(|(from, count)| Step::Renew { from, count }),
        1 => (0_usize..1000).prop_map(Step::ReceiveDeferred),
        1 => (0_usize..1000).prop_map(Step::Cancel),
        3 => (1_i64..150).prop_map(Step::Wait),
    ]
}

pub(super) fn options() -> QueueOptions {
    QueueOptions {
        lock_duration: Duration::from_millis(LOCK_DURATION as u64),
        maximum_delivery_count: MAXIMUM_DELIVERY_COUNT,
        default_time_to_live: Some(Duration::from_millis(TIME_TO_LIVE as u64)),
        dead_lettering_on_expiration: true,
        ..QueueOptions::default()
    }
}

/// Does a step in both, and compares what each gives.
pub(super) fn run(queue: &Queue, model: &mut Model, tokens: &mut Vec<LockToken>, step: &Step) {
    model.sweep();
    let now = model.now;
    match *step {
        Step::Wait(time) => model.now += time,
        Step::Send { count, time_to_live, delay } => {
            let names: Vec<String> =
                (model.next_number..).take(count).map(|number| format!("message {number}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            send_with(queue, now, &names, |message| NewMessage {
                time_to_live: time_to_live.map(|time| Duration::from_millis(time as u64)),
                scheduled_enqueue_time: delay.map(|delay| at(now + delay)),
                ..message
            })
            .unwrap();
            let lives = time_to_live.map_or(TIME_TO_LIVE, |time| time.min(TIME_TO_LIVE));
            for name in names {
                let standing = match delay {
                    Some(delay) => Standing::Scheduled { at: now + delay },
                    None => Standing::Ready,
                };
                model.push(name.to_owned(), now + delay.unwrap_or(0) + lives, standing);
            }
        }
        Step::Reserve { count, delay, others } => {
            let names: Vec<String> =
                (model.next_number..).take(count).map(|number| format!("message {number}")).collect();
            let bodies: Vec<Vec<u8>> = names.iter().map(|name| body(name)).collect();
            let pieces: Vec<[&[u8]; 1]> = bodies.iter().map(|body| [&body[..]]).collect();
            let message =
                NewMessage { scheduled_enqueue_time: Some(at(now + delay)), ..NewMessage::default() };
            let messages: Vec<_> = pieces.iter().map(|sections| NewMessage { sections, ..message }).collect();
            let reserved = queue.reserve(at(now), &messages).unwrap();
            assert!(reserved.iter().copied().eq(model.next_number..model.next_number + count as u64));
            model.next_number += count as u64;
            run(queue, model, tokens, &Step::Send { count: others, time_to_live: None, delay: None });
            let sent = queue.operate(at(now), |state, now| {
                let admitted = state.admit(now, &messages)?;
                let numbers = crate::sending::Numbers::Reserved(&reserved);
                Ok(state.send_admitted(now, &messages, admitted, numbers).count)
            });
            assert_eq!(sent.unwrap().0, count);
            for (number, name) in reserved.into_iter().zip(names) {
                let (start, standing) = match delay > 0 {
                    true => (now + delay, Standing::Scheduled { at: now + delay }),
                    false => (now, Standing::Ready),
                };
                model.insert(number, name, start + TIME_TO_LIVE, standing);
            }
        }
        Step::Receive { count, deletes } => {
            let mut deliveries = Deliveries::new();
            let mode = match deletes {
                true => ReceiveMode::ReceiveAndDelete,
                false => ReceiveMode::PeekLock,
            };
            queue.receive(at(now), &request(mode, count), &mut deliveries).unwrap();
            let received = seen(&deliveries);
            let ready = |message: &&mut Message| message.standing == Standing::Ready;
            let expected: Vec<_> = model.messages.iter_mut().filter(ready).take(count).collect();
            assert_eq!(expected.len(), received.len());
            for (expected, received) in expected.into_iter().zip(&received) {
                assert_eq!(expected.number, received.number);
                assert_eq!(expected.text, received.text);
                assert_eq!(expected.count, received.count);
                if let Some(token) = received.token {
                    tokens.push(token);
                    expected.standing =
                        Standing::Locked { token, until: now + LOCK_DURATION, was_deferred: false };
                }
            }
            if deletes {
                let is_gone = |message: &Message| received.iter().any(|seen| seen.number == message.number);
                model.messages.retain(|message| !is_gone(message));
            }
        }
        Step::Settle { from, count, how } => {
            let from = from % (tokens.len() + 1);
            let these: Vec<_> = tokens.iter().copied().skip(from).take(count).collect();
            let settlement = match how {
                How::Complete => Settlement::Complete,
                How::Abandon => ABANDON,
                How::Defer => DEFER,
                How::Release => Settlement::Release,
                How::DeadLetter => {
                    Settlement::DeadLetter { reason: Some("test"), description: None, properties: &[] }
                }
            };
            let settled = queue.settle(at(now), &these, &settlement).unwrap();
            let mut refused = Vec::new();
            for token in these {
                let Some(index) = model.held(token) else {
                    refused.push(token);
                    continue;
                };
                match how {
                    How::Complete => {
                        model.messages.remove(index);
                    }
                    How::Abandon => model.unlock(index, true),
                    How::Release => model.unlock(index, false),
                    How::Defer => model.messages[index].standing = Standing::Deferred,
                    How::DeadLetter => {
                        let message = model.messages.remove(index);
                        model.dead_letters.push((message.text, "test".to_owned()));
                    }
                }
            }
            assert_eq!(settled.refused, refused);
        }
        Step::Renew { from, count } => {
            let from = from % (tokens.len() + 1);
            let these: Vec<_> = tokens.iter().copied().skip(from).take(count).collect();
            let renewed = queue.renew_locks(at(now), &these);
            for (token, renewed) in these.into_iter().zip(renewed) {
                let held = model.held(token);
                assert_eq!(renewed.is_ok(), held.is_some());
                if let Some(index) = held
                    && let Standing::Locked { until, .. } = &mut model.messages[index].standing
                {
                    *until = now + LOCK_DURATION;
                }
            }
        }
        Step::ReceiveDeferred(which) => {
            let deferred: Vec<_> =
                model.messages.iter_mut().filter(|message| message.standing == Standing::Deferred).collect();
            if deferred.is_empty() {
                return;
            }
            let which = which % deferred.len();
            let message = deferred.into_iter().nth(which).unwrap();
            let mut deliveries = Deliveries::new();
            let request = request(ReceiveMode::PeekLock, 1);
            queue.receive_deferred(at(now), &[message.number], &request, &mut deliveries).unwrap();
            let token = seen(&deliveries)[0].token.unwrap();
            tokens.push(token);
            message.standing = Standing::Locked { token, until: now + LOCK_DURATION, was_deferred: true };
        }
        Step::Cancel(which) => {
            let number = match model.messages.len() {
                0 => which as u64,
                // Of one that is there, or was a short while ago.
                there => model.messages[which % there].number + which as u64 % 2,
            };
            let is_scheduled = model
                .index(number)
                .is_some_and(|index| matches!(model.messages[index].standing, Standing::Scheduled { .. }));
            let cancelled = queue.cancel_scheduled(at(now), &[number]);
            assert_eq!(cancelled.is_ok(), is_scheduled);
            if is_scheduled {
                model.messages.retain(|message| message.number != number);
            }
        }
    }
}

pub(super) fn compare(queue: &Queue, model: &mut Model) {
    model.sweep();
    let shown = seen(&peek(queue, model.now));
    assert_eq!(shown.len(), model.messages.len());
    for (shown, message) in shown.iter().zip(&model.messages) {
        let state = match message.standing {
            Standing::Deferred | Standing::Locked { was_deferred: true, .. } => MessageState::Deferred,
            Standing::Ready | Standing::Locked { .. } => MessageState::Active,
            Standing::Scheduled { .. } => MessageState::Scheduled,
        };
        assert_eq!(
            (shown.number, &shown.text, shown.count, shown.state),
            (message.number, &message.text, message.count, state)
        );
    }
    let mut letters = dead_letters(queue, model.now);
    letters.sort();
    model.dead_letters.sort();
    assert_eq!(letters, model.dead_letters);
    let size = |text: &str| body(text).len() as u64 + MESSAGE_OVERHEAD;
    let expected: u64 = model.messages.iter().map(|message| size(&message.text)).sum();
    let counts = queue.counts();
    assert!(counts.bytes >= expected);
    let locked =
        |message: &&Message| matches!(message.standing, Standing::Locked { was_deferred: false, .. });
    assert_eq!(counts.locked as usize, model.messages.iter().filter(locked).count());
    assert_eq!(counts.dead_letters as usize, model.dead_letters.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_queue_behaves_as_a_list_that_is_gone_through_from_the_front(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let (_store, queue) = queue(options());
        let mut model = Model::new();
        let mut tokens = Vec::new();
        for step in &steps {
            run(&queue, &mut model, &mut tokens, step);
            compare(&queue, &mut model);
        }
    }
}
