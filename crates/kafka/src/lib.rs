//! The Kafka protocol without sockets, clocks or a runtime: what a broker needs on its hot path, and a client with it.
//!
//! * [`frame`](mod@frame) cuts frames out of what was received, and reads the header of a request.
//! * [`read`] and [`write`](mod@write) are the primitives: numbers, strings, arrays and tags, in both encodings that the
//!   protocol has.
//! * [`record_batch`] checks a batch of records as a producer sends it, and numbers it in place. [`record`] reads and writes
//!   the records in one. Nothing else ever looks into a batch that a Kafka client wrote and a Kafka client reads.
//! * [`control_batch`] is what a broker writes itself: the ends of transactions.
//! * [`producer_batch`] writes a batch as a producer does.
//! * [`check_compressed`] checks the records of a compressed batch before a broker stores it.
//! * [`compression`] packs records, and unpacks them for those who can't.
//! * [`produce`] and [`fetch`] are the two requests that carry records, [`messages`] all others.
//! * [`ApiKey`] names the requests, and [`ErrorCode`] what a broker answers when it can't do as asked.
//!
//! Sources: the message definitions of Apache Kafka (`clients/src/main/resources/common/message`), KIP-98 (record batches),
//! KIP-482 (flexible versions), KIP-227 (fetch sessions).
//!
//! Reading is total: any bytes whatever give a value or an error, without panicking, and allocate no more than they have.

mod api_key;
mod compressed_check;
pub mod compression;
pub mod control_batch;
mod error_code;
pub mod fetch;
pub mod frame;
pub mod messages;
mod plain_record;
pub mod produce;
pub mod producer_batch;
pub mod read;
pub mod record;
pub mod record_batch;
pub mod record_tail;
pub mod write;

pub use api_key::ApiKey;
pub use compressed_check::{CompressedRecords, check_compressed};
pub use error_code::ErrorCode;
pub use read::Malformed;
