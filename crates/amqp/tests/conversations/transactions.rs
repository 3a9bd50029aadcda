//! A controller and a coordinator: transactions are declared, used by messages and outcomes, and discharged.

use amqp::connection::{LinkAcceptance, LinkOptions, NewDelivery};
use amqp::message::FORMAT_AMQP;
use amqp::performative::{DeliveryState, ReceiverSettleMode, Target};
use amqp::{CoordinatorRequest, Symbol, TransactionId};

use crate::pair::{Happening, Pair, Setup, converse, options};

fn id() -> TransactionId {
    TransactionId::new(b"transaction").expect("a short id")
}

/// Sends a request to the coordinator; what that makes of it.
fn ask(pair: &mut Pair, link: amqp::connection::LinkId, request: CoordinatorRequest) -> CoordinatorRequest {
    let mut message = Vec::new();
    request.encode(&mut message);
    pair.client.send(link, &message, false).expect("there is credit");
    pair.talk();
    let heard = pair.server.messages().remove(0);
    CoordinatorRequest::decode(&heard.bytes).expect("it is a request")
}

#[test]
fn a_transaction_is_declared_used_and_discharged() {
    converse(&Setup::default(), |pair| {
        let (session, server_session) = pair.begin();
        let capability = Symbol::from_static("amqp:local-transactions");
        let coordinator =
            LinkOptions { target: Target::coordinator(vec![capability.clone()]), ..options("coordinator") };
        let link = pair.client.connection.attach_sender(session, coordinator).expect("there is room");
        pair.talk();
        let (theirs, request) = pair.server.requested();
        assert_eq!(request.target, Some(Target::coordinator(vec![capability.clone()])));
        pair.server.connection.accept_link(theirs, LinkAcceptance::default());
        pair.server.connection.set_credit(theirs, 10);
        pair.talk();
        let Some(Happening::LinkAttached(_, reply)) = pair.client.next() else { panic!("no reply") };
        assert_eq!(reply.target, Some(Target::coordinator(vec![capability])));
        pair.client.all();

        let declare = CoordinatorRequest::Declare { is_global: false };
        assert_eq!(ask(pair, link, declare), declare);
        pair.server.connection.settle(server_session, 0, 0, DeliveryState::Declared(id()));
        pair.talk();
        let declared = Happening::Outcome(0, 0, Some(DeliveryState::Declared(id())));
        assert_eq!(pair.client.all(), [declared]);

        let discharge = CoordinatorRequest::Discharge { transaction: id(), fail: true };
        assert_eq!(ask(pair, link, discharge), discharge);
    });
}

#[test]
fn messages_say_which_transaction_they_are_part_of() {
    // Both in one frame and in several.
    for length in [10, 3_000] {
        let mut setup = Setup::default();
        setup.server.max_frame_size = 512;
        converse(&setup, |pair| {
            let (session, _) = pair.begin();
            let link = pair.client.connection.attach_sender(session, options("sender")).expect("room");
            pair.talk();
            let (theirs, _) = pair.server.requested();
            pair.server.connection.accept_link(theirs, LinkAcceptance::default());
            pair.server.connection.set_credit(theirs, 10);
            pair.talk();
            let message = vec![7; length];
            let delivery = NewDelivery { tag: &[1; 32], format: FORMAT_AMQP, settled: false };
            let longest = TransactionId::new(&[9; 32]).expect("as long as any");
            for transaction in [None, Some(id()), None, Some(longest), Some(longest)] {
                let mut sender = pair.client.connection.sender(link).expect("it is there");
                let mut writer = match &transaction {
                    None => sender.begin(&delivery),
                    Some(transaction) => sender.begin_in(transaction, &delivery),
                }
                .expect("there is credit");
                writer.put(&message);
                writer.finish();
            }
            pair.talk();
            let heard = pair.server.messages();
            let transactions: Vec<_> = heard.iter().map(|message| message.transaction).collect();
            assert_eq!(transactions, [None, Some(id()), None, Some(longest), Some(longest)]);
            assert!(heard.iter().all(|heard| heard.bytes == message && heard.tag == [1; 32]));
        });
    }
}

#[test]
fn transactional_outcome_leaves_delivery_unsettled_until_discharge() {
    let mut setup = Setup::default();
    setup.server.outcome_answers = amqp::connection::OutcomeAnswers::Application;
    converse(&setup, |pair| {
        let (session, server_session) = pair.begin();
        let asked = LinkOptions { receiver_settle_mode: ReceiverSettleMode::Second, ..options("reader") };
        let link = pair.client.connection.attach_receiver(session, asked).expect("there is room");
        pair.client.connection.set_credit(link, 4);
        pair.talk();
        let (theirs, _) = pair.server.requested();
        pair.server.connection.accept_link(theirs, LinkAcceptance::default());
        pair.talk();
        for _ in 0..4 {
            pair.server.send(theirs, b"message", false).expect("there is credit");
        }
        pair.talk();
        pair.client.all();
        pair.server.all();
        let accepted = |transaction| DeliveryState::Transactional {
            transaction,
            outcome: Some(Box::new(DeliveryState::Accepted)),
        };
        let other = TransactionId::new(b"other").expect("a short id");
        pair.client.connection.propose_outcome(session, 0, 0, accepted(id()));
        pair.client.connection.propose_outcome(session, 1, 1, accepted(id()));
        pair.client.connection.propose_outcome(session, 2, 2, accepted(other));
        // Without an outcome it decides nothing.
        let undecided = DeliveryState::Transactional { transaction: id(), outcome: None };
        pair.client.connection.propose_outcome(session, 3, 3, undecided);
        pair.talk();
        let proposed = |first, last, state| Happening::OutcomeProposed(first, last, state, true);
        assert_eq!(pair.server.all(), [proposed(0, 1, accepted(id())), proposed(2, 2, accepted(other))]);
        pair.server.connection.take_outcome(server_session, 0, 1, accepted(id()));
        pair.server.connection.take_outcome(server_session, 2, 2, accepted(other));
        pair.talk();
        let taken = Happening::TakenBySender;
        assert_eq!(pair.client.all(), [taken(0, 1, accepted(id())), taken(2, 2, accepted(other))]);
        // All of them are live, and settled once.
        pair.client.connection.propose_outcome(session, 1, 3, DeliveryState::Released);
        pair.talk();
        assert_eq!(pair.server.all(), [proposed(1, 3, DeliveryState::Released)]);
        pair.server.connection.answer_outcome(server_session, 1, 3, DeliveryState::Released);
        pair.server.connection.settle_taken(server_session, 0, 2, accepted(id()));
        pair.talk();
        let settled = |first, last, state| Happening::SettledBySender(first, last, Some(state));
        assert_eq!(
            pair.client.all(),
            [settled(1, 3, DeliveryState::Released), settled(0, 0, accepted(id()))]
        );
        pair.client.connection.propose_outcome(session, 0, 0, DeliveryState::Accepted);
        pair.talk();
        assert_eq!(pair.server.all(), [Happening::OutcomeProposed(0, 0, DeliveryState::Accepted, false)]);
    });
}
