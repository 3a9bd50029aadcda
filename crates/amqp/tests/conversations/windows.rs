//! Session windows: kept by the sender, replenished by the receiver, whatever their size.

use amqp::connection::{Config, LinkAcceptance, SendError};
use amqp::performative::{ErrorCondition, Flow, Role};

use crate::list::Meaning;
use crate::pair::{Cut, Happening, Pair, Setup, converse, options};
use crate::wire::{Wire, attach, credit, transfer};

fn narrow(window: u32) -> Setup {
    let config =
        Config { max_frame_size: amqp::MIN_MAX_FRAME_SIZE, incoming_window: window, ..Config::default() };
    Setup { client: config.clone(), server: config, ..Setup::default() }
}

/// A sender on each side of one session, with credit.
fn both_ways(pair: &mut Pair) -> (amqp::connection::LinkId, amqp::connection::LinkId) {
    let (out, theirs) = pair.attach_sender(LinkAcceptance::default());
    let session = pair.client.connection.session_of(out).expect("the link is there");
    let back = pair.client.connection.attach_receiver(session, options("back")).expect("there is room");
    let their_back = pair.accept(back, LinkAcceptance::default());
    pair.server.connection.set_credit(theirs, 1_000);
    pair.client.connection.set_credit(back, 1_000);
    pair.talk();
    pair.client.all();
    pair.server.all();
    (out, their_back)
}

#[test]
fn messages_of_many_frames_pass_through_windows_of_few() {
    for window in [1, 2, 3] {
        converse(&narrow(window), |pair| {
            let (out, back) = both_ways(pair);
            for length in [1, 500, 1_000, 2_500] {
                let message: Vec<u8> = (0..length).map(|index| (index * 7) as u8).collect();
                assert!(pair.client.send(out, &message, false).is_ok(), "{length} through {window}");
                assert!(pair.server.send(back, &message, true).is_ok(), "{length} back through {window}");
                pair.talk();
                let (arrived, returned) = (pair.server.messages(), pair.client.messages());
                assert!(arrived.len() == 1 && arrived[0].bytes == message, "{length} through {window}");
                assert!(
                    returned.len() == 1 && returned[0].bytes == message,
                    "{length} back through {window}"
                );
            }
        });
    }
}

#[test]
fn messages_wait_while_the_window_is_closed_and_are_announced_when_it_opens() {
    converse(&narrow(2), |pair| {
        let (out, _) = both_ways(pair);
        let session = pair.client.connection.session_of(out).expect("the link is there");
        assert_eq!(pair.client.send(out, b"1", true), Ok(0));
        assert_eq!(pair.client.send(out, b"2", true), Ok(1));
        assert_eq!(pair.client.send(out, b"3", true), Err(SendError::WindowClosed));
        pair.talk();
        assert_eq!(pair.client.all(), [Happening::WindowOpen(session)]);
        assert_eq!(pair.client.send(out, b"3", true), Ok(2));
        pair.talk();
        assert_eq!(pair.server.messages().len(), 3);
    });
}

#[test]
fn one_message_at_a_time_waits_for_the_window() {
    converse(&narrow(1), |pair| {
        let (out, _) = both_ways(pair);
        assert_eq!(pair.client.send(out, &[1; 900], false), Ok(0));
        assert_eq!(pair.client.send(out, b"later", false), Err(SendError::WindowClosed));
        pair.talk();
        assert_eq!(pair.server.messages().len(), 1);
        assert_eq!(pair.client.send(out, b"later", false), Ok(1));
        pair.talk();
        assert_eq!(pair.server.messages()[0].bytes, b"later");
    });
}

#[test]
fn a_waiting_message_can_be_called_off() {
    converse(&narrow(1), |pair| {
        let (out, _) = both_ways(pair);
        let session = pair.client.connection.session_of(out).expect("the link is there");
        assert_eq!(pair.client.send(out, &[1; 2_000], false), Ok(0));
        let mut sender = pair.client.connection.sender(out).expect("the link is there");
        assert!(sender.abort_waiting());
        pair.talk();
        assert_eq!(pair.server.messages(), []);
        assert_eq!(pair.client.connection.unsettled_span(session), 0, "an aborted delivery is settled");
        assert!(!pair.client.connection.sender(out).expect("the link is there").abort_waiting());
        assert_eq!(pair.client.send(out, b"after", false), Ok(1));
        pair.talk();
        assert_eq!(pair.server.messages()[0].bytes, b"after");
    });
}

