//! Links to send through, over one connection that is made again when it broke.
//!
//! All sends are unsettled and await the service's outcome, which comes for ranges of them. Whatever was sent and has no
//! outcome when a link or the connection ends gets that error as its outcome, so every send that was taken has exactly
//! one outcome. While there is no connection everything is busy.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use amqp::connection::{Event, LinkId, LinkOptions, NewDelivery, TransferWriter};
use amqp::message::FORMAT_AMQP;
use amqp::performative::{DeliveryState, SenderSettleMode, Source, Target};

use super::connection::ServiceConnection;
use super::endpoint::Endpoint;
use super::error::{ServiceError, TIMEOUT};
use super::forwarded::format_of;
use super::outstanding::Outstanding;
use super::reconnecting::Reconnecting;
use crate::event::Message;
use crate::sink::{self, ErrorClass, SendError, SendOutcome, SendToken, SinkBusy};

/// Sends to a fixed list of addresses.
#[derive(Debug)]
pub(crate) struct Transmitter {
    connection: Reconnecting,
    links: Vec<Link>,
    /// Sends that await their outcome, by the place of their session.
    outstanding: Vec<Outstanding>,
    outcomes: Vec<SendOutcome>,
    /// Whether a send was refused and nothing has changed since.
    blocked: bool,
    /// Whether one was refused because the socket has to take some of the output first.
    output_full: bool,
    next_tag: u32,
    links_attached: u64,
}

/// Where messages can be sent.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) node: String,
    /// Whether a link is attached before anything is sent, and again with every new connection.
    pub(crate) attached_at_once: bool,
}

#[derive(Debug)]
struct Link {
    address: Address,
    state: LinkState,
    /// The place of its session, while it is attaching or attached.
    session: usize,
    max_message_bytes: usize,
}

#[derive(Debug)]
enum LinkState {
    Detached,
    Attaching(LinkId),
    Attached(LinkId),
    /// The service refused it. The next send gets this as its outcome, and one after it tries again.
    Refused(Box<ServiceError>),
}

impl Transmitter {
    /// Attaches the links that are to be there from the beginning, on a connection that is up.
    ///
    /// # Errors
    /// When one is refused, the connection breaks, or it takes longer than the options allow.
    pub(crate) async fn attached(
        endpoint: Arc<Endpoint>,
        connection: ServiceConnection,
        addresses: Vec<Address>,
    ) -> Result<Self, ServiceError> {
        let links = addresses.into_iter().map(Link::new);
        let limit = endpoint.options.connect_timeout;
        let mut transmitter = Self {
            connection: Reconnecting::new(endpoint, connection),
            links: links.collect(),
            outstanding: Vec::new(),
            outcomes: Vec::new(),
            blocked: false,
            output_full: false,
            next_tag: 0,
            links_attached: 0,
        };
        transmitter.attach_all();
        let attached = std::future::poll_fn(|context| transmitter.poll_attached(context));
        tokio::time::timeout(limit, attached).await.unwrap_or_else(|_elapsed| {
            let description = format!("the sender links were not attached within {limit:?}");
            Err(ServiceError::of_connection(TIMEOUT, description))
        })?;
        Ok(transmitter)
    }

    /// Adds an address, and gives its place in the list. Its link is attached when something is sent to it.
    pub(crate) fn add(&mut self, node: String) -> usize {
        self.links.push(Link::new(Address { node, attached_at_once: false }));
        self.links.len() - 1
    }

    /// How many sends await their outcome.
    pub(crate) fn waiting(&self) -> usize {
        self.outstanding.iter().map(Outstanding::waiting).sum()
    }

    /// The most bytes that a message to an address may have, by its place in the list, the envelope left out.
    pub(crate) fn max_message_bytes(&self, link: usize) -> usize {
        self.links[link].max_message_bytes.saturating_sub(ENVELOPE_BYTES_MAX)
    }

    /// Why the link to an address is refused, if it is.
    pub(crate) fn refusal(&self, link: usize) -> Option<&ServiceError> {
        match &self.links[link].state {
            LinkState::Refused(error) => Some(error),
            LinkState::Detached | LinkState::Attaching(_) | LinkState::Attached(_) => None,
        }
    }

