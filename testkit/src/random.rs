//! Deterministic pseudo-random numbers for tests: SplitMix64 by Sebastiano Vigna.

/// A generator; the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// A number from 0 to 1.
    pub fn fraction(&mut self) -> f64 {
        let high = u32::try_from(self.next_u64() >> 32).unwrap_or(u32::MAX);
        f64::from(high) / f64::from(u32::MAX)
    }

    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(items.len()).ok().filter(|count| *count > 0)?;
        items.get(usize::try_from(self.below(count)).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_splitmix64() {
        // Computed with the reference implementation in C.
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(
            [random.next_u64(), random.next_u64()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
        assert_eq!(random.choose::<u8>(&[]), None);
    }
}
