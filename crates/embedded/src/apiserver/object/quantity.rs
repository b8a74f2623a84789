//! Parses quantities such as `500m` and `1Gi`, and formats them canonically.
//!
//! Responsible for: parsing and formatting. Must not: know resource names.

use serde_json::Value;

use crate::model::{Suffix, WrittenQuantity};

/// The error text for a string that is not a quantity.
pub(crate) const NOT_A_QUANTITY: &str = "quantities must match the regular expression \
                                         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Nanos in one unit; no quantity is finer.
const NANO: i128 = 1_000_000_000;

/// The precision of stored resource lists, in nanos.
const MILLI: i128 = NANO / 1000;

/// The largest amount, in nanos; larger quantities are read as this.
const MAX: i128 = i64::MAX as i128 * NANO;

/// An amount with a precision of one nano.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    /// The suffix that the quantity was written with.
    suffix: Suffix,
}

impl Quantity {
    /// Parses a quantity and rounds it up to nanos.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let written = WrittenQuantity::read(text)?;
        let factor = factor(written.suffix)?;
        let scale = 10_i128.checked_pow(written.fraction)?;
        // `factor` is in nanos and therefore an integer for every suffix.
        let nanos = written.digits.abs().checked_mul(factor)?;
        let nanos = nanos / scale + i128::from(nanos % scale != 0);
        Some(Self {
            nanos: nanos.min(MAX) * written.digits.signum(),
            suffix: written.suffix,
        })
    }

    /// Reads a quantity from JSON, where it may also be a number.
    pub(crate) fn of_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    /// A quantity of `nanos` nanos.
    pub(crate) const fn of_nanos(nanos: i128) -> Self {
        Self {
            nanos,
            suffix: Suffix::Decimal(0),
        }
    }

    /// Replaces a quantity by its canonical string.
    pub(crate) fn normalize(value: &mut Value) {
        if let Some(quantity) = Self::of_json(value) {
            *value = quantity.canonical().into();
        }
    }

    /// Replaces a quantity by its form in stored resource lists: the canonical string, rounded up to milli units.
    pub(crate) fn store(value: &mut Value) {
        if let Some(quantity) = Self::of_json(value) {
            let nanos = quantity.nanos;
            let milli = nanos / MILLI + i128::from(nanos % MILLI > 0);
            let rounded = Self {
                nanos: milli * MILLI,
                ..quantity
            };
            *value = rounded.canonical().into();
        }
    }

    /// Returns true if the amount is a whole number.
    pub(crate) const fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    /// The amount in nanos.
    pub(crate) const fn nanos(self) -> i128 {
        self.nanos
    }

    /// The canonical string of the amount in this notation.
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
        // Binary suffixes have no fractions: the amount is rounded up.
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

/// The factor of a suffix, in nanos.
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
