//! Transactions of Kafka's producers.

mod state;

pub(crate) use state::TransactionState;
