//! Event Hubs and Service Bus over HTTP, as clients see them, over real sockets.
//!
//! * `events`: sending to hubs, and how readers of AMQP and Kafka get it.
//! * `messages`: sending, receiving and settling.
//! * `reads`: what is told of entities; `administration`: how they come, change and go.
//! * `ports`: one address for all protocols, and HTTP/2.
//! * `refusals`: whoever may not, or asks for what is not there.
//! * `shaped`: what a service profile makes of requests.
//! * `faults`: what is no request, too much or too slow, and that others are served all the while.
//!
//! Unmodified clients are in `compat/`.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod administration;
pub(crate) mod client;
mod events;
mod faults;
mod messages;
mod ports;
mod reads;
mod refusals;
mod shaped;
