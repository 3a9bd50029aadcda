//! The log through its public face, in memory and durable.

mod durable;
mod log;
