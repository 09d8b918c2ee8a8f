//! Reproducible random numbers: SplitMix64. Each part of a test has its own generator, so that the timing of one part
//! does not change the numbers of another.

#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator for the part of this name.
    pub(crate) fn of(seed: u64, part: &str) -> Self {
        // FNV-1a.
        let hash = part.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut random = Self(seed ^ hash);
        random.next();
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(0)
    }

    /// `true` with a probability of `permille` per thousand.
    pub(crate) fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        if choices.is_empty() { None } else { choices.get(self.index(choices.len())).copied() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_each_part_its_own() {
        let first = |mut random: Random| [random.next(), random.next(), random.next()];
        assert_eq!(first(Random::of(7, "clients")), first(Random::of(7, "clients")));
        assert_ne!(first(Random::of(7, "clients")), first(Random::of(7, "kills")));
        assert_ne!(first(Random::of(7, "clients")), first(Random::of(8, "clients")));
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut random = Random::new(1);
        let numbers: Vec<u64> = (0..1000).map(|_| random.between(3, 5)).collect();
        assert!(numbers.iter().all(|number| (3..=5).contains(number)));
        assert!([3, 4, 5].iter().all(|number| numbers.contains(number)));
        assert_eq!(random.pick::<u8>(&[]), None);
        assert_eq!((random.chance(0), random.chance(1000)), (false, true));
    }
}
