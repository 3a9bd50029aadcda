//! Messages and their settlement.

use amqp::connection::{Config, LinkAcceptance, LinkOptions, NewDelivery, SendError, SenderMut};
use amqp::message::FORMAT_BATCH;
use amqp::performative::{DeliveryState, Error, ErrorCondition, ReceiverSettleMode};
use bytes::Bytes;

use crate::pair::{Happening, Setup, converse, options};

fn credited(
    pair: &mut crate::pair::Pair,
    acceptance: LinkAcceptance,
) -> (amqp::connection::LinkId, amqp::connection::LinkId) {
    let (link, theirs) = pair.attach_sender(acceptance);
    pair.server.connection.set_credit(theirs, 100);
    pair.talk();
    assert_eq!(pair.client.next(), Some(Happening::Credit(link)));
    (link, theirs)
}

#[test]
fn messages_arrive_as_they_were_sent() {
    converse(&Setup::default(), |pair| {
        let (link, theirs) = credited(pair, LinkAcceptance::default());
        let mut sender = pair.client.connection.sender(link).expect("the link is there");
        let first = NewDelivery { tag: &[7; 32], format: FORMAT_BATCH, settled: true };
        assert_eq!(sender.send(&first, &[b"in ", b"two ", b"", b"parts"]), Ok(0));
        let second = NewDelivery { tag: &[], format: 0, settled: false };
        assert_eq!(sender.send(&second, &[]), Ok(1));
        pair.talk();
        let messages = pair.server.messages();
        let seen: Vec<_> = messages
            .iter()
            .map(|message| {
                (
                    message.link,
                    message.id,
                    message.format,
                    &message.tag[..],
                    &message.bytes[..],
                    message.settled,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (theirs, 0, FORMAT_BATCH, &[7; 32][..], &b"in two parts"[..], true),
                (theirs, 1, 0, &[][..], &[][..], false),
            ]
        );
    });
}

#[test]
fn messages_of_several_shapes_in_one_burst_keep_what_is_their_own() {
    converse(&Setup::default(), |pair| {
        let (link, theirs) = credited(pair, LinkAcceptance::default());
        let mut sent = Vec::new();
        // Ids take another form from 256 on.
        for round in 0..10_u8 {
            pair.server.connection.set_credit(theirs, 100);
            pair.talk();
            while pair.client.next().is_some() {}
            for number in 0..60_u8 {
                let format = if number % 3 == 1 { 0 } else { FORMAT_BATCH };
                let tag = vec![number; if number % 5 == 2 { 3 } else { 4 }];
                let settled = number % 7 == 3;
                let message = vec![round ^ number; 40 + usize::from(number)];
                let mut sender = pair.client.connection.sender(link).expect("the link is there");
                let delivery = NewDelivery { tag: &tag, format, settled };
                sender.send(&delivery, &[&message]).expect("there is credit");
                sent.push((format, tag, message, settled));
            }
            pair.talk();
        }
        let messages = pair.server.messages().into_iter();
        let seen: Vec<_> = messages
            .map(|message| (message.format, message.tag.to_vec(), message.bytes.to_vec(), message.settled))
            .collect();
        assert!(seen == sent, "{} of {}", seen.len(), sent.len());
    });
}

#[test]
fn outcomes_come_back_in_ranges() {
    converse(&Setup::default(), |pair| {
        let (link, theirs) = credited(pair, LinkAcceptance::default());
        let session = pair.client.connection.session_of(link).expect("the link is there");
        let their_session = pair.server.connection.session_of(theirs).expect("the link is there");
        for _ in 0..10 {
            pair.client.send(link, b"m", false).expect("there is credit");
        }
        pair.talk();
        assert_eq!(pair.server.messages().len(), 10);
        assert_eq!(pair.client.connection.unsettled_span(session), 10);
        let rejected = DeliveryState::Rejected(Some(Error::new(ErrorCondition::SERVER_BUSY, "later")));
        let server = &mut pair.server.connection;
        for id in 0..4 {
            server.settle(their_session, id, id, DeliveryState::Accepted);
        }
        server.settle(their_session, 4, 4, rejected.clone());
        server.settle(their_session, 9, 9, DeliveryState::Released);
        server.settle(their_session, 5, 8, DeliveryState::Accepted);
        pair.talk();
        assert_eq!(
            pair.client.all(),
            [
                Happening::Outcome(0, 3, Some(DeliveryState::Accepted)),
                Happening::Outcome(4, 4, Some(rejected)),
                Happening::Outcome(9, 9, Some(DeliveryState::Released)),
                Happening::Outcome(5, 8, Some(DeliveryState::Accepted)),
            ]
        );
        assert_eq!(pair.client.connection.unsettled_span(session), 0);
        server_settles_again_and_nothing_happens(pair, their_session);
    });
}

fn server_settles_again_and_nothing_happens(
    pair: &mut crate::pair::Pair,
    session: amqp::connection::SessionId,
) {
    pair.server.connection.settle(session, 0, u32::MAX, DeliveryState::Accepted);
    pair.talk();
    assert_eq!(pair.client.all(), []);
}

#[test]
fn settled_messages_leave_gaps_in_the_unsettled_that_no_outcome_reports() {
    converse(&Setup::default(), |pair| {
        let (link, theirs) = credited(pair, LinkAcceptance::default());
        let their_session = pair.server.connection.session_of(theirs).expect("the link is there");
        for settled in [false, true, true, false, false, true] {
            pair.client.send(link, b"m", settled).expect("there is credit");
        }
        pair.talk();
        pair.server.connection.settle(their_session, 0, 5, DeliveryState::Accepted);
        pair.talk();
        assert_eq!(
            pair.client.all(),
            [
                Happening::Outcome(0, 0, Some(DeliveryState::Accepted)),
                Happening::Outcome(3, 4, Some(DeliveryState::Accepted)),
            ]
        );
    });
}

#[test]
fn a_receiver_that_settles_second_hears_that_the_sender_has() {
    // The client sends: the server gives the outcome, the client settles, the server learns of it.
    converse(&Setup::default(), |pair| {
        let (session, _) = pair.begin();
        let second = LinkOptions { receiver_settle_mode: ReceiverSettleMode::Second, ..options("second") };
        let link = pair.client.connection.attach_sender(session, second).expect("there is room");
        let theirs = pair.accept(link, LinkAcceptance::default());
        let their_session = pair.server.connection.session_of(theirs).expect("the link is there");
        pair.server.connection.set_credit(theirs, 10);
        pair.talk();
        for _ in 0..3 {
            pair.client.send(link, b"m", false).expect("there is credit");
        }
        pair.talk();
        assert_eq!(pair.server.messages().len(), 3);
        pair.server.connection.propose_outcome(their_session, 0, 2, DeliveryState::Accepted);
        pair.talk();
        assert_eq!(
            pair.client.all(),
            [Happening::Credit(link), Happening::Outcome(0, 2, Some(DeliveryState::Accepted)),]
        );
        assert_eq!(pair.server.all(), [Happening::SettledBySender(0, 2, Some(DeliveryState::Accepted))]);
    });
    // The server sends.
    converse(&Setup::default(), |pair| {
        let (link, theirs) = pair.attach_receiver(options("second"));
        let session = pair.client.connection.session_of(link).expect("the link is there");
        pair.client.connection.set_credit(link, 10);
        pair.talk();
        pair.server.send(theirs, b"m", false).expect("there is credit");
        pair.talk();
        assert_eq!(pair.client.messages().len(), 1);
        pair.client.connection.propose_outcome(session, 0, 0, DeliveryState::Released);
        pair.talk();
        assert_eq!(pair.client.all(), [Happening::SettledBySender(0, 0, Some(DeliveryState::Released))]);
        assert_eq!(
            pair.server.all(),
            [Happening::Credit(theirs), Happening::Outcome(0, 0, Some(DeliveryState::Released)),]
        );
    });
}

#[test]
fn large_messages_cross_in_frames_of_the_smallest_size_both_ways() {
    let small = Config { max_frame_size: amqp::MIN_MAX_FRAME_SIZE, ..Config::default() };
    let setup = Setup { client: small.clone(), server: small, ..Setup::default() };
    for length in [440, 441, 442, 443, 444, 445, 446, 447, 448, 449, 480, 4_000] {
        let message: Vec<u8> = (0..length).map(|index| index as u8).collect();
        converse(&setup, |pair| {
            let (link, theirs) = credited(pair, LinkAcceptance::default());
            let session = pair.client.connection.session_of(link).expect("the link is there");
            let back =
                pair.client.connection.attach_receiver(session, options("back")).expect("there is room");
            let their_back = pair.accept(back, LinkAcceptance::default());
            pair.client.connection.set_credit(back, 10);
            pair.talk();
            pair.client.send(link, &message, false).expect("there is credit");
            pair.server.send(their_back, &message, true).expect("there is credit");
            pair.client.send(link, b"next", false).expect("there is credit");
            pair.talk();
            let arrived = pair.server.messages();
            assert_eq!(arrived.len(), 2);
            assert!(arrived[0].bytes == message && arrived[0].link == theirs && arrived[0].tag == b"tag");
            assert_eq!((arrived[0].id, arrived[1].id, &arrived[1].bytes[..]), (0, 1, &b"next"[..]));
            let returned = pair.client.messages();
            assert!(returned.len() == 1 && returned[0].bytes == message && returned[0].settled);
        });
    }
}

#[test]
fn no_frame_is_larger_than_the_peer_takes() {
    let setup = Setup {
        server: Config { max_frame_size: amqp::MIN_MAX_FRAME_SIZE, ..Config::default() },
        ..Setup::default()
    };
    for length in 400..600 {
        let mut pair = crate::pair::Pair::new(&setup, crate::pair::Cut::Nowhere);
        let (link, _) = credited(&mut pair, LinkAcceptance::default());
        let delivery = NewDelivery { tag: &[1; 32], format: u32::MAX, settled: false };
        let message = vec![0xaa; length];
        pair.client
            .connection
            .sender(link)
            .expect("the link is there")
            .send(&delivery, &[&message])
            .expect("credit");
        let mut output = pair.client.connection.poll_output(pair.now);
        while let [a, b, c, d, ..] = *output {
            let size = u32::from_be_bytes([a, b, c, d]);
            assert!(size <= amqp::MIN_MAX_FRAME_SIZE, "a frame of {size} for {length}");
            output = &output[size as usize..];
        }
        pair.talk();
        assert_eq!(pair.server.messages()[0].bytes, message);
    }
}

/// Sends a message in pieces, every other one of which is not copied.
fn send_in_pieces(sender: &mut SenderMut<'_>, pieces: &[Bytes], settled: bool) -> Result<u32, SendError> {
    let mut writer = sender.begin(&NewDelivery { tag: b"t", format: 0, settled })?;
    for (index, piece) in pieces.iter().enumerate() {
        match index % 2 {
            0 => writer.put(piece),
            _ => writer.put_shared(piece.clone()),
        }
    }
    Ok(writer.finish())
}

#[test]
fn pieces_that_are_not_copied_arrive_in_their_places() {
    let small = Config { max_frame_size: amqp::MIN_MAX_FRAME_SIZE, incoming_window: 3, ..Config::default() };
    for server in [Config::default(), small] {
        let setup = Setup { server, ..Setup::default() };
        converse(&setup, |pair| {
            let (link, _) = credited(pair, LinkAcceptance::default());
            let bytes = Bytes::from((0..10_000).map(|number| (number % 251) as u8).collect::<Vec<u8>>());
            for lengths in
                [[0, 0, 0, 0], [3, 0, 5, 0], [0, 400, 0, 450], [1, 4_000, 2, 5_000], [500, 1, 500, 1]]
            {
                let mut rest = bytes.clone();
                let pieces = lengths.map(|length| rest.split_to(length));
                let mut sender = pair.client.connection.sender(link).expect("the link is there");
                send_in_pieces(&mut sender, &pieces, true).expect("there is credit");
                // One that is taken back must leave what was sent before it alone.
                if let Ok(mut taken_back) = sender.begin(&NewDelivery { tag: b"u", format: 0, settled: true })
                {
                    taken_back.put_shared(bytes.slice(..1_000));
                    taken_back.put(&bytes[..1_000]);
                    drop(taken_back);
                }
                pair.talk();
                let arrived: Vec<_> =
                    pair.server.messages().into_iter().map(|message| message.bytes).collect();
                assert!(arrived == [pieces.concat()], "{lengths:?}");
                let _ = pair.client.all();
            }
        });
    }
}

#[test]
fn a_message_larger_than_the_link_takes_is_rejected_and_the_link_stays_usable() {
    let setup = Setup {
        server: Config { max_frame_size: amqp::MIN_MAX_FRAME_SIZE, ..Config::default() },
        ..Setup::default()
    };
    for (size, maximum, frames) in [(101, 100, "one frame"), (2_000, 1_999, "the last of several frames")] {
        converse(&setup, |pair| {
            let limit = LinkAcceptance { max_message_size: Some(maximum), ..LinkAcceptance::default() };
            let (link, _) = credited(pair, limit);
            pair.client.send(link, &vec![1; size], false).expect("there is credit");
            pair.client.send(link, &[2; 100], false).expect("there is credit");
            pair.talk();
            let arrived = pair.server.messages();
            assert_eq!(arrived.len(), 1, "{frames}");
            assert_eq!((arrived[0].id, arrived[0].bytes.len()), (1, 100));
            let happened = pair.client.all();
            let [Happening::Outcome(0, 0, Some(DeliveryState::Rejected(Some(error))))] = &happened[..] else {
                panic!("{happened:?}")
            };
            assert_eq!(error.condition, ErrorCondition::MESSAGE_SIZE_EXCEEDED);
            assert!(error.description.contains(&format!("size:{size} bytes")), "{error}");
            assert!(pair.client.connection.is_attached(link));
        });
    }
}

#[test]
fn a_settled_message_that_is_too_large_ends_the_link_so_that_its_sender_notices() {
    converse(&Setup::default(), |pair| {
        let limit = LinkAcceptance { max_message_size: Some(10), ..LinkAcceptance::default() };
        let (link, theirs) = credited(pair, limit);
        pair.client.send(link, &[1; 11], true).expect("there is credit");
        pair.talk();
        let happened = pair.client.all();
        let [Happening::LinkDetached(gone, Some(error))] = &happened[..] else { panic!("{happened:?}") };
        assert_eq!(*gone, link);
        assert_eq!(error.condition, ErrorCondition::MESSAGE_SIZE_EXCEEDED);
        assert!(!pair.server.connection.is_attached(theirs));
        assert!(!pair.server.connection.is_closed());
    });
}

#[test]
fn a_message_is_not_sent_where_it_cannot_be() {
    converse(&Setup::default(), |pair| {
        let (session, _) = pair.begin();
        let link = pair.client.connection.attach_sender(session, options("link")).expect("there is room");
        assert_eq!(pair.client.send(link, b"m", true), Err(SendError::NotAttached));
        let theirs = pair.accept(link, LinkAcceptance::default());
        assert_eq!(pair.client.send(link, b"m", true), Err(SendError::NoCredit));
        pair.server.connection.set_credit(theirs, 2);
        pair.talk();
        let long = NewDelivery { tag: &[0; 33], format: 0, settled: true };
        let mut sender = pair.client.connection.sender(link).expect("the link is there");
        assert_eq!(sender.send(&long, &[b"m"]), Err(SendError::TagTooLong));
        assert_eq!(sender.credit(), 2);
        assert_eq!(pair.client.send(link, b"m", true), Ok(0));
        pair.client.connection.detach_link(link, None);
        assert_eq!(pair.client.send(link, b"m", true), Err(SendError::NotAttached));
        pair.client.connection.end_session(session, None);
        pair.talk();
        assert_eq!(pair.server.messages().len(), 1);
    });
}

#[test]
fn an_unfinished_message_is_taken_back() {
    let small = Config { max_frame_size: amqp::MIN_MAX_FRAME_SIZE, incoming_window: 2, ..Config::default() };
    let setup = Setup { server: small, ..Setup::default() };
    converse(&setup, |pair| {
        let (link, _) = credited(pair, LinkAcceptance::default());
        for length in [0, 10, 600, 1_000, 5_000] {
            let delivery = NewDelivery { tag: b"x", format: 0, settled: false };
            let mut sender = pair.client.connection.sender(link).expect("the link is there");
            let mut writer = sender.begin(&delivery).expect("there is credit");
            writer.put(&vec![9; length]);
            drop(writer);
            assert_eq!(pair.client.connection.output_len(), 0);
        }
        pair.client.send(link, b"kept", false).expect("there is credit");
        pair.talk();
        let arrived = pair.server.messages();
        assert_eq!(arrived.len(), 1);
        assert_eq!((arrived[0].id, &arrived[0].bytes[..]), (0, &b"kept"[..]));
    });
}

#[test]
fn what_is_left_unsettled_is_forgotten_with_the_link() {
    converse(&Setup::default(), |pair| {
        let (link, _) = credited(pair, LinkAcceptance::default());
        let session = pair.client.connection.session_of(link).expect("the link is there");
        pair.client.send(link, b"m", false).expect("there is credit");
        pair.talk();
        pair.client.connection.detach_link(link, None);
        pair.talk();
        assert_eq!(pair.client.connection.unsettled_span(session), 0);
    });
}
