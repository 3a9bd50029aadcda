//! Values that carry their unit, and randomness that carries its seed.
//!
//! A size, a duration or a rate is read once, at the edge of the program, from the text that a person writes
//! (`16 B`, `1 KiB`, `10 ms`, `10000/s`), and is a typed value from there on. Each type prints what it would
//! itself parse again, so files, messages and results speak one language:
//!
//! | type | reads | prints |
//! |---|---|---|
//! | [`ByteSize`] | `16 B`, `64KiB`, `1 MB`, `128` | the exact amount in the unit that makes it shortest |
//! | [`std::time::Duration`], through [`duration`] | `250us`, `10 ms`, `5 s`, `1 min` | the exact amount in its largest unit |
//! | [`Rate`] | `10000/s`, `0.5/s`, `10000` | `10000/s` |
//!
//! [`date`] writes and reads points in time, [`iso_duration`] durations as ISO 8601 has them.
//!
//! [`Random`] is a seeded generator, and [`mix`] a pure function of a seed and two numbers: whatever is decided
//! by them is decided the same way again, in another process and after a restart. [`partition_key`] is such a decision
//! that others have made: which partition a key belongs to, for Event Hubs and for Kafka. [`md5`] is a checksum that protocols have.
//!
//! [`recycled`] keeps the memory of lists that hot paths fill and empty again and again.

mod byte_size;
pub mod date;
pub mod duration;
pub mod iso_duration;
pub mod md5;
pub mod partition_key;
mod quantity;
mod random;
mod rate;
pub mod recycled;

pub use byte_size::{ByteSize, ByteSizeError};
pub use random::{Random, mix, pick};
pub use rate::{Rate, RateError};
