//! Deadlines: handshake, idle time-out, heartbeats, the wait for a close.

use std::time::Duration;

use amqp::connection::{Config, ConnectionError, LinkAcceptance};

use crate::pair::{Cut, Happening, Pair, Setup};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn with_idle_timeouts(client: Option<u64>, server: Option<u64>) -> Pair {
    let config = |idle: Option<u64>| Config { idle_timeout: idle.map(seconds), ..Config::default() };
    let setup = Setup { client: config(client), server: config(server), ..Setup::default() };
    Pair::new(&setup, Cut::Nowhere)
}

#[test]
fn a_peer_that_never_opens_runs_into_the_handshake_timeout() {
    let mut pair = Pair::new(&Setup::default(), Cut::Nowhere);
    let deadline = pair.now + seconds(30);
    assert_eq!(pair.server.connection.poll_timeout(), Some(deadline));
    pair.pass_apart(seconds(29));
    assert!(!pair.server.connection.is_closed());
    pair.pass_apart(seconds(1));
    for end in [&mut pair.client, &mut pair.server] {
        assert_eq!(end.all(), [Happening::Closed(Some(ConnectionError::HandshakeTimeout))]);
        assert_eq!(end.connection.poll_timeout(), None);
    }
}

#[test]
fn a_peer_that_stops_half_way_runs_into_the_handshake_timeout_too() {
    for cut_after in [3, 8, 20, 50] {
        let mut pair = Pair::new(&Setup::default(), Cut::Nowhere);
        // The client's first words on their own, up to some byte.
        let mut words = b"AMQP\x03\x01\x00\x00".to_vec();
        words.extend([0, 0, 0, 25, 2, 1, 0, 0, 0x00, 0x53, 0x41, 0xc0, 12, 1, 0xa3, 9]);
        words.extend(b"ANONYMOUSAMQP\x00\x01\x00\x00");
        words.truncate(cut_after);
        pair.server.hear(pair.now, &words);
        pair.pass_apart(seconds(30));
        assert_eq!(pair.server.all(), [Happening::Closed(Some(ConnectionError::HandshakeTimeout))]);
    }
}

#[test]
fn heartbeats_keep_a_silent_connection_alive() {
    let mut pair = with_idle_timeouts(Some(10), Some(60));
    pair.open();
    pair.pass(seconds(600));
    assert!(pair.client.connection.is_open() && pair.server.connection.is_open());
    assert_eq!((pair.client.all(), pair.server.all()), (Vec::new(), Vec::new()));
}

#[test]
fn a_heartbeat_is_due_at_half_of_what_the_peer_asked_for() {
    let mut pair = with_idle_timeouts(None, Some(60));
    pair.open();
    let due = pair.client.connection.poll_timeout().expect("the server asked for heartbeats");
    assert_eq!(due.duration_since(pair.now), seconds(30));
    pair.now += seconds(30);
    pair.client.connection.handle_timeout(pair.now);
    assert_eq!(pair.client.connection.poll_output(pair.now), [0, 0, 0, 8, 2, 0, 0, 0]);
    assert_eq!(pair.client.connection.poll_timeout(), Some(pair.now + seconds(30)));
}

#[test]
fn traffic_puts_heartbeats_off() {
    let mut pair = with_idle_timeouts(None, Some(60));
    let (link, theirs) = pair.attach_sender(LinkAcceptance::default());
    pair.server.connection.set_credit(theirs, 10);
    pair.talk();
    pair.now += seconds(20);
    pair.client.send(link, b"m", true).expect("there is credit");
    pair.talk();
    assert_eq!(pair.client.connection.poll_timeout(), Some(pair.now + seconds(30)));
}

#[test]
fn silence_for_twice_the_idle_timeout_ends_the_connection() {
    let mut pair = with_idle_timeouts(None, Some(10));
    pair.open();
    pair.pass_apart(seconds(19));
    assert!(pair.server.connection.is_open());
    pair.pass_apart(seconds(1));
    assert_eq!(pair.server.all(), [Happening::Closed(Some(ConnectionError::IdleTimeout))]);
    pair.talk();
    let happened = pair.client.all();
    let [Happening::Closed(Some(ConnectionError::ClosedByPeer(error)))] = &happened[..] else {
        panic!("{happened:?}")
    };
    assert_eq!(error.condition.as_str(), "amqp:resource-limit-exceeded");
}

