//! Attaching, refusing, detaching, stealing.

use amqp::Value;
use amqp::codec::Symbol;
use amqp::connection::{Config, LinkAcceptance, LinkId, LinkOptions};
use amqp::performative::{
    Attach, Detach, Error, ErrorCondition, Open, ReceiverSettleMode, Role, SenderSettleMode, Source,
};

use crate::list::Meaning;
use crate::pair::{Happening, Setup, converse, options};
use crate::wire::{Wire, attach, first_begin};

#[test]
fn an_accepted_link_echoes_what_was_asked_for() {
    converse(&Setup::default(), |pair| {
        let (session, _) = pair.begin();
        let asked = LinkOptions {
            source: Source {
                filter: vec![("from".into(), Value::Described(Box::new(("a:b".into(), "offset".into()))))],
                ..Source::new("hub/ConsumerGroups/$Default/Partitions/0")
            },
            sender_settle_mode: SenderSettleMode::Settled,
            receiver_settle_mode: ReceiverSettleMode::Second,
            properties: vec![("epoch".into(), Value::Long(3))],
            ..options("reader")
        };
        let link = pair.client.connection.attach_receiver(session, asked.clone()).expect("there is room");
        pair.talk();
        let (theirs, request) = pair.server.requested();
        assert_eq!(request.property("epoch"), Some(&Value::Long(3)));
        assert_eq!(request.source, Some(asked.source.clone()));
        assert!(!pair.client.connection.is_attached(link));
        pair.server.connection.accept_link(
            theirs,
            LinkAcceptance {
                max_message_size: Some(1 << 20),
                offered_capabilities: vec!["extra".into()],
                properties: vec![("tracking".into(), Value::from("x"))],
                source: None,
                target: None,
            },
        );
        pair.talk();
        let Some(Happening::LinkAttached(attached, reply)) = pair.client.next() else { panic!("no reply") };
        assert_eq!(attached, link);
        assert_eq!(
            *reply,
            Attach {
                name: "reader".to_owned(),
                handle: 0,
                role: Role::Sender,
                sender_settle_mode: SenderSettleMode::Settled,
                receiver_settle_mode: ReceiverSettleMode::Second,
                source: Some(asked.source.clone()),
                target: Some(asked.target.clone()),
                initial_delivery_count: Some(0),
                max_message_size: Some(1 << 20),
                offered_capabilities: vec!["extra".into()],
                desired_capabilities: Vec::new(),
                properties: vec![("tracking".into(), Value::from("x")), ("epoch".into(), Value::Long(3)),],
            }
        );
        assert!(pair.client.connection.is_attached(link) && pair.server.connection.is_attached(theirs));
    });
}

/// Asks for a link with these properties.
fn asking(wire: &mut Wire, properties: Vec<(Symbol, Value)>) -> LinkId {
    let Meaning::Attach(request) = attach("link", 0, Role::Sender) else { panic!("it is an attach") };
    wire.say(0, &Meaning::Attach(Box::new(Attach { properties, ..*request })));
    wire.server.requested().0
}

