//! One group of bars per case: what was measured, and what was published.

use super::drawing::{Anchor, Area, Drawing, LegendEntry};
use super::scale::Scale;
use crate::results::Summary;

/// Horizontal bars from zero on one linear axis, so that lengths compare as the figures do.
#[derive(Debug)]
pub(super) struct BarChart<'a> {
    /// What it shows.
    pub(super) caption: &'a str,
    /// What the axis counts.
    pub(super) unit: &'a str,
    /// How figures are written beside bars.
    pub(super) value_format: fn(f64) -> String,
    /// The groups from top to bottom.
    pub(super) groups: Vec<Group>,
}

/// The bars of one case.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) bars: Vec<Bar>,
}

/// One bar, with a line from the lowest to the highest of its trials.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    /// Its name in the legend; bars of the same name have the same colour.
    pub(super) name: &'static str,
    pub(super) class: &'static str,
    pub(super) value: Summary,
}

impl BarChart<'_> {
    /// The chart as HTML; `None` if there is no bar.
    pub(super) fn figure(&self) -> Option<String> {
        let bars = || self.groups.iter().flat_map(|group| &group.bars);
        bars().next()?;
        let scale = Scale::from_zero(bars().map(|bar| bar.value.max));
        let heights = self.groups.iter().map(|group| LABEL + group.bars.len() as f64 * BAR + GROUP_GAP);
        let height = heights.sum::<f64>();
        let mut drawing = Drawing::new(WIDTH, height, self.caption, &self.description());
        let mut y = 0.0;
        for group in &self.groups {
            drawing.text("name", (0.0, y + 15.0), Anchor::Start, &group.name);
            y += LABEL;
            for bar in &group.bars {
                self.draw(&mut drawing, &scale, bar, y);
                y += BAR;
            }
            y += GROUP_GAP;
        }
        let mut legend: Vec<LegendEntry> = Vec::new();
        for bar in bars() {
            if legend.iter().all(|entry| entry.name != bar.name) {
                legend.push(LegendEntry { class: bar.class.to_owned(), name: bar.name.to_owned() });
            }
        }
        Some(drawing.figure(self.caption, self.unit, &legend))
    }

    fn draw(&self, drawing: &mut Drawing, scale: &Scale, bar: &Bar, y: f64) {
        let x = |value| scale.position(value) * BARS_WIDTH;
        let middle = y + BAR / 2.0;
        let text = (self.value_format)(bar.value.median);
        let hint = if bar.value.has_spread() {
            let (min, max) = ((self.value_format)(bar.value.min), (self.value_format)(bar.value.max));
            format!("{}: {text} [{min}–{max}]", bar.name)
        } else {
            format!("{}: {text}", bar.name)
        };
        // A bar that is too short to see is still there.
        let area = Area { x: 0.0, y: y + 2.0, width: x(bar.value.median).max(1.5), height: BAR - 4.0 };
        drawing.rectangle(&format!("bar {}", bar.class), area, &hint);
        if bar.value.has_spread() {
            drawing.line("whisker", (x(bar.value.min), middle), (x(bar.value.max), middle));
            for end in [bar.value.min, bar.value.max] {
                drawing.line("whisker", (x(end), middle - 3.5), (x(end), middle + 3.5));
            }
        }
        drawing.text("value", (x(bar.value.max) + 7.0, middle + 4.5), Anchor::Start, &text);
    }

    fn description(&self) -> String {
        let groups = self.groups.iter().map(|group| {
            let bars = group
                .bars
                .iter()
                .map(|bar| format!("{} {}", bar.name, (self.value_format)(bar.value.median)));
            format!("{}: {}", group.name, bars.collect::<Vec<_>>().join(", "))
        });
        groups.collect::<Vec<_>>().join("; ")
    }
}

const WIDTH: f64 = 480.0;
/// Room for the bars; what remains at the right is for the figure of the longest.
const BARS_WIDTH: f64 = 386.0;
const LABEL: f64 = 21.0;
const BAR: f64 = 19.0;
const GROUP_GAP: f64 = 9.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_its_figure_and_its_spread_and_the_legend_has_each_name_once() {
        let bar = |median, min, max| Bar {
            name: "forwarded",
            class: "s1",
            value: Summary { median, min, max, interval: None },
        };
        let group = |name: &str, bar| Group { name: name.to_owned(), bars: vec![bar] };
        let chart = BarChart {
            caption: "Throughput",
            unit: "events/s",
            value_format: |value| value.to_string(),
            groups: vec![group("one", bar(5.0, 4.0, 6.0)), group("two", bar(0.0, 0.0, 0.0))],
        };
        let figure = chart.figure().unwrap();
        assert!(figure.contains("<title>forwarded: 5 [4–6]</title>"));
        assert!(figure.contains("<desc>one: forwarded 5; two: forwarded 0</desc>"));
        assert_eq!(figure.matches("<li ").count(), 1);
    }

    #[test]
    fn a_chart_without_bars_is_no_chart() {
        let chart = BarChart { caption: "", unit: "", value_format: |_| String::new(), groups: Vec::new() };
        assert_eq!(chart.figure(), None);
    }
}