#[test]
fn any_bytes_count_as_a_sign_of_life() {
    let mut pair = with_idle_timeouts(None, Some(10));
    pair.open();
    pair.pass_apart(seconds(19));
    // Half of an empty frame.
    pair.server.hear(pair.now, &[0, 0, 0, 8]);
    pair.pass_apart(seconds(19));
    assert!(pair.server.connection.is_open());
}

#[test]
fn a_peer_that_takes_nothing_is_given_up_although_it_sends() {
    let mut pair = with_idle_timeouts(Some(10), Some(10));
    pair.open();
    let server = &mut pair.server.connection;
    server.begin_session();
    let waiting = server.poll_output(pair.now).len();
    for _ in 0..3 {
        pair.now += seconds(6);
        // The peer is alive, and the driver tries again and again.
        pair.server.hear(pair.now, &[0, 0, 0, 8, 2, 0, 0, 0]);
        let server = &mut pair.server.connection;
        server.handle_timeout(pair.now);
        assert_eq!(server.poll_output(pair.now).len(), waiting);
    }
    assert!(pair.server.connection.is_open());
    pair.now += seconds(2);
    pair.server.connection.handle_timeout(pair.now);
    assert_eq!(pair.server.all(), [Happening::Closed(Some(ConnectionError::OutputTimeout))]);
}

#[test]
fn a_peer_that_takes_a_little_of_what_waits_for_it_is_not_given_up() {
    let mut pair = with_idle_timeouts(Some(10), Some(10));
    pair.open();
    pair.server.connection.begin_session();
    for _ in 0..4 {
        let server = &mut pair.server.connection;
        assert!(server.poll_output(pair.now).len() > 1);
        server.consume_output(1);
        let _ = server.poll_output(pair.now);
        pair.now += seconds(18);
        pair.server.hear(pair.now, &[0, 0, 0, 8, 2, 0, 0, 0]);
        pair.server.connection.handle_timeout(pair.now);
    }
    assert!(pair.server.connection.is_open());
}

#[test]
fn a_connection_at_rest_gives_back_the_memory_of_its_last_burst() {
    let mut pair = with_idle_timeouts(None, None);
    let (link, theirs) = pair.attach_sender(LinkAcceptance::default());
    pair.server.connection.set_credit(theirs, 10);
    pair.talk();
    pair.client.send(link, &[7; 10_000], true).expect("there is credit");
    pair.talk();
    let due = pair.client.connection.poll_timeout();
    assert_eq!(due, Some(pair.now + seconds(1)));
    pair.now += seconds(1);
    pair.client.connection.handle_timeout(pair.now);
    assert_eq!(pair.client.connection.poll_timeout(), None, "there is nothing left to give back");
}

#[test]
fn without_idle_timeouts_there_are_no_deadlines() {
    let mut pair = with_idle_timeouts(None, None);
    pair.open();
    assert_eq!(pair.client.connection.poll_timeout(), None);
    assert_eq!(pair.server.connection.poll_timeout(), None);
}

#[test]
fn an_old_connection_waits_for_the_answer_to_its_close_and_then_gives_up() {
    let mut pair = with_idle_timeouts(None, None);
    pair.open();
    pair.now += seconds(3_600);
    pair.client.connection.close(None);
    let _ = pair.client.connection.poll_output(pair.now);
    pair.client.connection.handle_timeout(pair.now);
    assert_eq!(
        pair.client.all(),
        [],
        "the connection is older than a handshake may take, and that is no matter"
    );
    assert_eq!(pair.client.connection.poll_timeout(), Some(pair.now + seconds(30)));
    pair.now += seconds(30);
    pair.client.connection.handle_timeout(pair.now);
    assert_eq!(pair.client.all(), [Happening::Closed(Some(ConnectionError::HandshakeTimeout))]);
}

#[test]
fn a_peer_that_asks_for_heartbeats_all_the_time_gets_no_more_than_output_is_taken() {
    let mut pair = Pair::new(
        &Setup {
            client: Config { idle_timeout: Some(Duration::from_millis(1)), ..Config::default() },
            server: Config { idle_timeout: None, ..Config::default() },
            ..Setup::default()
        },
        Cut::Nowhere,
    );
    pair.open();
    for _ in 0..1_000 {
        pair.now += seconds(1);
        pair.server.connection.handle_timeout(pair.now);
        let _ = pair.server.connection.poll_output(pair.now);
    }
    assert_eq!(pair.server.connection.output_len(), 8, "a heartbeat behind output that waits says nothing");
}

