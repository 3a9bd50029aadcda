//! Sending what was received from here, in one transaction with its completion: what the source does for its other half.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use amqp::connection::Event;
use amqp::performative::DeliveryState;

use super::super::transactional::{End, Ended, Forward, TransactionalError};
use super::{Link, ServiceBusSource, of_receipt};
use crate::service::error::TIMEOUT;
use crate::service::{ClientOptions, Endpoint, ServiceConnection, ServiceError};
use crate::service_bus::ReceiveOptions;
use crate::sink::{ErrorClass, OutgoingBatch, SendToken, SinkBusy};
use crate::source::Settlement;

impl ServiceBusSource {
    /// Connects as [`connect`](Self::connect) does, and attaches the links to the coordinator and to where messages go.
    ///
    /// # Errors
    /// As there, and when the service has no transactions or refuses to take messages for the entity.
    pub(in crate::service_bus) async fn connect_to_forward(
        options: ClientOptions,
        receive: ReceiveOptions,
        sink: &ClientOptions,
    ) -> Result<Self, TransactionalError> {
        let endpoint = Endpoint::resolve_with(options.clone(), sink).map_err(TransactionalError::Source)?;
        let limit = endpoint.options.connect_timeout;
        let connection = match ServiceConnection::open(Arc::clone(&endpoint)).await {
            Ok(connection) => connection,
            Err(error) if error.class != ErrorClass::Fatal => return Err(TransactionalError::Source(error)),
            Err(error) => {
                // Whose token was refused shows without the other.
                let alone = Endpoint::resolve(options).map_err(TransactionalError::Source)?;
                return Err(match ServiceConnection::open(alone).await {
                    Ok(_) => TransactionalError::Sink(error),
                    Err(_) => TransactionalError::Source(error),
                });
            }
        };
        let forward = Forward::new(sink.entity.clone(), &endpoint.container_id);
        let mut source = Self::idle(endpoint, connection, receive);
        source.attached().await.map_err(TransactionalError::Source)?;
        source.forward = Some(Box::new(forward));
        let attached = std::future::poll_fn(|context| source.poll_forward_attached(context));
        tokio::time::timeout(limit, attached).await.unwrap_or_else(|_elapsed| {
            let description = format!("the links of transactions were not attached within {limit:?}");
            Err(TransactionalError::Source(ServiceError::of_connection(TIMEOUT, description)))
        })?;
        Ok(source)
    }

    fn poll_forward_attached(&mut self, context: &mut Context<'_>) -> Poll<Result<(), TransactionalError>> {
        loop {
            let polled = self.poll_turn(context);
            let forward = self.forward_mut();
            if let Some(error) = forward.refusal() {
                return Poll::Ready(Err(TransactionalError::Sink(error.clone())));
            }
            match polled {
                Poll::Ready(Err(error)) => return Poll::Ready(Err(TransactionalError::Source(error))),
                _ if forward.is_attached() => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(())) => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Where messages are sent from here.
    ///
    /// # Panics
    /// When they are not.
    pub(in crate::service_bus) fn forward_mut(&mut self) -> &mut Forward {
        self.forward.as_mut().expect("it was connected to forward")
    }

    /// Does all there is to do until the task would have to wait, or until there is something to hand over.
    ///
    /// # Errors
    /// One that trying again cannot change.
    pub(in crate::service_bus) fn drive(&mut self, context: &mut Context<'_>) -> Result<(), ServiceError> {
        while self.events.is_empty() && !self.may_hand_over() {
            match self.poll_on(context) {
                Poll::Pending => break,
                Poll::Ready(driven) => driven?,
            }
        }
        Ok(())
    }

    /// Sends a message that was received here, in a transaction that completes it.
    ///
    /// # Errors
    /// When nothing can be sent at the moment.
    pub(in crate::service_bus) fn forward(
        &mut self,
        token: SendToken,
        outgoing: OutgoingBatch<'_>,
    ) -> Result<(), SinkBusy> {
        assert_eq!(outgoing.events().len(), 1, "each send is of one event, as the sink asks");
        let Some((batch, event)) = outgoing.first() else { return Ok(()) };
        let (generation, first) = of_receipt(batch.receipt());
        let is_stale = generation != self.generation;
        let Self { forward: Some(forward), connection, .. } = self else { return Err(SinkBusy) };
        if is_stale {
            forward.refuse_stale(token);
            return Ok(());
        }
        match connection.up() {
            Some(connection) => forward.send(connection, token, outgoing, first.wrapping_add(event)),
            // Its locks are with an earlier link by the time that there is another one.
            None => Err(SinkBusy),
        }
    }

    /// Goes on with the transactions, and deals with those that have ended.
    pub(super) fn advance_transactions(&mut self, now: Instant) -> Result<(), ServiceError> {
        let Self { forward: Some(forward), connection, link, .. } = self else { return Ok(()) };
        // Its link comes first in the session.
        if let (Some(connection), Link::Attached(_)) = (connection.up(), *link) {
            forward.advance(connection, now)?;
        }
        self.conclude_transactions(now);
        Ok(())
    }

    /// Deals with the transactions that have ended.
    pub(super) fn conclude_transactions(&mut self, now: Instant) {
        while let Some(ended) = self.forward.as_mut().and_then(|forward| forward.pop_ended()) {
            self.conclude(ended, now);
        }
    }

    /// A transaction has ended.
    fn conclude(&mut self, ended: Ended, now: Instant) {
        match ended.end {
            End::Committed => {
                let mut completed: Vec<u32> = ended.members.iter().map(|member| member.delivery).collect();
                let locks = &self.locks;
                completed.sort_unstable_by_key(|&id| locks.place(id));
                for &id in &completed {
                    self.unanswered += u32::from(self.locks.sent(id, Settlement::Complete, ended.since));
                }
                for run in completed.chunk_by(|one, next| one.wrapping_add(1) == *next) {
                    if let (Some(&first), Some(&last)) = (run.first(), run.last()) {
                        self.take_answer(first, last, Some(&DeliveryState::Accepted));
                    }
                }
            }
            End::Undone => {}
            End::LetGo => {
                for member in &ended.members {
                    if let Some(token) = self.locks.take_held(member.delivery) {
                        self.settle_orphan(token, Settlement::Abandon, now);
                    }
                }
            }
        }
        if let Some(forward) = &mut self.forward {
            forward.tell(ended);
        }
    }

    /// What concerns no link that messages come by.
    pub(super) fn take_event_of_forward(&mut self, event: Event) -> Result<(), ServiceError> {
        let Self { forward: Some(forward), connection, .. } = self else { return Ok(()) };
        match event {
            Event::Outcome { session, first, last, state } => {
                let is_ours = connection.up().is_some_and(|connection| connection.data() == session);
                if is_ours {
                    let now = tokio::time::Instant::now().into_std();
                    forward.take_outcome(first, last, state.as_ref(), now)?;
                }
            }
            Event::Credit(_) | Event::WindowOpen(_) => forward.unblock(),
            Event::DrainRequested(link) => {
                if let Some(connection) = connection.up()
                    && let Some(mut sender) = connection.engine().sender(link)
                {
                    sender.drained();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// When an answer about a transaction is overdue.
    pub(super) fn transactions_due(&self) -> Option<Instant> {
        let patience = self.connection.endpoint().options.connect_timeout;
        self.forward.as_ref()?.answers_due(patience)
    }
}
