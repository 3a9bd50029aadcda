//! Randomness that can be repeated: everything follows from a seed that a person can write down.
//!
//! [`Random`] is xoshiro256++ (Blackman and Vigna) whose state is filled by SplitMix64, as its authors advise. It is
//! fast and well distributed, and no secret may depend on it. [`mix`] is for decisions that must come out the same
//! when they are taken again elsewhere, such as the destination of an event that is delivered twice.

/// A seeded generator of random numbers. Two generators with the same seed give the same numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of `seed`. Every seed is a good one, zero included.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut counter = seed;
        // SplitMix64 is a bijection of a counter that never repeats within four steps, so the state is never all
        // zeros, the one state that xoshiro must not have.
        let state = std::array::from_fn(|_| {
            counter = counter.wrapping_add(GOLDEN);
            scramble(counter)
        });
        Self { state }
    }

    /// A generator for concern `number` of the same seed, independent of all others: draws for one concern do not
    /// shift those for another.
    #[must_use]
    pub fn for_concern(seed: u64, number: u64) -> Self {
        Self::from_seed(mix(seed, number, 0))
    }

    /// The next 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (third, fourth) = (c ^ a, d ^ b);
        self.state = [a ^ fourth, b ^ third, third ^ (b << 17), fourth.rotate_left(45)];
        result
    }

    /// A whole number from 0 up to but not including `bound`, each equally likely (Lemire's method: multiply, and
    /// draw again in the few cases that would favour some numbers). 0 where `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            let low = product as u64;
            // `bound.wrapping_neg() % bound` is 2^64 modulo bound: as many low values belong to numbers that would
            // otherwise come up once more often. The division is needed only when `low` is small enough to matter.
            if low >= bound || low >= bound.wrapping_neg() % bound.max(1) {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number from 0 up to but not including 1, with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with the given probability: never for 0 and below, always for 1 and above.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// An exponentially distributed number with the given mean: the time between arrivals that do not know of each
    /// other (a Poisson process).
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - unit is in (0, 1], where the logarithm is finite.
        -mean * (1.0 - self.unit()).ln()
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// 64 well-mixed bits that depend on nothing but the three arguments, in whatever process and order it is called.
#[must_use]
pub fn mix(seed: u64, a: u64, b: u64) -> u64 {
    // Two rounds of SplitMix64's finaliser; the odd multiples keep (a, b) and (b, a) apart.
    let inner = scramble(seed.wrapping_add(GOLDEN).wrapping_add(a.wrapping_mul(0xd6e8_feb8_6659_fd93)));
    scramble(inner ^ b.wrapping_mul(GOLDEN).rotate_left(32))
}

/// Maps well-mixed bits, such as those of [`mix`], to a number from 0 up to but not including `count`; 0 where `count`
/// is 0. Pure, and without a division; no number is favoured by more than `count` in 2^64.
#[must_use]
pub const fn pick(bits: u64, count: u32) -> u32 {
    ((bits as u128 * count as u128) >> 64) as u32
}

/// SplitMix64's finaliser: a bijection of 64 bits in which every input bit changes about half of the output bits.
const fn scramble(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// 2^64 divided by the golden ratio, made odd: the step of SplitMix64's counter.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_generator_is_xoshiro256_plus_plus() {
        // The reference implementation's first outputs from state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        let expected = [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386];
        assert_eq!(expected.map(|_| random.next_u64()), expected);
    }

    #[test]
    fn the_seed_is_spread_by_splitmix64() {
        // The reference implementation's first outputs from seed 1234567.
        let state = Random::from_seed(1_234_567).state;
        assert_eq!(state[..2], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn small_bounds_come_out_evenly() {
        let mut random = Random::from_seed(7);
        let mut counts = [0_u32; 6];
        for _ in 0..60_000 {
            counts[random.below(6) as usize] += 1;
        }
        // Five standard deviations of a binomial count around 10 000.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 460), "{counts:?}");
    }

    #[test]
    fn exponential_numbers_have_the_mean_and_spread_of_their_kind() {
        let mut random = Random::from_seed(11);
        let draws: Vec<f64> = (0..100_000).map(|_| random.exponential(3.0)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!((mean - 3.0).abs() < 0.05, "mean {mean}");
        assert!((variance - 9.0).abs() < 0.4, "variance {variance}");
    }

    #[test]
    fn certain_and_impossible_chances_are_exact() {
        let mut random = Random::from_seed(3);
        assert!((0..1000).all(|_| random.chance(1.0)));
        assert!((0..1000).all(|_| !random.chance(0.0)));
    }

    #[test]
    fn consecutive_numbers_are_routed_evenly() {
        let mut counts = [0_u32; 32];
        for sequence in 0..320_000 {
            counts[pick(mix(42, 3, sequence), 32) as usize] += 1;
        }
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
    }

    #[test]
    fn the_generator_fills_any_length() {
        for length in 0..40 {
            let mut bytes = vec![0; length];
            Random::from_seed(5).fill(&mut bytes);
            assert!(length < 8 || bytes.iter().any(|byte| *byte != 0));
        }
    }

    proptest! {
        #[test]
        fn equal_seeds_give_equal_numbers(seed: u64) {
            let (mut left, mut right) = (Random::from_seed(seed), Random::from_seed(seed));
            prop_assert!((0..100).all(|_| left.next_u64() == right.next_u64()));
        }

        #[test]
        fn bounded_numbers_stay_below_their_bound(seed: u64, bound in 1_u64..) {
            prop_assert!(Random::from_seed(seed).below(bound) < bound);
        }

        #[test]
        fn units_are_in_the_half_open_interval(seed: u64) {
            let unit = Random::from_seed(seed).unit();
            prop_assert!((0.0..1.0).contains(&unit));
        }

        #[test]
        fn mixing_depends_on_every_argument_and_on_their_order(seed: u64, a: u64, b: u64) {
            let mixed = mix(seed, a, b);
            prop_assert_eq!(mixed, mix(seed, a, b));
            prop_assert_ne!(mixed, mix(seed ^ 1, a, b));
            prop_assert_ne!(mixed, mix(seed, a ^ 1, b));
            prop_assert_ne!(mixed, mix(seed, a, b ^ 1));
            prop_assert!(a == b || mixed != mix(seed, b, a));
        }

        #[test]
        fn picks_stay_below_their_count(bits: u64, count in 1_u32..) {
            prop_assert!(pick(bits, count) < count);
        }
    }
}
