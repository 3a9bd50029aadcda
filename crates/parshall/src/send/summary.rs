//! What is said while it sends, and what became of it.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use connect::producer::{Producer, ProducerStatistics};
use serde_json::json;
use units::ByteSize;

use crate::exit::CommandError;
use crate::terminal::Terminal;

/// What became of the input.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) statistics: ProducerStatistics,
    pub(super) skipped: u64,
    pub(super) took: Duration,
}

/// Lines that were left out.
#[derive(Debug)]
pub(super) struct Skipped {
    goes_on: bool,
    count: u64,
}

/// Tells a terminal how it goes.
#[derive(Debug)]
pub(super) struct Watch {
    began: Instant,
    drawn: Instant,
    is_shown: bool,
}

impl Summary {
    /// Whether all there was has been acknowledged.
    pub(super) fn is_complete(&self) -> bool {
        self.statistics.lost.is_empty() && self.skipped == 0
    }

    fn per_second(&self) -> f64 {
        self.statistics.acknowledged as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// For a person.
    pub(super) fn text(&self) -> String {
        let ProducerStatistics { acknowledged, acknowledged_bytes, retries, lost, .. } = &self.statistics;
        let mut text = format!(
            "{acknowledged} events acknowledged in {:.1} s ({:.0}/s, {})\n",
            self.took.as_secs_f64(),
            self.per_second(),
            ByteSize::from_bytes(*acknowledged_bytes).approximate(),
        );
        if *retries > 0 {
            text += &format!("{retries} sends were made again: some events may have arrived twice\n");
        }
        for loss in lost {
            text +=
                &format!("{} events {}: {}: {}\n", loss.events, loss.fate, loss.condition, loss.description);
        }
        if self.skipped > 0 {
            text += &format!("{} lines left out\n", self.skipped);
        }
        text
    }

    /// For a program.
    pub(super) fn json(&self) -> String {
        let ProducerStatistics { acknowledged, acknowledged_bytes, sends, retries, lost, .. } =
            &self.statistics;
        let lost: Vec<_> = lost
            .iter()
            .map(|loss| {
                json!({
                    "fate": loss.fate.to_string(),
                    "condition": loss.condition,
                    "description": loss.description,
                    "events": loss.events,
                })
            })
            .collect();
        let result = json!({
            "acknowledged": acknowledged,
            "acknowledged_bytes": acknowledged_bytes,
            "sends": sends,
            "retries": retries,
            "skipped_lines": self.skipped,
            "lost": lost,
            "seconds": self.took.as_secs_f64(),
            "events_per_s": self.per_second(),
        });
        format!("{result:#}\n")
    }
}

impl Skipped {
    pub(super) const fn new(goes_on: bool) -> Self {
        Self { goes_on, count: 0 }
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// A line can't be sent.
    ///
    /// # Errors
    /// When nothing more is to be sent then.
    pub(super) fn skip(&mut self, number: u64, reason: &dyn std::fmt::Display) -> Result<(), CommandError> {
        if !self.goes_on {
            return Err(CommandError::Usage {
                message: format!("line {number}: {reason}"),
                advice: Some("`--on-error skip` leaves such lines out".to_owned()),
            });
        }
        self.count += 1;
        let text = match self.count {
            ..TOLD_MAX => format!("line {number} left out: {reason}\n"),
            TOLD_MAX => format!("line {number} left out: {reason}; further ones are counted only\n"),
            _ => return Ok(()),
        };
        // Where standard error can't be written, nobody wants to know.
        let _ = io::stderr().write_all(text.as_bytes());
        Ok(())
    }
}

impl Watch {
    pub(super) fn begin(began: Instant, quiet: bool) -> Self {
        Self { began, drawn: began, is_shown: !quiet && Terminal::of_stderr().redraws }
    }

    /// Draws, if it is time.
    pub(super) fn look(&mut self, producer: &Producer) {
        if !self.is_shown || self.drawn.elapsed() < REDRAWN_EVERY {
            return;
        }
        self.drawn = Instant::now();
        let ProducerStatistics { acknowledged, acknowledged_bytes, .. } = producer.statistics();
        let per_second = acknowledged as f64 / self.began.elapsed().as_secs_f64();
        let bytes = ByteSize::from_bytes(acknowledged_bytes).approximate();
        let pending = producer.pending();
        let line = format!("\r{acknowledged} events, {bytes}, {per_second:.0}/s, {pending} under way{CLEAR}");
        let _ = io::stderr().write_all(line.as_bytes());
    }

    /// Makes room for what follows.
    pub(super) fn end(&self) {
        if self.is_shown && self.drawn > self.began {
            let _ = io::stderr().write_all(format!("\r{CLEAR}").as_bytes());
        }
    }
}

/// Lines left out that are told one by one.
const TOLD_MAX: u64 = 10;

const REDRAWN_EVERY: Duration = Duration::from_millis(200);

/// Clears the rest of a terminal's line.
const CLEAR: &str = "\u{1b}[K";

#[cfg(test)]
mod tests {
    use connect::producer::{Fate, Loss};

    use super::*;

    #[test]
    fn a_summary_says_what_was_acknowledged_and_what_was_not() {
        let loss = Loss {
            fate: Fate::Unknown,
            condition: "connection:lost".to_owned(),
            description: "why".to_owned(),
            events: 3,
        };
        let statistics = ProducerStatistics {
            acknowledged: 1_000,
            acknowledged_bytes: 2_048,
            retries: 1,
            lost: vec![loss],
            ..ProducerStatistics::default()
        };
        let summary = Summary { statistics, skipped: 2, took: Duration::from_millis(500) };
        assert!(!summary.is_complete());
        let expected = "1000 events acknowledged in 0.5 s (2000/s, 2.0 KiB)\n\
             1 sends were made again: some events may have arrived twice\n\
             3 events unknown: connection:lost: why\n\
             2 lines left out\n";
        assert_eq!(summary.text(), expected);
        let printed: serde_json::Value = serde_json::from_str(&summary.json()).unwrap();
        assert_eq!((&printed["lost"][0]["events"], &printed["skipped_lines"]), (&json!(3), &json!(2)));
    }

    #[test]
    fn lines_are_left_out_only_on_demand() {
        let stopped = Skipped::new(false).skip(7, &"why").unwrap_err();
        assert_eq!(stopped.to_string(), "line 7: why");
        let mut skipped = Skipped::new(true);
        skipped.skip(7, &"why").unwrap();
        assert_eq!(skipped.count(), 1);
    }
}
