//! A bound for the lines of the log: a fault that repeats with every request is reported a few times and then counted.
//!
//! Each cause has a bucket: [`BURST`] lines at once, then one for each interval of its level. A cause is the place in the source that
//! logs, with the text of the error that it names. Lines beyond the bucket are counted, and the count is a line itself, at least
//! every [`REPORT_INTERVAL`]. This holds for all parts of the program, since it happens where lines are formatted. Lines that can't be
//! written, as to a file on a full disk, are [counted](Counted) and reported once they can.

use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// A format of lines that leaves out those beyond the bound.
pub(crate) struct Bounded<F>(pub(crate) F);

impl<S, N, F> FormatEvent<S, N> for Bounded<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match admit(event, Instant::now()) {
            true => self.0.format_event(context, writer, event),
            false => Ok(()),
        }
    }
}

/// A destination of lines that always succeeds: those that it does not take are counted.
pub(crate) struct Counted<W>(pub(crate) W);

impl<W: io::Write> io::Write for Counted<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.0.write_all(line).is_err() {
            UNWRITTEN.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // Nothing is buffered.
        Ok(())
    }
}

/// Logs how many lines were left out of each cause since the last report, and how many could not be written.
pub(crate) fn report() {
    let left_out: Vec<(String, u64)> = {
        let mut buckets = buckets();
        let counted = buckets.values_mut().filter(|bucket| bucket.left_out > 0);
        counted.map(|bucket| (bucket.message.clone(), std::mem::take(&mut bucket.left_out))).collect()
    };
    for (message, lines) in left_out {
        tracing::warn!(target: TARGET, lines, like = message, "lines were left out of the log");
    }
    let unwritten = UNWRITTEN.load(Ordering::Relaxed);
    let lines = unwritten - REPORTED.load(Ordering::Relaxed);
    if lines > 0 {
        tracing::warn!(target: TARGET, lines, "lines could not be written to the log");
        // The report may be one of them.
        if UNWRITTEN.load(Ordering::Relaxed) == unwritten {
            REPORTED.store(unwritten, Ordering::Relaxed);
        }
    }
}

/// Starts the thread that reports regularly for as long as the process lives.
pub(crate) fn report_regularly() {
    let reporting = || {
        loop {
            std::thread::sleep(REPORT_INTERVAL);
            report();
        }
    };
    if let Err(error) = std::thread::Builder::new().name("log".to_owned()).spawn(reporting) {
        tracing::debug!(%error, "no thread counts the lines that are left out of the log");
    }
}

/// Lines of one cause.
struct Bucket {
    /// Lines that may be written at once.
    tokens: u32,
    /// Time of the latest token.
    filled_at: Instant,
    /// Lines that were not written and not yet reported.
    left_out: u64,
    /// The message of the first line.
    message: String,
}

impl Bucket {
    fn admit(&mut self, interval: Duration, now: Instant) -> bool {
        let intervals = now.saturating_duration_since(self.filled_at).as_nanos() / interval.as_nanos();
        let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
        self.tokens = self.tokens.saturating_add(intervals).min(BURST);
        // The rest of an interval counts towards the next token.
        self.filled_at = match self.tokens {
            BURST => now,
            _ => self.filled_at + interval * intervals,
        };
        let Some(rest) = self.tokens.checked_sub(1) else {
            self.left_out += 1;
            return false;
        };
        self.tokens = rest;
        true
    }
}

fn admit(event: &Event<'_>, now: Instant) -> bool {
    let metadata = event.metadata();
    let interval = match *metadata.level() {
        Level::ERROR | Level::WARN => FAULT_INTERVAL,
        Level::INFO => INFO_INTERVAL,
        // These were asked for.
        _ => return true,
    };
    if metadata.target() == TARGET {
        return true;
    }
    let mut cause = Cause::default();
    event.record(&mut cause);
    let mut buckets = buckets();
    let mut key = (metadata.callsite(), cause.hasher.finish());
    if buckets.len() >= CAUSES_MAX && !buckets.contains_key(&key) {
        key.1 = 0;
    }
    let bucket = buckets.entry(key).or_insert_with(|| Bucket {
        tokens: BURST,
        filled_at: now,
        left_out: 0,
        message: cause.message,
    });
    bucket.admit(interval, now)
}

/// The cause that an event names, and its message.
#[derive(Default)]
struct Cause {
    hasher: DefaultHasher,
    message: String,
}

impl Visit for Cause {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => {
                let _ = write!(self.message, "{value:?}");
            }
            name if CAUSES.contains(&name) => {
                let mut text = String::new();
                let _ = write!(text, "{value:?}");
                self.hasher.write(text.as_bytes());
            }
            _ => {}
        }
    }
}

