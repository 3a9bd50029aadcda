//! Sessions against naive ones: a list of messages for each, and who has locked it.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Send { session: usize, count: usize },
    AcceptNext,
    Accept(usize),
    Receive { holder: usize, count: usize },
    Settle { holder: usize, count: usize, how: How },
    Renew(usize),
    Release(usize),
    Wait(i64),
}

#[derive(Clone, Copy, Debug)]
enum How {
    Complete,
    Abandon,
    Release,
}

#[derive(Debug)]
struct Message {
    number: u64,
    count: u32,
    token: Option<LockToken>,
}

#[derive(Debug, Default)]
struct Session {
    messages: Vec<Message>,
    locked_until: Option<i64>,
}

/// A receiver that has accepted a session at some time.
struct Holder {
    lock: SessionLock,
    /// It has not lost it.
    holds: bool,
}

struct Model {
    now: i64,
    sessions: BTreeMap<&'static str, Session>,
    holders: Vec<Holder>,
    dead_letters: usize,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const LOCK_DURATION: i64 = 100;
const MAXIMUM_DELIVERY_COUNT: u32 = 3;

impl Session {
    fn unlock(&mut self, index: usize, failed: bool) -> usize {
        let message = &mut self.messages[index];
        message.token = None;
        message.count += u32::from(failed);
        let is_dead = failed && message.count == MAXIMUM_DELIVERY_COUNT;
        if is_dead {
            self.messages.remove(index);
        }
        usize::from(is_dead)
    }

    fn end_lock(&mut self, failed: bool) -> usize {
        self.locked_until = None;
        let mut dead = 0;
        for index in (0..self.messages.len()).rev() {
            if self.messages[index].token.is_some() {
                dead += self.unlock(index, failed);
            }
        }
        dead
    }

    fn is_acceptable(&self) -> bool {
        self.locked_until.is_none() && self.messages.iter().any(|message| message.token.is_none())
    }
}

impl Model {
    fn sweep(&mut self) {
        for (name, session) in &mut self.sessions {
            if session.locked_until.is_some_and(|until| until <= self.now) {
                self.dead_letters += session.end_lock(true);
                let lost = self.holders.iter_mut().filter(|holder| holder.lock.id() == *name);
                lost.for_each(|holder| holder.holds = false);
            }
        }
    }

