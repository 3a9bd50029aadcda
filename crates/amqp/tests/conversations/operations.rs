//! Any sequence of what two well-behaved ends may do, held against a model.
//!
//! The body is a plain function of bytes, so that a property and a fuzz target share it. The model is simple: what was
//! sent arrives once, in order and unchanged, unless it was called off; what is unsettled gets its outcome; neither end
//! ever finds fault with the other.

use std::collections::VecDeque;

use amqp::connection::{Config, LinkAcceptance, LinkId, SendError, SessionId};
use amqp::performative::DeliveryState;

use crate::pair::{Cut, End, Happening, Pair, Setup, options};

/// One thing that one of the two ends does.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Grant(u32),
    Send { length: usize, settled: bool },
    Settle { count: usize, rejected: bool },
    CallOff,
    Drain,
    Carry,
}

/// A direction of the conversation: the client sends and the server receives, or the other way round.
#[derive(Debug)]
struct Direction {
    sender: LinkId,
    receiver: LinkId,
    receiver_session: SessionId,
    sent: u32,
    /// What was sent and has not arrived.
    expected: VecDeque<(u32, Vec<u8>, bool)>,
    /// Arrived and to be settled by the receiver.
    to_settle: VecDeque<u32>,
    /// Sent and to be settled, with the outcome once the receiver has given it.
    unsettled: VecDeque<(u32, Option<DeliveryState>)>,
}

/// Does what `script` says between two ends whose frame sizes and windows it chooses, and checks it against the model.
pub(crate) fn run(script: &[u8]) {
    let Some((&[frames, windows], script)) = script.split_first_chunk() else {
        return;
    };
    let config = |choice: u8| Config {
        max_frame_size: 512 + u32::from(frames) * 4,
        incoming_window: 1 + u32::from(choice & 7),
        ..Config::default()
    };
    let setup = Setup { client: config(windows), server: config(windows >> 3), ..Setup::default() };
    let mut pair = Pair::new(&setup, Cut::Nowhere);
    let mut directions = attach_both_ways(&mut pair);
    for step in script.chunks_exact(2) {
        let by_client = step[0] & 1 == 0;
        apply(&mut pair, &mut directions, by_client, operation(step[0] >> 1, step[1]));
        notice(&mut pair, &mut directions);
    }
    finish(&mut pair, &mut directions);
}

fn operation(kind: u8, detail: u8) -> Operation {
    match kind % 16 {
        0..=2 => Operation::Grant(u32::from(detail % 12)),
        3..=7 => Operation::Send { length: usize::from(detail >> 1) * 40, settled: detail & 1 == 1 },
        8 | 9 => Operation::Settle { count: usize::from(detail >> 1), rejected: detail & 1 == 1 },
        10 => Operation::CallOff,
        11 => Operation::Drain,
        _ => Operation::Carry,
    }
}

fn attach_both_ways(pair: &mut Pair) -> [Direction; 2] {
    let (out, their_in) = pair.attach_sender(LinkAcceptance::default());
    let session = pair.client.connection.session_of(out).expect("the link is there");
    let their_session = pair.server.connection.session_of(their_in).expect("the link is there");
    let back = pair.client.connection.attach_receiver(session, options("back")).expect("there is room");
    let their_out = pair.accept(back, LinkAcceptance::default());
    let direction = |sender, receiver, receiver_session| Direction {
        sender,
        receiver,
        receiver_session,
        sent: 0,
        expected: VecDeque::new(),
        to_settle: VecDeque::new(),
        unsettled: VecDeque::new(),
    };
    [direction(out, their_in, their_session), direction(their_out, back, session)]
}

