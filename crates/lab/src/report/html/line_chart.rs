//! Lines over time, or over percentiles.

use super::drawing::{Anchor, Area, Drawing, LegendEntry};
use super::scale::Scale;

/// A chart of one or more series over a common horizontal axis.
#[derive(Debug)]
pub(super) struct LineChart<'a> {
    /// What it shows.
    pub(super) caption: &'a str,
    /// What the vertical axis counts.
    pub(super) unit: &'a str,
    /// The horizontal axis.
    pub(super) horizontal: Scale,
    /// Its ticks: where, and what stands there.
    pub(super) horizontal_ticks: Vec<(f64, String)>,
    /// What the horizontal axis counts.
    pub(super) horizontal_unit: &'a str,
    /// How a place on it is called.
    pub(super) place_format: fn(f64) -> String,
    /// The vertical axis.
    pub(super) vertical: Scale,
    /// How its figures are written beside the axis.
    pub(super) axis_format: fn(f64) -> String,
    /// How they are written in full.
    pub(super) value_format: fn(f64) -> String,
    /// The lines; those without points are left out.
    pub(super) series: Vec<Series>,
}

/// One line.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// Its name in the legend.
    pub(super) name: String,
    /// Its classes: a colour, and `dashed` if it is a second reading of something.
    pub(super) class: String,
    /// Whether its points stand for themselves, without a line between them.
    pub(super) is_scattered: bool,
    /// Horizontal and vertical value, in the order of the horizontal one.
    pub(super) points: Vec<(f64, f64)>,
}

impl LineChart<'_> {
    /// The chart as HTML; `None` if no series has a point.
    pub(super) fn figure(mut self) -> Option<String> {
        self.series.retain(|series| !series.points.is_empty());
        if self.series.is_empty() {
            return None;
        }
        let mut drawing = Drawing::new(WIDTH, HEIGHT, self.caption, &self.description());
        self.draw_axes(&mut drawing);
        for series in &self.series {
            let points: Vec<(f64, f64)> = series.points.iter().map(|point| self.place(*point)).collect();
            if series.is_scattered {
                for point in points {
                    drawing.circle(&format!("point {}", series.class), point, 4.5);
                }
                continue;
            }
            drawing.polyline(&format!("line {}", series.class), &points);
            if let Some(last) = points.last() {
                drawing.circle(&format!("end {}", series.class), *last, 2.5);
            }
        }
        self.draw_hints(&mut drawing);
        let legend: Vec<LegendEntry> = self.series.iter().map(Series::legend_entry).collect();
        // A single line needs no legend if the caption says what it is.
        let legend = if legend.len() > 1 { legend } else { Vec::new() };
        Some(drawing.figure(self.caption, self.unit, &legend))
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (
            PLOT.x + self.horizontal.position(x) * PLOT.width,
            PLOT.y + (1.0 - self.vertical.position(y)) * PLOT.height,
        )
    }

    fn draw_axes(&self, drawing: &mut Drawing) {
        for tick in self.vertical.ticks() {
            let y = PLOT.y + (1.0 - self.vertical.position(tick)) * PLOT.height;
            drawing.line("grid", (PLOT.x, y), (PLOT.x + PLOT.width, y));
            drawing.text("tick", (PLOT.x - 7.0, y + 4.0), Anchor::End, &(self.axis_format)(tick));
        }
        let bottom = PLOT.y + PLOT.height;
        for (value, label) in &self.horizontal_ticks {
            let x = PLOT.x + self.horizontal.position(*value) * PLOT.width;
            drawing.line("mark", (x, bottom), (x, bottom + 4.0));
            drawing.text("tick", (x, bottom + 17.0), Anchor::Middle, label);
        }
        drawing.line("axis", (PLOT.x, bottom), (PLOT.x + PLOT.width, bottom));
        drawing.text("tick", (PLOT.x + PLOT.width, HEIGHT - 2.0), Anchor::End, self.horizontal_unit);
    }

    /// Invisible bands around the points of the longest series, which tell all values at that place.
    fn draw_hints(&self, drawing: &mut Drawing) {
        let Some(longest) = self.series.iter().max_by_key(|series| series.points.len()) else {
            return;
        };
        if longest.points.len() > MAXIMUM_HINTS {
            return;
        }
        let width = PLOT.width / longest.points.len() as f64;
        for (place, _) in &longest.points {
            let values = self.series.iter().filter_map(|series| {
                let (_, value) = series.points.iter().find(|(x, _)| x == place)?;
                Some(format!("{}: {}", series.name, (self.value_format)(*value)))
            });
            let at = (self.place_format)(*place);
            let hint: Vec<String> = [at].into_iter().chain(values).collect();
            let middle = PLOT.x + self.horizontal.position(*place) * PLOT.width;
            // Beyond the plot, a band would widen the page.
            let left = (middle - width / 2.0).max(PLOT.x);
            let right = (middle + width / 2.0).min(PLOT.x + PLOT.width);
            let area = Area { x: left, width: right - left, ..PLOT };
            drawing.rectangle("hint", area, &hint.join(" · "));
        }
    }

    fn description(&self) -> String {
        let ranges = self.series.iter().map(|series| {
            let values = || series.points.iter().map(|(_, value)| *value);
            let low = values().fold(f64::INFINITY, f64::min);
            let high = values().fold(f64::NEG_INFINITY, f64::max);
            format!("{} from {} to {}", series.name, (self.value_format)(low), (self.value_format)(high))
        });
        ranges.collect::<Vec<_>>().join("; ")
    }
}

