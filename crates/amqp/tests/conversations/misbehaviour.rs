//! What a peer must not do, and the condition that it is told.

use amqp::connection::{Config, ConnectionError, LinkAcceptance};
use amqp::performative::{Close, DeliveryState, Detach, Disposition, End, ErrorCondition, Role};

use crate::list::Meaning;
use crate::pair::Happening;
use crate::wire::{Wire, attach, credit, first_begin, frame, transfer};

fn attached(role: Role) -> (Wire, amqp::connection::LinkId) {
    let mut wire = Wire::begin(Config::default(), 100);
    wire.say(0, &attach("link", 0, role));
    let (link, _) = wire.server.requested();
    wire.server.connection.accept_link(link, LinkAcceptance::default());
    if role == Role::Sender {
        wire.server.connection.set_credit(link, 100);
    } else {
        wire.say(0, &credit(0, 100));
    }
    wire.reply();
    wire.server.all();
    (wire, link)
}

/// The condition with which the server ended the session on channel 0.
fn end_condition(wire: &mut Wire) -> String {
    let reply = wire.reply();
    match reply.last() {
        Some((0, Meaning::End(End { error: Some(error) }))) => error.condition.to_string(),
        _ => panic!("{reply:?} in place of an end with an error"),
    }
}

#[test]
fn malformed_frames_close_the_connection_with_the_condition_that_names_the_fault() {
    let open = Wire::open;
    let cases: [(&str, Vec<u8>, &str); 10] = [
        ("a size below the header's", vec![0, 0, 0, 7, 2, 0, 0, 0], "amqp:connection:framing-error"),
        ("a data offset below the header's", vec![0, 0, 0, 8, 1, 0, 0, 0], "amqp:connection:framing-error"),
        ("a data offset beyond the frame", vec![0, 0, 0, 8, 3, 0, 0, 0], "amqp:connection:framing-error"),
        ("a frame that is too large", vec![0, 1, 0, 1, 2, 0, 0, 0], "amqp:connection:framing-error"),
        ("a frame type of its own", vec![0, 0, 0, 8, 2, 9, 0, 0], "amqp:connection:framing-error"),
        ("a SASL frame", vec![0, 0, 0, 8, 2, 1, 0, 0], "amqp:connection:framing-error"),
        ("a body that is no performative", frame(0, &[0x40]), "amqp:decode-error"),
        ("a begin without fields", frame(0, &[0x00, 0x53, 0x11, 0x45]), "amqp:decode-error"),
        ("an unknown performative", frame(0, &[0x00, 0x53, 0x77, 0x45]), "amqp:not-allowed"),
        (
            "a second open",
            frame(0, &crate::list::assemble("00 53 10 c0 < 01 a1 < 'x' > >")),
            "amqp:not-allowed",
        ),
    ];
    for (name, bytes, condition) in cases {
        let mut wire = open(Config::default());
        wire.say_bytes(&bytes);
        assert_eq!(wire.close_condition(), condition, "{name}");
        let happened = wire.server.all();
        assert!(matches!(&happened[..], [Happening::Closed(Some(_))]), "{name}: {happened:?}");
        wire.say(0, &Meaning::Close(Close { error: None }));
        assert_eq!((wire.reply(), wire.server.all()), (Vec::new(), Vec::new()), "{name}: nothing follows");
    }
}

#[test]
fn a_frame_of_the_maximum_size_is_taken() {
    let (mut wire, _) = attached(Role::Sender);
    let overhead = frame(0, &transfer(0, Some(0), false, &[])).len();
    let largest = vec![1; 65_536 - overhead];
    wire.say_body(0, &transfer(0, Some(0), false, &largest));
    assert_eq!(wire.server.messages()[0].bytes, largest);
    wire.say_body(0, &transfer(0, Some(1), false, &[&largest[..], &[1]].concat()));
    let reply = wire.reply();
    let Some((0, Meaning::Close(Close { error: Some(error) }))) = reply.last() else { panic!("{reply:?}") };
    assert_eq!(error.condition, ErrorCondition::FRAMING_ERROR);
}

#[test]
fn extended_headers_are_skipped() {
    let mut wire = Wire::open(Config::default());
    let mut begin = frame(0, &crate::list::write(&first_begin(10)).expect("it can be written"));
    begin.splice(8..8, [0xde, 0xad, 0xbe, 0xef]);
    begin[3] += 4;
    begin[4] = 3;
    wire.say_bytes(&begin);
    assert!(matches!(wire.server.next(), Some(Happening::SessionBegan(_))));
}

