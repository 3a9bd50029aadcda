//! The live view of a run on standard error.
//!
//! On a terminal it is a few lines that are drawn over again; elsewhere it is one plain line at the start of each case and
//! one every half a minute, and each phase where the log is to have `debug` lines of this module. Either is written by a thread of its own: handing over a snapshot is one send on a channel, so
//! watching a run costs the run nothing.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::figure;
use lab::progress::{Observer, Progress};

use crate::terminal::Terminal;

/// A display that runs until it is dropped. Dropping it takes the drawn lines off the terminal.
#[derive(Debug)]
pub(crate) struct ProgressDisplay {
    /// `None` if nothing is to be shown, and while it is being dropped: closing the channel is what ends the thread.
    snapshots: Option<Sender<Progress>>,
    drawer: Option<JoinHandle<()>>,
}

impl ProgressDisplay {
    /// Starts the display that fits the terminal behind standard error; one that shows nothing, if it is to be quiet.
    ///
    /// # Errors
    /// If the system has no thread for it.
    pub(crate) fn start(terminal: Terminal, quiet: bool) -> io::Result<Self> {
        if quiet {
            return Ok(Self { snapshots: None, drawer: None });
        }
        let (snapshots, received) = mpsc::channel();
        let drawer = std::thread::Builder::new().name("progress".to_owned()).spawn(move || {
            if terminal.redraws {
                draw(&received, terminal);
            } else {
                write_lines(&received, &mut io::stderr());
            }
        })?;
        Ok(Self { snapshots: Some(snapshots), drawer: Some(drawer) })
    }
}

impl Observer for ProgressDisplay {
    fn progress(&self, progress: &Progress) {
        if let Some(snapshots) = &self.snapshots {
            // The receiver is gone only if the drawer died; a run goes on unwatched then.
            let _ = snapshots.send(progress.clone());
        }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.snapshots = None;
        if let Some(drawer) = self.drawer.take() {
            // A drawer that panicked has told so by itself; there is nothing to save.
            let _ = drawer.join();
        }
    }
}

/// Draws the newest snapshot over the one before, until the channel closes.
fn draw(snapshots: &Receiver<Progress>, terminal: Terminal) {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{msg}").expect("a template of one known key is valid");
    bar.set_style(style);
    while let Ok(snapshot) = snapshots.recv() {
        // Whatever has piled up while drawing is out of date, except the last.
        let newest = snapshots.try_iter().last().unwrap_or(snapshot);
        // Asked each time: windows are resized.
        let width = Terminal::of_stderr().width.unwrap_or(DEFAULT_WIDTH);
        bar.set_message(picture(&newest, width, terminal.colours).join("\n"));
        bar.tick();
    }
    bar.finish_and_clear();
}

/// Writes a line for each snapshot that deserves one, until the channel closes.
fn write_lines(snapshots: &Receiver<Progress>, output: &mut impl Write) {
    let mut log = ProgressLog::default();
    let mut phase = None;
    while let Ok(snapshot) = snapshots.recv() {
        let present = Some((snapshot.case_number, snapshot.trial, snapshot.phase));
        if phase != present {
            phase = present;
            tracing::debug!("{}", snapshot.heading());
        }
        if let Some(line) = log.line(&snapshot, Instant::now()) {
            // Whoever closed standard error does not want to be told.
            let _ = writeln!(output, "{line}");
        }
    }
}

/// Decides which snapshots become lines: the first of each case, and one every [`LINE_EVERY`].
#[derive(Debug, Default)]
struct ProgressLog {
    /// The case of the last line, and when that was written.
    last: Option<(usize, Instant)>,
}

impl ProgressLog {
    fn line(&mut self, progress: &Progress, now: Instant) -> Option<String> {
        let case = progress.case_number;
        if self.last.is_some_and(|(last, written)| last == case && now < written + LINE_EVERY) {
            return None;
        }
        self.last = Some((case, now));
        let parts = [progress.heading(), progress.clock(), rates(progress), roles(progress)];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Some(parts.join("  "))
    }
}

/// The lines of the drawn display, none wider than `width`.
fn picture(progress: &Progress, width: usize, colours: bool) -> Vec<String> {
    let paint = |code: &str, text: String| match colours {
        true if !text.is_empty() => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        _ => text,
    };
    let heading = cut(&progress.heading(), width);
    let room = width.saturating_sub(heading.chars().count() + 2);
    let mut timing = progress.clock();
    if let Some(share) = progress.share_done() {
        let with_bar = format!("{} {timing}", gauge(share));
        if with_bar.chars().count() <= room {
            timing = with_bar;
        }
    }
    let timing = cut(&timing, room);
    let details = [rates(progress), roles(progress)];
    let details = details.into_iter().filter(|line| !line.is_empty());
    let details = details.map(|line| cut(&format!("  {line}"), width));
    [format!("{}  {}", paint("1", heading), paint("36", timing))].into_iter().chain(details).collect()
}

/// A bar of [`GAUGE`] characters.
fn gauge(share: f64) -> String {
    let full = (share * GAUGE as f64).round() as usize;
    format!("{}{}", "━".repeat(full), "╌".repeat(GAUGE - full))
}

fn rates(progress: &Progress) -> String {
    let rate = |name: &str, rate: Option<f64>| rate.map(|rate| format!("{name} {}/s", figure::rate(rate)));
    [
        rate("offered", progress.offered_per_s),
        rate("received", progress.received_per_s),
        rate("forwarded", progress.forwarded_per_s),
        progress.lag_events.map(|lag| format!("lag {}", figure::count(lag))),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(" · ")
}

fn roles(progress: &Progress) -> String {
    let role = |(role, usage): (&lab::results::Role, &lab::progress::RoleProgress)| {
        format!("{role} {:.0} % {}", usage.cpu_percent, figure::bytes(usage.memory_bytes as f64))
    };
    progress.roles.iter().map(role).collect::<Vec<_>>().join(" · ")
}

/// The first characters of a text, with a sign that there were more.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).take(width).collect()
}

