//! What the service logs, kept for the test that fails.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The end of a log. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(Arc<Mutex<VecDeque<u8>>>);

impl Log {
    /// What writes to it, for the thread of the service.
    pub(crate) fn subscriber(&self) -> impl Subscriber + Send + Sync + use<> {
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::INFO)
            .with_ansi(false)
            .with_writer(self.clone())
            .finish()
    }

    /// What was logged until now, or its end.
    pub(crate) fn text(&self) -> String {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(text);
        let excess = kept.len().saturating_sub(KEPT_BYTES);
        kept.drain(..excess);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

const KEPT_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_log_is_kept() {
        let mut log = Log::default();
        for number in 0..100_000 {
            writeln!(log, "line {number}").unwrap();
        }
        let text = log.text();
        assert_eq!(text.len(), KEPT_BYTES);
        assert!(text.ends_with("line 99999\n"));
    }
}