#[test]
fn performatives_before_open_are_not_allowed() {
    let mut wire = Wire::new(Config::default());
    wire.say_bytes(b"AMQP\x00\x01\x00\x00");
    wire.say(0, &first_begin(10));
    let happened = wire.server.all();
    assert!(
        matches!(&happened[..], [Happening::Closed(Some(ConnectionError::UnexpectedPerformative { .. }))]),
        "{happened:?}"
    );
    let said = wire.raw_reply();
    let frames = crate::wire::frames(said[8..].to_vec());
    assert!(
        matches!(&frames[..], [(0, Meaning::Open(_)), (0, Meaning::Close(Close { error: Some(_) }))]),
        "{frames:?}"
    );
}

#[test]
fn frames_for_a_channel_without_a_session_close_the_connection() {
    let detach = Meaning::Detach(Detach { handle: 0, closed: true, error: None });
    for body in [
        transfer(0, Some(0), false, b"m"),
        crate::list::write(&detach).expect("it can be written"),
        crate::list::write(&credit(0, 1)).expect("it can be written"),
        crate::list::write(&attach("x", 0, Role::Sender)).expect("it can be written"),
        vec![0x00, 0x53, 0x17, 0x45],
    ] {
        let mut wire = Wire::begin(Config::default(), 10);
        wire.say_body(3, &body);
        assert_eq!(wire.close_condition(), "amqp:connection:framing-error");
        assert_eq!(wire.server.all(), [Happening::Closed(Some(ConnectionError::UnknownChannel(3)))]);
    }
}

#[test]
fn sessions_and_links_stop_at_the_limits_that_were_announced() {
    let limits = Config { channel_max: 1, handle_max: 2, links_max: 4, ..Config::default() };
    let mut wire = Wire::begin(limits.clone(), 10);
    wire.say(1, &first_begin(10));
    wire.say(2, &first_begin(10));
    wire.reply().clear();
    assert!(matches!(
        wire.server.all().last(),
        Some(Happening::Closed(Some(ConnectionError::NumberTooLarge {
            what: "channel",
            number: 2,
            maximum: 1
        })))
    ));

    let mut wire = Wire::begin(limits.clone(), 10);
    wire.say(0, &attach("at the limit", 2, Role::Sender));
    wire.server.requested();
    wire.say(0, &attach("past the limit", 3, Role::Sender));
    assert_eq!(wire.close_condition(), "amqp:connection:framing-error");

    let mut wire = Wire::begin(limits, 10);
    wire.say(1, &first_begin(10));
    wire.reply();
    for (channel, handle) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        wire.say(channel, &attach(&format!("{handle}"), handle, Role::Sender));
    }
    assert!(!wire.server.connection.is_closed());
    wire.say(1, &attach("one too many", 2, Role::Sender));
    assert_eq!(wire.close_condition(), "amqp:resource-limit-exceeded");
}

#[test]
fn a_link_of_an_endless_name_closes_the_connection() {
    let mut wire = Wire::begin(Config::default(), 10);
    wire.say(0, &attach(&"n".repeat(2_048), 0, Role::Sender));
    assert!(!wire.server.connection.is_closed());
    wire.say(0, &attach(&"n".repeat(2_049), 1, Role::Sender));
    assert_eq!(wire.close_condition(), "amqp:resource-limit-exceeded");
}

#[test]
fn a_channel_in_use_cannot_be_begun_again() {
    let mut wire = Wire::begin(Config::default(), 10);
    wire.say(0, &first_begin(10));
    assert_eq!(wire.close_condition(), "amqp:not-allowed");
}

#[test]
fn a_begin_that_answers_nothing_closes_the_connection() {
    let mut wire = Wire::open(Config::default());
    wire.say_notation(0, "00 53 11 c0 < 04 60 00 05 43 52 0a 52 0a >");
    assert_eq!(wire.close_condition(), "amqp:not-allowed");
}

#[test]
fn a_handle_in_use_ends_the_session() {
    let (mut wire, _) = attached(Role::Sender);
    wire.say(0, &attach("other", 0, Role::Sender));
    assert_eq!(end_condition(&mut wire), "amqp:session:handle-in-use");
    assert!(!wire.server.connection.is_closed());
}

