//! Writes a seed per byte vector for the targets that read bytes, and some for the others, into `corpus/`.

#[path = "../../crates/amqp/tests/vectors/list/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest of it")]
mod list;

use std::path::Path;
use std::{fs, io};

use hub::log::disk::sidecar::{Assurance, Sidecar};
use list::{Meaning, vectors};

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (index, vector) in vectors().into_iter().enumerate() {
        let seed = |target: &str, bytes: &[u8]| -> io::Result<()> {
            let folder = corpus.join(target);
            fs::create_dir_all(&folder)?;
            fs::write(folder.join(format!("vector-{index:03}")), bytes)
        };
        seed("decoder", &vector.bytes)?;
        match &vector.meaning {
            Meaning::Message(_) => seed("sections", &vector.bytes)?,
            Meaning::Value(_) => {}
            Meaning::SaslMechanisms(_) | Meaning::SaslInit(_) | Meaning::SaslOutcome(_) => {
                seed(
                    "connection",
                    &[
                        &[255][..],
                        b"AMQP\x03\x01\x00\x00",
                        &frame(1, &vector.bytes),
                    ]
                    .concat(),
                )?;
            }
            _ => seed(
                "connection",
                &[&[255][..], &opened(), &frame(0, &vector.bytes)].concat(),
            )?,
        }
        // Each vector's bytes are a script too, if not a sensible one.
        seed("conversation", &vector.bytes)?;
    }
    seed_sql(&corpus.join("sql_filter"))?;
    seed_sidecar(&corpus.join("sidecar"))
}

/// A bit of everything that rules can say.
fn seed_sql(folder: &Path) -> io::Result<()> {
    let texts = [
        "color = 'it''s red' AND (quantity >= 10 OR NOT [odd ]] name] <> 1.5E-3)",
        "user.tag NOT IN ('queue', -1, NULL) OR sys.Label LIKE 'a\\%_%' ESCAPE '\\'",
        "EXISTS(sys.To) AND \"quoted\" IS NOT NULL AND property('a' + 'b') = TRUE",
        "SET quantity = -quantity / 2 % +3; REMOVE priority SET sys.CorrelationId = p('x')",
    ];
    fs::create_dir_all(folder)?;
    for (number, text) in texts.into_iter().enumerate() {
        fs::write(folder.join(format!("text-{number}")), text)?;
    }
    Ok(())
}

/// No fuzzer guesses a checksum.
fn seed_sidecar(folder: &Path) -> io::Result<()> {
    let sidecar = Sidecar {
        length: 45,
        first_sequence_number: 7,
        next_sequence_number: 9,
        first_append_time: hub::UnixTime::from_milliseconds(1000),
        last_append_time: hub::UnixTime::from_milliseconds(1001),
        assurance: Assurance::Synced,
    };
    fs::create_dir_all(folder)?;
    fs::write(folder.join("synced"), sidecar.encode())
}

/// What it takes until links can be attached.
fn opened() -> Vec<u8> {
    let open = list::assemble("00 53 10 c0 < 01 a1 < 'seed' > >");
    let begin = list::assemble("00 53 11 c0 < 04 40 43 52 64 52 64 >");
    let attach = list::assemble(
        "00 53 12 c0 < 0a a1 < 'in' > 43 42 40 40 00 53 28 45 00 53 29 45 40 40 43 >",
    );
    [
        &b"AMQP\x00\x01\x00\x00"[..],
        &frame(0, &open),
        &frame(0, &begin),
        &frame(0, &attach),
    ]
    .concat()
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).expect("a short frame");
    [&size.to_be_bytes()[..], &[2, kind, 0, 0], body].concat()
}