#[test]
fn a_link_detached_while_its_message_waits_leaves_the_session_usable() {
    converse(&narrow(1), |pair| {
        let (out, _) = both_ways(pair);
        let session = pair.client.connection.session_of(out).expect("the link is there");
        assert_eq!(pair.client.send(out, &[1; 2_000], false), Ok(0));
        pair.client.connection.detach_link(out, None);
        pair.talk();
        pair.client.all();
        pair.server.all();
        let next = pair.client.connection.attach_sender(session, options("next")).expect("there is room");
        let theirs = pair.accept(next, LinkAcceptance::default());
        pair.server.connection.set_credit(theirs, 1);
        pair.talk();
        assert_eq!(pair.client.send(next, b"after", false), Ok(1));
        pair.talk();
        assert_eq!(pair.server.messages()[0].bytes, b"after");
    });
}

#[test]
fn a_transfer_beyond_the_window_ends_the_session() {
    let config = Config { incoming_window: 4, ..Config::default() };
    let mut wire = Wire::begin(config, 10);
    wire.say(0, &attach("in", 0, Role::Sender));
    let (link, _) = wire.server.requested();
    wire.server.connection.accept_link(link, LinkAcceptance::default());
    wire.server.connection.set_credit(link, 100);
    wire.reply();
    // The server replenishes its window whenever it speaks, so say it all before it does.
    for id in 0..4 {
        wire.say_body(0, &transfer(0, Some(id), false, b"m"));
    }
    assert_eq!(wire.server.messages().len(), 4);
    wire.say_body(0, &transfer(0, Some(4), false, b"m"));
    let reply = wire.reply();
    let Some((0, Meaning::End(end))) = reply.last() else { panic!("{reply:?}") };
    assert_eq!(end.error.as_ref().map(|error| &error.condition), Some(&ErrorCondition::WINDOW_VIOLATION));
    wire.say_notation(0, "00 53 17 45");
    let happened = wire.server.all();
    assert!(matches!(&happened[..], [Happening::SessionEnded(_, Some(_))]), "{happened:?}");
}

#[test]
fn a_window_is_replenished_at_half() {
    let mut wire = Wire::begin(Config { incoming_window: 8, ..Config::default() }, 10);
    wire.say(0, &attach("in", 0, Role::Sender));
    let (link, _) = wire.server.requested();
    wire.server.connection.accept_link(link, LinkAcceptance::default());
    wire.server.connection.set_credit(link, 100);
    wire.reply();
    for id in 0..3 {
        wire.say_body(0, &transfer(0, Some(id), false, b"m"));
        assert_eq!(wire.reply(), []);
    }
    wire.say_body(0, &transfer(0, Some(3), false, b"m"));
    let reply = wire.reply();
    let [(0, Meaning::Flow(flow))] = &reply[..] else { panic!("{reply:?}") };
    assert_eq!((flow.next_incoming_id, flow.incoming_window, flow.handle), (Some(4), 8, None));
}

#[test]
fn a_shrunken_window_is_closed_and_not_negative() {
    let mut wire = Wire::begin(Config::default(), 10);
    wire.say(0, &attach("out", 0, Role::Receiver));
    let (link, _) = wire.server.requested();
    wire.server.connection.accept_link(link, LinkAcceptance::default());
    wire.say(0, &credit(0, 100));
    for id in 0..6 {
        assert_eq!(wire.server.send(link, b"m", true), Ok(id));
    }
    let flow = |next_incoming_id, incoming_window| {
        Meaning::Flow(Flow {
            next_incoming_id: Some(next_incoming_id),
            incoming_window,
            next_outgoing_id: 0,
            outgoing_window: 10,
            ..Flow::default()
        })
    };
    // Six are on their way, of which the peer has seen two and will take three more.
    wire.say(0, &flow(3, 3));
    assert_eq!(wire.server.send(link, b"m", true), Err(SendError::WindowClosed));
    wire.say(0, &flow(3, 5));
    assert_eq!(wire.server.send(link, b"m", true), Ok(6));
    assert_eq!(wire.server.send(link, b"m", true), Err(SendError::WindowClosed));
}

#[test]
fn nothing_is_sent_into_a_session_that_begins_closed() {
    let mut pair = Pair::new(&narrow(0), Cut::Nowhere);
    let (link, theirs) = pair.attach_sender(LinkAcceptance::default());
    pair.server.connection.set_credit(theirs, 10);
    pair.talk();
    assert_eq!(pair.client.send(link, b"m", true), Err(SendError::WindowClosed));
}
