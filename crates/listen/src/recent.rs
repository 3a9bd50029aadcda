//! Figures of a moment ago, for those who ask too often.
//!
//! Reading the figures of a pipeline costs it time, and whoever reads them over a network is nobody that it knows. So what
//! was read is kept, and those who ask faster than it is read anew get that.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

/// What was found out last, shared by those who ask.
#[derive(Debug)]
pub struct Recent<T>(Mutex<Kept<T>>);

#[derive(Debug)]
struct Kept<T> {
    value: Option<Arc<T>>,
    /// When the next finding would be due if they came evenly.
    due: Option<Instant>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::new(Kept { value: None, due: None }))
    }
}

impl<T> Recent<T> {
    /// What `find_out` finds; or what was found last, which is less than a second old, if it has been found out too
    /// often lately. Those who ask at the same time wait for one another. None where nothing is found.
    pub async fn get(&self, find_out: impl Future<Output = Option<T>>) -> Option<Arc<T>> {
        let mut kept = self.0.lock().await;
        let now = Instant::now();
        let due = kept.due.map_or(now, |due| due.max(now));
        if let Some(value) = kept.value.as_ref().filter(|_| due > now + EVERY * (AT_ONCE - 1)) {
            return Some(Arc::clone(value));
        }
        let found = find_out.await.map(Arc::new);
        kept.due = Some(due + EVERY);
        kept.value.clone_from(&found);
        found
    }
}

/// In the long run it is found out no more often.
const EVERY: Duration = Duration::from_millis(125);

/// So often it may be found out at once, which is enough for all that scrape a process at their intervals.
const AT_ONCE: u32 = 8;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_thousand_readers_a_second_cost_what_eight_do() {
        let (recent, findings) = (Recent::default(), AtomicU32::new(0));
        for _ in 0..10_000 {
            let found = recent.get(async { Some(findings.fetch_add(1, Ordering::Relaxed)) }).await;
            let age = findings.load(Ordering::Relaxed) - 1 - *found.expect("something is found");
            assert_eq!(age, 0, "it is the last one");
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let findings = findings.load(Ordering::Relaxed);
        assert!((80..=90).contains(&findings), "{findings} in ten seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_now_and_then_gets_the_figures_of_the_moment() {
        let recent = Recent::default();
        for number in 0..20 {
            assert_eq!(recent.get(async { Some(number) }).await.as_deref(), Some(&number));
            tokio::time::advance(Duration::from_millis(200)).await;
        }
        assert_eq!(recent.get(async { None }).await, None, "what was found before is over");
    }
}
