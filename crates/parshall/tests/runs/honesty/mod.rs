//! What a run says when real processes are stopped, killed or asked for too much.
//!
//! Faults come from outside, as in life: signals to the processes of the roles. What is expected follows from the
//! clock readings that the test takes around each fault, never from how fast the machine is.

mod deaths;
mod missed;
mod overload;
mod ownership;