/// The properties of the attach that comes first in the reply.
fn answered_properties(wire: &mut Wire) -> Vec<(Symbol, Value)> {
    match wire.reply().into_iter().next() {
        Some((0, Meaning::Attach(answer))) => answer.properties,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_has_the_properties_of_its_request_beside_and_behind_its_own() {
    let asked: Vec<(Symbol, Value)> =
        vec![("timeout".into(), Value::Uint(7)), ("producer-id".into(), Value::Null)];
    let mut wire = Wire::begin(Config::default(), 100);
    let link = asking(&mut wire, asked.clone());
    let own = vec![("producer-id".into(), Value::Long(42))];
    wire.server.connection.accept_link(link, LinkAcceptance { properties: own, ..LinkAcceptance::default() });
    let expected = [("producer-id".into(), Value::Long(42)), ("timeout".into(), Value::Uint(7))];
    assert_eq!(answered_properties(&mut wire), expected);
    // One that is refused has them, too.
    let mut wire = Wire::begin(Config::default(), 100);
    let link = asking(&mut wire, asked.clone());
    wire.server.connection.refuse_link(link, Error::new(ErrorCondition::NOT_FOUND, "It is not there."));
    assert_eq!(answered_properties(&mut wire), asked);
}

#[test]
fn properties_that_would_not_fit_into_a_frame_of_the_peer_are_left_out_of_the_answer() {
    let mut wire = Wire::new(Config::default());
    wire.say_bytes(b"AMQP\x00\x01\x00\x00");
    let open = Open { container_id: "hand".to_owned(), max_frame_size: 512, ..Open::default() };
    wire.say(0, &Meaning::Open(open));
    wire.say(0, &first_begin(100));
    wire.server.all();
    wire.raw_reply();
    let link = asking(&mut wire, vec![("long".into(), Value::from(&*"x".repeat(1_000)))]);
    let own: Vec<(Symbol, Value)> = vec![("own".into(), Value::Null)];
    wire.server
        .connection
        .accept_link(link, LinkAcceptance { properties: own.clone(), ..LinkAcceptance::default() });
    assert_eq!(answered_properties(&mut wire), own);
}

#[test]
fn a_refused_link_is_attached_to_nothing_and_then_detached_with_the_error() {
    for role in [Role::Sender, Role::Receiver] {
        converse(&Setup::default(), |pair| {
            let (session, _) = pair.begin();
            let link = match role {
                Role::Sender => pair.client.connection.attach_sender(session, options("refused")),
                Role::Receiver => pair.client.connection.attach_receiver(session, options("refused")),
            };
            let link = link.expect("there is room");
            pair.talk();
            let error = Error::new(ErrorCondition::NOT_FOUND, "no such hub");
            let (theirs, _) = pair.server.requested();
            pair.server.connection.refuse_link(theirs, error.clone());
            pair.talk();
            assert_eq!(pair.client.all(), [Happening::LinkDetached(link, Some(error))]);
            assert_eq!(pair.server.all(), [Happening::LinkDetached(theirs, None)]);
            let again =
                pair.client.connection.attach_sender(session, options("refused")).expect("there is room");
            pair.accept(again, LinkAcceptance::default());
        });
    }
}

#[test]
fn a_refusal_is_an_attach_without_ends_and_a_closing_detach() {
    let mut wire = Wire::begin(Config::default(), 10);
    wire.say(0, &attach("x", 5, Role::Sender));
    let (link, _) = wire.server.requested();
    wire.server.connection.refuse_link(link, Error::new(ErrorCondition::NOT_FOUND, "gone"));
    let reply = wire.reply();
    let [(0, Meaning::Attach(attached)), (0, Meaning::Detach(detached))] = &reply[..] else {
        panic!("{reply:?}")
    };
    assert_eq!((&attached.source, &attached.target, attached.role), (&None, &None, Role::Receiver));
    assert_eq!((detached.handle, detached.closed), (attached.handle, true));
}

#[test]
fn detach_is_answered_with_detach() {
    for by_client in [true, false] {
        converse(&Setup::default(), |pair| {
            let (link, theirs) = pair.attach_sender(LinkAcceptance::default());
            let error = Some(Error::new(ErrorCondition::DETACH_FORCED, "idle"));
            let (detaching, id) =
                if by_client { (&mut pair.client, link) } else { (&mut pair.server, theirs) };
            detaching.connection.detach_link(id, error.clone());
            detaching.connection.detach_link(id, None);
            assert!(!detaching.connection.is_attached(id));
            pair.talk();
            let seen = |own: bool| if own { None } else { error.clone() };
            assert_eq!(pair.client.all(), [Happening::LinkDetached(link, seen(by_client))]);
            assert_eq!(pair.server.all(), [Happening::LinkDetached(theirs, seen(!by_client))]);
            assert!(pair.client.connection.sender(link).is_none());
        });
    }
}

#[test]
fn a_link_detached_before_it_was_answered_is_gone_at_both_ends() {
    converse(&Setup::default(), |pair| {
        let (session, _) = pair.begin();
        let link = pair.client.connection.attach_sender(session, options("brief")).expect("there is room");
        pair.client.connection.detach_link(link, None);
        pair.talk();
        let (theirs, _) = pair.server.requested();
        // The server decides without having seen that the link is gone already.
        pair.server.connection.accept_link(theirs, LinkAcceptance::default());
        pair.talk();
        assert_eq!(pair.client.all(), [Happening::LinkDetached(link, None)]);
        assert_eq!(pair.server.all(), [Happening::LinkDetached(theirs, None)]);
        let again = pair.client.connection.attach_sender(session, options("brief")).expect("there is room");
        pair.accept(again, LinkAcceptance::default());
    });
}

#[test]
fn an_answer_that_crosses_a_detach_is_not_taken_for_a_request() {
    converse(&Setup::default(), |pair| {
        let (session, _) = pair.begin();
        let link = pair.client.connection.attach_sender(session, options("brief")).expect("there is room");
        pair.talk();
        let (theirs, _) = pair.server.requested();
        pair.server.connection.accept_link(theirs, LinkAcceptance::default());
        pair.client.connection.detach_link(link, None);
        let again = pair.client.connection.attach_sender(session, options("brief")).expect("there is room");
        pair.talk();
        assert_eq!(pair.client.next(), Some(Happening::LinkDetached(link, None)));
        assert_eq!(pair.server.next(), Some(Happening::LinkDetached(theirs, None)));
        pair.accept(again, LinkAcceptance::default());
    });
}

#[test]
fn a_second_attach_under_a_name_takes_the_link_over() {
    let mut wire = Wire::begin(Config::default(), 10);
    wire.say(0, &attach("reader", 0, Role::Sender));
    let (first, _) = wire.server.requested();
    wire.server.connection.accept_link(first, LinkAcceptance::default());
    wire.reply();
    wire.say(0, &attach("reader", 1, Role::Sender));
    let (second, _) = wire.server.requested();
    wire.server.connection.accept_link(second, LinkAcceptance::default());
    let reply = wire.reply();
    let [(0, Meaning::Detach(detached)), (0, Meaning::Attach(attached))] = &reply[..] else {
        panic!("{reply:?}")
    };
    assert_eq!(detached.error.as_ref().map(|error| &error.condition), Some(&ErrorCondition::STOLEN));
    assert_ne!(detached.handle, attached.handle);
    wire.say(0, &Meaning::Detach(Detach { handle: 0, closed: true, error: None }));
    assert_eq!(wire.server.all(), [Happening::LinkDetached(first, None)]);
    assert!(wire.server.connection.is_attached(second));
}

#[test]
fn a_link_stolen_before_it_was_decided_on_is_attached_first() {
    let mut wire = Wire::begin(Config::default(), 10);
    wire.say(0, &attach("reader", 0, Role::Sender));
    wire.say(0, &attach("reader", 1, Role::Sender));
    let (first, _) = wire.server.requested();
    let (second, _) = wire.server.requested();
    wire.server.connection.accept_link(first, LinkAcceptance::default());
    wire.server.connection.accept_link(second, LinkAcceptance::default());
    let reply = wire.reply();
    let [(0, Meaning::Attach(refused)), (0, Meaning::Detach(detached)), (0, Meaning::Attach(accepted))] =
        &reply[..]
    else {
        panic!("{reply:?}")
    };
    assert_eq!((refused.handle, &refused.target), (detached.handle, &None));
    assert!(accepted.target.is_some());
}

#[test]
fn a_link_that_its_peer_gives_up_before_our_decision_is_attached_before_it_is_detached() {
    let mut wire = Wire::begin(Config::default(), 10);
    wire.say(0, &attach("early", 0, Role::Receiver));
    wire.say(0, &Meaning::Detach(Detach { handle: 0, closed: true, error: None }));
    let (link, _) = wire.server.requested();
    assert_eq!(wire.server.next(), Some(Happening::LinkDetached(link, None)));
    wire.server.connection.accept_link(link, LinkAcceptance::default());
    let reply = wire.reply();
    assert!(matches!(&reply[..], [(0, Meaning::Attach(_)), (0, Meaning::Detach(_))]), "{reply:?}");
}

#[test]
fn a_requested_link_can_be_detached_in_place_of_refused() {
    let mut wire = Wire::begin(Config::default(), 10);
    wire.say(0, &attach("x", 0, Role::Receiver));
    let (link, _) = wire.server.requested();
    wire.server.connection.detach_link(link, None);
    let reply = wire.reply();
    assert!(matches!(&reply[..], [(0, Meaning::Attach(_)), (0, Meaning::Detach(_))]), "{reply:?}");
}

#[test]
fn the_same_name_serves_both_directions_and_every_session() {
    converse(&Setup::default(), |pair| {
        let (session, _) = pair.begin();
        let other = pair.client.connection.begin_session().expect("there is room");
        let sender = pair.client.connection.attach_sender(session, options("same")).expect("there is room");
        let receiver =
            pair.client.connection.attach_receiver(session, options("same")).expect("there is room");
        let elsewhere = pair.client.connection.attach_sender(other, options("same")).expect("there is room");
        pair.talk();
        let requests: Vec<_> = pair
            .server
            .all()
            .into_iter()
            .filter_map(|happening| match happening {
                Happening::LinkRequested(link, _) => Some(link),
                _ => None,
            })
            .collect();
        for link in requests {
            pair.server.connection.accept_link(link, LinkAcceptance::default());
        }
        pair.talk();
        for link in [sender, receiver, elsewhere] {
            assert!(pair.client.connection.is_attached(link));
        }
    });
}

#[test]
fn ending_a_session_takes_its_links_along() {
    for by_client in [true, false] {
        converse(&Setup::default(), |pair| {
            let (link, theirs) = pair.attach_sender(LinkAcceptance::default());
            let session = pair.client.connection.session_of(link).expect("the link is there");
            let their_session = pair.server.connection.session_of(theirs).expect("the link is there");
            pair.server.connection.set_credit(theirs, 5);
            let error = Some(Error::new(ErrorCondition::RESOURCE_LIMIT_EXCEEDED, "too much"));
            if by_client {
                pair.client.connection.end_session(session, error.clone());
            } else {
                pair.server.connection.end_session(their_session, error.clone());
            }
            pair.talk();
            // Both ends report the reason, whoever gave it.
            let last = |happenings: Vec<Happening>| happenings.into_iter().last();
            assert_eq!(last(pair.client.all()), Some(Happening::SessionEnded(session, error.clone())));
            assert_eq!(last(pair.server.all()), Some(Happening::SessionEnded(their_session, error)));
            assert_eq!(pair.client.connection.session_of(link), None);
            assert!(pair.server.connection.sender(theirs).is_none());
            let again = pair.client.connection.begin_session().expect("there is room");
            pair.talk();
            assert_eq!(pair.client.next(), Some(Happening::SessionBegan(again)));
        });
    }
}

#[test]
fn a_client_is_kept_to_what_its_peer_allows() {
    let setup =
        Setup { server: Config { channel_max: 1, handle_max: 0, ..Config::default() }, ..Setup::default() };
    converse(&setup, |pair| {
        let (session, _) = pair.begin();
        assert!(pair.client.connection.begin_session().is_some());
        assert!(pair.client.connection.begin_session().is_none(), "two channels are allowed");
        let link =
            pair.client.connection.attach_sender(session, options("one")).expect("one link is allowed");
        assert!(pair.client.connection.attach_sender(session, options("two")).is_none());
        pair.talk();
        pair.server.next();
        pair.client.next();
        pair.accept(link, LinkAcceptance::default());
    });
}

#[test]
fn session_has_room_for_as_many_links_as_both_ends_take() {
    for (client, server) in [(1, u32::MAX), (u32::MAX, 1)] {
        let config = |handle_max| Config { handle_max, ..Config::default() };
        let setup = Setup { client: config(client), server: config(server), ..Setup::default() };
        converse(&setup, |pair| {
            let (session, _) = pair.begin();
            let connection = &mut pair.client.connection;
            let first = connection.attach_sender(session, options("one")).expect("there is room");
            assert!(connection.has_room(session));
            connection.attach_receiver(session, options("two")).expect("there is room");
            assert!(!connection.has_room(session));
            assert!(connection.attach_sender(session, options("three")).is_none());
            // The peer has not answered this one yet, and is expected to take as many links.
            let second = connection.begin_session().expect("there is room");
            for name in ["three", "four"] {
                connection.attach_sender(second, options(name)).expect("there is room");
            }
            assert!(!connection.has_room(second));
            pair.talk();
            let requests = pair.server.all();
            for happening in requests {
                if let Happening::LinkRequested(link, _) = happening {
                    pair.server.connection.accept_link(link, LinkAcceptance::default());
                }
            }
            pair.talk();
            let attached = pair
                .client
                .all()
                .into_iter()
                .filter(|happening| matches!(happening, Happening::LinkAttached(..)));
            assert_eq!(attached.count(), 4);
            pair.client.connection.detach_link(first, None);
            pair.talk();
            assert!(pair.client.connection.has_room(session));
        });
    }
}

#[test]
fn ids_of_links_that_are_gone_are_not_given_to_others() {
    converse(&Setup::default(), |pair| {
        let (link, theirs) = pair.attach_sender(LinkAcceptance::default());
        let session = pair.client.connection.session_of(link).expect("the link is there");
        pair.client.connection.detach_link(link, None);
        pair.talk();
        pair.client.all();
        pair.server.all();
        let next = pair.client.connection.attach_sender(session, options("next")).expect("there is room");
        let their_next = pair.accept(next, LinkAcceptance::default());
        assert_eq!(next.index(), link.index(), "the place is used again");
        assert_ne!(next, link);
        assert_ne!(their_next, theirs);
        pair.server.connection.set_credit(theirs, 100);
        pair.client.connection.detach_link(link, None);
        pair.talk();
        assert_eq!(pair.client.all(), []);
        assert_eq!(pair.client.connection.credit(next), 0);
    });
}
