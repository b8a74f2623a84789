//! Generates seeded random numbers, so that names, UIDs and simulated failures repeat from run to run.
//!
//! Responsible for: numbers that depend only on a seed. Must not: be used for secrets, or read the operating system's
//! random source.

/// SplitMix64 generator: one word of state, and every seed is good.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Creates a generator that starts at `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns true in about `share` of the calls.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        // A float holds 53 bits exactly.
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < share
    }
}

/// Mixes the bits of a word; equal words give equal results.
pub(crate) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Hashes a text to a word. Used for container IDs, which only have to look unique.
pub(crate) fn hash_text(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        mix(hash ^ u64::from(byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_hit_about_as_often_as_asked_and_repeats_by_seed() {
        let hits = |seed| {
            let mut rng = Rng::new(seed);
            (0..10_000).filter(|_| rng.chance(0.25)).count()
        };
        assert!((2_300..2_700).contains(&hits(7)), "{}", hits(7));
        assert_eq!(hits(7), hits(7));
        assert_ne!(hits(7), hits(8));
        assert!(!Rng::new(1).chance(0.0));
        assert!(Rng::new(1).chance(1.0));
    }
}
