//! Commands in the relay's place, through the processes of whole runs: our own relay as a command, which must come out as
//! the built-in one does, and commands that misbehave in every way that we can think of.
//!
//! How fast anything is, is nobody's matter here.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod faults;
mod figures;
mod rig;
