//! Clients that lose an answer that comes at once.
//!
//! The official Rust client hands a transfer to its writer first and notes afterwards that it waits for the outcome. An
//! outcome that is faster than the note is dropped, and the send waits for it for ever. Over a real network none is, on
//! one machine a third of short runs ended so. Such a client is known by the product that its open names.
//!
//! The same client leaves Nagle's algorithm on: it writes one frame, and the next ones only when that was acknowledged,
//! which would be when it is answered. So what it sends is acknowledged at once.

use std::time::Duration;

use amqp::performative::Open;
use tokio::time::Instant;

/// How long this client's outcomes, and the replies that follow them, are held back; `None` for all that are in order.
pub(crate) fn pause_of(open: &Open) -> Option<Duration> {
    let product = open
        .properties
        .iter()
        .find(|(name, _)| name.as_str() == "product")
        .and_then(|(_, product)| product.as_text());
    (product? == RUST_CLIENT).then_some(PAUSE)
}

/// The first instant at which a client may be answered what it asks now.
pub(crate) fn answer_at(pause: Option<Duration>) -> Option<Instant> {
    pause.map(|pause| Instant::now() + pause)
}

const RUST_CLIENT: &str = "azure_messaging_eventhubs";

/// The note takes the client some microseconds when it has a processor at once; this leaves it a time slice.
const PAUSE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use amqp::Value;
    use amqp::codec::Symbol;

    use super::*;

    fn open(product: Value) -> Open {
        Open { properties: vec![(Symbol::from_static("product"), product)], ..Open::default() }
    }

    #[test]
    fn the_rust_client_alone_is_answered_later() {
        assert_eq!(pause_of(&open(RUST_CLIENT.into())), Some(PAUSE));
        assert_eq!(pause_of(&open("azure-messaging-eventhubs".into())), None);
        assert_eq!(pause_of(&open(Value::Uint(1))), None);
        assert_eq!(pause_of(&Open::default()), None);
    }
}
