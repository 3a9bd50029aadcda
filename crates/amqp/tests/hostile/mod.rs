//! Streams that no client would send, by the thousand, each from a seed that its failure names.

mod streams;

use std::time::Instant;

use crate::list::{Meaning, assemble, read_performative, vectors, write};
use amqp::performative::{
    Attach, Begin, Detach, Flow, Open, ReceiverSettleMode, Role, SenderSettleMode, Source, Target,
};
use counting_allocator::measure;
use streams::{MAX_FRAME_SIZE, MAX_MESSAGE_SIZE, decode, sections, serve};

#[test]
fn random_streams_do_no_harm() {
    for seed in 0..10_000 {
        let mut random = Random(seed);
        let mut stream = greeting(&mut random);
        let length = random.below(600);
        stream.extend((0..length).map(|_| random.byte()));
        withstand(seed, &stream, &mut random);
    }
}

#[test]
fn streams_of_random_frames_do_no_harm() {
    for seed in 0..10_000 {
        let mut random = Random(seed);
        let mut stream = greeting(&mut random);
        for _ in 0..random.below(12) {
            let body = random_body(&mut random);
            stream.extend(frame(random.below(4) as u16, &body));
        }
        withstand(seed, &stream, &mut random);
    }
}

#[test]
fn valid_streams_with_changes_do_no_harm() {
    let valid = conversation();
    let fate = serve(start(), &valid, 1);
    assert_eq!(fate.closed, Some(None), "the conversation itself is in order");
    assert!(fate.events > 10, "{}", fate.events);
    for seed in 0..10_000 {
        let mut random = Random(seed);
        let mut stream = valid.clone();
        for _ in 0..=random.below(4) {
            mutate(&mut stream, &mut random);
        }
        withstand(seed, &stream, &mut random);
    }
}

#[test]
fn changed_vectors_do_no_harm() {
    for (index, vector) in vectors().into_iter().enumerate() {
        for seed in 0..200 {
            let mut random = Random(index as u64 * 1_000 + seed);
            let mut bytes = vector.bytes.clone();
            for _ in 0..=random.below(4) {
                mutate(&mut bytes, &mut random);
            }
            let ((), usage) = measure(|| {
                decode(&bytes);
                sections(&bytes);
            });
            assert!(usage.peak_bytes < HELD_MAX, "{} {seed}: {usage:?}", vector.name);
        }
    }
}

#[test]
fn a_partial_message_takes_no_more_than_the_limit_of_its_link() {
    let mut stream = beginning();
    stream.extend(attach_frame());
    let (first, next) = (transfer_frame(Some(0), 4_000), transfer_frame(None, 4_000));
    stream.extend(first);
    for _ in 0..60 {
        stream.extend(&next);
    }
    let (fate, usage) = measure(|| serve(start(), &stream, MAX_FRAME_SIZE as usize));
    assert!(fate.closed.is_none(), "{:?}", fate.closed);
    assert!(usage.peak_bytes < 4 * MAX_MESSAGE_SIZE + HELD_MAX, "{usage:?}");
}

#[test]
fn beginning_and_ending_sessions_for_ever_takes_no_more_memory() {
    let cycle = |times: usize| {
        let mut stream = beginning();
        let end = frame(0, &assemble("00 53 17 45"));
        for _ in 0..times {
            stream.extend(attach_frame());
            stream.extend(transfer_frame(Some(0), 100));
            stream.extend(&end);
            stream.extend(begin_frame());
        }
        let ((), usage) = measure(|| {
            let fate = serve(start(), &stream, 1_000);
            assert!(fate.closed.is_none(), "{:?}", fate.closed);
        });
        // The output is kept by the test and is not the server's.
        usage.peak_bytes
    };
    let (few, many) = (cycle(10), cycle(300));
    assert!(many < few + 300_000, "{few} bytes for ten sessions, {many} for three hundred");
}

#[test]
fn every_fault_has_a_condition_and_every_last_word_is_a_close() {
    let mut conditions = std::collections::BTreeMap::new();
    let valid = conversation();
    for seed in 0..3_000 {
        let mut random = Random(seed);
        let mut stream = valid.clone();
        mutate(&mut stream, &mut random);
        let fate = serve(start(), &stream, 64);
        if let Some(Some(error)) = fate.closed {
            let said = last_close(&fate.output);
            // In the SASL layer there is no close to say it with.
            let expected = error.condition().filter(|_| has_opened(&fate.output));
            assert_eq!(
                said.as_deref(),
                expected.as_ref().map(|condition| condition.as_str()),
                "seed {seed}: {error}"
            );
            if let Some(said) = said {
                *conditions.entry(said).or_insert(0) += 1;
            }
        }
    }
    for condition in ["amqp:decode-error", "amqp:connection:framing-error", "amqp:not-allowed"] {
        assert!(conditions.contains_key(condition), "{conditions:?}");
    }
}

