//! Where a true percentile lies when the samples are not independent.
//!
//! Latencies of neighbouring events are alike: they waited in one queue, for one stall. A million of them say less than a
//! million independent values would, and the interval of [`quantile_ranks`] for all of them would be far too narrow.
//! Here the samples come in blocks, the seconds of a measurement, and how much the share below the percentile varies
//! from block to block tells how many independent samples they are worth (the design effect of cluster sampling). The
//! few blocks are allowed for with Student's distribution. What varies more slowly than the measurement is long, only
//! further trials show.

use super::{CONFIDENCE, order::quantile_ranks};

/// The samples of one block: how many there are, and how many of them are at most the percentile of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// All samples.
    pub samples: u64,
    /// Those at or below the percentile.
    pub at_most: u64,
}

/// The shares of the sample whose quantiles enclose the true `quantile` with [`CONFIDENCE`].
///
/// `None` with fewer than [`LEAST_BLOCKS`] blocks that hold anything, and when the samples are worth too few to enclose
/// it. As many blocks of one size are best; blocks of any size are allowed.
#[must_use]
pub fn quantile_shares(blocks: &[Block], quantile: f64) -> Option<(f64, f64)> {
    let blocks: Vec<_> = blocks.iter().filter(|block| block.samples > 0).collect();
    let samples: u64 = blocks.iter().map(|block| block.samples).sum();
    if blocks.len() < LEAST_BLOCKS || !(quantile > 0.0 && quantile < 1.0) {
        return None;
    }
    let (count, all) = (blocks.len() as f64, samples as f64);
    // Values are whole microseconds, so more than the quantile may be at most the percentile.
    let share = blocks.iter().map(|block| block.at_most).sum::<u64>() as f64 / all;
    let scatter: f64 =
        blocks.iter().map(|block| (block.at_most as f64 - share * block.samples as f64).powi(2)).sum();
    let between_blocks = count / (count - 1.0) * scatter / all.powi(2);
    let independent = quantile * (1.0 - quantile) / all;
    let design_effect = (between_blocks / independent).max(1.0);
    let worth = all / design_effect / (student(count - 1.0) / NORMAL).powi(2);
    let worth = worth.floor();
    let ranks = quantile_ranks(worth as u64, quantile, CONFIDENCE)?;
    Some((ranks.low as f64 / worth, ranks.high as f64 / worth))
}

/// The quantile of Student's distribution that belongs to [`CONFIDENCE`], by the first terms of its expansion at the
/// normal one: good to three parts in a thousand from four degrees of freedom on.
fn student(freedom: f64) -> f64 {
    let z = NORMAL;
    z + (z.powi(3) + z) / (4.0 * freedom)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom.powi(2))
        + (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / (384.0 * freedom.powi(3))
}

/// With fewer blocks nobody can tell how much they vary.
pub const LEAST_BLOCKS: usize = 5;

/// The quantile of the normal distribution that belongs to a two-sided confidence of 95 %.
const NORMAL: f64 = 1.959_963_985;

const _: () = assert!(CONFIDENCE == 0.95);

#[cfg(test)]
mod tests {
    use units::Random;

    use super::*;

    #[test]
    fn students_quantiles_are_those_of_the_tables() {
        for (freedom, expected) in [(4.0, 2.776), (9.0, 2.262), (14.0, 2.145), (59.0, 2.001)] {
            assert!((student(freedom) / expected - 1.0).abs() < 3e-3, "{freedom}");
        }
    }

    #[test]
    fn even_blocks_are_worth_nearly_all_of_their_samples() {
        let blocks = vec![Block { samples: 1_000, at_most: 500 }; 60];
        let (low, high) = quantile_shares(&blocks, 0.5).expect("60 blocks do");
        // 1.96 standard errors of 60,000 independent samples, a little more for Student.
        assert!((0.495..0.496).contains(&low) && (0.504..0.505).contains(&high), "{low} {high}");
        assert_eq!(quantile_shares(&blocks[..4], 0.5), None);
    }

    /// How often the interval of the median of `blocks` blocks covers zero, when each block is shifted by `shift` times
    /// a random number and each sample scatters around it.
    fn coverage(blocks: usize, shift: f64) -> f64 {
        const RUNS: u32 = 300;
        const SAMPLES: usize = 60;
        let mut random = Random::from_seed(11);
        // A sum of uniform numbers: symmetric, so that the true median of everything is zero.
        let mut noise = || (0..4).map(|_| random.unit() - 0.5).sum::<f64>();
        let mut covered = 0;
        for _ in 0..RUNS {
            let values: Vec<Vec<f64>> = (0..blocks)
                .map(|_| {
                    let moved = shift * noise();
                    (0..SAMPLES).map(|_| moved + noise()).collect()
                })
                .collect();
            let mut all: Vec<f64> = values.iter().flatten().copied().collect();
            all.sort_by(f64::total_cmp);
            let median = all[all.len() / 2 - 1];
            let counted: Vec<Block> = values
                .iter()
                .map(|values| Block {
                    samples: values.len() as u64,
                    at_most: values.iter().filter(|value| **value <= median).count() as u64,
                })
                .collect();
            let (low, high) = quantile_shares(&counted, 0.5).expect("enough blocks");
            let at = |share: f64| all[((share * all.len() as f64).ceil() as usize).max(1) - 1];
            covered += u32::from(at(low) <= 0.0 && 0.0 <= at(high));
        }
        f64::from(covered) / f64::from(RUNS)
    }

    #[test]
    fn the_true_median_is_covered_though_the_samples_of_a_block_are_alike() {
        // Three standard errors of 300 runs below what is claimed.
        for (blocks, shift) in [(10, 0.0), (10, 1.0), (20, 3.0)] {
            let covered = coverage(blocks, shift);
            assert!(covered > 0.91, "{blocks} blocks, shift {shift}: {covered}");
        }
    }
}
