//! Link credit: never exceeded, drained, echoed, taken back.

use amqp::connection::{Config, CreditOverrun, LinkAcceptance, SendError};
use amqp::performative::{Detach, ErrorCondition, Flow, Role};

use crate::list::Meaning;
use crate::pair::{Cut, Happening, Pair, Setup, converse, options};
use crate::wire::{Wire, attach, transfer};

#[test]
fn credit_is_never_exceeded() {
    converse(&Setup::default(), |pair| {
        let (link, theirs) = pair.attach_sender(LinkAcceptance::default());
        for (credit, sent_before) in [(3, 0), (1, 3), (5, 4)] {
            pair.server.connection.set_credit(theirs, credit);
            pair.talk();
            assert_eq!(pair.client.all(), [Happening::Credit(link)]);
            for sent in 0..credit {
                assert_eq!(pair.client.connection.credit(link), credit - sent);
                assert_eq!(pair.client.send(link, b"m", true), Ok(sent_before + sent));
            }
            assert_eq!(pair.client.send(link, b"m", true), Err(SendError::NoCredit));
            pair.talk();
            assert_eq!(pair.server.messages().len(), credit as usize);
            assert_eq!(pair.server.connection.credit(theirs), 0);
        }
    });
}

#[test]
fn credit_counts_what_is_on_its_way() {
    converse(&Setup::default(), |pair| {
        let (link, theirs) = pair.attach_sender(LinkAcceptance::default());
        pair.server.connection.set_credit(theirs, 10);
        pair.talk();
        for _ in 0..6 {
            pair.client.send(link, b"m", true).expect("there is credit");
        }
        // The server says ten again before it has seen the six.
        pair.server.connection.set_credit(theirs, 10);
        pair.talk();
        assert_eq!(pair.client.connection.credit(link), 4);
        assert_eq!(pair.server.connection.credit(theirs), 4);
    });
}

#[test]
fn credit_that_was_taken_back_is_no_overrun_while_messages_are_on_their_way() {
    converse(&Setup::default(), |pair| {
        let (link, theirs) = pair.attach_sender(LinkAcceptance::default());
        pair.server.connection.set_credit(theirs, 5);
        pair.talk();
        for _ in 0..5 {
            pair.client.send(link, b"m", true).expect("there is credit");
        }
        pair.server.connection.set_credit(theirs, 0);
        pair.talk();
        assert_eq!(pair.server.messages().len(), 5);
        assert!(pair.client.connection.is_attached(link) && pair.server.connection.is_attached(theirs));
        assert_eq!(pair.client.send(link, b"m", true), Err(SendError::NoCredit));
        pair.server.connection.set_credit(theirs, 2);
        pair.talk();
        assert_eq!(pair.client.connection.credit(link), 2);
    });
}

#[test]
fn a_drained_link_has_used_up_its_credit() {
    for sent_first in [0, 2, 5] {
        converse(&Setup::default(), |pair| {
            let (link, theirs) = pair.attach_sender(LinkAcceptance::default());
            pair.server.connection.set_credit(theirs, 5);
            pair.talk();
            for _ in 0..sent_first {
                pair.client.send(link, b"m", true).expect("there is credit");
            }
            pair.server.connection.drain(theirs);
            pair.talk();
            assert_eq!(pair.client.all(), [Happening::Credit(link), Happening::DrainRequested(link)]);
            pair.client.connection.sender(link).expect("the link is there").drained();
            assert_eq!(pair.client.send(link, b"m", true), Err(SendError::NoCredit));
            pair.talk();
            assert_eq!(pair.server.connection.credit(theirs), 0);
            assert_eq!(pair.server.all().last(), Some(&Happening::Drained(theirs)));
            pair.server.connection.set_credit(theirs, 3);
            pair.talk();
            assert_eq!(pair.client.all(), [Happening::Credit(link)]);
            for _ in 0..3 {
                pair.client.send(link, b"m", true).expect("there is credit");
            }
            pair.talk();
            assert_eq!(pair.server.messages().len(), 3);
            assert!(pair.server.connection.is_attached(theirs));
        });
    }
}

#[test]
fn a_server_that_sends_is_drained_too() {
    converse(&Setup::default(), |pair| {
        let (link, theirs) = pair.attach_receiver(options("link"));
        pair.client.connection.set_credit(link, 10);
        pair.client.connection.drain(link);
        pair.talk();
        assert_eq!(pair.server.all(), [Happening::DrainRequested(theirs)]);
        pair.server.send(theirs, b"last", true).expect("there is credit");
        pair.server.connection.sender(theirs).expect("the link is there").drained();
        pair.talk();
        let happened = pair.client.all();
        assert!(matches!(happened[..], [Happening::Message(_), Happening::Drained(_)]), "{happened:?}");
        assert_eq!(pair.client.connection.credit(link), 0);
    });
}

