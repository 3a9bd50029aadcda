//! Conversations between a client and a server in virtual time, without sockets.
//!
//! Each is held whole, byte by byte, and cut at every offset in either direction: see [`pair::converse`]. What no client
//! of ours would do is said in frames made by hand: see [`wire::Wire`].

#[path = "../vectors/list/mod.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod list;
mod pair;
mod wire;

mod credit;
mod handshake;
mod links;
mod misbehaviour;
mod operations;
mod properties;
mod settling;
mod time;
mod transactions;
mod transfers;
mod unfinished;
mod windows;