#[test]
fn handles_without_a_link_end_the_session() {
    for body in
        [transfer(9, Some(0), false, b"m"), crate::list::write(&credit(9, 1)).expect("it can be written")]
    {
        let (mut wire, _) = attached(Role::Sender);
        wire.say_body(0, &body);
        assert_eq!(end_condition(&mut wire), "amqp:session:unattached-handle");
    }
}

#[test]
fn a_link_detached_twice_is_detached_once() {
    let (mut wire, link) = attached(Role::Sender);
    let detach = Meaning::Detach(Detach { handle: 0, closed: true, error: None });
    wire.say(0, &detach);
    wire.say(0, &detach);
    assert_eq!(wire.server.all(), [Happening::LinkDetached(link, None)]);
    let reply = wire.reply();
    assert!(matches!(&reply[..], [(0, Meaning::Detach(_))]), "{reply:?}");
}

#[test]
fn what_comes_on_a_session_that_was_ended_is_discarded_until_the_peer_ends_it_too() {
    let (mut wire, link) = attached(Role::Sender);
    wire.say_body(0, &transfer(9, Some(0), false, b"m"));
    assert_eq!(end_condition(&mut wire), "amqp:session:unattached-handle");
    wire.say_body(0, &transfer(0, Some(1), false, b"m"));
    wire.say(0, &attach("late", 1, Role::Sender));
    wire.say(0, &credit(7, 1));
    wire.say(0, &Meaning::Detach(Detach { handle: 8, closed: true, error: None }));
    wire.server.connection.set_credit(link, 50);
    wire.server.connection.detach_link(link, None);
    assert_eq!((wire.reply(), wire.server.all()), (Vec::new(), Vec::new()));
    wire.say(0, &Meaning::End(End { error: None }));
    let happened = wire.server.all();
    let [Happening::SessionEnded(_, Some(error))] = &happened[..] else { panic!("{happened:?}") };
    assert_eq!(error.condition, ErrorCondition::UNATTACHED_HANDLE, "our own reason is reported");
    wire.say(0, &first_begin(10));
    assert!(matches!(wire.server.next(), Some(Happening::SessionBegan(_))));
}

#[test]
fn a_link_requested_before_a_violation_is_not_answered_after_it() {
    let mut wire = Wire::begin(Config::default(), 10);
    for decide in [true, false] {
        wire.say(0, &attach("x", 0, Role::Sender));
        wire.say_body(0, &transfer(9, Some(0), false, b"m"));
        let (link, _) = wire.server.requested();
        if decide {
            wire.server.connection.accept_link(link, LinkAcceptance::default());
        } else {
            wire.server
                .connection
                .refuse_link(link, amqp::performative::Error::new(ErrorCondition::NOT_FOUND, ""));
        }
        assert_eq!(end_condition(&mut wire), "amqp:session:unattached-handle");
        assert_eq!(wire.reply(), []);
        wire.say(0, &Meaning::End(End { error: None }));
        wire.say(0, &first_begin(10));
        wire.reply();
        wire.server.all();
    }
}

#[test]
fn a_transfer_on_a_link_by_which_we_send_ends_the_session() {
    let (mut wire, _) = attached(Role::Receiver);
    wire.say_body(0, &transfer(0, Some(0), false, b"m"));
    assert_eq!(end_condition(&mut wire), "amqp:not-allowed");
}

#[test]
fn a_delivery_without_an_id_ends_the_session() {
    for more in [true, false] {
        let (mut wire, _) = attached(Role::Sender);
        wire.say_body(0, &transfer(0, None, more, b"m"));
        assert_eq!(end_condition(&mut wire), "amqp:invalid-field");
    }
}

#[test]
fn a_delivery_tag_may_have_as_many_bytes_as_its_length_can_say_in_one() {
    for (length, closed) in [(32, false), (34, false), (200, false), (255, false), (256, true)] {
        for more in [false, true] {
            let (mut wire, _) = attached(Role::Sender);
            let tag = "07 ".repeat(length);
            let tag = if length < 256 { format!("a0 < {tag} >") } else { format!("b0 << {tag} >>") };
            let fields = format!("43 43 {tag} 43 42 {}", if more { "41" } else { "42" });
            wire.say_notation(
                0,
                &match length {
                    ..=200 => format!("00 53 14 c0 < 06 {fields} >"),
                    _ => format!("00 53 14 d0 << 00 00 00 06 {fields} >>"),
                },
            );
            assert_eq!(wire.server.connection.is_closed(), closed, "{length}");
            if closed {
                continue;
            }
            if more {
                wire.say_body(0, &transfer(0, None, false, b"the end"));
            }
            assert_eq!(wire.server.messages()[0].tag, vec![7; length]);
        }
    }
}

