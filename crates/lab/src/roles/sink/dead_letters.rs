//! What the service has put into the dead-letter queue of the source, message by message.
//!
//! Each is verified by its payload like those that arrive, so that it is known which message it is, and completed, so
//! that it is counted once. Only of the lab's own service: dead letters of another one are left to its
//! owner.

use std::task::{Context, Poll};
use std::time::Duration;

use connect::event::EventBatch;
use connect::sink::ErrorClass;
use connect::source::{AnySource, BatchOptions, Settlement, SourceEvent, SourceOptions};

use crate::payload::{Corrupted, Header};
use crate::roles::RoleError;
use crate::roles::backend::{Backend, MessageCodec, OpenedSource};
use crate::roles::protocol::{Endpoint, ReadFrom};
use crate::scenario::Payload;
use crate::verify::{Expectation, StreamVerifier};

/// The dead letters of one run.
pub(super) struct DeadLetters<C> {
    source: AnySource,
    codec: C,
    payload: Payload,
    /// Tells messages of the run from others, and first sights from repetitions.
    verifier: StreamVerifier,
    /// Stream and sequence number of each.
    found: Vec<(u16, u32)>,
    completed: Vec<u32>,
}

impl<C: MessageCodec> DeadLetters<C> {
    /// Connects, and asks for messages at once.
    pub(super) async fn open<B: Backend<Codec = C>>(
        backend: &B,
        endpoint: &Endpoint,
        expectation: Expectation,
        payload: Payload,
    ) -> Result<Self, RoleError> {
        let options = SourceOptions {
            batch: BatchOptions { max_events: MESSAGES_AHEAD, max_wait: Duration::ZERO },
            prefetch: MESSAGES_AHEAD,
        };
        let opened = backend
            .open_source(endpoint, options, ReadFrom::Beginning)
            .await
            .map_err(RoleError::connect("connecting to the dead-letter queue"))?;
        let OpenedSource { mut source, positions, .. } = opened;
        for (partition, position) in positions {
            source.open(partition, position);
        }
        Ok(Self {
            source,
            codec: backend.codec(endpoint),
            payload,
            verifier: StreamVerifier::new(Expectation { destinations: 1, ..expectation }),
            found: Vec::new(),
            completed: Vec::new(),
        })
    }

    /// Takes what has come. Ready with whether there may be more at once.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), RoleError>> {
        match self.source.poll_batch(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(SourceEvent::Batch(batch))) => {
                self.look_at(batch);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Ok(SourceEvent::PartitionClosed { error, .. })) => {
                match error.class == ErrorClass::Fatal {
                    true => Poll::Ready(Err(RoleError::Receive(error))),
                    false => Poll::Ready(Ok(())),
                }
            }
            Poll::Ready(Ok(SourceEvent::Settled(_) | SourceEvent::LocksRenewed { .. })) => {
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(RoleError::Receive(error))),
        }
    }

    /// Stream and sequence number of each different message that was found.
    pub(super) fn found(&self) -> &[(u16, u32)] {
        &self.found
    }

    fn look_at(&mut self, batch: EventBatch) {
        let is_beside = self.payload.is_identified_beside();
        for event in batch.events() {
            let parsed = match self.codec.decode(batch.message(event)) {
                None => Err(Corrupted::NoPayload),
                Some(message) if is_beside => {
                    Header::parse_detached(message.header.unwrap_or_default(), message.payload)
                }
                Some(message) => Header::parse(message.payload),
            };
            if let Some(header) = self.verifier.observe(parsed, 0) {
                self.found.push((header.stream, header.sequence));
            }
        }
        if self.source.settles() {
            self.completed.clear();
            self.completed.extend((0_u32..).take(batch.len()));
            self.source.settle(&batch, &self.completed, Settlement::Complete);
        }
        self.source.release(batch);
    }
}

/// They are few, as a rule, and nobody waits for them.
const MESSAGES_AHEAD: usize = 1_024;