/// Serves `stream` and checks what must hold whatever it is.
fn withstand(seed: u64, stream: &[u8], random: &mut Random) {
    let stride = [usize::MAX, 1, 7, 64, 1_000][random.below(5)];
    let (fate, usage) = measure(|| serve(start(), stream, stride));
    let held = usage.peak_bytes.saturating_sub(fate.output.capacity() as u64);
    assert!(
        held < HELD_MAX + 64 * stream.len() as u64,
        "seed {seed}: {held} bytes held for {}",
        stream.len()
    );
    if let Some(Some(error)) = &fate.closed {
        let told = last_close(&fate.output);
        let silent = error.condition().is_none() || !has_opened(&fate.output);
        assert!(told.is_some() || silent, "seed {seed}: {error} is reported to the peer");
    }
}

/// Whether `output` has come as far as the AMQP header, with which goes the open.
fn has_opened(output: &[u8]) -> bool {
    output.windows(8).any(|bytes| bytes == b"AMQP\x00\x01\x00\x00")
}

/// The condition of the close frame that `output` ends with.
fn last_close(output: &[u8]) -> Option<String> {
    let mut at = 0;
    let mut last = None;
    while at < output.len() {
        if output[at..].starts_with(b"AMQP") {
            at += 8;
            continue;
        }
        let size = u32::from_be_bytes(output[at..at + 4].try_into().expect("a whole header")) as usize;
        if output[at + 5] == 0 && size > 8 {
            last = read_performative(&output[at + 8..at + size]).ok();
        }
        at += size;
    }
    match last {
        Some(Meaning::Close(close)) => close.error.map(|error| error.condition.to_string()),
        _ => None,
    }
}

/// What a client of the server says when all goes well, from header to close.
fn conversation() -> Vec<u8> {
    let mut stream = beginning();
    stream.extend(attach_frame());
    stream.extend(frame(0, &written(&attach("out", 1, Role::Receiver))));
    stream.extend(frame(0, &written(&flow(1, 20))));
    for id in 0..4 {
        stream.extend(transfer_frame(Some(id), 50));
    }
    let mut first = transfer_frame(Some(4), 300);
    first[MORE_AT] = 0x41;
    stream.extend(first);
    stream.extend(transfer_frame(None, 300));
    stream.extend(frame(0, &assemble("00 53 15 c0 < 05 41 43 52 05 41 00 53 24 45 >")));
    stream.extend(frame(0, &[]));
    let detach = Detach { handle: 1, closed: true, error: None };
    stream.extend(frame(0, &written(&Meaning::Detach(detach))));
    stream.extend(frame(0, &assemble("00 53 17 45")));
    stream.extend(frame(0, &assemble("00 53 18 45")));
    stream
}

fn beginning() -> Vec<u8> {
    let mut stream = b"AMQP\x03\x01\x00\x00".to_vec();
    let mut init = frame(0, &assemble("00 53 41 c0 < 03 a3 < 'PLAIN' > a0 < 00 'u' 00 'p' > 40 >"));
    init[5] = 1;
    stream.extend(init);
    stream.extend(b"AMQP\x00\x01\x00\x00");
    let open = Open { container_id: "hostile".to_owned(), max_frame_size: 512, ..Open::default() };
    stream.extend(frame(0, &written(&Meaning::Open(open))));
    stream.extend(begin_frame());
    stream
}

fn begin_frame() -> Vec<u8> {
    let begin = Begin {
        remote_channel: None,
        next_outgoing_id: 0,
        incoming_window: 100,
        outgoing_window: 100,
        handle_max: 100,
    };
    frame(0, &written(&Meaning::Begin(begin)))
}

fn attach_frame() -> Vec<u8> {
    frame(0, &written(&attach("in", 0, Role::Sender)))
}

fn attach(name: &str, handle: u32, role: Role) -> Meaning<'static> {
    Meaning::Attach(Box::new(Attach {
        name: name.to_owned(),
        handle,
        role,
        sender_settle_mode: SenderSettleMode::Mixed,
        receiver_settle_mode: ReceiverSettleMode::First,
        source: Some(Source::new("a")),
        target: Some(Target::new("b")),
        initial_delivery_count: (role == Role::Sender).then_some(0),
        max_message_size: None,
        offered_capabilities: Vec::new(),
        desired_capabilities: vec!["x".into()],
        properties: vec![("p".into(), "v".into())],
    }))
}

