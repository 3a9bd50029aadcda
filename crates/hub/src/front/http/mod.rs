//! What is served over HTTP: each service is a folder that takes requests and gives responses, and `server` is beneath all of
//! them.

pub mod blob;
pub(crate) mod operations;
mod server;
