//! Open, end, close and the SASL frames.

use std::time::Duration;

use super::{Meaning, Vector, vector};
use amqp::performative::{
    Close, End, Error, ErrorCondition, Open, SaslCode, SaslInit, SaslMechanisms, SaslOutcome,
};
use amqp::{Symbol, Value};

pub(super) fn vectors() -> Vec<Vector> {
    let mut all = connection_vectors();
    all.extend(sasl_vectors());
    all
}

fn connection_vectors() -> Vec<Vector> {
    vec![
        vector(
            "open with every field",
            &[
                "00 53 10",                      // descriptor: open (2.7.1)
                "d0 << 00 00 00 0a",             // list32, 10 fields
                "a1 < 'me' >",                   // container-id
                "a1 < 'host' >",                 // hostname
                "70 00 01 00 00",                // max-frame-size 65536
                "60 00 ff",                      // channel-max 255
                "70 00 00 75 30",                // idle-time-out 30000
                "40",                            // outgoing-locales
                "a3 < 'en-US' >",                // incoming-locales, a single one
                "a3 < 'a' >",                    // offered-capabilities, a single one
                "e0 < 02 a3 < 'b' > < 'c' > >",  // desired-capabilities: array8 of two
                "c1 < 04",                       // properties: map8, two entries
                "a3 < 'product' > a1 < 'abc' >", //   product: "abc"
                "a3 < 'v' > 71 00 00 00 01",     //   v: int 1 in its long form
                "> >>",
            ],
            Meaning::Open(Open {
                container_id: "me".to_owned(),
                hostname: Some("host".to_owned()),
                max_frame_size: 65_536,
                channel_max: 255,
                idle_timeout: Some(Duration::from_secs(30)),
                offered_capabilities: vec![Symbol::from_static("a")],
                desired_capabilities: vec![Symbol::from_static("b"), Symbol::from_static("c")],
                properties: vec![
                    (Symbol::from_static("product"), Value::from("abc")),
                    (Symbol::from_static("v"), Value::Int(1)),
                ],
            }),
        ),
        vector(
            "open with its container only, its descriptor in full length",
            &[
                "00 80 00 00 00 00 00 00 00 10", // descriptor: open, as ulong
                "c0 < 01 a1 < 'c' > >",          // list8, one field: container-id
            ],
            Meaning::Open(Open { container_id: "c".to_owned(), ..Open::default() }),
        ),
        vector(
            "open with a symbolic descriptor and an idle time-out of zero",
            &[
                "00 a3 < 'amqp:open:list' >",
                "c0 < 05 a1 < 'c' > 40 70 00 00 02 00 40 43 >", // max-frame-size 512, idle-time-out uint0
            ],
            Meaning::Open(Open { container_id: "c".to_owned(), max_frame_size: 512, ..Open::default() }),
        ),
        vector(
            "close without an error",
            &[
                "00 53 18", // descriptor: close (2.7.9)
                "45",       // list0
            ],
            Meaning::Close(Close { error: None }),
        ),
        vector(
            "close with an error and its facts",
            &[
                "00 53 18 c0 < 01",                  // close, one field
                "00 53 1d d0 << 00 00 00 03",        // error (2.8.14), three fields
                "a3 < 'amqp:connection:forced' >",   // condition
                "b1 << 'bye' >>",                    // description as str32
                "c1 < 02 a3 < 'after' > 60 00 05 >", // info: after: ushort 5
                ">> >",
            ],
            Meaning::Close(Close {
                error: Some(Error {
                    condition: ErrorCondition::CONNECTION_FORCED,
                    description: "bye".to_owned(),
                    info: vec![(Symbol::from_static("after"), Value::Ushort(5))],
                }),
            }),
        ),
        vector(
            "end with an error that has a condition only",
            &[
                "00 53 17 c0 < 01",                    // end (2.7.8), one field
                "00 53 1d c0 < 01",                    // error, one field
                "b3 << 'amqp:session:errant-link' >>", // condition as sym32
                "> >",
            ],
            Meaning::End(End { error: Some(Error::new(ErrorCondition::ERRANT_LINK, "")) }),
        ),
    ]
}

fn sasl_vectors() -> Vec<Vector> {
    let outcome = |code| Meaning::SaslOutcome(SaslOutcome { code });
    vec![
        vector(
            "sasl-mechanisms: an array",
            &["00 53 40 c0 < 01 e0 < 02 a3 < 'PLAIN' > < 'ANONYMOUS' > > >"], // 5.3.3.1
            Meaning::SaslMechanisms(SaslMechanisms {
                mechanisms: vec![Symbol::from_static("PLAIN"), Symbol::from_static("ANONYMOUS")],
            }),
        ),
        vector(
            "sasl-mechanisms: a single symbol",
            &["00 53 40 c0 < 01 a3 < 'EXTERNAL' > >"],
            Meaning::SaslMechanisms(SaslMechanisms { mechanisms: vec![Symbol::from_static("EXTERNAL")] }),
        ),
        vector(
            "sasl-init with credentials and a host",
            &["00 53 41 c0 < 03 a3 < 'PLAIN' > a0 < 00 'u' 00 'p' > a1 < 'h' > >"], // 5.3.3.2
            Meaning::SaslInit(SaslInit {
                mechanism: Symbol::from_static("PLAIN"),
                initial_response: Some(b"\0u\0p".to_vec()),
                hostname: Some("h".to_owned()),
            }),
        ),
        vector(
            "sasl-init without a response",
            &["00 53 41 c0 < 01 a3 < 'ANONYMOUS' > >"],
            Meaning::SaslInit(SaslInit {
                mechanism: Symbol::from_static("ANONYMOUS"),
                initial_response: None,
                hostname: None,
            }),
        ),
        vector(
            "sasl-outcome: ok",
            &["00 53 44 c0 < 02 50 00 40 >"], // 5.3.3.6
            outcome(SaslCode::Ok),
        ),
        vector("sasl-outcome: auth", &["00 53 44 c0 < 01 50 01 >"], outcome(SaslCode::Auth)),
        vector(
            "sasl-outcome: sys-perm",
            &["00 53 44 c0 < 02 50 03 a0 < 'later' > >"],
            outcome(SaslCode::System { temporary: false }),
        ),
        vector(
            "sasl-outcome: sys-temp",
            &["00 53 44 c0 < 01 50 04 >"],
            outcome(SaslCode::System { temporary: true }),
        ),
    ]
}