/// A pair whose client asks after five seconds of silence.
fn with_probes() -> Pair {
    let quiet = Config { idle_timeout: None, ..Config::default() };
    let client = Config { probe_after: Some(seconds(5)), ..quiet.clone() };
    Pair::new(&Setup { client, server: quiet, ..Setup::default() }, Cut::Nowhere)
}

#[test]
fn a_peer_that_answers_is_known_to_be_out_of_reach_and_to_be_back() {
    let mut pair = with_probes();
    pair.begin();
    pair.pass(seconds(60));
    for _ in 0..2 {
        pair.pass_apart(seconds(5));
        assert!(!pair.client.connection.is_silent(), "it has just been asked");
        pair.pass_apart(seconds(5));
        assert!(pair.client.connection.is_silent());
        pair.pass_apart(seconds(600));
        assert!(pair.client.connection.is_open(), "it is not for the probe to end it");
        pair.talk();
        assert!(!pair.client.connection.is_silent());
    }
}

#[test]
fn silence_of_a_connection_that_was_busy_until_then_shows() {
    let mut pair = with_probes();
    let (link, theirs) = pair.attach_sender(LinkAcceptance::default());
    pair.server.connection.set_credit(theirs, 1_000);
    pair.talk();
    for _ in 0..60 {
        pair.client.send(link, b"m", true).expect("there is credit");
        pair.pass(seconds(1));
    }
    pair.pass_apart(seconds(5));
    assert!(!pair.client.connection.is_silent(), "it has just been asked");
    pair.pass_apart(seconds(5));
    assert!(pair.client.connection.is_silent());
}

#[test]
fn a_flow_of_a_link_does_not_take_the_place_of_an_answer() {
    let mut pair = with_probes();
    let (_, theirs) = pair.attach_sender(LinkAcceptance::default());
    pair.talk();
    pair.pass_apart(seconds(5));
    pair.server.connection.set_credit(theirs, 10);
    pair.talk();
    pair.pass_apart(seconds(5));
    pair.pass_apart(seconds(5));
    assert!(pair.client.connection.is_silent(), "it has always answered");
}

#[test]
fn a_peer_that_does_not_answer_is_never_called_silent() {
    const HEARTBEAT: &[u8] = &[0, 0, 0, 8, 2, 0, 0, 0];
    const BEGIN: &[u8] =
        &[0, 0, 0, 23, 2, 0, 0, 0, 0x00, 0x53, 0x11, 0xc0, 10, 4, 0x60, 0, 0, 0x52, 1, 0x52, 10, 0x52, 10];
    // The flow of a link, which it may send at any time.
    const LINK_FLOW: &[u8] = &[
        0, 0, 0, 23, 2, 0, 0, 0, 0x00, 0x53, 0x13, 0xc0, 10, 5, 0x40, 0x52, 10, 0x43, 0x52, 10, 0x43, 0x40,
        0x40,
    ];
    const SESSION_FLOW: &[u8] =
        &[0, 0, 0, 22, 2, 0, 0, 0, 0x00, 0x53, 0x13, 0xc0, 9, 4, 0x52, 1, 0x52, 10, 0x52, 1, 0x52, 10];
    for words in [HEARTBEAT, LINK_FLOW] {
        let mut pair = with_probes();
        pair.open();
        pair.client.connection.begin_session().expect("there is room for a session");
        pair.client.hear(pair.now, BEGIN);
        // One answer may be a flow that it had to send anyway.
        pair.client.hear(pair.now, SESSION_FLOW);
        for _ in 0..5 {
            pair.pass_apart(seconds(5));
            pair.pass_apart(seconds(20));
            assert!(!pair.client.connection.is_silent());
            pair.client.hear(pair.now, words);
        }
        assert!(pair.client.connection.is_open());
    }
}

#[test]
fn a_peer_that_answers_no_more_is_called_silent_once() {
    const HEARTBEAT: &[u8] = &[0, 0, 0, 8, 2, 0, 0, 0];
    let mut pair = with_probes();
    pair.begin();
    let mut silences = 0;
    for _ in 0..5 {
        pair.pass_apart(seconds(5));
        pair.pass_apart(seconds(5));
        silences += u32::from(pair.client.connection.is_silent());
        pair.client.hear(pair.now, HEARTBEAT);
    }
    assert_eq!(silences, 1);
}

#[test]
fn without_a_session_there_is_nothing_to_ask_about() {
    let mut pair = with_probes();
    pair.open();
    pair.pass_apart(seconds(5));
    assert_eq!(pair.client.connection.poll_output(pair.now), [0; 0]);
    assert_eq!(pair.client.connection.poll_timeout(), None);
}
