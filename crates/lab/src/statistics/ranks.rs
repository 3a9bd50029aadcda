//! Exact distributions of the two Wilcoxon statistics under the hypothesis of no difference.

/// How many of `pairs` ordered differences (or averages) are cut off at either end, and the confidence of what is left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cut {
    /// The index of the lower end among the ascending values; the upper end is as far from the other side.
    pub(super) index: usize,
    /// The probability of covering the true shift.
    pub(super) confidence: f64,
}

/// The cut for the differences between every one of `first` values and every one of `second`: the exact distribution
/// of the Mann–Whitney statistic. `None` if so few values cannot reach `confidence`.
pub(super) fn rank_sum_cut(first: usize, second: usize, confidence: f64) -> Option<Cut> {
    let (first, second) = (first.min(second), first.max(second));
    // ways[k][u]: in how many ways k of the values seen so far, taken as the smaller sample, beat u of the others; as
    // probabilities at the end. Only the lower tail is needed.
    let most = first * second / 2;
    let mut ways = vec![vec![0.0_f64; most + 1]; first + 1];
    ways[0][0] = 1.0;
    for position in 0..first + second {
        for taken in (1..=first.min(position + 1)).rev() {
            // The value at `position` as the taken-th of its sample is above all of the others before it.
            let beaten = position + 1 - taken;
            if beaten > second {
                continue;
            }
            for above in (beaten..=most).rev() {
                let before = ways[taken - 1][above - beaten];
                ways[taken][above] += before;
            }
        }
    }
    cut(&ways[first], binomial(first + second, first), confidence)
}

/// The cut for the averages of all pairs of `values` differences, each with itself included: the exact distribution of
/// the signed-rank statistic. `None` if so few values cannot reach `confidence`.
pub(super) fn signed_rank_cut(values: usize, confidence: f64) -> Option<Cut> {
    let most = values * (values + 1) / 4;
    let mut ways = vec![0.0_f64; most + 1];
    ways[0] = 1.0;
    for rank in 1..=values.min(most) {
        for sum in (rank..=most).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    cut(&ways, 2.0_f64.powi(values as i32), confidence)
}

/// The deepest cut whose two tails together stay within what `confidence` leaves.
fn cut(ways: &[f64], all: f64, confidence: f64) -> Option<Cut> {
    let allowed = (1.0 - confidence) / 2.0 * (1.0 + 1e-9);
    let mut tail = 0.0;
    let mut deepest = None;
    for (index, ways) in ways.iter().enumerate() {
        tail += ways / all;
        if tail > allowed {
            break;
        }
        deepest = Some(Cut { index, confidence: 1.0 - 2.0 * tail });
    }
    deepest
}

fn binomial(of: usize, choose: usize) -> f64 {
    (0..choose).fold(1.0, |product, index| product * (of - index) as f64 / (index + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_sum_distribution_is_that_of_counting_all_arrangements() {
        // Every way in which 3 of 7 ranks fall to the first sample, and how often its values are the larger ones.
        let mut counts = [0_u32; 13];
        for arrangement in 0_u32..1 << 7 {
            if arrangement.count_ones() != 3 {
                continue;
            }
            let is_first = |rank: u32| arrangement >> rank & 1 == 1;
            let above = (0..7)
                .filter(|rank| is_first(*rank))
                .map(|rank| (0..rank).filter(|other| !is_first(*other)).count())
                .sum::<usize>();
            counts[above] += 1;
        }
        for confidence in [0.5, 0.8, 0.9, 0.94, 0.945] {
            let found = rank_sum_cut(3, 4, confidence);
            let mut expected = None;
            let mut tail = 0;
            for (index, count) in counts.iter().enumerate() {
                tail += count;
                if f64::from(tail) / 35.0 <= (1.0 - confidence) / 2.0 {
                    expected = Some((index, 1.0 - 2.0 * f64::from(tail) / 35.0));
                }
            }
            assert_eq!(found.map(|cut| cut.index), expected.map(|(index, _)| index));
            if let (Some(found), Some((_, confidence))) = (found, expected) {
                assert!((found.confidence - confidence).abs() < 1e-12);
            }
        }
        assert_eq!(rank_sum_cut(3, 4, 0.9), rank_sum_cut(4, 3, 0.9));
    }

    #[test]
    fn the_signed_rank_distribution_is_that_of_counting_all_signs() {
        let mut counts = [0_u32; 22];
        for signs in 0_u32..1 << 6 {
            let sum: u32 = (0..6).filter(|rank| signs >> rank & 1 == 1).map(|rank| rank + 1).sum();
            counts[sum as usize] += 1;
        }
        // 1, 1, 1, 2 of 64: tails of 1/64, 2/64, 3/64, 5/64.
        assert_eq!(counts[..4], [1, 1, 1, 2]);
        let index = |confidence| signed_rank_cut(6, confidence).map(|cut| cut.index);
        assert_eq!(index(1.0 - 2.0 / 64.0), Some(0));
        assert_eq!(index(1.0 - 1.9 / 64.0), None);
        assert_eq!(index(1.0 - 6.0 / 64.0), Some(2));
        assert_eq!(index(1.0 - 9.9 / 64.0), Some(2));
        assert_eq!(index(1.0 - 10.0 / 64.0), Some(3));
    }

    #[test]
    fn the_least_numbers_of_trials_for_95_percent_are_those_of_the_textbooks() {
        assert!(rank_sum_cut(3, 3, 0.95).is_none() && rank_sum_cut(3, 3, 0.9).is_some());
        assert!(rank_sum_cut(4, 4, 0.95).is_some() && rank_sum_cut(3, 5, 0.95).is_some());
        assert!(signed_rank_cut(5, 0.95).is_none() && signed_rank_cut(6, 0.95).is_some());
        // Critical values of the two-sided tests at 5 %: 23 for 10 and 10, 8 for 10 pairs.
        assert_eq!(rank_sum_cut(10, 10, 0.95).map(|cut| cut.index), Some(23));
        assert_eq!(signed_rank_cut(10, 0.95).map(|cut| cut.index), Some(8));
    }
}
