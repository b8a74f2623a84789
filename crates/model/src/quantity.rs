//! Parses quantities such as `500m` and `1Gi` without loss.
//!
//! Must not: round; the caller knows the precision that it needs.

/// The suffixes for powers of ten.
fn decimal_powers() -> impl Iterator<Item = (&'static str, i32)> {
    let suffixes = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    suffixes.into_iter().zip((-9..).step_by(3))
}

/// The suffixes for powers of two.
fn binary_powers() -> impl Iterator<Item = (&'static str, u32)> {
    let suffixes = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    suffixes.into_iter().zip((10..).step_by(10))
}

/// The multiplier that a quantity's suffix denotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suffix {
    /// A power of ten, as in `1k`.
    Decimal(i32),
    /// A power of two, as in `1Ki`.
    Binary(u32),
    /// A power of ten, as in `1e3`.
    Exponent(i32),
}

/// A quantity as it is written: digits, position of the decimal point, and suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenQuantity {
    /// All digits as one number, with the sign.
    pub digits: i128,
    /// The number of digits behind the decimal point.
    pub fraction: u32,
    /// The multiplier.
    pub suffix: Suffix,
}

impl WrittenQuantity {
    /// Parses a quantity.
    pub fn read(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // A second point, or no digit at all, fails here too.
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        Some(Self {
            digits: if negative { -digits } else { digits },
            fraction: u32::try_from(fraction.len()).ok()?,
            suffix: Suffix::read(suffix)?,
        })
    }
}

impl Suffix {
    fn read(text: &str) -> Option<Self> {
        if let Some((_, power)) = binary_powers().find(|(have, _)| *have == text) {
            return Some(Self::Binary(power));
        }
        if let Some((_, power)) = decimal_powers().find(|(have, _)| *have == text) {
            return Some(Self::Decimal(power));
        }
        let power = text.strip_prefix(['e', 'E'])?.parse().ok()?;
        Some(Self::Exponent(power))
    }

    /// The decimal suffix of a power of ten, if it has one.
    pub fn decimal(power: i32) -> Option<&'static str> {
        let found = decimal_powers().find(|(_, have)| *have == power);
        found.map(|(suffix, _)| suffix)
    }

    /// The binary suffixes, ascending; each is 1024 times the one before.
    pub fn binary() -> impl Iterator<Item = &'static str> {
        binary_powers().map(|(suffix, _)| suffix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantitys_text_is_kept() {
        let read = |text: &str| {
            let read = WrittenQuantity::read(text)?;
            Some((read.digits, read.fraction, read.suffix))
        };
        assert_eq!(read("-1.50Gi"), Some((-150, 2, Suffix::Binary(30))));
        assert_eq!(read("+.5m"), Some((5, 1, Suffix::Decimal(-3))));
        assert_eq!(read("5.E"), Some((5, 0, Suffix::Decimal(18))));
        assert_eq!(read("12e-4"), Some((12, 0, Suffix::Exponent(-4))));
        assert_eq!(read("1E+2"), Some((1, 0, Suffix::Exponent(2))));
        for text in [
            "", ".", "-", "+-5", "1.2.3", "1x", "1+5", "1.-5", "1e", "e3",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
