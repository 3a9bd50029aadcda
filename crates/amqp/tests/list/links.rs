//! Begin, the performatives of links, and the outcomes.

use super::{Meaning, Vector, described, vector};
use amqp::performative::{
    Attach, Begin, DeliveryState, Detach, Disposition, Error, ErrorCondition, Flow, ReceiverSettleMode, Role,
    SenderSettleMode, Source, Target, Transfer,
};
use amqp::{Symbol, TransactionId, Value};

pub(super) fn vectors() -> Vec<Vector> {
    let mut all = session_vectors();
    all.extend(outcome_vectors());
    all.extend(transaction_vectors());
    all
}

fn session_vectors() -> Vec<Vector> {
    vec![
        vector(
            "begin that answers another",
            &[
                "00 53 11",       // descriptor: begin (2.7.2)
                "c0 < 05",        // list8, 5 of 8 fields
                "60 00 07",       // remote-channel 7
                "52 01",          // next-outgoing-id 1
                "70 00 00 13 88", // incoming-window 5000
                "43",             // outgoing-window 0
                "70 00 00 00 ff", // handle-max 255 in its long form
                ">",
            ],
            Meaning::Begin(Begin {
                remote_channel: Some(7),
                next_outgoing_id: 1,
                incoming_window: 5_000,
                outgoing_window: 0,
                handle_max: 255,
            }),
        ),
        vector(
            "begin that is a first one",
            &["00 53 11 c0 < 04 40 70 ff ff ff ff 52 ff 52 01 >"],
            Meaning::Begin(Begin {
                remote_channel: None,
                next_outgoing_id: u32::MAX,
                incoming_window: 255,
                outgoing_window: 1,
                handle_max: u32::MAX,
            }),
        ),
        vector(
            "attach of a sender",
            &[
                "00 53 12 c0 < 0b",                       // attach (2.7.3), 11 of 14 fields
                "a1 < 'a-b' >",                           // name
                "52 01",                                  // handle 1
                "42",                                     // role: sender
                "50 00",                                  // snd-settle-mode: unsettled
                "50 01",                                  // rcv-settle-mode: second
                "00 53 28 c0 < 01 a1 < 'src' > >",        // source (3.5.3): address
                "00 53 29 c0 < 07",                       // target (3.5.4): 7 fields
                "a1 < 'dst' > 43 40 43 42 40 a3 < 'x' >", //   address … dynamic false … capability
                ">",
                "c1 < 00 >",                  // unsettled: an empty map8
                "42",                         // incomplete-unsettled false
                "52 05",                      // initial-delivery-count 5
                "80 00 00 00 00 00 10 00 00", // max-message-size 1 MiB
                ">",
            ],
            Meaning::Attach(Box::new(Attach {
                name: "a-b".to_owned(),
                handle: 1,
                role: Role::Sender,
                sender_settle_mode: SenderSettleMode::Unsettled,
                receiver_settle_mode: ReceiverSettleMode::Second,
                source: Some(Source::new("src")),
                target: Some(Target { capabilities: vec![Symbol::from_static("x")], ..Target::new("dst") }),
                initial_delivery_count: Some(5),
                max_message_size: Some(1_048_576),
                offered_capabilities: Vec::new(),
                desired_capabilities: Vec::new(),
                properties: Vec::new(),
            })),
        ),
        vector(
            "attach of a receiver with every source field",
            &[
                "00 53 12 d0 << 00 00 00 0e",    // attach, list32, 14 fields
                "b1 << 'r' >>",                  // name as str32
                "43",                            // handle 0
                "56 01",                         // role: receiver, as boolean with a body
                "50 01",                         // snd-settle-mode: settled
                "40",                            // rcv-settle-mode: first by default
                "00 53 28 c0 < 0b",              // source, 11 fields
                "a1 < 'q' >",                    //   address
                "52 02",                         //   durable: unsettled-state
                "a3 < 'never' >",                //   expiry-policy
                "52 3c",                         //   timeout 60
                "41",                            //   dynamic
                "c1 < 00 >",                     //   dynamic-node-properties
                "a3 < 'move' >",                 //   distribution-mode
                "d1 << 00 00 00 02 a3 < 'f' >",  //   filter: map32, f:
                "00 a3 < 'a:f' > a1 < '>' > >>", //     described by symbol a:f
                "00 53 26 45",                   //   default-outcome: released
                "a3 < 'amqp:accepted:list' >",   //   outcomes, a single one
                "40",                            //   capabilities
                ">",
                "00 53 29 45",                                     // target without fields
                "40 40 40 44",                                     // unsettled … max-message-size ulong0
                "a3 < 'p' >",                                      // offered-capabilities
                "f0 << 00 00 00 01 b3 << 'd' >> >>",               // desired-capabilities: array32 of sym32
                "c1 < 02 a3 < 'e' > 81 00 00 00 00 00 00 00 07 >", // properties: e: long 7
                ">>",
            ],
            Meaning::Attach(Box::new(Attach {
                name: "r".to_owned(),
                handle: 0,
                role: Role::Receiver,
                sender_settle_mode: SenderSettleMode::Settled,
                receiver_settle_mode: ReceiverSettleMode::First,
                source: Some(Source {
                    address: Some("q".to_owned()),
                    durable: 2,
                    expiry_policy: Some(Symbol::from_static("never")),
                    timeout: 60,
                    dynamic: true,
                    distribution_mode: Some(Symbol::from_static("move")),
                    filter: vec![(
                        Symbol::from_static("f"),
                        described(Value::Symbol(Symbol::from_static("a:f")), Value::from(">")),
                    )],
                    default_outcome: Some(described(Value::Ulong(0x26), Value::List(Vec::new()))),
                    outcomes: vec![Symbol::from_static("amqp:accepted:list")],
                    capabilities: Vec::new(),
                }),
                target: Some(Target::default()),
                initial_delivery_count: None,
                max_message_size: Some(0),
                offered_capabilities: vec![Symbol::from_static("p")],
                desired_capabilities: vec![Symbol::from_static("d")],
                properties: vec![(Symbol::from_static("e"), Value::Long(7))],
            })),
        ),
        vector(
            "attach that refuses",
            &["00 53 12 c0 < 07 a1 < 'r' > 52 02 42 50 02 50 00 40 40 >"],
            Meaning::Attach(Box::new(Attach {
                name: "r".to_owned(),
                handle: 2,
                role: Role::Sender,
                sender_settle_mode: SenderSettleMode::Mixed,
                receiver_settle_mode: ReceiverSettleMode::First,
                source: None,
                target: None,
                initial_delivery_count: None,
                max_message_size: None,
                offered_capabilities: Vec::new(),
                desired_capabilities: Vec::new(),
                properties: Vec::new(),
            })),
        ),
        vector(
            "flow of a link with every field",
            &[
                "00 53 13 c0 < 0b", // flow (2.7.4), 11 fields
                "52 03",            // next-incoming-id 3
                "52 10",            // incoming-window 16
                "43",               // next-outgoing-id 0
                "70 7f ff ff ff",   // outgoing-window
                "52 01",            // handle 1
                "52 09",            // delivery-count 9
                "52 64",            // link-credit 100
                "52 02",            // available 2
                "41",               // drain
                "41",               // echo
                "c1 < 00 >",        // properties
                ">",
            ],
            Meaning::Flow(Flow {
                next_incoming_id: Some(3),
                incoming_window: 16,
                next_outgoing_id: 0,
                outgoing_window: 0x7fff_ffff,
                handle: Some(1),
                delivery_count: Some(9),
                link_credit: Some(100),
                available: Some(2),
                drain: true,
                echo: true,
            }),
        ),
        vector(
            "flow of a session before its begin was answered",
            &["00 53 13 c0 < 04 40 52 01 52 02 52 03 >"],
            Meaning::Flow(Flow {
                incoming_window: 1,
                next_outgoing_id: 2,
                outgoing_window: 3,
                ..Flow::default()
            }),
        ),
        vector(
            "transfer that starts a delivery",
            &[
                "00 53 14 c0 < 06",   // transfer (2.7.5), 6 of 11 fields
                "43",                 // handle 0
                "52 01",              // delivery-id 1
                "a0 < 00 00 00 01 >", // delivery-tag
                "43",                 // message-format 0
                "42",                 // settled false
                "41",                 // more
                ">",
            ],
            Meaning::Transfer(Transfer {
                handle: 0,
                delivery_id: Some(1),
                delivery_tag: Some(&[0, 0, 0, 1]),
                message_format: Some(0),
                settled: Some(false),
                more: true,
                aborted: false,
                transaction: None,
            }),
        ),
        vector(
            "transfer that aborts a delivery, all fields present",
            &[
                "00 53 14 c0 < 0b 52 07",   // handle 7
                "40 40 40",                 // delivery-id, delivery-tag, message-format
                "40 42",                    // settled, more
                "50 01",                    // rcv-settle-mode second
                "00 53 23 c0 < 02 43 44 >", // state: received (3.4.1)
                "42 41 41",                 // resume, aborted, batchable
                ">",
            ],
            Meaning::Transfer(Transfer {
                handle: 7,
                delivery_id: None,
                delivery_tag: None,
                message_format: None,
                settled: None,
                more: false,
                aborted: true,
                transaction: None,
            }),
        ),
        vector(
            "detach that closes with an error",
            &[
                "00 53 16 c0 < 03 43 41", // detach (2.7.7), handle 0, closed
                "00 53 1d c0 < 02 a3 < 'amqp:link:stolen' > a1 < 'epoch' > >",
                ">",
            ],
            Meaning::Detach(Detach {
                handle: 0,
                closed: true,
                error: Some(Error::new(ErrorCondition::STOLEN, "epoch")),
            }),
        ),
        vector(
            "detach that suspends",
            &["00 53 16 c0 < 01 70 00 00 01 00 >"],
            Meaning::Detach(Detach { handle: 256, closed: false, error: None }),
        ),
    ]
}

