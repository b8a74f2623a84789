//! Quantities such as `500m` and `1Gi`: their value, and the one text that all writings of it have.
//!
//! Responsible for: reading and writing them. Must not: know which resources there are.

/// What an answer says about a text that is no quantity.
pub(crate) const NOT_A_QUANTITY: &str = "quantities must match the regular expression \
                                         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// Nanos in one: no quantity is finer.
const NANO: i128 = 1_000_000_000;

const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];

const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// How a quantity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Notation {
    /// `1k`.
    Decimal,
    /// `1Ki`.
    Binary,
    /// `1e3`.
    Exponent,
}

/// An amount, exact to a billionth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quantity {
    nanos: i128,
    notation: Notation,
}

impl Quantity {
    /// Reads a quantity; finer than a billionth is rounded up.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return None;
        }
        let (notation, factor) = factor(suffix)?;
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let scale = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        // `factor` is in nanos, so that it is whole for every suffix.
        let nanos = digits.checked_mul(factor)?;
        let nanos = nanos / scale + i128::from(nanos % scale != 0);
        Some(Self {
            nanos: if negative { -nanos } else { nanos },
            notation,
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
        if self.notation == Notation::Binary && self.nanos.abs() >= 1024 * NANO {
            return self.binary();
        }
        let mut scale = -9;
        let mut number = self.nanos;
        while number % 1000 == 0 && scale < 18 {
            number /= 1000;
            scale += 3;
        }
        let (suffix, _) = DECIMAL
            .into_iter()
            .find(|(_, have)| *have == scale)
            .unwrap_or(("", 0));
        match self.notation {
            Notation::Exponent if scale != 0 => format!("{number}e{scale}"),
            Notation::Decimal | Notation::Binary | Notation::Exponent => {
                format!("{number}{suffix}")
            }
        }
    }

    fn binary(self) -> String {
        // Whole numbers only: a rest is rounded up.
        let mut number = self.nanos / NANO + i128::from(self.nanos % NANO > 0);
        let mut suffix = "";
        for next in BINARY {
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
fn factor(suffix: &str) -> Option<(Notation, i128)> {
    if let Some(power) = BINARY.iter().position(|have| *have == suffix) {
        let power = u32::try_from(power).ok()? + 1;
        return Some((Notation::Binary, 1024_i128.pow(power) * NANO));
    }
    let decimal = DECIMAL.iter().find(|(have, _)| *have == suffix);
    let (notation, scale) = match decimal {
        Some((_, scale)) => (Notation::Decimal, *scale),
        None => (
            Notation::Exponent,
            suffix.strip_prefix(['e', 'E'])?.parse().ok()?,
        ),
    };
    let power = u32::try_from(scale + 9).ok()?;
    Some((notation, 10_i128.checked_pow(power)?))
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