fn flow(handle: u32, link_credit: u32) -> Meaning<'static> {
    Meaning::Flow(Flow {
        next_incoming_id: Some(1),
        incoming_window: 100,
        next_outgoing_id: 0,
        outgoing_window: 100,
        handle: Some(handle),
        delivery_count: Some(0),
        link_credit: Some(link_credit),
        echo: true,
        ..Flow::default()
    })
}

/// A delivery in one frame, or with `None` the last part of one (or a middle part: `more` is at [`MORE_AT`]).
fn transfer_frame(id: Option<u8>, length: u32) -> Vec<u8> {
    let id = id.map_or_else(|| "40".to_owned(), |id| format!("52 {id:02x}"));
    let mut body = assemble(&format!("00 53 14 c0 < 06 43 {id} a0 < 01 > 43 42 42 > 00 53 75 b0"));
    body.extend(length.to_be_bytes());
    body.extend((0..length).map(|index| index as u8));
    frame(0, &body)
}

fn written(meaning: &Meaning<'_>) -> Vec<u8> {
    write(meaning).expect("a performative that can be written")
}

fn frame(channel: u16, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).expect("a short frame");
    let mut frame = size.to_be_bytes().to_vec();
    frame.extend([2, 0]);
    frame.extend(channel.to_be_bytes());
    frame.extend(body);
    frame
}

/// Some beginning: none, only a header, or all that it takes until links can be attached.
fn greeting(random: &mut Random) -> Vec<u8> {
    match random.below(5) {
        0 => Vec::new(),
        1 => b"AMQP\x03\x01\x00\x00".to_vec(),
        2 => b"AMQP\x00\x01\x00\x00".to_vec(),
        3 => beginning(),
        _ => [beginning(), attach_frame()].concat(),
    }
}

/// A descriptor and a list of fields of any types.
fn random_body(random: &mut Random) -> Vec<u8> {
    let mut fields = Vec::new();
    let count = random.below(14) as u8;
    for _ in 0..count {
        match random.below(9) {
            0 => fields.push(0x40),
            1 => fields.push([0x41, 0x42, 0x43, 0x44, 0x45][random.below(5)]),
            2 => fields.extend([0x52, random.below(4) as u8]),
            3 => fields.extend([0x70, random.byte(), random.byte(), random.byte(), random.byte()]),
            4 => fields.extend([0xa1, 1, b'a' + random.below(3) as u8]),
            5 => fields.extend([0xa3, 2, b'x', random.byte()]),
            6 => fields.extend([0xa0, 3, random.byte(), 0, 0]),
            7 => fields.extend([0x00, 0x53, [0x1d, 0x24, 0x25, 0x28, 0x29][random.below(5)], 0x45]),
            _ => fields.extend([0x50, random.below(4) as u8]),
        }
    }
    let descriptor = [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18][random.below(9)];
    let size = u8::try_from(fields.len() + 1).expect("few fields");
    let mut body = vec![0x00, 0x53, descriptor, 0xc0, size, count];
    body.extend(fields);
    body.extend((0..random.below(40)).map(|_| random.byte()));
    body
}

/// Changes a byte, cuts, doubles or removes a piece.
fn mutate(stream: &mut Vec<u8>, random: &mut Random) {
    if stream.is_empty() {
        return;
    }
    let at = random.below(stream.len());
    let length = random.below(40).min(stream.len() - at);
    match random.below(8) {
        0..=3 => stream[at] = random.byte(),
        4 => stream[at] = [0x00, 0x40, 0x45, 0x7f, 0x80, 0xff][random.below(6)],
        5 => stream.truncate(at),
        6 => {
            let piece = stream[at..at + length].to_vec();
            stream.splice(at..at, piece);
        }
        _ => drop(stream.drain(at..at + length)),
    }
}

/// A small generator of numbers (SplitMix64), the same everywhere.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }
}

#[expect(clippy::disallowed_methods, reason = "an instant can be had from nowhere else")]
fn start() -> Instant {
    Instant::now()
}

/// Where the `more` flag of a frame by [`transfer_frame`] with an id is.
const MORE_AT: usize = 8 + 3 + 3 + 1 + 2 + 3 + 1 + 1;

/// What a server may hold beside what it was sent, in bytes: its sessions, links and lists.
const HELD_MAX: u64 = 512 * 1024;