fn apply(pair: &mut Pair, [out, back]: &mut [Direction; 2], by_client: bool, operation: Operation) {
    let (end, sending, receiving) =
        if by_client { (&mut pair.client, out, back) } else { (&mut pair.server, back, out) };
    match operation {
        Operation::Grant(credit) => end.connection.set_credit(receiving.receiver, credit),
        Operation::Drain => end.connection.drain(receiving.receiver),
        Operation::Settle { count, rejected } => {
            let outcome = if rejected { DeliveryState::Rejected(None) } else { DeliveryState::Accepted };
            let count = count.min(receiving.to_settle.len());
            for id in receiving.to_settle.drain(..count) {
                end.connection.settle(receiving.receiver_session, id, id, outcome.clone());
                let waiting = receiving.unsettled.iter_mut().find(|(sent, _)| *sent == id);
                waiting.expect("what is settled was sent unsettled").1 = Some(outcome.clone());
            }
        }
        Operation::Send { length, settled } => sending.send(end, length, settled),
        Operation::CallOff => {
            if end.connection.sender(sending.sender).expect("the link is there").abort_waiting() {
                let (id, _, settled) = sending.expected.pop_back().expect("the last message waits");
                if !settled {
                    assert_eq!(sending.unsettled.pop_back(), Some((id, None)));
                }
            }
        }
        Operation::Carry => pair.carry(by_client),
    }
}

impl Direction {
    fn send(&mut self, end: &mut End, length: usize, settled: bool) {
        let message: Vec<u8> = (0..length).map(|index| (index as u32 ^ self.sent) as u8).collect();
        let credit = end.connection.credit(self.sender);
        match end.send(self.sender, &message, settled) {
            Ok(id) => {
                assert!(credit > 0, "credit is never exceeded");
                self.sent += 1;
                self.expected.push_back((id, message, settled));
                if !settled {
                    self.unsettled.push_back((id, None));
                }
            }
            Err(SendError::NoCredit) => assert_eq!(credit, 0),
            Err(SendError::WindowClosed) => assert!(credit > 0),
            Err(other) => panic!("{other}"),
        }
    }
}

/// Holds what happened against the model.
fn notice(pair: &mut Pair, [out, back]: &mut [Direction; 2]) {
    for by_client in [true, false] {
        let (end, sending, receiving) = if by_client {
            (&mut pair.client, &mut *out, &mut *back)
        } else {
            (&mut pair.server, &mut *back, &mut *out)
        };
        for happening in end.all() {
            match happening {
                Happening::Message(message) => {
                    let (id, bytes, settled) = receiving.expected.pop_front().expect("it was sent");
                    assert_eq!((message.id, message.settled), (id, settled));
                    assert!(message.bytes == bytes, "message {id} is as it was sent");
                    if !settled {
                        receiving.to_settle.push_back(id);
                    }
                }
                Happening::Outcome(first, last, state) => {
                    for id in first..=last {
                        let at = sending.unsettled.iter().position(|(sent, _)| *sent == id);
                        let (_, given) = at
                            .and_then(|at| sending.unsettled.remove(at))
                            .expect("an outcome comes once, for what is unsettled");
                        assert_eq!(given, state);
                    }
                }
                Happening::DrainRequested(link) => {
                    end.connection.sender(link).expect("the link is there").drained();
                }
                Happening::Credit(_) | Happening::WindowOpen(_) | Happening::Drained(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Whatever came before, everything arrives and is settled once both ends see to it.
fn finish(pair: &mut Pair, directions: &mut [Direction; 2]) {
    for _ in 0..2 {
        pair.talk();
        notice(pair, directions);
        for by_client in [true, false] {
            apply(pair, directions, by_client, Operation::Settle { count: usize::MAX, rejected: false });
            apply(pair, directions, by_client, Operation::Grant(3));
        }
    }
    pair.talk();
    notice(pair, directions);
    for by_client in [true, false] {
        apply(pair, directions, by_client, Operation::Send { length: 7, settled: true });
    }
    pair.talk();
    notice(pair, directions);
    let last_ids = directions.each_ref().map(|direction| direction.sent);
    for direction in directions {
        assert!(direction.expected.is_empty(), "all has arrived: {direction:?}");
        assert!(direction.unsettled.is_empty(), "all is settled: {direction:?}");
    }
    assert!(last_ids.iter().all(|sent| *sent > 0), "links are usable to the end");
}
