//! Work that takes too long for a thread that serves connections, and is done as a whole or not at all.
//!
//! Work that can be divided is done in [slices](crate::front) instead.

use queue_store::Topic;
use tokio::runtime::{Handle, RuntimeFlavor};

/// Does `work` while another thread serves the connections of this one, if the runtime has several.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor.is_ok_and(|flavor| flavor == RuntimeFlavor::MultiThread) {
        true => tokio::task::block_in_place(work),
        false => work(),
    }
}

/// Does the `work` of sending so many messages to a topic, aside if its subscriptions get very many copies of them.
pub(crate) fn send_to_topic<T>(topic: &Topic, messages: usize, work: impl FnOnce() -> T) -> T {
    match messages > 1 && messages * topic.subscriptions().len() >= MANY_COPIES {
        true => aside(work),
        false => work(),
    }
}

/// Copies that take a millisecond or more.
const MANY_COPIES: usize = 8_192;

#[cfg(test)]
mod tests {
    use super::*;
    use queue_store::rules::RuleSet;
    use queue_store::{NewSubscription, QueueOptions, QueueStore, TopicOptions};
    use std::sync::mpsc;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn connections_of_a_thread_are_served_while_it_sends_very_many_copies() {
        let subscription = |number| NewSubscription {
            name: format!("subscription{number}"),
            options: QueueOptions::default(),
            rules: RuleSet::default(),
        };
        let subscriptions = (0..10).map(subscription).collect();
        let topic =
            QueueStore::in_memory().create_topic("news", TopicOptions::default(), subscriptions).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let ((begins, begun), (serves, served)) = (mpsc::channel(), mpsc::channel());
        let sending = runtime.spawn(async move {
            send_to_topic(&topic, MANY_COPIES / 10 + 1, || {
                begins.send(()).unwrap();
                served.recv_timeout(PATIENCE).expect("another connection is served meanwhile");
            });
        });
        begun.recv_timeout(PATIENCE).unwrap();
        runtime.spawn(async move { serves.send(()) });
        runtime.block_on(sending).unwrap();
    }
}
