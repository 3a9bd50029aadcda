//! A forwarder that does wrong on purpose, and keeps an account of it.
//!
//! It takes the relay's place as any external system does: environment variables say what to connect, and it is measured from
//! the outside. It forwards a batch at a time, to the partition with the number of the source's. In every so manieth event it
//! does what it was told to do. When it is stopped, it writes down how often it did.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use access::{ConnectionString, ConnectionStringError};
use bytes::{Bytes, BytesMut};
use connect::event::{EventBatch, PartitionId};
use connect::event_hubs::{EventHubsOptions, EventHubsSink, EventHubsSource, HubNameError};
use connect::service::ServiceError;
use connect::sink::{OutgoingBatch, SendError, SendToken, Sink as _, SinkError};
use connect::source::{BatchOptions, Source as _, SourceError, SourceEvent, SourceOptions, StartPosition};
use serde::{Deserialize, Serialize};

use crate::clock::RunTime;
use crate::payload::{Header, PayloadWriter};
use crate::roles::amqp_codec::AmqpCodec;
use crate::roles::backend::MessageCodec as _;

/// What is done to events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The event is not forwarded.
    Drop,
    /// It is forwarded twice.
    Duplicate,
    /// One bit of its payload is another one.
    Flip,
    /// It changes places with the one after it.
    Swap,
    /// Behind it goes one that no load of this run has sent.
    Foreign,
    /// It goes to another partition than it should.
    WrongPartition,
    /// Every event goes to the first partition of the destination.
    OnePartition,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::Drop,
        Self::Duplicate,
        Self::Flip,
        Self::Swap,
        Self::Foreign,
        Self::WrongPartition,
        Self::OnePartition,
    ];

    /// Its name on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Drop => "drop",
            Self::Duplicate => "duplicate",
            Self::Flip => "flip",
            Self::Swap => "swap",
            Self::Foreign => "foreign",
            Self::WrongPartition => "wrong-partition",
            Self::OnePartition => "one-partition",
        }
    }

    /// The fault with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

/// How often it was done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Events that were received.
    pub received: u64,
    /// Those in which something was done.
    pub done: u64,
}

