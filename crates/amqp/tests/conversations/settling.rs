//! Receivers that settle after the sender, where the application has the answer to their outcomes.

use amqp::codec::{Symbol, Value};
use amqp::connection::{Config, LinkAcceptance, LinkId, LinkOptions, NewDelivery, OutcomeAnswers, SessionId};
use amqp::performative::{
    DeliveryState, Disposition, Error, ErrorCondition, ReceiverSettleMode, Role, Source,
};

use crate::list::Meaning;
use crate::pair::{Happening, Pair, Setup, converse, options};
use crate::wire::Wire;

fn answering() -> Config {
    Config {
        container_id: "server".to_owned(),
        outcome_answers: OutcomeAnswers::Application,
        ..Config::default()
    }
}

fn setup() -> Setup {
    Setup { server: answering(), ..Setup::default() }
}

/// A client that has received so many messages and has settled none: its session, and the server's.
fn receiving(pair: &mut Pair, messages: u32) -> (SessionId, SessionId) {
    let (session, server_session) = pair.begin();
    let asked = LinkOptions { receiver_settle_mode: ReceiverSettleMode::Second, ..options("reader") };
    let link = pair.client.connection.attach_receiver(session, asked).expect("there is room");
    pair.client.connection.set_credit(link, messages);
    pair.talk();
    let (theirs, _) = pair.server.requested();
    pair.server.connection.accept_link(theirs, LinkAcceptance::default());
    pair.talk();
    send(pair, theirs, messages);
    pair.talk();
    assert_eq!(pair.client.messages().len(), messages as usize);
    pair.server.all();
    (session, server_session)
}

fn send(pair: &mut Pair, link: LinkId, messages: u32) {
    let mut sender = pair.server.connection.sender(link).expect("it is there");
    let delivery = NewDelivery { tag: &[1; 16], format: 0, settled: false };
    for number in 0..messages {
        assert_eq!(sender.send(&delivery, &[b"message"]), Ok(number));
    }
}

fn lock_lost() -> DeliveryState {
    let text = "The lock is lost.";
    DeliveryState::Rejected(Some(Error::new(ErrorCondition::MESSAGE_LOCK_LOST, text)))
}

#[test]
fn outcomes_are_answered_as_the_application_says_and_in_ranges() {
    converse(&setup(), |pair| {
        let (session, server_session) = receiving(pair, 6);
        let accepted = || DeliveryState::Accepted;
        pair.client.connection.propose_outcome(session, 0, 3, accepted());
        pair.talk();
        let proposed = Happening::OutcomeProposed(0, 3, accepted(), true);
        assert_eq!(pair.server.all(), [proposed]);
        let server = &mut pair.server.connection;
        server.answer_outcome(server_session, 0, 1, accepted());
        server.answer_outcome(server_session, 2, 2, accepted());
        server.answer_outcome(server_session, 3, 3, lock_lost());
        pair.talk();
        let settled = [
            Happening::SettledBySender(0, 2, Some(accepted())),
            Happening::SettledBySender(3, 3, Some(lock_lost())),
        ];
        assert_eq!(pair.client.all(), settled);
    });
}

#[test]
fn what_waits_for_no_outcome_is_distinguished_from_what_does() {
    converse(&setup(), |pair| {
        let (session, _) = receiving(pair, 6);
        let released = || DeliveryState::Released;
        let client = &mut pair.client.connection;
        client.propose_outcome(session, 1, 1, released());
        client.propose_outcome(session, 4, 4, released());
        client.propose_outcome(session, 0, 7, released());
        pair.talk();
        let proposed = |first, last, is_known| Happening::OutcomeProposed(first, last, released(), is_known);
        assert_eq!(
            pair.server.all(),
            [
                proposed(1, 1, true),
                proposed(4, 4, true),
                proposed(0, 0, true),
                proposed(1, 1, false),
                proposed(2, 3, true),
                proposed(4, 4, false),
                proposed(5, 5, true),
                proposed(6, 7, false),
            ]
        );
    });
}

