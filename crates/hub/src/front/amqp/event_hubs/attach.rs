//! Whether a client gets a link to a hub or a part of one, and what is at our end of it then.

use std::sync::Arc;

use access::Right;
use amqp::codec::Value;
use amqp::connection::{LinkAcceptance, LinkId};
use amqp::performative::{Attach, Error, ErrorCondition, Role};

use super::address::Address;
use super::conditions;
use super::deliver::{DeliverLink, Reading};
use super::idempotent::{self, NumberedProducer, Numbering};
use super::publish::PublishLink;
use super::runtime_metrics::{RUNTIME_METRICS, RuntimeMetrics};
use super::start::start_of;
use crate::front::amqp::MAX_MESSAGE_SIZE;
use crate::front::amqp::links::requests::not_found;
use crate::front::amqp::links::terminus::{Distribution, source_in_effect};
use crate::front::event_reader::EventReader;
use crate::namespace::{ConsumerGroup, Hub, Namespace, NewReceiver, Partition};
use partition_log::{PositionError, Subscriber, UnixTime};

/// A request for a link to a hub.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HubAdmission<'a> {
    pub(crate) namespace: &'a Namespace,
    /// Host name that the client uses for the service.
    pub(crate) host: &'a str,
    /// Whom logs wake for new readers.
    pub(crate) subscriber: &'a Arc<Subscriber>,
    pub(crate) link: LinkId,
    pub(crate) now: UnixTime,
}

/// What is to be at our end of a link.
#[derive(Debug)]
pub(crate) enum AdmittedHub {
    /// It takes events.
    Publish(PublishLink, LinkAcceptance),
    /// It gives events.
    Deliver(Box<DeliverLink>, LinkAcceptance),
}