fn outcome_vectors() -> Vec<Vector> {
    let settled = |state| {
        Meaning::Disposition(Disposition { role: Role::Receiver, first: 4, last: 6, settled: true, state })
    };
    vec![
        vector(
            "disposition: accepted",
            &["00 53 15 c0 < 05 41 52 04 52 06 41 00 53 24 45 >"], // disposition (2.7.6), accepted (3.4.2)
            settled(Some(DeliveryState::Accepted)),
        ),
        vector(
            "disposition: received",
            &["00 53 15 c0 < 05 41 52 04 52 06 41 00 53 23 c0 < 02 52 01 53 02 > >"], // 3.4.1
            settled(Some(DeliveryState::Received)),
        ),
        vector(
            "disposition: rejected",
            &[
                "00 53 15 c0 < 06 41 52 04 52 06 41",
                "00 53 25 c0 < 01", // rejected (3.4.3)
                "00 53 1d c0 < 02 a3 < 'amqp:not-allowed' > a1 < 'no' > >",
                "> 41 >", // batchable
            ],
            settled(Some(DeliveryState::Rejected(Some(Error::new(ErrorCondition::NOT_ALLOWED, "no"))))),
        ),
        vector(
            "disposition: rejected without a reason",
            &["00 53 15 c0 < 05 41 52 04 52 06 41 00 53 25 45 >"],
            settled(Some(DeliveryState::Rejected(None))),
        ),
        vector(
            "disposition: released, named by symbol",
            &["00 53 15 c0 < 05 41 52 04 52 06 41 00 a3 < 'amqp:released:list' > 45 >"], // 3.4.4
            settled(Some(DeliveryState::Released)),
        ),
        vector(
            "disposition: modified",
            &[
                "00 53 15 c0 < 05 41 52 04 52 06 41",
                "00 53 27 c0 < 03 41 42 c1 < 02 a3 < 'x' > 41 > >", // modified (3.4.5)
                ">",
            ],
            settled(Some(DeliveryState::Modified {
                delivery_failed: true,
                undeliverable_here: false,
                annotations: vec![(Symbol::from_static("x"), Value::Boolean(true))],
            })),
        ),
        vector(
            "disposition of one delivery by its sender, without a state",
            &["00 53 15 c0 < 04 42 70 ff ff ff ff 40 41 >"],
            Meaning::Disposition(Disposition {
                role: Role::Sender,
                first: u32::MAX,
                last: u32::MAX,
                settled: true,
                state: None,
            }),
        ),
    ]
}

