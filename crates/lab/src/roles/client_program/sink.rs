//! The producer: each record, or each call, is a line, and so is what became of it.

use std::collections::HashMap;
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use connect::event::Encoding;
use connect::sink::{
    ErrorClass, OutgoingBatch, SendError, SendOutcome, SendToken, Sink, SinkBusy, SinkError,
};
use connect::source::ShutDown;

use super::{Half, ProgramError, Reached, Running, number, split};
use crate::payload::Header;
use crate::roles::backend::MessageCodec as _;
use crate::roles::network::NetworkCodec;

/// A sink that has a program send what it is given.
#[derive(Debug)]
pub(in crate::roles) struct ProgramSink {
    running: Running,
    codec: NetworkCodec,
    partitions: u32,
    asks: Asks,
    /// The number of the next record, or call.
    next: u64,
    /// The send that each record, or call, without an answer belongs to.
    records: HashMap<u64, SendToken>,
    /// Sends of which not all records are answered.
    sends: HashMap<SendToken, Unanswered>,
}

/// What the program is asked to do.
#[derive(Debug)]
enum Asks {
    /// To send a record, which it is handed.
    Records,
    /// To make a call of its client with events that it fills: here are the heads of one.
    Calls { heads: Vec<u8> },
}

#[derive(Debug)]
struct Unanswered {
    records: usize,
    /// Why the first of those was refused that were.
    error: Option<Box<SendError>>,
}

impl ProgramSink {
    pub(in crate::roles) async fn start(reached: &Reached<'_>) -> Result<Self, ProgramError> {
        Ok(Self {
            running: Running::start(reached, Half::Producer).await?,
            codec: NetworkCodec::of(reached.protocol),
            partitions: reached.partitions,
            asks: match reached.producer {
                Some(_) => Asks::Calls { heads: Vec::new() },
                None => Asks::Records,
            },
            next: 0,
            records: HashMap::new(),
            sends: HashMap::new(),
        })
    }

    /// Books what the program has just said; an outcome if a send has all of its answers.
    fn hear(&mut self) -> Result<Option<SendOutcome>, SinkError> {
        let (word, rest) = split(&self.running.line);
        let (record, reason) = split(rest);
        let error = match word {
            b"sent" => None,
            b"failed" => Some(Box::new(SendError {
                class: ErrorClass::Fatal,
                condition: "client:failed".to_owned(),
                description: String::from_utf8_lossy(reason).into_owned(),
            })),
            b"error" => return Err(failed(String::from_utf8_lossy(rest).into_owned())),
            _ => {
                self.running.log();
                return Ok(None);
            }
        };
        let send = number(record).and_then(|record| self.records.remove(&record));
        let Some((token, send)) = send.and_then(|token| Some((token, self.sends.get_mut(&token)?))) else {
            let line = String::from_utf8_lossy(&self.running.line).into_owned();
            return Err(failed(format!("it answers what it was not asked: `{line}`")));
        };
        send.records -= 1;
        send.error = send.error.take().or(error);
        if send.records > 0 {
            return Ok(None);
        }
        let result = match self.sends.remove(&token).and_then(|send| send.error) {
            Some(error) => Err(error),
            None => Ok(()),
        };
        Ok(Some(SendOutcome { token, result }))
    }
}

impl Sink for ProgramSink {
    fn destinations(&self) -> u32 {
        match self.asks {
            Asks::Records => self.partitions,
            // The client, or the service, chooses the partition.
            Asks::Calls { .. } => 1,
        }
    }

    fn takes(&self, encoding: Encoding) -> bool {
        encoding == self.codec.encoding()
    }

    fn max_batch_bytes(&self, _: u32) -> usize {
        MOST_BYTES
    }

    fn encoded_len(&self, message_len: usize) -> usize {
        message_len
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SinkError>> {
        match self.running.unwritten.len() <= MOST_UNWRITTEN {
            true => Poll::Ready(Ok(())),
            false => self.running.poll_flush(context).map_err(|error| failed(error.to_string())),
        }
    }

    fn send(&mut self, token: SendToken, outgoing: OutgoingBatch<'_>) -> Result<(), SinkBusy> {
        if self.running.unwritten.len() > MOST_UNWRITTEN {
            return Err(SinkBusy);
        }
        let first = self.next;
        match &mut self.asks {
            Asks::Records => {
                for message in outgoing.messages() {
                    let payload = STANDARD.encode(payload_of(self.codec, message.as_ref()));
                    let destination = outgoing.destination();
                    self.running.tell(&format!("send {} {destination} {payload}", self.next));
                    self.next += 1;
                }
            }
            Asks::Calls { heads } => {
                heads.clear();
                let mut bytes = 0;
                for message in outgoing.messages() {
                    let payload = payload_of(self.codec, message.as_ref());
                    // A load has payloads of one size.
                    bytes = payload.len();
                    heads.extend_from_slice(&payload[..bytes.min(Header::LENGTH)]);
                }
                self.running.tell(&format!("call {first} {bytes} {}", STANDARD.encode(heads)));
                self.next += 1;
            }
        }
        self.records.extend((first..self.next).map(|record| (record, token)));
        let records = (self.next - first) as usize;
        self.sends.insert(token, Unanswered { records, error: None });
        Ok(())
    }

    fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), SinkError>> {
        if let Poll::Ready(Err(error)) = self.running.poll_flush(context) {
            return Poll::Ready(Err(failed(error.to_string())));
        }
        let before = outcomes.len();
        while outcomes.len() < before + OUTCOMES_AT_ONCE {
            match self.running.poll_line(context) {
                Poll::Pending => break,
                Poll::Ready(Ok(true)) => outcomes.extend(self.hear()?),
                Poll::Ready(Ok(false)) => return Poll::Ready(Err(failed("it ended".to_owned()))),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(failed(error.to_string()))),
            }
        }
        if outcomes.len() > before { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn shut_down(self: Box<Self>) -> ShutDown {
        Box::pin(self.running.end())
    }
}

fn payload_of(codec: NetworkCodec, message: &[u8]) -> &[u8] {
    codec.decode(message).map_or(&[], |decoded| decoded.payload)
}

fn failed(description: String) -> SinkError {
    SinkError { condition: "client:failed".to_owned(), description }
}

/// What topics take by default.
const MOST_BYTES: usize = 1_000_000;

/// Some of it is on its way through the pipe while the rest is being written.
const MOST_UNWRITTEN: usize = 4 << 20;

const OUTCOMES_AT_ONCE: usize = 1_024;
