//! A small seeded generator for uids and name suffixes.
//!
//! Responsible for: repeatable identity. Must not: be used where secrecy matters, or read an
//! operating-system random source.

/// The letters Kubernetes uses for generated names: no vowels, so that no words appear.
const SUFFIX_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A splitmix64 sequence; the same seed gives the same names and uids.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator that starts at `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// True in about `share` of the calls.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        // 53 bits are what a float holds exactly.
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        unit < share
    }

    /// A version-4 UUID in its usual text form.
    pub(crate) fn uid(&mut self) -> String {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let bits = (u128::from(self.next()) << 64) | u128::from(self.next());
        let bits = bits & !(0xF << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let mut text = String::with_capacity(36);
        for digit in 0..32 {
            if matches!(digit, 8 | 12 | 16 | 20) {
                text.push('-');
            }
            text.push(char::from(HEX[(bits >> (124 - 4 * digit)) as usize & 0xF]));
        }
        text
    }

    /// Five characters to append to a `generateName`.
    pub(crate) fn name_suffix(&mut self) -> String {
        let mut bits = self.next();
        let mut text = String::with_capacity(5);
        for _ in 0..5 {
            text.push(char::from(SUFFIX_LETTERS[(bits % 27) as usize]));
            bits /= 27;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_are_version_four_and_repeatable() {
        let uid = Rng::new(7).uid();
        assert_eq!(uid, Rng::new(7).uid());
        assert_eq!(uid.len(), 36);
        assert_eq!(uid.as_bytes()[14], b'4');
        assert!(matches!(uid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }
}
