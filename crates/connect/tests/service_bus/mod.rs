//! The Service Bus client against a queue service over loopback that does what a test tells it to: what the client sends,
//! what it makes of what it is sent, and how it takes lost locks, links and connections.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

mod queue;
mod receiving;
mod recovering;
mod sending;
mod service;
mod transactional;