    /// Why there is no connection for sending, if there is none.
    #[inline]
    pub(crate) fn outage(&self) -> Option<&ServiceError> {
        self.connection.outage()
    }

    /// Ready when a send that was refused as busy is worth another try; `Pending` registers the task to be woken.
    ///
    /// # Errors
    /// When there is no use in trying: wrong credentials, the entity is gone.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        if self.blocked {
            self.drive(context)?;
        }
        match self.blocked {
            true => Poll::Pending,
            false => Poll::Ready(Ok(())),
        }
    }

    /// Flushes, and appends the outcomes that have arrived to `outcomes`: ready if there was any. `Pending` registers the
    /// task to be woken.
    ///
    /// # Errors
    /// When there is no use in going on: wrong credentials, the entity is gone. Outcomes may have been appended.
    pub(crate) fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), ServiceError>> {
        let driven = self.drive(context);
        let any = sink::hand_over(&mut self.outcomes, outcomes);
        driven?;
        any.map(Ok)
    }

    /// Closes the connection in good order, without waiting for outcomes. Dropping it just ends it.
    pub(crate) async fn shut_down(self) {
        if let Some(connection) = self.connection.into_connection() {
            connection.close().await;
        }
    }

    /// Sends messages to an address as one batch: a body of one Data section for each. A single one is sent as it is.
    ///
    /// # Errors
    /// As with [`transmit`](Self::transmit).
    ///
    /// # Panics
    /// When a message is longer than 4 GiB.
    #[inline]
    pub(crate) fn transmit_batch<'m>(
        &mut self,
        token: SendToken,
        link: usize,
        messages: impl IntoIterator<Item: Into<Message<'m>>>,
    ) -> Result<(), SinkBusy> {
        let messages = messages.into_iter().map(Into::into);
        let format = format_of(&messages);
        self.transmit(token, link, format, |writer| {
            for message in messages {
                let message: Message<'m> = message;
                if format != FORMAT_AMQP {
                    let length = message.as_ref().len();
                    writer.put_data_prefix(u32::try_from(length).expect("a message is shorter than 4 GiB"));
                }
                message.put(writer);
            }
        })
    }

    /// Begins a transfer to an address, lets `encode` write the message, and remembers the token. Hot path.
    ///
    /// # Errors
    /// When the address can take no more at the moment. Nothing was sent then, and [`poll_ready`](Self::poll_ready) tells
    /// when to try again.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        token: SendToken,
        link: usize,
        format: u32,
        encode: impl FnOnce(&mut TransferWriter<'_>),
    ) -> Result<(), SinkBusy> {
        let Link { state: LinkState::Attached(id), session, .. } = self.links[link] else {
            return self.transmit_unattached(token, link);
        };
        let Some(connection) = self.connection.up() else {
            return self.busy();
        };
        let engine = connection.engine();
        if engine.output_len() >= OUTPUT_BYTES_MAX {
            self.output_full = true;
            return self.busy();
        }
        let outstanding = &mut self.outstanding[session];
        if outstanding.span() < OUTSTANDING_MAX
            && let Some(mut sender) = engine.sender(id)
        {
            let delivery = NewDelivery { tag: &self.next_tag.to_be_bytes(), format, settled: false };
            if let Ok(mut writer) = sender.begin(&delivery) {
                encode(&mut writer);
                let delivery_id = writer.finish();
                // There are far fewer than 2^32 links.
                outstanding.push(delivery_id, token, link as u32);
                self.next_tag = self.next_tag.wrapping_add(1);
                return Ok(());
            }
        }
        self.busy()
    }

    fn busy(&mut self) -> Result<(), SinkBusy> {
        self.blocked = true;
        Err(SinkBusy)
    }

    #[cold]
    fn transmit_unattached(&mut self, token: SendToken, link: usize) -> Result<(), SinkBusy> {
        let state = &mut self.links[link].state;
        if let LinkState::Refused(_) = state
            && let LinkState::Refused(error) = std::mem::replace(state, LinkState::Detached)
        {
            self.outcomes.push(failed(token, &error));
            return Ok(());
        }
        self.attach(link);
        self.busy()
    }

    /// Attaches a link that is detached, unless there is no connection.
    fn attach(&mut self, index: usize) {
        let link = &mut self.links[index];
        if !matches!(link.state, LinkState::Detached) {
            return;
        }
        let endpoint = self.connection.endpoint();
        let node = &link.address.node;
        self.links_attached += 1;
        let name = format!("{}-{node}-{}", endpoint.container_id, self.links_attached);
        let Some(connection) = self.connection.up() else {
            return;
        };
        link.state = match connection.attach_sender(sender_options(name, node)) {
            Ok((id, session)) => {
                link.session = session;
                if self.outstanding.len() <= session {
                    self.outstanding.resize_with(session + 1, Outstanding::default);
                }
                LinkState::Attaching(id)
            }
            Err(error) => LinkState::Refused(Box::new(error)),
        };
    }

    fn attach_all(&mut self) {
        for index in 0..self.links.len() {
            if self.links[index].address.attached_at_once {
                self.attach(index);
            }
        }
    }

    /// Ready once all links that are to be there are attached.
    fn poll_attached(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        let driven = self.drive(context);
        for link in &mut self.links {
            if let LinkState::Refused(error) = &link.state {
                return Poll::Ready(Err(error.as_ref().clone()));
            }
        }
        driven?;
        let mut wanted = self.links.iter().filter(|link| link.address.attached_at_once);
        match wanted.all(|link| matches!(link.state, LinkState::Attached(_))) {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    /// Does all there is to do until the task would have to wait. An error is one that trying again cannot change.
    fn drive(&mut self, context: &mut Context<'_>) -> Result<(), ServiceError> {
        loop {
            match self.poll_turn(context) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => {
                    self.lose(&error);
                    if error.class == ErrorClass::Fatal {
                        return Err(error);
                    }
                }
            }
        }
        if self.output_full
            && let Some(connection) = self.connection.up()
            && connection.engine().output_len() < OUTPUT_BYTES_MAX
        {
            self.output_full = false;
            self.blocked = false;
        }
        Ok(())
    }

    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        if self.connection.up().is_none() {
            ready!(self.connection.poll_up(context))?;
            self.blocked = false;
            self.attach_all();
        }
        self.take_events()?;
        match self.connection.up() {
            Some(connection) => connection.poll_drive(context),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Takes what has been read. An error says that the connection is of no more use.
    fn take_events(&mut self) -> Result<(), ServiceError> {
        while let Some(connection) = self.connection.up() {
            let Some(event) = connection.next_event()? else {
                break;
            };
            match event {
                Event::Outcome { session, first, last, state } => {
                    if let Some(place) = connection.place_of(session) {
                        self.take_outcome(place, first, last, state);
                    }
                }
                Event::Credit(_) | Event::WindowOpen(_) => self.blocked = false,
                Event::LinkAttached { link, attach } => {
                    if let Some(index) = self.index_of(link) {
                        let link_limit = attach.max_message_size.filter(|&limit| limit > 0);
                        self.links[index].max_message_bytes = link_limit
                            .map_or(USUAL_MESSAGE_BYTES_MAX, |limit| {
                                usize::try_from(limit).unwrap_or(usize::MAX)
                            });
                        self.links[index].state = LinkState::Attached(link);
                    }
                }
                Event::LinkDetached { link, error } => {
                    if let Some(index) = self.index_of(link) {
                        self.take_detach(index, &ServiceError::of_detach(error))?;
                    }
                }
                Event::DrainRequested(link) => {
                    if let Some(mut sender) = connection.engine().sender(link) {
                        sender.drained();
                    }
                }
                Event::Deliveries(deliveries) => {
                    for delivery in deliveries.items() {
                        connection.take_control_delivery(&deliveries, delivery)?;
                    }
                    connection.engine().recycle(deliveries);
                }
                _ => {}
            }
        }
        Ok(())
    }

    #[inline]
    fn take_outcome(&mut self, session: usize, first: u32, last: u32, state: Option<DeliveryState>) {
        let Some(outstanding) = self.outstanding.get_mut(session) else {
            return;
        };
        let was_full = outstanding.span() >= OUTSTANDING_MAX;
        let outcomes = &mut self.outcomes;
        let error = match state {
            Some(DeliveryState::Accepted) => {
                outstanding.settle(first, last, |token| {
                    outcomes.push(SendOutcome { token, result: Ok(()) });
                });
                None
            }
            Some(DeliveryState::Rejected(Some(error))) => Some(ServiceError::from(error)),
            Some(DeliveryState::Rejected(None)) => {
                Some(ServiceError::fatal("amqp:rejected", "the service rejected the send without a reason"))
            }
            Some(DeliveryState::Declared(_) | DeliveryState::Transactional { .. }) => {
                Some(ServiceError::fatal(
                    "amqp:illegal-state",
                    "the service answered with the state of a transaction a send that is part of none",
                ))
            }
            Some(DeliveryState::Released | DeliveryState::Modified { .. }) | None => Some(ServiceError {
                class: ErrorClass::Retryable,
                condition: "amqp:released".to_owned(),
                description: "the service did not accept the send".to_owned(),
            }),
            Some(DeliveryState::Received) => None,
        };
        if let Some(error) = error {
            outstanding.settle(first, last, |token| outcomes.push(failed(token, &error)));
        }
        if was_full {
            self.blocked = false;
        }
    }

    /// A link was refused, or has ended. An error says that the connection is of no more use.
    fn take_detach(&mut self, index: usize, error: &ServiceError) -> Result<(), ServiceError> {
        tracing::debug!(link = index, %error, "a sender link was detached");
        let link = &mut self.links[index];
        if matches!(link.state, LinkState::Attached(_)) && error.is_unauthorized() {
            return Err(error.clone().of_working_link());
        }
        link.state = match link.state {
            LinkState::Attaching(_) => LinkState::Refused(Box::new(error.clone())),
            LinkState::Detached | LinkState::Attached(_) | LinkState::Refused(_) => LinkState::Detached,
        };
        let outcomes = &mut self.outcomes;
        if let Some(outstanding) = self.outstanding.get_mut(link.session) {
            outstanding.forget_link(index as u32, |token| outcomes.push(failed(token, error)));
        }
        self.blocked = false;
        Ok(())
    }

    /// The connection is gone, and with it the outcomes of what was sent.
    fn lose(&mut self, error: &ServiceError) {
        tracing::debug!(%error, "there is no connection for sending");
        self.connection.lost(error);
        for link in &mut self.links {
            link.state = LinkState::Detached;
        }
        let outcomes = &mut self.outcomes;
        for mut outstanding in self.outstanding.drain(..) {
            outstanding.forget_all(|token| outcomes.push(failed(token, error)));
        }
    }

    fn index_of(&self, link: LinkId) -> Option<usize> {
        self.links.iter().position(|known| match known.state {
            LinkState::Attaching(id) | LinkState::Attached(id) => id == link,
            LinkState::Detached | LinkState::Refused(_) => false,
        })
    }
}

impl Link {
    const fn new(address: Address) -> Self {
        Self { address, state: LinkState::Detached, session: 0, max_message_bytes: USUAL_MESSAGE_BYTES_MAX }
    }
}

fn failed(token: SendToken, error: &ServiceError) -> SendOutcome {
    SendOutcome { token, result: Err(Box::new(SendError::from(error.clone()))) }
}

/// A link of this name to send to `node`, where each send waits for its outcome.
pub(crate) fn sender_options(name: String, node: &str) -> LinkOptions {
    LinkOptions {
        source: Source::new(name.as_str()),
        target: Target::new(node),
        name,
        sender_settle_mode: SenderSettleMode::Unsettled,
        ..LinkOptions::default()
    }
}

/// What the service takes where it does not say, in bytes.
pub(crate) const USUAL_MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// Room in a message for what the service may count beyond the events: envelope and transfer, in bytes.
pub(crate) const ENVELOPE_BYTES_MAX: usize = 1024;

/// Output that may wait for the socket before sends are refused, in bytes.
pub(crate) const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// Sends from the oldest without an outcome to the newest. More than any service grants credit for, and a bound where
/// one grants without ever answering.
pub(crate) const OUTSTANDING_MAX: usize = 65_536;