#[test]
fn an_aborted_delivery_is_not_reported() {
    let (mut wire, link) = attached(Role::Sender);
    wire.say_body(0, &transfer(0, Some(0), true, b"first half"));
    wire.say_notation(0, "00 53 14 c0 < 0a 43 40 40 40 40 42 40 40 40 41 >");
    wire.say_body(0, &transfer(0, Some(1), false, b"whole"));
    let arrived = wire.server.messages();
    assert_eq!(arrived.len(), 1);
    assert_eq!((arrived[0].id, &arrived[0].bytes[..]), (1, &b"whole"[..]));
    assert_eq!(wire.server.connection.credit(link), 98, "an aborted delivery has used its credit");
    wire.say_notation(0, "00 53 14 c0 < 0a 43 52 02 a0 < 01 > 43 42 42 40 40 40 41 >");
    assert_eq!(wire.server.messages(), [], "aborted in its only frame");
}

#[test]
fn deliveries_of_two_links_may_be_interleaved() {
    let (mut wire, first) = attached(Role::Sender);
    wire.say(0, &attach("second", 1, Role::Sender));
    let (second, _) = wire.server.requested();
    wire.server.connection.accept_link(second, LinkAcceptance::default());
    wire.server.connection.set_credit(second, 10);
    wire.reply();
    wire.say_body(0, &transfer(0, Some(0), true, b"a"));
    wire.say_body(0, &transfer(1, Some(1), true, b"1"));
    wire.say_body(0, &transfer(0, None, true, b"b"));
    wire.say_body(0, &transfer(1, None, false, b"2"));
    wire.say_body(0, &transfer(0, None, false, b"c"));
    let arrived: Vec<_> =
        wire.server.messages().into_iter().map(|message| (message.link, message.id, message.bytes)).collect();
    assert_eq!(arrived, [(second, 1, b"12".to_vec()), (first, 0, b"abc".to_vec())]);
}

#[test]
fn outcomes_of_deliveries_that_were_never_sent_are_no_news() {
    let (mut wire, link) = attached(Role::Receiver);
    assert_eq!(wire.server.send(link, b"m", false), Ok(0));
    for (first, last) in [(1, u32::MAX), (5, 4), (u32::MAX, u32::MAX), (0x8000_0000, 0x9000_0000)] {
        wire.say(
            0,
            &Meaning::Disposition(Disposition {
                role: Role::Receiver,
                first,
                last,
                settled: true,
                state: Some(DeliveryState::Accepted),
            }),
        );
        assert_eq!(wire.server.all(), [], "{first}-{last}");
    }
    wire.say_notation(0, "00 53 15 c0 < 05 41 43 43 42 00 53 23 c0 < 02 43 44 > >");
    assert_eq!(wire.server.all(), [], "received is not an outcome");
}

#[test]
fn what_comes_on_a_link_that_is_being_detached_is_discarded() {
    let (mut wire, link) = attached(Role::Sender);
    wire.server.connection.detach_link(link, None);
    wire.reply();
    wire.say_body(0, &transfer(0, Some(0), false, b"m"));
    wire.say(0, &credit(0, 5));
    assert_eq!((wire.reply(), wire.server.all()), (Vec::new(), Vec::new()));
    wire.say(0, &Meaning::Detach(Detach { handle: 0, closed: true, error: None }));
    assert_eq!(wire.server.all(), [Happening::LinkDetached(link, None)]);
}

#[test]
fn an_idle_connection_holds_nothing_of_its_last_input() {
    let (mut wire, _) = attached(Role::Sender);
    let mut input = bytes::BytesMut::from(&frame(0, &transfer(0, Some(0), false, b"m"))[..]);
    let now = crate::pair::start();
    wire.server.connection.handle_input(now, &mut input).expect("it is well-formed");
    assert_eq!(wire.server.messages().len(), 1);
    assert!(
        input.try_reclaim(frame(0, &transfer(0, Some(0), false, b"m")).len()),
        "nobody else holds the buffer"
    );
}