/// Why it can't go on.
#[derive(Debug, thiserror::Error)]
pub enum SaboteurError {
    /// The lab did not start it.
    #[error("the variable {0} is missing: only `parshall lab check` starts this command")]
    NotTold(&'static str),
    /// A connection string can't be read.
    #[error(transparent)]
    ConnectionString(#[from] ConnectionStringError),
    /// The hub's name does not fit the connection string.
    #[error(transparent)]
    HubName(#[from] HubNameError),
    /// The service can't be reached or refuses.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// Receiving can't continue.
    #[error("receiving can't continue")]
    Receive(#[from] SourceError),
    /// Sending can't continue.
    #[error("sending can't continue")]
    Send(#[from] SinkError),
    /// A send was not accepted.
    #[error("a send was refused")]
    Refused(#[from] Box<SendError>),
    /// The tally can't be written.
    #[error("the tally can't be written")]
    Tally(#[from] io::Error),
}

/// Forwards from hub to hub, as the variables of an external system say, from the call of `ready` until `stop` is ready. Then writes
/// its [`Tally`] to a file.
///
/// # Errors
/// [`SaboteurError`]. An event that could not be forwarded is not part of what it was to do, so there is no second try.
pub async fn run(
    fault: Fault,
    tally: &Path,
    ready: impl FnOnce(),
    stop: impl Future<Output = ()>,
) -> Result<(), SaboteurError> {
    let source = EventHubsSource::connect(
        options("PARSHALL_SOURCE_CONNECTION_STRING", "PARSHALL_SOURCE_HUB")?,
        &variable("PARSHALL_CONSUMER_GROUP")?,
        SourceOptions {
            batch: BatchOptions { max_events: BATCH, max_wait: Duration::from_millis(1) },
            prefetch: 2 * BATCH,
        },
    )
    .await?;
    let sink = EventHubsSink::connect(options(
        "PARSHALL_DESTINATION_CONNECTION_STRING",
        "PARSHALL_DESTINATION_HUB",
    )?)
    .await?;
    let mut forwarder =
        Forwarder { source, sink, work: Work { fault, tally: Tally::default(), is_due: false } };
    for partition in forwarder.source.partitions() {
        forwarder.source.open(partition, StartPosition::AtSequenceNumber(0));
    }
    ready();
    let mut stop = pin!(stop);
    loop {
        tokio::select! {
            biased;
            batch = forwarder.receive() => forwarder.forward(batch?).await?,
            () = &mut stop => break,
        }
    }
    fs::write(tally, serde_json::to_vec(&forwarder.work.tally).map_err(io::Error::other)?)?;
    Ok(())
}

struct Forwarder {
    source: EventHubsSource,
    sink: EventHubsSink,
    work: Work,
}

impl Forwarder {
    /// Safe to cancel.
    async fn receive(&mut self) -> Result<EventBatch, SaboteurError> {
        loop {
            match poll_fn(|context| self.source.poll_batch(context)).await? {
                SourceEvent::Batch(batch) => return Ok(batch),
                SourceEvent::PartitionClosed { error, .. } => return Err(error.into()),
                SourceEvent::Settled(_) | SourceEvent::LocksRenewed { .. } => {}
            }
        }
    }

    async fn forward(&mut self, batch: EventBatch) -> Result<(), SaboteurError> {
        let messages = batch.events().iter().map(|event| Bytes::copy_from_slice(batch.message(event)));
        let Sabotaged { messages, astray } = self.work.sabotage(messages.collect());
        let (partition, destinations) = (batch.partition(), self.sink.destinations());
        let own = partition.0 % destinations;
        self.source.release(batch);
        if self.work.fault == Fault::OnePartition {
            self.work.tally.done += if own == 0 { 0 } else { messages.len() as u64 };
            return self.send(partition, 0, &messages).await;
        }
        self.send(partition, own, &messages).await?;
        self.send(partition, (own + 1) % destinations, &astray).await
    }

    async fn send(
        &mut self,
        partition: PartitionId,
        destination: u32,
        messages: &[Bytes],
    ) -> Result<(), SaboteurError> {
        if messages.is_empty() {
            return Ok(());
        }
        let mut outgoing = EventBatch::with_capacity(partition, messages.len());
        for message in messages {
            outgoing.push_message(message, 0);
        }
        let events: Vec<u32> = (0..).take(outgoing.len()).collect();
        while self.sink.send(SendToken(0), OutgoingBatch::new(destination, &outgoing, &events)).is_err() {
            poll_fn(|context| self.sink.poll_ready(context)).await?;
        }
        let mut outcomes = Vec::new();
        poll_fn(|context| self.sink.poll_outcomes(context, &mut outcomes)).await?;
        for outcome in outcomes {
            outcome.result?;
        }
        Ok(())
    }
}

/// What is to be forwarded of a batch.
struct Sabotaged {
    messages: Vec<Bytes>,
    /// Those that are to go to another partition than the others.
    astray: Vec<Bytes>,
}

/// What is done to the messages, and how often it was.
struct Work {
    fault: Fault,
    tally: Tally,
    /// An event was to change places, and had none after it in its batch.
    is_due: bool,
}

impl Work {
    fn sabotage(&mut self, messages: Vec<Bytes>) -> Sabotaged {
        let mut astray = Vec::new();
        let mut out = Vec::with_capacity(messages.len() + messages.len() / EVERY as usize + 1);
        let mut messages = messages.into_iter();
        while let Some(message) = messages.next() {
            self.tally.received += 1;
            self.is_due |= self.tally.received.is_multiple_of(EVERY);
            if !self.is_due {
                out.push(message);
                continue;
            }
            self.is_due = false;
            match self.fault {
                Fault::None | Fault::OnePartition => {
                    out.push(message);
                    continue;
                }
                Fault::Drop => {}
                Fault::WrongPartition => astray.push(message),
                Fault::Duplicate => out.extend([message.clone(), message]),
                Fault::Flip => out.push(flipped(&message)),
                Fault::Foreign => {
                    let foreign = foreign(&message);
                    out.extend([message, foreign]);
                }
                Fault::Swap => match messages.next() {
                    Some(next) => {
                        self.tally.received += 1;
                        out.extend([next, message]);
                    }
                    None => {
                        self.is_due = true;
                        out.push(message);
                        continue;
                    }
                },
            }
            self.tally.done += 1;
        }
        Sabotaged { messages: out, astray }
    }
}

/// The message with another bit at the end of its payload, where the filler is.
fn flipped(message: &Bytes) -> Bytes {
    let mut bytes = BytesMut::from(&message[..]);
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    bytes.freeze()
}

/// A message like this one, of another run.
fn foreign(message: &Bytes) -> Bytes {
    let payload = AmqpCodec.decode(message).map_or(&[][..], |message| message.payload);
    let (Ok(header), Ok(writer)) = (Header::parse(payload), PayloadWriter::new(payload.len(), 0)) else {
        return message.clone();
    };
    let mut payload = vec![0; writer.length()];
    writer.write(Header { run: header.run.wrapping_add(101), ..header }, RunTime::EPOCH, &mut payload);
    let mut bytes = BytesMut::new();
    AmqpCodec.encode(None, &payload, &mut bytes);
    bytes.freeze()
}

fn options(connection_string: &'static str, hub: &'static str) -> Result<EventHubsOptions, SaboteurError> {
    let connection_string: ConnectionString = variable(connection_string)?.parse()?;
    Ok(EventHubsOptions::new(connection_string, Some(&variable(hub)?))?)
}

fn variable(name: &'static str) -> Result<String, SaboteurError> {
    std::env::var(name).map_err(|_| SaboteurError::NotTold(name))
}

/// Something is done to every event of this number: often enough to be sure of it within a second, seldom enough to leave most
/// events as they are.
pub(super) const EVERY: u64 = 50;

const BATCH: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(count: u32) -> Vec<Bytes> {
        let writer = PayloadWriter::new(24, 1).unwrap();
        let message = |sequence| {
            let header = Header { run: 7, stream: 1, sequence, intended: RunTime::EPOCH };
            let mut payload = [0; 24];
            writer.write(header, RunTime::EPOCH, &mut payload);
            let mut bytes = BytesMut::new();
            AmqpCodec.encode(None, &payload, &mut bytes);
            bytes.freeze()
        };
        (0..count).map(message).collect()
    }

    /// Runs and sequence numbers of messages; none for those that are broken.
    fn read(messages: &[Bytes]) -> Vec<Option<(u8, u32)>> {
        let parsed = messages.iter().map(|message| Header::parse(AmqpCodec.decode(message).unwrap().payload));
        parsed.map(|header| header.ok().map(|header| (header.run, header.sequence))).collect()
    }

    fn sabotaged(fault: Fault, batches: &[u32]) -> (Vec<Option<(u8, u32)>>, Tally) {
        let mut work = Work { fault, tally: Tally::default(), is_due: false };
        let mut all = messages(batches.iter().sum());
        let mut out = Vec::new();
        for count in batches {
            let rest = all.split_off(*count as usize);
            out.extend(work.sabotage(all).messages);
            all = rest;
        }
        (read(&out), work.tally)
    }

    #[test]
    fn what_is_done_to_every_fiftieth_event_is_what_the_fault_says() {
        let own = |sequence| Some((7, sequence));
        for (fault, around) in [
            (Fault::None, vec![own(48), own(49), own(50)]),
            (Fault::Drop, vec![own(48), own(50)]),
            (Fault::WrongPartition, vec![own(48), own(50)]),
            (Fault::Duplicate, vec![own(48), own(49), own(49), own(50)]),
            (Fault::Flip, vec![own(48), None, own(50)]),
            (Fault::Swap, vec![own(48), own(50), own(49)]),
            (Fault::Foreign, vec![own(48), own(49), Some((108, 49)), own(50)]),
        ] {
            let (events, tally) = sabotaged(fault, &[60]);
            assert_eq!(events[48..48 + around.len()], around, "{fault:?}");
            assert_eq!(tally, Tally { received: 60, done: u64::from(fault != Fault::None) }, "{fault:?}");
        }
    }

    #[test]
    fn an_event_at_the_end_of_its_batch_changes_places_in_the_next_one() {
        let (events, tally) = sabotaged(Fault::Swap, &[50, 10]);
        assert_eq!(events[49..52], [Some((7, 49)), Some((7, 51)), Some((7, 50))]);
        assert_eq!(tally, Tally { received: 60, done: 1 });
    }
}
