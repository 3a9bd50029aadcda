//! The ground of charts that have a row for each of a few things: their names at the left, and one axis below.

use super::drawing::{Anchor, Drawing};
use super::scale::Scale;

/// Where things lie in such a chart.
#[derive(Debug)]
pub(super) struct RowChart {
    scale: Scale,
    /// Room for the names.
    left: f64,
}

impl RowChart {
    pub(super) fn new(scale: Scale, left: f64) -> Self {
        Self { scale, left }
    }

    /// A drawing with the axis and the names, for a figure with this caption and description.
    pub(super) fn drawing(
        &self,
        caption: &str,
        description: &str,
        names: &[&str],
        label: impl Fn(f64) -> String,
    ) -> Drawing {
        let bottom = TOP + names.len() as f64 * ROW;
        let mut drawing = Drawing::new(WIDTH, bottom + BOTTOM, caption, description);
        for tick in self.scale.ticks() {
            let x = self.x(tick);
            drawing.line("grid", (x, TOP), (x, bottom));
            drawing.text("tick", (x, bottom + 17.0), Anchor::Middle, &label(tick));
        }
        for (row, name) in names.iter().enumerate() {
            let at = (self.left - 9.0, Self::y(row) + 4.0);
            drawing.text("tick", at, Anchor::End, name);
        }
        drawing
    }

    /// Where a value lies from left to right.
    pub(super) fn x(&self, value: f64) -> f64 {
        self.left + self.scale.position(value) * (WIDTH - self.left - RIGHT)
    }

    /// The middle of a row.
    pub(super) fn y(row: usize) -> f64 {
        TOP + (row as f64 + 0.5) * ROW
    }
}

const WIDTH: f64 = 480.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 6.0;
const BOTTOM: f64 = 26.0;
const ROW: f64 = 34.0;
