//! What a lane sends through: a connection to the service, in its protocol.

mod amqp;
mod http;
mod kafka;

use std::task::{Context, Poll};

use super::event::Wire;
use super::lane::Run;
use super::options::ProducerTarget;
use crate::service::ServiceError;
use crate::sink::{SendOutcome, SendToken, SinkBusy};

use amqp::AmqpOutlet;
use http::HttpOutlet;
use kafka::KafkaOutlet;

pub(super) use http::Requests;

/// See the module. Its methods are those of a [`Sink`](crate::sink::Sink), for runs.
#[derive(Debug)]
pub(super) enum Outlet {
    Amqp(Box<AmqpOutlet>),
    Kafka(Box<KafkaOutlet>),
    Http(Box<HttpOutlet>),
}

impl Outlet {
    /// Connects.
    ///
    /// # Errors
    /// When the service can't be reached, refuses the key, or has no such entity.
    pub(super) async fn connect(target: &ProducerTarget) -> Result<Self, ServiceError> {
        Ok(match target {
            ProducerTarget::EventHubs(options) => {
                Self::Amqp(Box::new(AmqpOutlet::connect(options.clone().into(), Wire::EventHubs).await?))
            }
            ProducerTarget::ServiceBus(options) => {
                Self::Amqp(Box::new(AmqpOutlet::connect(options.clone(), Wire::ServiceBus).await?))
            }
            ProducerTarget::Kafka(options) => Self::Kafka(Box::new(KafkaOutlet::connect(options).await?)),
            ProducerTarget::Http(options) => {
                Self::Http(Box::new(HttpOutlet::connect(options.clone()).await?))
            }
        })
    }

    pub(super) const fn wire(&self) -> Wire {
        match self {
            Self::Amqp(outlet) => outlet.wire(),
            Self::Kafka(_) => Wire::Kafka,
            Self::Http(_) => Wire::Http,
        }
    }

    /// The most bytes of one send.
    pub(super) fn max_bytes(&self) -> usize {
        match self {
            Self::Amqp(outlet) => outlet.max_bytes(),
            Self::Kafka(outlet) => outlet.max_bytes(),
            Self::Http(outlet) => outlet.max_bytes(),
        }
    }

    /// How many partitions there are, where the client chooses among them.
    pub(super) fn partitions(&self) -> Option<u32> {
        match self {
            Self::Amqp(_) | Self::Http(_) => None,
            Self::Kafka(outlet) => Some(outlet.partitions()),
        }
    }

    /// Sends the first event of a run that has yet to be sent. Hot path.
    #[inline]
    pub(super) fn send_event(&mut self, token: SendToken, run: &Run) -> Result<(), SinkBusy> {
        match self {
            Self::Amqp(outlet) => outlet.send_event(token, run),
            Self::Kafka(outlet) => outlet.send_event(token, run),
            Self::Http(outlet) => outlet.send_event(token, run),
        }
    }

    /// Sends all events of a run that have yet to be sent as one batch.
    pub(super) fn send_batch(&mut self, token: SendToken, run: &Run) -> Result<(), SinkBusy> {
        match self {
            Self::Amqp(outlet) => outlet.send_batch(token, run),
            Self::Kafka(outlet) => outlet.send_batch(token, run),
            Self::Http(outlet) => outlet.send_batch(token, run),
        }
    }

    pub(super) fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ServiceError>> {
        match self {
            Self::Amqp(outlet) => outlet.poll_ready(context),
            Self::Kafka(outlet) => outlet.poll_ready(context),
            Self::Http(outlet) => outlet.poll_ready(context),
        }
    }

    pub(super) fn poll_outcomes(
        &mut self,
        context: &mut Context<'_>,
        outcomes: &mut Vec<SendOutcome>,
    ) -> Poll<Result<(), ServiceError>> {
        match self {
            Self::Amqp(outlet) => outlet.poll_outcomes(context, outcomes),
            Self::Kafka(outlet) => outlet.poll_outcomes(context, outcomes),
            Self::Http(outlet) => outlet.poll_outcomes(context, outcomes),
        }
    }

    /// Why nothing can be sent at the moment.
    pub(super) fn outage(&self) -> Option<&ServiceError> {
        match self {
            Self::Amqp(outlet) => outlet.outage(),
            Self::Kafka(outlet) => outlet.outage(),
            Self::Http(outlet) => outlet.outage(),
        }
    }

    pub(super) async fn shut_down(self) {
        match self {
            Self::Amqp(outlet) => outlet.shut_down().await,
            Self::Kafka(outlet) => outlet.shut_down().await,
            // Its connections need no farewell.
            Self::Http(_) => {}
        }
    }
}