#[test]
fn a_long_outcome_for_scattered_deliveries_is_not_repeated_for_each() {
    let long = || DeliveryState::Modified {
        delivery_failed: true,
        undeliverable_here: false,
        annotations: vec![(Symbol::from_static("why"), Value::from(&*"x".repeat(100)))],
    };
    for settled in [false, true] {
        converse(&setup(), |pair| {
            let (session, _) = receiving(pair, 100);
            let client = &mut pair.client.connection;
            for odd in (1..100).step_by(2) {
                client.settle(session, odd, odd, DeliveryState::Accepted);
            }
            pair.talk();
            pair.server.all();
            let client = &mut pair.client.connection;
            match settled {
                false => client.propose_outcome(session, 0, 99, long()),
                true => client.settle(session, 0, 99, long()),
            }
            pair.talk();
            let told = pair.server.all();
            assert!(told.len() <= 64, "{} events for one frame", told.len());
            let ranges = told.iter().filter_map(|happening| match happening {
                Happening::OutcomeProposed(first, last, _, true) | Happening::Outcome(first, last, _) => {
                    Some(*first..=*last)
                }
                _ => None,
            });
            let ranges: Vec<_> = ranges.collect();
            let is_told = |id: &u32| ranges.iter().any(|range| range.contains(id));
            assert!((0..100).step_by(2).all(|id| is_told(&id)));
        });
    }
}

#[test]
fn outcomes_that_are_settled_need_no_answer() {
    converse(&setup(), |pair| {
        let (session, _) = receiving(pair, 2);
        pair.client.connection.settle(session, 0, 5, DeliveryState::Accepted);
        pair.talk();
        let outcome = Happening::Outcome(0, 1, Some(DeliveryState::Accepted));
        assert_eq!(pair.server.all(), [outcome]);
    });
}

#[test]
fn a_hostile_range_is_reported_as_a_range_or_not_at_all() {
    let mut wire = Wire::begin(answering(), 100);
    let disposition = |first, last| {
        Meaning::Disposition(Disposition {
            role: Role::Receiver,
            first,
            last,
            settled: false,
            state: Some(DeliveryState::Accepted),
        })
    };
    wire.say(0, &disposition(0, i32::MAX as u32));
    wire.say(0, &disposition(7, 6));
    let widest = Happening::OutcomeProposed(0, i32::MAX as u32, DeliveryState::Accepted, false);
    assert_eq!(wire.server.all(), [widest]);
}

#[test]
fn a_link_can_be_answered_with_another_source_than_it_asked_for() {
    converse(&Setup::default(), |pair| {
        let (session, _) = pair.begin();
        pair.client.connection.attach_receiver(session, options("reader")).expect("there is room");
        pair.talk();
        let (theirs, _) = pair.server.requested();
        let acceptance =
            LinkAcceptance { source: Some(Source::new("elsewhere")), ..LinkAcceptance::default() };
        pair.server.connection.accept_link(theirs, acceptance);
        pair.talk();
        let Some(Happening::LinkAttached(_, reply)) = pair.client.next() else { panic!("no reply") };
        assert_eq!(reply.source, Some(Source::new("elsewhere")));
    });
}

#[test]
fn a_request_for_transactions_is_heard_and_can_be_refused() {
    let mut wire = Wire::begin(Config::default(), 100);
    wire.say_notation(0, "00 53 12 c0 < 07 a1 < 'transactions' > 43 42 40 40 40 00 53 30 45 >");
    let (link, heard) = wire.server.requested();
    assert!(heard.target.expect("it has one").is_coordinator);
    let error = Error::new(ErrorCondition::NOT_IMPLEMENTED, "There are no transactions.");
    wire.server.connection.refuse_link(link, error);
    assert!(!wire.server.connection.is_closed());
}
