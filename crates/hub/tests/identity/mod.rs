//! Bearer tokens, as clients of every protocol present them: what is accepted, and how the rest is refused.
//!
//! * `issuer`: an issuer whose keys the service reads from a file, and tokens of it that are right or wrong.
//! * `messaging`: AMQP and HTTP for hubs and queues. `kafka`: SASL. `blobs`: a storage account.
//! * `keys`: keys that come by HTTP, late or changed.
//! * `development`: the issuer of the service's own.
//!
//! Unmodified clients, and an issuer that is not ours, are in `compat/`.

#![expect(clippy::unwrap_used, reason = "what panics in a test fails it, and says where")]

mod blobs;
mod development;
mod issuer;
mod kafka;
mod keys;
mod messaging;
pub(crate) mod request;
