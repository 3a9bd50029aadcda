//! The Event Hubs client against a scripted service over loopback: what it sends, what it makes of what it is sent, and
//! how it takes refusals and broken connections.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

mod connecting;
mod producing;
mod receiving;
mod sending;
mod service;