/// Often enough to see that it lives, rarely enough for a log of a long run.
const LINE_EVERY: Duration = Duration::from_secs(30);
const GAUGE: usize = 24;
/// For a terminal that does not tell its own.
const DEFAULT_WIDTH: usize = 80;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lab::progress::{EventTotals, Phase, RoleProgress};
    use lab::results::Role;

    use super::*;

    fn measuring(elapsed: u64) -> Progress {
        let usage = |cpu_percent, memory_bytes| RoleProgress { cpu_percent, memory_bytes };
        Progress {
            case: "fan_out=32".to_owned(),
            case_number: 2,
            cases: 4,
            trial: 1,
            trials: 3,
            tried_per_s: None,
            least_remaining: None,
            phase: Phase::Measuring,
            phase_elapsed: Duration::from_secs(elapsed),
            phase_length: Some(Duration::from_secs(60)),
            offered_per_s: None,
            received_per_s: Some(2_407_737.0),
            forwarded_per_s: Some(2_402_922.0),
            lag_events: Some(81_240),
            events: EventTotals::default(),
            roles: BTreeMap::from([
                (Role::Service, usage(61.6, 401_000_000)),
                (Role::Relay, usage(97.2, 43_100_000)),
            ]),
        }
    }

    fn starting() -> Progress {
        Progress {
            phase: Phase::Starting,
            phase_length: None,
            received_per_s: None,
            forwarded_per_s: None,
            lag_events: None,
            roles: BTreeMap::new(),
            ..measuring(0)
        }
    }

    #[test]
    fn the_picture_shows_where_the_run_is_and_what_it_does() {
        let lines = picture(&measuring(15), 100, false);
        assert_eq!(
            lines,
            [
                "[2/4] fan_out=32, trial 1 of 3: measuring  ━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌ 15 s of 60 s",
                "  received 2,407,737/s · forwarded 2,402,922/s · lag 81,240",
                "  hub 62 % 382 MiB · relay 97 % 41.1 MiB",
            ]
        );
    }

    #[test]
    fn a_search_says_how_many_probes_it_takes_at_least() {
        let probe = |trial, least_remaining| Progress {
            trial,
            trials: 0,
            tried_per_s: Some(20_000.0),
            least_remaining: Some(least_remaining),
            ..measuring(1)
        };
        let first = probe(2, 6).heading();
        assert_eq!(first, "[2/4] fan_out=32, probe 2 at 20,000/s, at least 6 more: measuring");
        assert_eq!(probe(9, 0).heading(), "[2/4] fan_out=32, probe 9 at 20,000/s: measuring");
        let paced = Progress { trial: 4, trials: 4, tried_per_s: Some(1_000.0), ..measuring(1) };
        assert_eq!(paced.heading(), "[2/4] fan_out=32, latency at 1,000/s: measuring");
    }

    #[test]
    fn the_picture_never_exceeds_the_terminal() {
        for width in 1..120 {
            for progress in [measuring(15), starting()] {
                for line in picture(&progress, width, false) {
                    // Two spaces part the heading from the timing even where there is no room for one.
                    assert!(line.trim_end().chars().count() <= width, "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn colours_are_added_only_where_they_are_wanted() {
        assert!(picture(&measuring(1), 100, true)[0].contains('\u{1b}'));
        assert!(!picture(&measuring(1), 100, false).concat().contains('\u{1b}'));
    }

    #[test]
    fn a_name_cannot_move_the_cursor() {
        let progress = Progress { case: "a\u{1b}[2J\nb".to_owned(), ..measuring(1) };
        assert!(picture(&progress, 100, false)[0].starts_with("[2/4] a [2J b, trial"));
    }

    #[test]
    fn without_a_terminal_there_is_a_line_per_case_and_one_every_half_a_minute() {
        let begin = Instant::now();
        let mut log = ProgressLog::default();
        let next_case = Progress { case: "fan_out=64".to_owned(), case_number: 3, ..starting() };
        let course = [(0, starting())]
            .into_iter()
            .chain((1..=60).map(|second| (second, measuring(second))))
            .chain([(61, Progress { trial: 2, ..measuring(0) }), (62, next_case)]);
        let lines: Vec<String> = course
            .filter_map(|(second, progress)| log.line(&progress, begin + Duration::from_secs(second)))
            .collect();
        let starts: Vec<&str> = lines.iter().map(|line| line.split("  received").next().unwrap()).collect();
        assert_eq!(
            starts,
            [
                "[2/4] fan_out=32, trial 1 of 3: starting  0 s",
                "[2/4] fan_out=32, trial 1 of 3: measuring  30 s of 60 s",
                "[2/4] fan_out=32, trial 1 of 3: measuring  60 s of 60 s",
                "[3/4] fan_out=64, trial 1 of 3: starting  0 s",
            ]
        );
        assert!(!lines.concat().contains('\u{1b}'));
    }

    #[test]
    fn lines_end_when_the_run_does() {
        let (sender, receiver) = mpsc::channel();
        sender.send(starting()).unwrap();
        drop(sender);
        let mut output = Vec::new();
        write_lines(&receiver, &mut output);
        assert_eq!(output, b"[2/4] fan_out=32, trial 1 of 3: starting  0 s\n");
    }

    #[test]
    fn a_display_that_is_dropped_ends_its_thread() {
        let terminal = Terminal { redraws: true, colours: false, width: None };
        let display = ProgressDisplay::start(terminal, false).unwrap();
        display.progress(&measuring(3));
        drop(display);
    }
}