impl Series {
    fn legend_entry(&self) -> LegendEntry {
        LegendEntry { class: self.class.clone(), name: self.name.clone() }
    }
}

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 222.0;
const PLOT: Area = Area { x: 66.0, y: 10.0, width: 398.0, height: 178.0 };

/// Beyond this many points the bands would be too narrow to hit and the page too heavy.
const MAXIMUM_HINTS: usize = 150;

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(series: Vec<Series>) -> LineChart<'static> {
        LineChart {
            caption: "Throughput",
            unit: "events/s",
            horizontal: Scale::exactly(0.0, 2.0),
            horizontal_ticks: vec![(0.0, "0".to_owned()), (2.0, "2".to_owned())],
            horizontal_unit: "s",
            place_format: |second| format!("{second} s"),
            vertical: Scale::from_zero([8.0]),
            axis_format: |value| value.to_string(),
            value_format: |value| value.to_string(),
            series,
        }
    }

    fn series(name: &str, points: &[(f64, f64)]) -> Series {
        Series { name: name.to_owned(), class: "s1".to_owned(), is_scattered: false, points: points.to_vec() }
    }

    #[test]
    fn a_chart_without_points_is_no_chart() {
        assert_eq!(chart(vec![series("empty", &[])]).figure(), None);
    }

    #[test]
    fn hints_stay_within_the_plot() {
        let figure = chart(vec![series("lag", &[(0.0, 4.0), (2.0, 8.0)])]).figure().unwrap();
        let hints = figure.split("<rect class=\"hint\"").skip(1);
        let number = |hint: &str, name: &str| -> f64 {
            let value = hint.split_once(&format!("{name}=\"")).unwrap().1;
            value.split_once('"').unwrap().0.parse().unwrap()
        };
        let ends: Vec<(f64, f64)> =
            hints.map(|hint| (number(hint, " x"), number(hint, " x") + number(hint, " width"))).collect();
        assert_eq!(ends.len(), 2);
        assert!(
            ends.iter().all(|(left, right)| *left >= PLOT.x && *right <= PLOT.x + PLOT.width),
            "{ends:?}"
        );
    }

    #[test]
    fn scattered_points_have_no_line() {
        let mut scattered = series("probes", &[(0.0, 4.0), (1.0, 8.0)]);
        scattered.is_scattered = true;
        let figure = chart(vec![scattered]).figure().unwrap();
        assert_eq!(
            (figure.matches("class=\"point s1\"").count(), figure.matches("<polyline").count()),
            (2, 0)
        );
    }

    #[test]
    fn a_chart_describes_its_ranges_and_its_values_in_words() {
        let figure = chart(vec![
            series("offered", &[(1.0, 4.0), (2.0, 8.0)]),
            series("received", &[(1.0, 3.0)]),
            series("none", &[]),
        ])
        .figure()
        .unwrap();
        assert!(figure.contains("<desc>offered from 4 to 8; received from 3 to 3</desc>"));
        assert!(figure.contains("<title>1 s · offered: 4 · received: 3</title>"));
        assert!(!figure.contains("none"));
    }
}
