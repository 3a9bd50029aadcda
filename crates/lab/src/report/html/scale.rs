//! Axes: where a value lies, and which values deserve a tick.

/// Maps values to 0..=1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    kind: Kind,
    min: f64,
    max: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Linear,
    /// Base 10.
    Logarithmic,
}

impl Scale {
    /// From zero to a round number at or above every value.
    pub(super) fn from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let highest = values.into_iter().filter(|value| value.is_finite()).fold(0.0, f64::max);
        let step = nice_step(if highest > 0.0 { highest } else { 1.0 });
        let max = ((highest / step).ceil() * step).max(step);
        Self { kind: Kind::Linear, min: 0.0, max }
    }

    /// From and to exactly these values.
    pub(super) fn exactly(min: f64, max: f64) -> Self {
        let max = if max > min { max } else { min + 1.0 };
        Self { kind: Kind::Linear, min, max }
    }

    /// Logarithmic, from a tick at or below the lowest positive value to one at or above the highest.
    pub(super) fn logarithmic(values: impl IntoIterator<Item = f64>) -> Self {
        let positive = values.into_iter().filter(|value| value.is_finite() && *value > 0.0);
        let (lowest, highest) =
            positive.fold((f64::INFINITY, 0.0), |(low, high), value| (low.min(value), f64::max(high, value)));
        if highest == 0.0 {
            return Self { kind: Kind::Logarithmic, min: 1.0, max: 10.0 };
        }
        let below = LOGARITHMIC_TICKS
            .map(|factor| factor * decade(lowest))
            .into_iter()
            .rfind(|tick| *tick <= lowest * (1.0 + ROUNDING));
        let above = LOGARITHMIC_TICKS
            .map(|factor| factor * decade(highest))
            .into_iter()
            .chain([10.0 * decade(highest)])
            .find(|tick| *tick >= highest * (1.0 - ROUNDING));
        let min = below.unwrap_or(lowest);
        let max = above.unwrap_or(highest);
        Self { kind: Kind::Logarithmic, min, max: if max > min { max } else { min * 10.0 } }
    }

    /// Where a value lies, 0 at the start of the axis and 1 at its end; values beyond lie at the ends.
    pub(super) fn position(&self, value: f64) -> f64 {
        let share = match self.kind {
            Kind::Linear => (value - self.min) / (self.max - self.min),
            Kind::Logarithmic if value <= 0.0 => 0.0,
            Kind::Logarithmic => (value / self.min).log10() / (self.max / self.min).log10(),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Round values along the axis, about as many as five.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.kind {
            Kind::Linear => {
                let step = nice_step(self.max - self.min);
                let first = (self.min / step - ROUNDING).ceil() as i64;
                let last = (self.max / step + ROUNDING).floor() as i64;
                (first..=last).map(|tick| tick as f64 * step).collect()
            }
            Kind::Logarithmic => {
                let decades = (self.max / self.min).log10();
                let factors: &[f64] = if decades > 2.0 { &[1.0] } else { &LOGARITHMIC_TICKS };
                let first = self.min.log10().floor() as i32;
                let last = self.max.log10().ceil() as i32;
                let ticks = (first..=last)
                    .flat_map(|exponent| factors.iter().map(move |factor| factor * 10_f64.powi(exponent)));
                let (min, max) = (self.min * (1.0 - ROUNDING), self.max * (1.0 + ROUNDING));
                ticks.filter(|tick| *tick >= min && *tick <= max).collect()
            }
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten that divides a range into at most five parts.
fn nice_step(range: f64) -> f64 {
    let rough = range / 5.0;
    let unit = decade(rough);
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * unit >= rough * (1.0 - ROUNDING));
    factor.unwrap_or(10.0) * unit
}

/// The power of ten at or below a positive value.
fn decade(value: f64) -> f64 {
    10_f64.powi((value.log10() + ROUNDING).floor() as i32)
}

const LOGARITHMIC_TICKS: [f64; 3] = [1.0, 2.0, 5.0];

/// How far a computed value may be from the round one it stands for.
const ROUNDING: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_from_zero_ends_at_a_round_number_with_round_ticks() {
        let scale = Scale::from_zero([3.0, 2_904_000.0]);
        assert_eq!(scale.ticks(), [0.0, 1_000_000.0, 2_000_000.0, 3_000_000.0]);
        assert_eq!(Scale::from_zero([97.0]).ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(scale.position(1_500_000.0), 0.5);
    }

    #[test]
    fn a_logarithmic_scale_spans_its_values_between_ticks() {
        let scale = Scale::logarithmic([230.0, 4_800.0]);
        assert_eq!(scale.ticks().first(), Some(&200.0));
        assert_eq!(scale.ticks().last(), Some(&5_000.0));
        assert_eq!(Scale::logarithmic([1.0, 1e6]).ticks().len(), 7);
        let middle = Scale::logarithmic([1.0, 100.0]).position(10.0);
        assert!((middle - 0.5).abs() < 1e-9);
    }

    #[test]
    fn no_value_falls_off_an_axis_and_no_axis_is_empty() {
        for scale in [
            Scale::from_zero([]),
            Scale::from_zero([0.0, f64::NAN]),
            Scale::exactly(5.0, 5.0),
            Scale::logarithmic([]),
            Scale::logarithmic([0.0]),
            Scale::logarithmic([7.0]),
            Scale::logarithmic([1000.0, 1000.0]),
        ] {
            for value in [0.0, -3.0, 5.0, 1e18, f64::NAN, f64::INFINITY] {
                assert!((0.0..=1.0).contains(&scale.position(value)), "{scale:?} at {value}");
            }
            assert!((2..=12).contains(&scale.ticks().len()), "{scale:?}: {:?}", scale.ticks());
        }
    }
}
