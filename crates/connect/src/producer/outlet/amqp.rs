//! Links to a hub, queue or topic: one to the entity, and one to each partition that events are for.

use std::collections::HashMap;
use std::task::{Context, Poll};

use ::amqp::message::{FORMAT_AMQP, FORMAT_BATCH};

use crate::producer::event::Wire;
use crate::producer::lane::{Place, Run};
use crate::service::{
    Address, ClientOptions, Endpoint, ServiceConnection, ServiceError, Transmitter, partition_key_annotation,
};
use crate::sink::{SendOutcome, SendToken, SinkBusy};

/// See the module.
#[derive(Debug)]
pub(crate) struct AmqpOutlet {
    wire: Wire,
    entity: String,
    transmitter: Transmitter,
    /// The links to partitions.
    partitions: HashMap<u32, usize>,
    /// The encoded annotations of the batch at hand.
    scratch: Vec<u8>,
}

impl AmqpOutlet {
    pub(super) async fn connect(options: ClientOptions, wire: Wire) -> Result<Self, ServiceError> {
        let endpoint = Endpoint::resolve(options)?;
        let connection = ServiceConnection::open(endpoint.clone()).await?;
        let entity = endpoint.options.entity.clone();
        let address = Address { node: entity.clone(), attached_at_once: true };
        let transmitter = Transmitter::attached(endpoint, connection, vec![address]).await?;
        Ok(Self { wire, entity, transmitter, partitions: HashMap::new(), scratch: Vec::new() })
    }

    pub(super) const fn wire(&self) -> Wire {
        self.wire
    }

    pub(super) fn max_bytes(&self) -> usize {
        self.transmitter.max_message_bytes(ENTITY)
    }

    fn link(&mut self, place: &Place) -> usize {
        let Place::Partition(partition) = *place else { return ENTITY };
        *self
            .partitions
            .entry(partition)
            .or_insert_with(|| self.transmitter.add(format!("{}/Partitions/{partition}", self.entity)))
    }

    #[inline]
    pub(super) fn send_event(&mut self, token: SendToken, run: &Run) -> Result<(), SinkBusy> {
        let link = self.link(&run.place);
        // Its key is among its own annotations.
        self.transmitter.transmit(token, link, FORMAT_AMQP, |writer| writer.put(run.first()))
    }

    pub(super) fn send_batch(&mut self, token: SendToken, run: &Run) -> Result<(), SinkBusy> {
        if run.remaining() == 1 {
            return self.send_event(token, run);
        }
        let link = self.link(&run.place);
        self.scratch.clear();
        if let Place::Key(key) = &run.place {
            partition_key_annotation(&mut self.scratch, key);
        }
        let annotations = &self.scratch;
        self.transmitter.transmit(token, link, FORMAT_BATCH, |writer| {
            if !annotations.is_empty() {
                writer.put(annotations);
            }
            for event in run.events() {
                // A run is shorter than 4 GiB.
                writer.put_data_prefix(event.len() as u32);
                writer.put(event);
            }
        })
    }

    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        self.transmitter.poll_ready(context)
    }

    pub(super) fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), ServiceError>> {
        self.transmitter.poll_outcomes(context, outcomes)
    }

    pub(super) fn outage(&self) -> Option<&ServiceError> {
        self.transmitter.outage()
    }

    pub(super) async fn shut_down(self) {
        self.transmitter.shut_down().await;
    }
}

/// The place of the link to the entity itself.
const ENTITY: usize = 0;
