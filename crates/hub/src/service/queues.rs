//! The passing of time for queues: locks end, messages expire or become visible, and what nobody uses is deleted, whether anyone is
//! connected or not.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use partition_log::UnixTime;

use crate::namespace::Namespace;

/// Lets everything happen that is due in the queues of `namespace`, when it is due, until `stop` becomes true.
pub(super) async fn drive(namespace: Arc<Namespace>, mut stop: watch::Receiver<bool>) {
    let store = namespace.queues();
    let mut idle_due = Some(UnixTime::MIN);
    loop {
        let now = UnixTime::from(SystemTime::now());
        if idle_due.is_some_and(|due| due <= now) {
            idle_due = namespace.delete_idle(now);
        }
        let due = [store.advance(now), idle_due].into_iter().flatten().min();
        let at_due = async {
            match due {
                Some(due) => tokio::time::sleep(between(now, due)).await,
                None => pending().await,
            }
        };
        tokio::select! {
            () = at_due => {}
            () = poll_fn(|cx| store.poll_earlier(cx)) => {}
            () = namespace.idle_news() => idle_due = Some(UnixTime::MIN),
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

fn between(now: UnixTime, due: UnixTime) -> Duration {
    let milliseconds = due.milliseconds().saturating_sub(now.milliseconds());
    // The system's clock may be set: what is far away is looked at again before.
    Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0)).min(LONGEST_SLEEP)
}

const LONGEST_SLEEP: Duration = Duration::from_secs(60);