    fn accepted(&mut self, lock: SessionLock) {
        let name = NAMES.into_iter().find(|name| *name == lock.id()).unwrap();
        let session = self.sessions.entry(name).or_default();
        session.locked_until = Some(self.now + LOCK_DURATION);
        self.holders.push(Holder { lock, holds: true });
    }
}

fn step() -> impl Strategy<Value = Step> {
    let how = prop_oneof![
        3 => Just(How::Complete),
        2 => Just(How::Abandon),
        1 => Just(How::Release),
    ];
    prop_oneof![
        4 => (0..4_usize, 1..6_usize).prop_map(|(session, count)| Step::Send { session, count }),
        3 => Just(Step::AcceptNext),
        1 => (0..4_usize).prop_map(Step::Accept),
        6 => (0..9_usize, 1..6_usize).prop_map(|(holder, count)| Step::Receive { holder, count }),
        6 => (0..9_usize, 1..6_usize, how)
            .prop_map(|(holder, count, how)| Step::Settle { holder, count, how }),
        1 => (0..9_usize).prop_map(Step::Renew),
        1 => (0..9_usize).prop_map(Step::Release),
        2 => (1..60_i64).prop_map(Step::Wait),
    ]
}

fn run(queue: &Queue, model: &mut Model, step: &Step) {
    model.sweep();
    let now = model.now;
    // The last one more often than others: those before have lost theirs for the most part.
    let holder = |which: usize| model.holders.len().checked_sub(1 + which / 2);
    match *step {
        Step::Wait(time) => model.now += time,
        Step::Send { session, count } => {
            let name = NAMES[session];
            let messages = vec!["x"; count];
            let with = |message| NewMessage { session_id: Some(name), ..message };
            send_with(queue, now, &messages, with).unwrap();
            let mut all = Deliveries::new();
            queue.peek(at(now), 0, usize::MAX, usize::MAX, Some(name), &mut all);
            let numbers = seen(&all).into_iter().map(|seen| seen.number);
            let session = model.sessions.entry(name).or_default();
            let new =
                numbers.skip(session.messages.len()).map(|number| Message { number, count: 0, token: None });
            session.messages.extend(new);
        }
        Step::AcceptNext => match queue.accept_session(at(now), None).unwrap() {
            Some(lock) => {
                assert!(model.sessions[lock.id()].is_acceptable());
                model.accepted(lock);
            }
            None => assert!(!model.sessions.values().any(Session::is_acceptable)),
        },
        Step::Accept(session) => {
            let name = NAMES[session];
            let accepted = queue.accept_session(at(now), Some(name));
            let session = model.sessions.get(name);
            match session.is_some_and(|session| session.locked_until.is_some()) {
                true => assert_eq!(accepted.unwrap_err(), QueueError::SessionCannotBeLocked),
                false => model.accepted(accepted.unwrap().unwrap()),
            }
        }
        Step::Receive { holder: which, count } => {
            let Some(which) = holder(which) else { return };
            let Holder { lock, holds } = &model.holders[which];
            let request = ReceiveRequest { session: Some(lock), ..request(ReceiveMode::PeekLock, count) };
            let mut deliveries = Deliveries::new();
            let received = queue.receive(at(now), &request, &mut deliveries);
            if !holds {
                assert_eq!(received, Err(QueueError::SessionLockLost));
                return;
            }
            let session = model.sessions.get_mut(lock.id()).unwrap();
            let ready = session.messages.iter_mut().filter(|message| message.token.is_none());
            let expected: Vec<_> = ready.take(count).collect();
            let received = seen(&deliveries);
            assert_eq!(received.len(), expected.len());
            for (message, received) in expected.into_iter().zip(received) {
                assert_eq!((message.number, message.count), (received.number, received.count));
                message.token = received.token;
            }
        }
        Step::Settle { holder: which, count, how } => {
            let Some(which) = holder(which) else { return };
            let lock = &model.holders[which].lock;
            let session = model.sessions.get_mut(lock.id()).unwrap();
            let tokens: Vec<_> =
                session.messages.iter().filter_map(|message| message.token).take(count).collect();
            let settlement = match how {
                How::Complete => Settlement::Complete,
                How::Abandon => ABANDON,
                How::Release => Settlement::Release,
            };
            let settled = queue.settle(at(now), &tokens, &settlement).unwrap();
            assert_eq!((settled.count, settled.refused), (tokens.len(), vec![]));
            for token in tokens {
                let held = |message: &Message| message.token == Some(token);
                let index = session.messages.iter().position(held).unwrap();
                match how {
                    How::Complete => {
                        session.messages.remove(index);
                    }
                    How::Abandon => model.dead_letters += session.unlock(index, true),
                    How::Release => model.dead_letters += session.unlock(index, false),
                }
            }
        }
        Step::Renew(which) => {
            let Some(which) = holder(which) else { return };
            let id = model.holders[which].lock.id().to_owned();
            let renewed = queue.renew_session_lock(at(now), &id);
            let session = model.sessions.get_mut(&*id).unwrap();
            assert_eq!(renewed.is_ok(), session.locked_until.is_some());
            if renewed.is_ok() {
                session.locked_until = Some(now + LOCK_DURATION);
            }
        }
        Step::Release(which) => {
            let Some(which) = holder(which) else { return };
            let Holder { lock, holds } = &mut model.holders[which];
            queue.release_session(at(now), lock);
            if std::mem::take(holds) {
                let session = model.sessions.get_mut(lock.id()).unwrap();
                session.end_lock(false);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn sessions_behave_as_lists_with_one_reader_each(
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let (_store, queue) = queue(QueueOptions {
            requires_session: true,
            lock_duration: Duration::from_millis(LOCK_DURATION as u64),
            maximum_delivery_count: MAXIMUM_DELIVERY_COUNT,
            ..QueueOptions::default()
        });
        let mut model = Model {
            now: 0,
            sessions: BTreeMap::new(),
            holders: Vec::new(),
            dead_letters: 0,
        };
        for step in &steps {
            run(&queue, &mut model, step);
            model.sweep();
            let mut all: Vec<(u64, u32)> = model
                .sessions
                .values()
                .flat_map(|session| &session.messages)
                .map(|message| (message.number, message.count))
                .collect();
            all.sort_unstable();
            let shown = seen(&peek(&queue, model.now));
            let shown: Vec<_> = shown.iter().map(|seen| (seen.number, seen.count)).collect();
            prop_assert_eq!(shown, all);
            prop_assert_eq!(queue.counts().dead_letters as usize, model.dead_letters);
            let names: Vec<&str> = model
                .sessions
                .iter()
                .filter(|(_, session)| !session.messages.is_empty())
                .map(|(name, _)| *name)
                .collect();
            prop_assert_eq!(queue.sessions(0, 9), names);
        }
    }
}