fn transaction_vectors() -> Vec<Vector> {
    let id = |bytes| TransactionId::new(bytes).expect("a short id");
    let given = |role, state| {
        Meaning::Disposition(Disposition { role, first: 4, last: 6, settled: false, state: Some(state) })
    };
    vec![
        vector(
            "attach to a coordinator",
            &[
                "00 53 12 c0 < 07", // attach (2.7.3), 7 of 14 fields
                "a1 < 'tx' >",      // name
                "43 42",            // handle 0, role: sender
                "40 40",            // settle modes by default
                "00 53 28 45",      // source without fields
                "00 53 30 c0 < 01", // target: coordinator (4.5.1)
                "e0 < 02 a3",       // capabilities: array8 of sym8
                "< 'amqp:local-transactions' >",
                "< 'amqp:multi-txns-per-ssn' >",
                "> > >",
            ],
            Meaning::Attach(Box::new(Attach {
                name: "tx".to_owned(),
                handle: 0,
                role: Role::Sender,
                sender_settle_mode: SenderSettleMode::Mixed,
                receiver_settle_mode: ReceiverSettleMode::First,
                source: Some(Source::default()),
                target: Some(Target::coordinator(vec![
                    Symbol::from_static("amqp:local-transactions"),
                    Symbol::from_static("amqp:multi-txns-per-ssn"),
                ])),
                initial_delivery_count: None,
                max_message_size: None,
                offered_capabilities: Vec::new(),
                desired_capabilities: Vec::new(),
                properties: Vec::new(),
            })),
        ),
        vector(
            "transfer in a transaction",
            &[
                "00 53 14 c0 < 08",                   // transfer (2.7.5), 8 of 11 fields
                "43 52 01 a0 < 07 > 43 42 42",        // handle, id, tag, format, settled, more
                "40",                                 // rcv-settle-mode
                "00 53 34 c0 < 01 a0 < 01 02 03 > >", // state: transactional (4.5.8), txn-id
                ">",
            ],
            Meaning::Transfer(Transfer {
                handle: 0,
                delivery_id: Some(1),
                delivery_tag: Some(&[7]),
                message_format: Some(0),
                settled: Some(false),
                more: false,
                aborted: false,
                transaction: Some(id(&[1, 2, 3])),
            }),
        ),
        vector(
            "disposition: declared",
            &["00 53 15 c0 < 05 41 52 04 52 06 42 00 53 33 c0 < 01 a0 < 09 > > >"], // 4.5.5
            given(Role::Receiver, DeliveryState::Declared(id(&[9]))),
        ),
        vector(
            "disposition: dead-lettered in a transaction",
            &[
                "00 53 15 c0 < 05 41 52 04 52 06 42",
                "00 53 34 c0 < 02 a0 < 09 09 >", // transactional-state
                "00 53 25 c0 < 01 00 53 1d c0 < 01 a3 < 'amqp:not-allowed' > > >", //   outcome: rejected
                "> >",
            ],
            given(
                Role::Receiver,
                DeliveryState::Transactional {
                    transaction: id(&[9, 9]),
                    outcome: Some(Box::new(DeliveryState::Rejected(Some(Error::new(
                        ErrorCondition::NOT_ALLOWED,
                        "",
                    ))))),
                },
            ),
        ),
        vector(
            "disposition: in a transaction, named by symbol, without an outcome",
            &[
                "00 53 15 c0 < 05 42 52 04 52 06 42",
                "00 a3 < 'amqp:transactional-state:list' > c0 < 01 a0 < > >",
                ">",
            ],
            given(Role::Sender, DeliveryState::Transactional { transaction: id(&[]), outcome: None }),
        ),
    ]
}
