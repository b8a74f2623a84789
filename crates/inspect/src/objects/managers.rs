//! Detects typos in `spec.managedBy`.

use strsim::levenshtein;

use lakh_model::{DEFAULT_MANAGER, OWN_MANAGER};

/// Common names: the built-in controller's, lakh's, and Kueue's for Jobs that run on another cluster.
const KNOWN: [&str; 3] = [DEFAULT_MANAGER, OWN_MANAGER, "kueue.x-k8s.io/multikueue"];

/// The edit distance of a likely typo. Two, for letters that were swapped.
const TYPO: usize = 2;

/// Returns the common name, or `own`, that this one is likely a typo of.
pub(crate) fn meant_manager<'a>(name: &str, own: &'a str) -> Option<&'a str> {
    let mut known = KNOWN.into_iter().chain([own]);
    known.find(|known| *known != name && levenshtein(known, name) <= TYPO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_differ_by_letters() {
        for (one, other, letters) in [
            ("", "", 0),
            ("lakh", "lakh", 0),
            ("lakh", "lahk", 2),
            ("lakh", "lakhs", 1),
            ("lakh", "akh", 1),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(levenshtein(one, other), letters, "{one} {other}");
            assert_eq!(levenshtein(other, one), letters, "{other} {one}");
        }
    }
}