fn buckets() -> MutexGuard<'static, Buckets> {
    static BUCKETS: LazyLock<Mutex<Buckets>> = LazyLock::new(Mutex::default);
    BUCKETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lines that could not be written since the start.
static UNWRITTEN: AtomicU64 = AtomicU64::new(0);

/// Those of them that a report has counted.
static REPORTED: AtomicU64 = AtomicU64::new(0);

type Buckets = HashMap<(Identifier, u64), Bucket>;

/// Fields whose text tells one cause from another. Others name what is affected: there can be any number of those.
const CAUSES: [&str; 4] = ["error", "reason", "refused", "damage"];

/// Lines of a cause that are written at once.
const BURST: u32 = 5;

/// One more line of a fault for each of these.
const FAULT_INTERVAL: Duration = Duration::from_secs(60);

/// One more line of what is no fault for each of these.
const INFO_INTERVAL: Duration = Duration::from_secs(5);

/// The count of lines that were left out is at most this old.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Number of causes with their own bound; all others of a place in the source are one.
const CAUSES_MAX: usize = 1_024;

/// The target of the reports, which are not bounded themselves.
const TARGET: &str = "parshall::log";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Reports are of the whole process: one test at a time reports.
    static REPORTING: Mutex<()> = Mutex::new(());

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn repeated_fault_is_logged_a_few_times_and_counted() {
        let _reporting = REPORTING.lock().unwrap_or_else(PoisonError::into_inner);
        let written = Written::default();
        let writer = written.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::with_default(log.map_event_format(Bounded).finish(), || {
            for number in 0..1_000 {
                let error = ["the disk is full", "the disk is gone"][number % 2];
                tracing::error!(error, number, "it can't be stored");
            }
            report();
            report();
        });
        let written = written.0.lock().expect("no test panicked");
        let text = str::from_utf8(&written).expect("the log is text");
        for error in ["the disk is full", "the disk is gone"] {
            assert_eq!(text.matches(error).count(), BURST as usize, "{text}");
        }
        let reports = text.matches("lines were left out of the log lines=495 like=\"it can't be stored\"");
        assert_eq!(reports.count(), 2, "{text}");
    }

    /// A disk that is full at first.
    #[derive(Clone, Default)]
    struct FullDisk(Arc<Mutex<(bool, Vec<u8>)>>);

    impl io::Write for FullDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match disk.0 {
                true => disk.1.write(bytes),
                false => Err(io::ErrorKind::StorageFull.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_the_disk_does_not_take_are_counted_and_reported_once_it_does() {
        let _reporting = REPORTING.lock().unwrap_or_else(PoisonError::into_inner);
        let disk = FullDisk::default();
        let writer = disk.clone();
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(move || Counted(writer.clone()));
        tracing::subscriber::with_default(log.finish(), || {
            tracing::error!("one");
            tracing::error!("two");
            report();
            disk.0.lock().unwrap_or_else(PoisonError::into_inner).0 = true;
            report();
            report();
        });
        let disk = disk.0.lock().expect("no test panicked");
        let text = str::from_utf8(&disk.1).expect("the log is text");
        // The first report is one of them.
        assert_eq!(text.matches("lines could not be written to the log lines=3").count(), 1, "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn bucket_fills_with_time_up_to_its_burst() {
        let start = Instant::now();
        let mut bucket = Bucket { tokens: 1, filled_at: start, left_out: 0, message: String::new() };
        let mut admitted = |after: u32, count: u32| {
            (0..count).filter(|_| bucket.admit(FAULT_INTERVAL, start + FAULT_INTERVAL * after)).count()
        };
        assert_eq!(admitted(0, 10), 1);
        assert_eq!(admitted(1, 10), 1);
        assert_eq!(admitted(1_000, 10), BURST as usize);
    }

    #[test]
    fn bucket_keeps_the_parts_of_intervals() {
        let start = Instant::now();
        let mut bucket = Bucket { tokens: 0, filled_at: start, left_out: 0, message: String::new() };
        // A fault that comes 3 times in 4 intervals: each time less than two have passed.
        let lines =
            (1..=300).filter(|fault| bucket.admit(FAULT_INTERVAL, start + FAULT_INTERVAL * 4 / 3 * *fault));
        assert_eq!(lines.count(), 300);
        let mut bucket = Bucket { tokens: 0, filled_at: start, left_out: 0, message: String::new() };
        let lines =
            (1..=300).filter(|fault| bucket.admit(FAULT_INTERVAL, start + FAULT_INTERVAL * 2 / 3 * *fault));
        assert_eq!(lines.count(), 200);
    }
}
