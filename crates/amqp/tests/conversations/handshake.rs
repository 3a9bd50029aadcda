//! From the first byte to open, and from close to the end.

use amqp::connection::{ConnectionError, Credentials, LinkOptions, SaslClient};
use amqp::performative::{Error, ErrorCondition, Role, SaslCode};

use crate::list::{Meaning, assemble};
use crate::pair::{Cut, Happening, PASSWORD, Pair, Setup, converse, options};
use crate::wire::{Wire, attach, first_begin, frame};

fn with_sasl(sasl: SaslClient) -> Setup {
    Setup { sasl, ..Setup::default() }
}

fn plain(password: &str) -> SaslClient {
    SaslClient::Plain { username: "user".to_owned(), password: password.to_owned() }
}

#[test]
fn every_mechanism_opens_the_connection() {
    for sasl in [SaslClient::None, SaslClient::Anonymous, SaslClient::Mssbcbs] {
        converse(&with_sasl(sasl), |pair| {
            pair.open();
            assert_eq!(pair.server.connection.credentials(), Some(&Credentials::Anonymous));
        });
    }
}

#[test]
fn plain_with_the_right_password_opens_the_connection() {
    converse(&with_sasl(plain(PASSWORD)), |pair| {
        pair.open();
        let expected = Credentials::Plain { username: "user".to_owned(), password: PASSWORD.to_owned() };
        assert_eq!(pair.server.connection.credentials(), Some(&expected));
    });
}

#[test]
fn plain_with_a_wrong_password_is_refused_at_both_ends() {
    converse(&with_sasl(plain("guess")), |pair| {
        pair.talk();
        let refused = || vec![Happening::Closed(Some(ConnectionError::SaslRefused(SaslCode::Auth)))];
        assert_eq!(pair.client.all(), refused());
        assert_eq!(pair.server.all(), refused());
        assert_eq!(pair.server.connection.credentials(), None);
    });
}

#[test]
fn passwords_do_not_show_in_debug_output() {
    let pair = Pair::new(&with_sasl(plain("confidential")), Cut::Nowhere);
    let shown = format!("{:?}{:?}", pair, plain("confidential"));
    assert!(!shown.contains("confidential"));
}

#[test]
fn a_client_finds_no_mechanism_of_its_own() {
    let mut pair = Pair::new(&with_sasl(plain("x")), Cut::Nowhere);
    let mechanisms = assemble("00 53 40 c0 < 01 a3 < 'GSSAPI' > >");
    let mut sasl = frame(0, &mechanisms);
    sasl[5] = 1;
    pair.client.hear(pair.now, &[&b"AMQP\x03\x01\x00\x00"[..], &sasl].concat());
    assert_eq!(
        pair.client.all(),
        [Happening::Closed(Some(ConnectionError::NoSaslMechanism("GSSAPI".to_owned())))]
    );
}

#[test]
fn what_python_pipelines_is_understood_in_one_piece() {
    // AMQP header, open, begin and attach without waiting, on channel 1 with handle 1.
    let mut wire = Wire::new(amqp::connection::Config::default());
    let mut flight = b"AMQP\x00\x01\x00\x00".to_vec();
    let open = assemble("00 53 10 c0 < 01 a1 < 'py' > >");
    flight.extend(frame(0, &open));
    for meaning in [first_begin(65_536), attach("pipelined", 1, Role::Sender)] {
        flight.extend(frame(1, &crate::list::write(&meaning).expect("it can be written")));
    }
    wire.say_bytes(&flight);
    assert_eq!(wire.server.next(), Some(Happening::Opened));
    assert!(matches!(wire.server.next(), Some(Happening::SessionBegan(_))));
    assert_eq!(wire.server.requested().1.name, "pipelined");
    assert_eq!(&wire.raw_reply()[..8], b"AMQP\x00\x01\x00\x00");
}

#[test]
fn links_can_be_attached_before_the_session_is_confirmed() {
    converse(&Setup::default(), |pair| {
        pair.open();
        let session = pair.client.connection.begin_session().expect("the connection is open");
        let link = pair.client.connection.attach_receiver(session, LinkOptions { ..options("early") });
        let link = link.expect("there is room");
        pair.client.connection.set_credit(link, 3);
        pair.talk();
        assert!(matches!(pair.server.next(), Some(Happening::SessionBegan(_))));
        let (theirs, _) = pair.server.requested();
        assert_eq!(pair.server.next(), Some(Happening::Credit(theirs)));
        pair.server.connection.accept_link(theirs, Default::default());
        assert_eq!(pair.server.send(theirs, b"now", true), Ok(0));
        pair.talk();
        assert_eq!(pair.client.messages().len(), 1);
        assert_eq!(pair.client.connection.credit(link), 2);
    });
}