#[test]
fn an_echo_is_answered_with_what_is_left() {
    let mut wire = Wire::begin(Config::default(), 10);
    wire.say(0, &attach("in", 0, Role::Sender));
    let (link, _) = wire.server.requested();
    wire.server.connection.accept_link(link, LinkAcceptance::default());
    wire.server.connection.set_credit(link, 7);
    wire.reply();
    wire.say_body(0, &transfer(0, Some(0), false, b"m"));
    let echo = Flow {
        next_incoming_id: Some(1),
        incoming_window: 10,
        next_outgoing_id: 1,
        outgoing_window: 10,
        handle: Some(0),
        delivery_count: Some(1),
        echo: true,
        ..Flow::default()
    };
    wire.say(0, &Meaning::Flow(echo.clone()));
    let reply = wire.reply();
    let [(0, Meaning::Flow(flow))] = &reply[..] else { panic!("{reply:?}") };
    assert_eq!((flow.delivery_count, flow.link_credit, flow.echo), (Some(1), Some(6), false));
    assert_eq!(flow.next_incoming_id, Some(1));
    wire.say(0, &Meaning::Flow(Flow { handle: None, delivery_count: None, ..echo }));
    let reply = wire.reply();
    assert!(matches!(&reply[..], [(0, Meaning::Flow(Flow { handle: None, .. }))]), "{reply:?}");
}

#[test]
fn transfers_without_credit_end_the_link_or_are_accepted_as_configured() {
    for policy in [CreditOverrun::Detach, CreditOverrun::Tolerate] {
        let mut wire = Wire::begin(Config { credit_overrun: policy, ..Config::default() }, 10);
        wire.say(0, &attach("in", 0, Role::Sender));
        let (link, _) = wire.server.requested();
        wire.server.connection.accept_link(link, LinkAcceptance::default());
        wire.server.connection.set_credit(link, 1);
        wire.reply();
        for id in 0..3 {
            wire.say_body(0, &transfer(0, Some(id), false, b"m"));
        }
        let reply = wire.reply();
        match policy {
            CreditOverrun::Detach => {
                assert_eq!(wire.server.messages().len(), 1, "what was covered is taken");
                let [(0, Meaning::Detach(Detach { error: Some(error), .. }))] = &reply[..] else {
                    panic!("{reply:?}")
                };
                assert_eq!(error.condition, ErrorCondition::TRANSFER_LIMIT_EXCEEDED);
            }
            CreditOverrun::Tolerate => {
                assert_eq!(wire.server.messages().len(), 3);
                assert_eq!(reply, []);
                assert!(wire.server.connection.is_attached(link));
            }
        }
    }
}

#[test]
fn deliveries_are_counted_past_the_end_of_numbers() {
    // The sender's count starts just below the end.
    let mut wire = Wire::begin(Config::default(), 10);
    let Meaning::Attach(mut request) = attach("in", 0, Role::Sender) else { unreachable!("it is an attach") };
    request.initial_delivery_count = Some(u32::MAX - 1);
    wire.say(0, &Meaning::Attach(request));
    let (link, _) = wire.server.requested();
    wire.server.connection.accept_link(link, LinkAcceptance::default());
    wire.server.connection.set_credit(link, 5);
    wire.reply();
    for id in 0..5 {
        wire.say_body(0, &transfer(0, Some(id), false, b"m"));
    }
    assert_eq!(wire.server.messages().len(), 5);
    wire.server.connection.set_credit(link, 1);
    let reply = wire.reply();
    let Some((0, Meaning::Flow(flow))) = reply.last() else { panic!("{reply:?}") };
    assert_eq!((flow.delivery_count, flow.link_credit), (Some(3), Some(1)));
    wire.say_body(0, &transfer(0, Some(5), false, b"m"));
    assert_eq!(wire.server.messages().len(), 1);
    wire.say_body(0, &transfer(0, Some(6), false, b"m"));
    assert_eq!(wire.server.messages().len(), 0, "the credit is used up");
}

#[test]
fn credit_given_before_the_link_is_answered_counts_from_the_senders_first_delivery() {
    let mut pair = Pair::new(&Setup::default(), Cut::Nowhere);
    let (session, _) = pair.begin();
    let link = pair.client.connection.attach_receiver(session, options("early")).expect("there is room");
    pair.client.connection.set_credit(link, 2);
    let theirs = pair.accept(link, LinkAcceptance::default());
    for _ in 0..2 {
        pair.server.send(theirs, b"m", true).expect("there is credit");
    }
    assert_eq!(pair.server.send(theirs, b"m", true), Err(SendError::NoCredit));
    pair.talk();
    assert_eq!(pair.client.messages().len(), 2);
}
