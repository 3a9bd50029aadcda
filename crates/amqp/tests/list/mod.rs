//! The vectors: bytes written by hand from the specification, field by field, and what they mean.
//!
//! Widths are mixed on purpose: short and long forms, left-out trailing fields, symbolic descriptors.
//!
//! The notation of [`assemble`]: pairs of hexadecimal digits are bytes, `'text'` is ASCII, `<` is a size of one byte and
//! `<<` one of four that count what follows up to the matching `>` or `>>`.

mod connection;
mod links;
mod messages;
mod types;

use amqp::codec::Reader;
use amqp::message::{SectionKind, Sections};
use amqp::performative::{
    Attach, Begin, Close, Detach, Disposition, End, Flow, Open, SaslInit, SaslMechanisms, SaslOutcome,
    Transfer, descriptor,
};
use amqp::{DecodeError, Value};

/// Bytes and their meaning.
#[derive(Debug)]
pub(crate) struct Vector {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) meaning: Meaning<'static>,
}

/// What bytes can mean.
#[derive(Debug, PartialEq)]
pub(crate) enum Meaning<'a> {
    Open(Open),
    Begin(Begin),
    Attach(Box<Attach>),
    Flow(Flow),
    Transfer(Transfer<'a>),
    Disposition(Disposition),
    Detach(Detach),
    End(End),
    Close(Close),
    SaslMechanisms(SaslMechanisms),
    SaslInit(SaslInit),
    SaslOutcome(SaslOutcome),
    /// A value on its own.
    Value(Value),
    /// A whole message: its sections with the value that each describes.
    Message(Vec<(SectionKind, Value)>),
}

/// Reads `bytes` as what `like` is.
pub(crate) fn read<'a>(like: &Meaning<'_>, bytes: &'a [u8]) -> Result<Meaning<'a>, DecodeError> {
    match like {
        Meaning::Value(_) => {
            let mut reader = Reader::new(bytes);
            let value = reader.value()?;
            if reader.is_empty() { Ok(Meaning::Value(value)) } else { Err(DecodeError::Truncated) }
        }
        Meaning::Message(_) => Sections::new(bytes)
            .map(|section| {
                let section = section?;
                Ok((section.kind, Reader::new(section.value).value()?))
            })
            .collect::<Result<_, _>>()
            .map(Meaning::Message),
        _ => read_performative(bytes),
    }
}

/// Reads a frame body.
pub(crate) fn read_performative(bytes: &[u8]) -> Result<Meaning<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let reader = &mut reader;
    Ok(match reader.descriptor()? {
        descriptor::OPEN => Meaning::Open(Open::decode(reader)?),
        descriptor::BEGIN => Meaning::Begin(Begin::decode(reader)?),
        descriptor::ATTACH => Meaning::Attach(Box::new(Attach::decode(reader)?)),
        descriptor::FLOW => Meaning::Flow(Flow::decode(reader)?),
        descriptor::TRANSFER => Meaning::Transfer(Transfer::decode(reader)?),
        descriptor::DISPOSITION => Meaning::Disposition(Disposition::decode(reader)?),
        descriptor::DETACH => Meaning::Detach(Detach::decode(reader)?),
        descriptor::END => Meaning::End(End::decode(reader)?),
        descriptor::CLOSE => Meaning::Close(Close::decode(reader)?),
        descriptor::SASL_MECHANISMS => Meaning::SaslMechanisms(SaslMechanisms::decode(reader)?),
        descriptor::SASL_INIT => Meaning::SaslInit(SaslInit::decode(reader)?),
        descriptor::SASL_OUTCOME => Meaning::SaslOutcome(SaslOutcome::decode(reader)?),
        other => return Err(DecodeError::UnexpectedDescriptor(other)),
    })
}

/// Writes `meaning` in our own form; `None` for what is not written from its decoded form.
pub(crate) fn write(meaning: &Meaning<'_>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match meaning {
        Meaning::Open(open) => open.encode(&mut out),
        Meaning::Begin(begin) => begin.encode(&mut out),
        Meaning::Attach(attach) => attach.encode(&mut out),
        Meaning::Flow(flow) => flow.encode(&mut out),
        Meaning::Disposition(disposition) => disposition.encode(&mut out),
        Meaning::Detach(detach) => detach.encode(&mut out),
        Meaning::End(end) => end.encode(&mut out),
        Meaning::Close(close) => close.encode(&mut out),
        Meaning::SaslMechanisms(mechanisms) => mechanisms.encode(&mut out),
        Meaning::SaslInit(init) => init.encode(&mut out),
        Meaning::SaslOutcome(outcome) => outcome.encode(&mut out),
        Meaning::Value(value) => amqp::codec::write::value(&mut out, value),
        Meaning::Transfer(_) | Meaning::Message(_) => return None,
    }
    Some(out)
}

/// All vectors.
pub(crate) fn vectors() -> Vec<Vector> {
    let mut all = connection::vectors();
    all.extend(links::vectors());
    all.extend(messages::vectors());
    all.extend(types::vectors());
    all
}

fn vector(name: &'static str, notation: &[&str], meaning: Meaning<'static>) -> Vector {
    Vector { name, bytes: assemble(&notation.join(" ")), meaning }
}

fn described(descriptor: Value, value: Value) -> Value {
    Value::Described(Box::new((descriptor, value)))
}

/// Turns the notation at the head of this file into bytes.
pub(crate) fn assemble(notation: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut open = Vec::new();
    for token in notation.split_whitespace() {
        match token {
            "<" => {
                bytes.push(0);
                open.push(bytes.len());
            }
            "<<" => {
                bytes.extend([0; 4]);
                open.push(bytes.len());
            }
            ">" => {
                let start = open.pop().expect("a size that was opened");
                bytes[start - 1] = u8::try_from(bytes.len() - start).expect("a short size");
            }
            ">>" => {
                let start = open.pop().expect("a size that was opened");
                let size = u32::try_from(bytes.len() - start).expect("a size");
                bytes[start - 4..start].copy_from_slice(&size.to_be_bytes());
            }
            _ => match token.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
                Some(text) => bytes.extend(text.as_bytes()),
                None => bytes.push(u8::from_str_radix(token, 16).expect("a byte in hexadecimal")),
            },
        }
    }
    assert!(open.is_empty(), "a size is not closed in {notation}");
    bytes
}
