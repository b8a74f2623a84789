//! Quantities such as `500m` and `1Gi`: their value, and the one text that all writings of it have.
//!
//! Responsible for: reading and writing them. Must not: know which resources there are.

use crate::model::{Suffix, WrittenQuantity};

/// What an answer says about a text that is no quantity.
pub(crate) const NOT_A_QUANTITY: &str = "quantities must match the regular expression \
                                         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Nanos in one: no quantity is finer.
const NANO: i128 = 1_000_000_000;

/// An amount, exact to a billionth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    /// How it was written.
    suffix: Suffix,
}

impl Quantity {
    /// Reads a quantity; finer than a billionth is rounded up.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let written = WrittenQuantity::read(text)?;
        let factor = factor(written.suffix)?;
        let scale = 10_i128.checked_pow(written.fraction)?;
        // `factor` is in nanos, so that it is whole for every suffix.
        let nanos = written.digits.abs().checked_mul(factor)?;
        let nanos = nanos / scale + i128::from(nanos % scale != 0);
        Some(Self {
            nanos: nanos * written.digits.signum(),
            suffix: written.suffix,
        })
    }

    /// The amount, in billionths.
    pub(crate) const fn nanos(self) -> i128 {
        self.nanos
    }

    /// The one text that all writings of an amount in this notation have.
    pub(crate) fn canonical(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        if matches!(self.suffix, Suffix::Binary(_)) && self.nanos.abs() >= 1024 * NANO {
            return self.binary();
        }
        let mut scale = -9;
        let mut number = self.nanos;
        while number % 1000 == 0 && scale < 18 {
            number /= 1000;
            scale += 3;
        }
        let suffix = Suffix::decimal(scale).unwrap_or_default();
        match self.suffix {
            Suffix::Exponent(_) if scale != 0 => format!("{number}e{scale}"),
            _ => format!("{number}{suffix}"),
        }
    }

    fn binary(self) -> String {
        // Whole numbers only: a rest is rounded up.
        let mut number = self.nanos / NANO + i128::from(self.nanos % NANO > 0);
        let mut suffix = "";
        for next in Suffix::binary() {
            if number % 1024 != 0 {
                break;
            }
            number /= 1024;
            suffix = next;
        }
        format!("{number}{suffix}")
    }
}

/// What a suffix means, in nanos.
fn factor(suffix: Suffix) -> Option<i128> {
    match suffix {
        Suffix::Binary(power) => Some((1 << power) * NANO),
        Suffix::Decimal(power) | Suffix::Exponent(power) => {
            let power = u32::try_from(power.checked_add(9)?).ok()?;
            10_i128.checked_pow(power)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_text_for_all_writings() {
        for (text, expected) in [
            ("1", Some("1")),
            ("1000m", Some("1")),
            ("0.5", Some("500m")),
            (".5", Some("500m")),
            ("-1", Some("-1")),
            ("0Gi", Some("0")),
            ("1024Mi", Some("1Gi")),
            ("1025Mi", Some("1025Mi")),
            ("512", Some("512")),
            ("0.5Ki", Some("512")),
            ("1.5Gi", Some("1536Mi")),
            ("1500000k", Some("1500M")),
            ("1e3", Some("1e3")),
            ("12e4", Some("120e3")),
            ("0.0000000001", Some("1n")),
            ("abc", None),
            ("", None),
            ("1.2.3", None),
            ("1x", None),
        ] {
            let found = Quantity::parse(text).map(Quantity::canonical);
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