impl HubAdmission<'_> {
    /// The right that a link needs for as long as it is there; none where there can't be such a link.
    pub(crate) const fn right(role: Role, address: Address<'_>) -> Option<Right> {
        match (role, address) {
            (Role::Sender, Address::Hub(_) | Address::Publisher { .. } | Address::Partition { .. }) => {
                Some(Right::Send)
            }
            (Role::Receiver, Address::Consumer { .. }) => Some(Right::Listen),
            _ => None,
        }
    }

    /// What is to be at our end of a link to `address`, which the client writes as `text`. The rights have been looked at.
    ///
    /// # Errors
    /// The reason for a refused link.
    pub(crate) fn admit(
        self,
        attach: &Attach,
        text: &str,
        address: Address<'_>,
    ) -> Result<AdmittedHub, Error> {
        let key = self.link.index() as u64;
        match (attach.role, address) {
            (Role::Sender, Address::Hub(hub)) => {
                let mut link = PublishLink::to_hub(self.hub(hub)?, self.subscriber, key);
                link.numbering = Numbering::for_hub(attach);
                Ok(AdmittedHub::Publish(link, Self::for_publisher()))
            }
            (Role::Sender, Address::Publisher { hub, publisher }) => {
                let hub = self.hub(hub)?;
                let link = PublishLink::of_publisher(&hub, publisher, self.subscriber, key);
                self.publisher(link, hub.partition_for_key(publisher), attach)
            }
            (Role::Sender, Address::Partition { hub, partition }) => {
                let hub = self.hub(hub)?;
                let partition = self.partition(&hub, partition)?;
                let link = PublishLink::to_partition(&hub, Arc::clone(partition), self.subscriber, key);
                self.publisher(link, partition, attach)
            }
            (Role::Receiver, Address::Consumer { hub, group, partition }) => {
                let hub = self.hub(hub)?;
                let group = hub.consumer_group(group).ok_or_else(|| {
                    let path = format!("{}/ConsumerGroups/{group}", hub.name());
                    Error::new(ErrorCondition::NOT_FOUND, not_found(self.host, &path))
                })?;
                let partition = self.partition(&hub, partition)?;
                self.receiver(partition, group, attach)
            }
            (role, address) => {
                // A queue that does not exist looks like a hub.
                if let Address::Hub(hub) = address {
                    self.hub(hub)?;
                }
                let doing = if role == Role::Sender { "sent to" } else { "received from" };
                Err(Error::new(ErrorCondition::NOT_ALLOWED, format!("'{text}' cannot be {doing}.")))
            }
        }
    }

    /// A link to one partition, whose producer may number its events.
    fn publisher(
        self,
        mut link: PublishLink,
        partition: &Partition,
        attach: &Attach,
    ) -> Result<AdmittedHub, Error> {
        let mut acceptance = Self::for_publisher();
        if let Some(request) = idempotent::Request::of(attach)? {
            self.namespace
                .admit_producers()
                .map_err(|error| Error::new(ErrorCondition::INTERNAL_ERROR, error.to_string()))?;
            let producer = NumberedProducer::admit(&request, partition, self.now, &mut acceptance)?;
            link.numbering = Numbering::OfProducer(producer);
        }
        Ok(AdmittedHub::Publish(link, acceptance))
    }

    fn for_publisher() -> LinkAcceptance {
        LinkAcceptance { max_message_size: Some(MAX_MESSAGE_SIZE), ..LinkAcceptance::default() }
    }

    fn receiver(
        self,
        partition: &Arc<Partition>,
        consumer_group: Arc<ConsumerGroup>,
        attach: &Attach,
    ) -> Result<AdmittedHub, Error> {
        let argument_error = |text| Error::new(ErrorCondition::ARGUMENT_ERROR, text);
        let asked = attach.source.clone().unwrap_or_default();
        let (start, applied) = start_of(&asked).map_err(|error| argument_error(error.to_string()))?;
        let log = partition.log();
        let cursor =
            log.position_committed(start).map_err(|PositionError::BeyondEnd { requested, last }| {
                let last = last.map_or(-1, |last| last.cast_signed());
                argument_error(format!(
                    "The supplied offset '{requested}' is invalid. The last offset in the system is '{last}'"
                ))
            })?;
        let key = self.link.index() as u64;
        let name = attach.property(RECEIVER_NAME).and_then(Value::as_text);
        // Last of all: a receiver that is refused for another reason must not have displaced anyone.
        let receiver = partition
            .receivers()
            .register(&NewReceiver {
                consumer_group: consumer_group.name(),
                name: name.map(shortened),
                epoch: attach.property(EPOCH).and_then(Value::as_integer),
                subscriber: self.subscriber,
                key,
            })
            .map_err(|refused| conditions::refused(&refused))?;
        let reading = Reading {
            partition: Arc::clone(partition),
            consumer_group,
            receiver,
            events: EventReader::new(Arc::clone(log), cursor),
            subscription: log.subscribe(self.subscriber, key),
        };
        let wants_metrics = attach.desired_capabilities.contains(&RUNTIME_METRICS);
        let metrics = wants_metrics.then(|| Box::new(RuntimeMetrics::default()));
        let offered_capabilities = wants_metrics.then_some(RUNTIME_METRICS);
        let acceptance = LinkAcceptance {
            offered_capabilities: offered_capabilities.into_iter().collect(),
            // Reading takes no event from another reader.
            source: Some(source_in_effect(&asked, Some(Distribution::Copy), applied)),
            ..LinkAcceptance::default()
        };
        Ok(AdmittedHub::Deliver(Box::new(DeliverLink::new(self.link, reading, metrics)), acceptance))
    }

    fn hub(&self, name: &str) -> Result<Arc<Hub>, Error> {
        self.namespace
            .hub(name)
            .ok_or_else(|| Error::new(ErrorCondition::NOT_FOUND, not_found(self.host, name)))
    }

    fn partition<'a>(&self, hub: &'a Hub, id: &str) -> Result<&'a Arc<Partition>, Error> {
        hub.partition(id).ok_or_else(|| {
            let last = hub.partitions().len() - 1;
            let text = format!(
                "The specified partition '{id}' is invalid: those of '{}' are 0 to {last}.",
                hub.name()
            );
            Error::new(ErrorCondition::ARGUMENT_OUT_OF_RANGE, text)
        })
    }
}

/// The front of a name that is too long to be repeated to others.
fn shortened(name: &str) -> &str {
    &name[..name.floor_char_boundary(LONGEST_RECEIVER_NAME)]
}

/// Link property with the epoch of a receiver, which clients call the owner level.
const EPOCH: &str = "com.microsoft:epoch";

/// Link property with the name that a receiver gives itself.
const RECEIVER_NAME: &str = "com.microsoft:receiver-name";

/// Longest name of a receiver, in bytes; clients stop at 64 characters.
const LONGEST_RECEIVER_NAME: usize = 256;
