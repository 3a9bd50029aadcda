//! Conversations between a client and a server in virtual time, without sockets.
//!
//! Each is held whole, byte by byte, and cut at every offset in either direction: see [`pair::converse`]. What no client
//! of ours would do is said in frames made by hand: see [`wire::Wire`].

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
