//! Front ends: protocols on one side, calls of the store on the other, and nothing else in between.

pub mod amqp;
pub mod blob;
pub mod listener;
pub mod operations;
mod pending;
