//! Commands in the relay's place, through the processes of whole runs: our own relay as a command, which must come out as
//! the built-in one does, and commands that misbehave in every way that we can think of.
//!
//! How fast anything is, is nobody's matter here.

mod consumers;
mod faults;
mod figures;
pub(crate) mod rig;
