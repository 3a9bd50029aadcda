//! The native client of Kafka against the embedded service: what is sent is what is received, in order, once, with every
//! setting that matters, and through what goes wrong.

#![expect(clippy::unwrap_used, reason = "what helpers of tests do not expect fails the test")]

mod carrying;
mod failing;
mod leaders;
mod proxy;
mod service;
mod silence;
mod transactions;