#[test]
fn a_client_of_another_protocol_gets_the_supported_one() {
    const ALERT: &[u8] = b"\x15\x03\x03\x00\x02\x02\x32";
    for (greeting, expected) in [
        (&b"GET / HTTP/1.1\r\n"[..], ConnectionError::NotAmqp(*b"GET ")),
        (ALERT, ConnectionError::NotAmqp(*b"\x15\x03\x03\x00")),
        (b"AMQP\x00\x00\x09\x01", ConnectionError::ProtocolHeader(*b"AMQP\x00\x00\x09\x01")),
        (b"AMQP\x02\x01\x00\x00", ConnectionError::ProtocolHeader(*b"AMQP\x02\x01\x00\x00")),
    ] {
        let mut wire = Wire::new(amqp::connection::Config::default());
        wire.say_bytes(greeting);
        assert_eq!(wire.raw_reply(), b"AMQP\x03\x01\x00\x00");
        assert_eq!(wire.server.all(), [Happening::Closed(Some(expected))]);
        assert!(wire.server.connection.is_closed());
    }
}

#[test]
fn a_bare_header_is_answered_with_sasl_where_anonymous_clients_are_refused() {
    use amqp::connection::{Config, SaslServer};
    let sasl = SaslServer { verify: std::sync::Arc::new(|_| false) };
    let now = crate::pair::start();
    let mut server = crate::pair::End::new(amqp::Connection::server(Config::default(), sasl, now));
    server.hear(now, b"AMQP\x00\x01\x00\x00");
    assert_eq!(server.connection.poll_output(now), b"AMQP\x03\x01\x00\x00");
    assert!(server.connection.is_closed());
}

#[test]
fn close_is_answered_with_close() {
    for by_client in [true, false] {
        converse(&Setup::default(), |pair| {
            pair.attach_sender(Default::default());
            let closing = if by_client { &mut pair.client } else { &mut pair.server };
            closing.connection.close(None);
            pair.talk();
            assert_eq!(pair.client.all(), [Happening::Closed(None)]);
            assert_eq!(pair.server.all(), [Happening::Closed(None)]);
        });
    }
}

#[test]
fn the_peer_learns_with_what_error_a_connection_was_closed() {
    converse(&Setup::default(), |pair| {
        pair.open();
        let error = Error::new(ErrorCondition::CONNECTION_FORCED, "idle for too long");
        pair.server.connection.close(Some(error.clone()));
        pair.talk();
        assert_eq!(pair.client.all(), [Happening::Closed(Some(ConnectionError::ClosedByPeer(error)))]);
        assert_eq!(pair.server.all(), [Happening::Closed(None)]);
    });
}

#[test]
fn nothing_is_said_after_close() {
    converse(&Setup::default(), |pair| {
        let (link, theirs) = pair.attach_receiver(options("link"));
        let session = pair.server.connection.session_of(theirs).expect("the link is there");
        for end in [&mut pair.client, &mut pair.server] {
            end.connection.close(None);
        }
        let closes = |end: &mut crate::pair::End, now| {
            end.connection.settle(session, 0, 9, amqp::performative::DeliveryState::Accepted);
            end.connection.end_session(session, None);
            let said = end.connection.poll_output(now).to_vec();
            crate::wire::frames(said)
        };
        pair.client.connection.set_credit(link, 10);
        pair.client.connection.detach_link(link, None);
        assert_eq!(
            closes(&mut pair.client, pair.now),
            [(0, Meaning::Close(amqp::performative::Close { error: None }))]
        );
        pair.server.connection.detach_link(theirs, None);
        assert_eq!(
            closes(&mut pair.server, pair.now),
            [(0, Meaning::Close(amqp::performative::Close { error: None }))]
        );
        pair.talk();
        assert_eq!(pair.client.all(), [Happening::Closed(None)]);
    });
}

#[test]
fn a_lost_transport_is_reported_once() {
    let mut pair = Pair::new(&Setup::default(), Cut::Nowhere);
    pair.open();
    pair.client.connection.handle_disconnect();
    pair.client.connection.handle_disconnect();
    assert_eq!(pair.client.all(), [Happening::Closed(None)]);
}
