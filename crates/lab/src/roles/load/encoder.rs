//! From a run of the schedule to a batch of messages.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use connect::event::{EnqueuedTime, EventBatch, EventParts};
use connect::sink::Sink;

use crate::{
    clock::RunTime,
    load::Run,
    payload::{Header, NOTHING, PERSON_LENGTH, PayloadWriter, Person, Replay},
    roles::{RoleError, backend::MessageCodec},
    scenario,
};

/// Encodes the events of runs, one batch at a time, into memory that it uses again and again.
#[derive(Debug)]
pub(super) struct Encoder<C> {
    codec: C,
    content: Content,
    run: u8,
    streams: u16,
    chunk: BytesMut,
    batch: EventBatch,
    /// 0, 1, 2, …: all events of the batch.
    indices: Vec<u32>,
}

#[derive(Debug)]
enum Content {
    Stamped { writer: PayloadWriter, payload: Vec<u8> },
    Replayed(Replay),
    Person(Person),
    Nothing,
}

impl<C: MessageCodec> Encoder<C> {
    /// An encoder of the payloads of run number `run`.
    pub(super) fn new(
        codec: C,
        payload: &scenario::Payload,
        seed: u64,
        run: u8,
        streams: u16,
    ) -> Result<Self, RoleError> {
        let content = match payload {
            scenario::Payload::Size(size) => Content::Stamped {
                writer: PayloadWriter::new(size.as_usize(), seed)?,
                payload: vec![0; size.as_usize()],
            },
            scenario::Payload::Replay { replay } => Content::Replayed(Replay::open(replay)?),
            scenario::Payload::Person => Content::Person(Person::new()),
            scenario::Payload::Nothing => Content::Nothing,
        };
        Ok(Self {
            codec,
            content,
            run,
            streams,
            chunk: BytesMut::new(),
            batch: EventBatch::default(),
            indices: Vec::new(),
        })
    }

    /// Whether the service takes what will be sent: batches of `events` payloads of one size, or the longest line of a
    /// file, of which as many go into a send as it has room for.
    pub(super) fn check(&self, events: u32, sink: &dyn Sink) -> Result<(), RoleError> {
        let limit = sink.max_batch_bytes(0);
        let mut message = BytesMut::new();
        let header = Some(&[0; Header::DETACHED_LENGTH][..]);
        match &self.content {
            Content::Stamped { payload, .. } => self.codec.encode(None, payload, &mut message),
            Content::Person(_) => self.codec.encode(header, &[0; PERSON_LENGTH], &mut message),
            Content::Nothing => self.codec.encode(header, NOTHING, &mut message),
            Content::Replayed(replay) => {
                let longest = replay.longest();
                self.codec.encode(header, &vec![0; longest.bytes], &mut message);
                let needed = sink.encoded_len(message.len());
                return match needed > limit {
                    true => Err(RoleError::LineTooLarge { longest, needed, limit }),
                    false => Ok(()),
                };
            }
        }
        let needed = sink.encoded_len(message.len()).saturating_mul(events as usize);
        match needed > limit {
            true => Err(RoleError::BatchTooLarge { events, needed, limit }),
            false => Ok(()),
        }
    }

    /// The first events of `run`, as many as fit into one send to `destination`, leaving at `sent`, and the indices of
    /// all of them.
    pub(super) fn encode(
        &mut self,
        run: &Run,
        sent: RunTime,
        sink: &dyn Sink,
        destination: u32,
    ) -> (&EventBatch, &[u32]) {
        // Lets the chunk of the batch before go, so that its memory can be used again.
        self.batch.clear(self.batch.partition());
        self.batch.set_encoding(self.codec.encoding());
        let mut ends = std::mem::take(&mut self.indices);
        ends.clear();
        let mut room = sink.max_batch_bytes(destination);
        // One reading for all: they leave together.
        let date = SystemTime::now();
        for (sequence, intended) in run.events() {
            let header = Header { run: self.run, stream: run.stream, sequence, intended };
            match &mut self.content {
                Content::Stamped { writer, payload } => {
                    writer.write(header, sent, payload);
                    self.codec.encode(None, payload, &mut self.chunk);
                }
                Content::Person(person) => {
                    let payload = person.created_at(date);
                    self.codec.encode(Some(&header.to_detached(payload)), payload, &mut self.chunk);
                }
                Content::Nothing => {
                    self.codec.encode(Some(&header.to_detached(NOTHING)), NOTHING, &mut self.chunk);
                }
                Content::Replayed(replay) => {
                    // Streams take turns in the file, so that together they send it in its order.
                    let number = u64::from(sequence) * u64::from(self.streams) + u64::from(run.stream);
                    let payload = replay.payload(number);
                    let start = self.chunk.len();
                    self.codec.encode(Some(&header.to_detached(payload)), payload, &mut self.chunk);
                    let needed = sink.encoded_len(self.chunk.len() - start);
                    if needed > room && !ends.is_empty() {
                        self.chunk.truncate(start);
                        break;
                    }
                    room = room.saturating_sub(needed);
                }
            }
            ends.push(u32::try_from(self.chunk.len()).expect("a send is far below 4 GiB"));
        }
        let chunk: Bytes = self.chunk.split().freeze();
        // Some services leave the date to the sender.
        let enqueued_time = unix_ms(date);
        let mut start = 0;
        for (index, (end, sequence)) in ends.iter_mut().zip(run.sequences()).enumerate() {
            let parts = EventParts {
                message: start..*end,
                partition_key: 0..0,
                offset: 0..0,
                sequence_number: i64::from(sequence),
                enqueued_time,
            };
            self.batch.push(&chunk, &parts);
            start = *end;
            *end = index as u32;
        }
        self.indices = ends;
        (&self.batch, &self.indices)
    }
}

fn unix_ms(date: SystemTime) -> EnqueuedTime {
    let unix = date.duration_since(UNIX_EPOCH);
    EnqueuedTime::from_unix_ms(unix.map_or(0, |unix| i64::try_from(unix.as_millis()).unwrap_or(i64::MAX)))
}
