//! Whether something grows: a straight line through readings, with the error of its slope.

/// The straight line that fits readings best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// How much the reading grows per unit of the place.
    pub slope: f64,
    /// The slope is at least this with the confidence of [`TREND_CONFIDENCE`].
    pub at_least: f64,
}

impl Trend {
    /// The line through `(place, reading)` by least squares. `None` below [`LEAST_READINGS`] readings, or if all of them
    /// are at one place.
    ///
    /// The error assumes readings that scatter independently around the line. Readings of a queue do not quite: they
    /// wander, so that a line through few of them looks surer than it is. Hence the high confidence.
    #[must_use]
    pub fn of(readings: &[(f64, f64)]) -> Option<Self> {
        let count = readings.len();
        if count < LEAST_READINGS {
            return None;
        }
        let mean = |figure: fn(&(f64, f64)) -> f64| readings.iter().map(figure).sum::<f64>() / count as f64;
        let (middle, level) = (mean(|reading| reading.0), mean(|reading| reading.1));
        let spread: f64 = readings.iter().map(|(at, _)| (at - middle).powi(2)).sum();
        if spread <= 0.0 {
            return None;
        }
        let product = |(at, reading): &(f64, f64)| (at - middle) * (reading - level);
        let slope = readings.iter().map(product).sum::<f64>() / spread;
        let left = |(at, reading): &(f64, f64)| (reading - level - slope * (at - middle)).powi(2);
        let freedom = count - 2;
        let variance = readings.iter().map(left).sum::<f64>() / freedom as f64;
        let error = (variance / spread).sqrt();
        let reach = STUDENT_99.get(freedom - 1).copied().unwrap_or(BEYOND);
        Some(Self { slope, at_least: slope - reach * error })
    }
}

/// The confidence of [`Trend::at_least`].
pub const TREND_CONFIDENCE: f64 = 0.99;

/// With fewer readings a line always fits too well.
pub const LEAST_READINGS: usize = 4;

/// One-sided 99 % quantiles of Student's distribution from one degree of freedom on.
#[expect(clippy::approx_constant, reason = "the quantile of 11 degrees of freedom has nothing to do with e")]
const STUDENT_99: [f64; 30] = [
    31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764, 2.718, 2.681, 2.650, 2.624, 2.602,
    2.583, 2.567, 2.552, 2.539, 2.528, 2.518, 2.508, 2.500, 2.492, 2.485, 2.479, 2.473, 2.467, 2.462, 2.457,
];

/// For more degrees of freedom, where it is smaller still.
const BEYOND: f64 = 2.457;

#[cfg(test)]
mod tests {
    use units::Random;

    use super::*;

    #[test]
    fn a_straight_line_has_its_slope_without_error() {
        let readings: Vec<_> = (0..6).map(|at| (f64::from(at), 3.0 + 2.0 * f64::from(at))).collect();
        let trend = Trend::of(&readings).unwrap();
        assert!((trend.slope - 2.0).abs() < 1e-9 && (trend.at_least - 2.0).abs() < 1e-6);
    }

    #[test]
    fn too_few_readings_or_readings_at_one_place_have_no_trend() {
        assert_eq!(Trend::of(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]), None);
        assert_eq!(Trend::of(&[(1.0, 1.0); 9]), None);
    }

    #[test]
    fn noise_without_growth_is_called_growth_once_in_a_hundred_times_and_growth_is_found() {
        let mut random = Random::from_seed(4);
        let mut noise = |slope: f64| {
            let readings: Vec<_> = (0..10)
                .map(|at| {
                    let uneven: f64 = (0..6).map(|_| random.exponential(1.0)).sum();
                    (f64::from(at), uneven + slope * f64::from(at))
                })
                .collect();
            Trend::of(&readings).unwrap().at_least > 0.0
        };
        let false_alarms = (0..4_000).filter(|_| noise(0.0)).count();
        assert!((10..80).contains(&false_alarms), "{false_alarms} of 4000");
        let found = (0..500).filter(|_| noise(2.0)).count();
        assert!(found > 480, "{found} of 500");
    }
}
