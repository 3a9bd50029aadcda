//! Quantiles of durations, from all of them.

use std::time::Duration;

/// Durations in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    microseconds: Vec<f64>,
}

impl Durations {
    pub(crate) fn record(&mut self, duration: Duration) {
        self.microseconds.push(duration.as_secs_f64() * 1e6);
    }

    /// Members of a JSON object, each name after `prefix`. None if there is nothing.
    pub(crate) fn json(mut self, prefix: &str) -> String {
        self.microseconds.sort_by(f64::total_cmp);
        let at = |quantile: f64| {
            let rank = (quantile * self.microseconds.len() as f64).ceil() as usize;
            self.microseconds.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
        };
        let [least, middle, high, higher, most] = [0.0, 0.5, 0.99, 0.999, 1.0].map(at);
        if self.microseconds.is_empty() {
            return format!("\"{prefix}count\":0");
        }
        format!(
            "\"{prefix}count\":{},\"{prefix}min_us\":{least:.1},\"{prefix}p50_us\":{middle:.1},\"{prefix}p99_us\":{high:.1},\
             \"{prefix}p999_us\":{higher:.1},\"{prefix}max_us\":{most:.1}",
            self.microseconds.len()
        )
    }
}
