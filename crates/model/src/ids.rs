//! Models identities: UIDs, Job keys, and the slot of a Pod's record.

use std::fmt;

use compact_str::CompactString;

/// The UID of an API object. The API server generates a UUID: 16 bytes, not 36.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid {
    // Two halves: one u128 would align every record to 16 bytes.
    high: u64,
    low: u64,
}

impl Uid {
    /// Parses the canonical text form; `None` for anything that would not print back the same.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 36 {
            return None;
        }
        let mut value: u128 = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if *byte != b'-' {
                    return None;
                }
                continue;
            }
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return None,
            };
            value = value << 4 | u128::from(digit);
        }
        Some(Self::from_u128(value))
    }

    /// A UID from its number.
    pub const fn from_u128(value: u128) -> Self {
        Self {
            high: (value >> 64) as u64,
            low: value as u64,
        }
    }

    /// The number, for hashing.
    pub const fn as_u128(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.as_u128();
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            v >> 96,
            v >> 80 & 0xffff,
            v >> 64 & 0xffff,
            v >> 48 & 0xffff,
            v & 0xffff_ffff_ffff
        )
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `namespace/name` of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    /// The Job's namespace.
    pub namespace: CompactString,
    /// The Job's name.
    pub name: CompactString,
}

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Identifies the Job that a reference means. A UID alone is not enough: a client may write any UID into an
/// ownerReference. The namespace is that of the referring object, so a reference never means a Job of another
/// namespace. A reference with a wrong name means a Job that does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// Its UID, compared first because it nearly always differs.
    pub uid: Uid,
    /// Its namespace and name.
    pub key: JobKey,
}

/// The position of a Pod's record in its Job's table: dense, small, reused after the Pod is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// The position in a vector that is indexed by slot.
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_prints_back_as_it_was_read() {
        let text = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
        assert_eq!(
            Uid::parse(text).map(|uid| uid.to_string()).as_deref(),
            Some(text)
        );
    }

    #[test]
    fn only_the_canonical_form_is_a_uid() {
        for bad in [
            "",
            "a",
            "0A1B2C3D-4E5F-6071-8293-A4B5C6D7E8F9",
            "0a1b2c3d04e5f-6071-8293-a4b5c6d7e8f9",
            "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f",
        ] {
            assert_eq!(Uid::parse(bad), None, "{bad}");
        }
    }
}
