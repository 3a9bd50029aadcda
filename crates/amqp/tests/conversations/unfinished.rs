//! Messages of which not all frames come: what they may hold, and what becomes of those that hold more.

use std::sync::Arc;

use amqp::connection::{Config, LinkAcceptance, PartialBytes};
use amqp::performative::{DeliveryState, ErrorCondition, Role};

use crate::list::Meaning;
use crate::pair::Happening;
use crate::wire::{Wire, attach, transfer};

#[test]
fn unfinished_messages_of_all_links_together_stay_below_their_limit() {
    let limits = Config { partial_bytes_max: 600, ..Config::default() };
    let mut wire = Wire::begin(limits, 100);
    for handle in 0..3u8 {
        wire.say(0, &attach(&format!("{handle}"), handle.into(), Role::Sender));
        let (link, _) = wire.server.requested();
        wire.server.connection.accept_link(link, LinkAcceptance::default());
        wire.server.connection.set_credit(link, 10);
        wire.reply();
    }
    wire.say_body(0, &transfer(0, Some(0), true, &[1; 290]));
    wire.say_body(0, &transfer(1, Some(1), true, &[2; 290]));
    assert!(!wire.server.connection.is_closed());
    wire.say_body(0, &transfer(2, Some(2), true, &[3; 290]));
    assert_eq!(wire.close_condition(), "amqp:resource-limit-exceeded");
}

/// A server with a link of handle 0 that takes messages of 1,000 bytes.
fn taking(limits: Config) -> Wire {
    let mut wire = Wire::begin(limits, 1_000);
    take_link(&mut wire, 0);
    wire
}

fn take_link(wire: &mut Wire, handle: u32) {
    wire.say(0, &attach(&format!("{handle}"), handle, Role::Sender));
    let (link, _) = wire.server.requested();
    let acceptance = LinkAcceptance { max_message_size: Some(1_000), ..LinkAcceptance::default() };
    wire.server.connection.accept_link(link, acceptance);
    wire.server.connection.set_credit(link, 10);
    wire.reply();
}

#[test]
fn a_message_that_goes_on_beyond_the_limit_of_its_link_is_read_to_its_end_and_rejected() {
    let total = PartialBytes::new(1 << 20);
    let mut wire = taking(Config { partial_bytes: Some(Arc::clone(&total)), ..Config::default() });
    wire.say_body(0, &transfer(0, Some(0), true, &[1; 1_000]));
    assert_eq!(total.held(), 1_000);
    for _ in 0..10 {
        wire.say_body(0, &transfer(0, None, true, &[1; 1_000]));
        assert!(wire.reply().is_empty(), "it may go on");
        assert_eq!(total.held(), 0, "what it held is free, and nothing more is held");
    }
    wire.say_body(0, &transfer(0, None, false, &[1; 1]));
    let reply = wire.reply();
    let [(0, Meaning::Disposition(disposition))] = &reply[..] else { panic!("{reply:?}") };
    let Some(DeliveryState::Rejected(Some(error))) = &disposition.state else { panic!("{disposition:?}") };
    assert_eq!((disposition.first, disposition.settled), (0, true));
    assert_eq!(error.condition, ErrorCondition::MESSAGE_SIZE_EXCEEDED);
    assert!(error.description.contains("size:11001 bytes"), "{error}");
    let happened = wire.server.all();
    assert_eq!(happened, [Happening::DeliveryRefused(error.clone())]);
    // The link is as good as before.
    wire.say_body(0, &transfer(0, Some(1), false, &[2; 1_000]));
    assert_eq!(wire.server.messages().len(), 1);
    assert_eq!(total.refused(), 0, "there was room");
}

#[test]
fn what_several_connections_have_not_finished_stays_below_a_shared_limit() {
    let total = PartialBytes::new(1_500);
    let limits = || Config { partial_bytes: Some(Arc::clone(&total)), ..Config::default() };
    let (mut first, mut second) = (taking(limits()), taking(limits()));
    first.say_body(0, &transfer(0, Some(0), true, &[1; 900]));
    second.say_body(0, &transfer(0, Some(0), true, &[2; 500]));
    assert_eq!((total.held(), total.refused()), (1_400, 0));
    // There is no room for this one: it is refused as soon as it has ended, and holds nothing until then.
    second.say_body(0, &transfer(0, None, true, &[2; 200]));
    assert_eq!((total.held(), total.refused()), (900, 1));
    second.say_body(0, &transfer(0, None, false, &[2; 200]));
    let reply = second.reply();
    let [(0, Meaning::Disposition(disposition))] = &reply[..] else { panic!("{reply:?}") };
    let Some(DeliveryState::Rejected(Some(error))) = &disposition.state else { panic!("{disposition:?}") };
    assert_eq!(error.condition, ErrorCondition::SERVER_BUSY);
    assert_eq!(second.server.all(), [Happening::DeliveryRefused(error.clone())]);
    // The other one is taken, and makes room by that.
    first.say_body(0, &transfer(0, None, false, &[1; 100]));
    assert_eq!(first.server.messages().len(), 1);
    assert_eq!(total.held(), 0);
    second.say_body(0, &transfer(0, Some(1), true, &[2; 900]));
    assert_eq!(total.held(), 900);
    // So does the end of a connection.
    drop(second);
    assert_eq!(total.held(), 0);
}

#[test]
fn a_connection_can_be_allowed_more_than_at_its_start() {
    let (small, large) = (PartialBytes::new(100), PartialBytes::new(1_000));
    let mut wire = taking(Config {
        partial_bytes_max: 100,
        partial_bytes: Some(Arc::clone(&small)),
        ..Config::default()
    });
    wire.say_body(0, &transfer(0, Some(0), true, &[1; 60]));
    wire.server.connection.set_partial_bytes(1_000, Some(Arc::clone(&large)));
    wire.say_body(0, &transfer(0, None, false, &[1; 30]));
    wire.say_body(0, &transfer(0, Some(1), true, &[1; 600]));
    assert_eq!((small.held(), large.held()), (0, 600));
    assert_eq!(wire.server.messages().len(), 1);
}
