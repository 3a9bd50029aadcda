//! What is served over HTTP: each service is a folder that takes requests and gives responses. `server` is beneath those that are
//! hyper's.

pub mod blob;
pub(crate) mod explorer;
pub(crate) mod identity;
pub(crate) mod operations;
pub(crate) mod rest;
mod server;
mod time;
