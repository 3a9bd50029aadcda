//! The program as a user starts it: what its processes print, refuse and survive, and how they end.
//!
//! Processes that are killed again and again, or get few file descriptors, have binaries of their own.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod hints;
mod hub;
mod identity;
mod logs;
mod packaging;
mod probes;
mod relay;
mod relay_cut_off;
mod relay_health;
mod relay_source;
mod relay_topics;
mod sending;
mod serve;
mod serve_announcement;
mod serve_command;
mod serve_data;
mod serve_queues;
mod serve_standard_input;
mod serve_time;
mod tailing;
mod transforms;
mod vanishing;
