//! The names of a Job's Pods, and of its Workload and PodGroup.
//!
//! As upstream's `podGenerateNameWithIndex`; those of a gang as its Job controller makes them. lakh
//! chooses the random-looking part of a Pod's name itself, so that a create whose answer was lost can be
//! repeated without making a second Pod.

use std::fmt::{Display, Write as _};

use compact_str::{CompactString, format_compact};

/// The alphabet that the API server uses for generated names: no vowels, no look-alikes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// How many suffixes of five letters there are.
const SUFFIXES: u32 = 27 * 27 * 27 * 27 * 27;

/// A step that shares no factor with 27^5, so that counting by it meets every suffix once.
const STEP: u64 = 8_675_309;

/// Pod names are cut so that the part before the suffix has at most this many characters.
const PREFIX_MAX: usize = 58;

/// The longest name of an API object.
const NAME_MAX: usize = 253;

/// The last five letters of a Pod's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodSuffix([u8; 5]);

impl PodSuffix {
    /// The `count`-th suffix of a series; no two of a series are alike until all have been used.
    pub fn nth(seed: u64, count: u64) -> Self {
        let at = u128::from(seed) + u128::from(count) * u128::from(STEP);
        let mut rest = (at % u128::from(SUFFIXES)) as u32;
        let mut letters = [0; 5];
        for letter in &mut letters {
            *letter = ALPHABET[(rest % 27) as usize];
            rest /= 27;
        }
        Self(letters)
    }

    /// Takes the suffix off a Pod's name, if the name ends like a generated one.
    pub fn of_name(name: &str) -> Option<Self> {
        let letters: [u8; 5] = name.as_bytes().last_chunk().copied()?;
        letters
            .iter()
            .all(|letter| ALPHABET.contains(letter))
            .then_some(Self(letters))
    }

    /// The letters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the alphabet is ASCII")
    }
}

/// What stands before the suffix in the name of a Pod without completion index.
pub fn generate_name(job: &str) -> CompactString {
    let mut prefix = CompactString::new(job);
    if job.len() < NAME_MAX {
        prefix.push('-');
    }
    prefix
}

/// What stands before the suffix in the name of the Pod of a completion index.
pub fn generate_name_indexed(job: &str, index: u32) -> CompactString {
    let mut tail = CompactString::default();
    write!(tail, "-{index}-").expect("writing to a string");
    let mut prefix = CompactString::new(&job[..job.len().min(PREFIX_MAX - tail.len())]);
    prefix.push_str(&tail);
    prefix
}

/// A Pod's whole name from its prefix; the API server cuts long prefixes the same way.
pub fn pod_name(generate_name: &str, suffix: PodSuffix) -> CompactString {
    let mut name = CompactString::new(&generate_name[..generate_name.len().min(PREFIX_MAX)]);
    name.push_str(suffix.as_str());
    name
}

/// The name of a Job's Workload: the same for the Job whenever it is asked for, and another one for
/// a Job that is made again under the same name.
pub fn workload_name(job: &str, uid: impl Display) -> CompactString {
    // The type stands before the value in the text that upstream hashes.
    let hash = letters(fnv1a(format!("(types.UID){uid}").bytes()));
    let room = NAME_MAX - hash.len() - 1;
    format_compact!("{}-{hash}", cut(job, room))
}

/// The name of the PodGroup of one of a Workload's templates. Where both names are too long, each
/// keeps half of the room.
pub fn pod_group_name(workload: &str, template: &str) -> CompactString {
    let hash = letters(fnv1a(workload.bytes().chain(template.bytes())));
    let room = NAME_MAX - hash.len() - 2;
    let half = room / 2;
    let template_room = half.max(room.saturating_sub(workload.len()));
    let template = cut(template, template_room);
    let workload = cut(workload, room - template.len());
    format_compact!("{workload}-{template}-{hash}")
}

/// FNV-1a of 32 bits.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// The decimal digits of a number, each as a letter that cannot make up a word.
fn letters(number: u32) -> String {
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    number.to_string().bytes().map(letter).collect()
}

fn cut(name: &str, room: usize) -> &str {
    &name[..name.len().min(room)]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn suffixes_of_a_series_do_not_repeat() {
        let series: HashSet<PodSuffix> =
            (0..200_000).map(|count| PodSuffix::nth(7, count)).collect();
        assert_eq!(series.len(), 200_000);
        assert_ne!(PodSuffix::nth(1, 0), PodSuffix::nth(2, 0));
    }

    #[test]
    fn a_suffix_is_found_in_its_name() {
        let suffix = PodSuffix::nth(42, 3);
        assert_eq!(
            PodSuffix::of_name(&pod_name("train-7-", suffix)),
            Some(suffix)
        );
        assert_eq!(PodSuffix::of_name("train"), None);
        assert_eq!(PodSuffix::of_name("ab"), None);
    }

    #[test]
    fn long_job_names_are_cut_before_the_index() {
        let job = "a".repeat(69);
        let prefix = generate_name_indexed(&job, 1);
        assert_eq!(prefix, format!("{}-1-", "a".repeat(55)));
        assert_eq!(prefix.len(), 58);
        assert_eq!(generate_name_indexed("hi", 12), "hi-12-");
        assert_eq!(generate_name("pi"), "pi-");
        assert_eq!(generate_name(&"a".repeat(253)).len(), 253);
    }

    #[test]
    fn workload_and_pod_group_are_named_as_upstream_names_them() {
        let workload = workload_name("test-job", "test-job-uid");
        assert_eq!(workload, "test-job-6ff4fbf9db");
        assert_eq!(
            pod_group_name(&workload, "test-job-pgt-0"),
            "test-job-6ff4fbf9db-test-job-pgt-0-5cdc87fdc8"
        );
        // As the built-in controller of 1.36 named them on a cluster.
        let workload = workload_name("bravo", "c7b91994-46eb-43d6-8ddf-2b1d5ab545a5");
        assert_eq!(workload, "bravo-7bfb75df66");
        assert_eq!(
            pod_group_name(&workload, "bravo-pgt-0"),
            "bravo-7bfb75df66-bravo-pgt-0-76778d97fb"
        );
    }

    #[test]
    fn long_workload_names_are_cut() {
        let long = "a".repeat(300);
        assert_eq!(workload_name(&long, "uid").len(), 253);
        let ends = |name: &str, start: &str| {
            let rest = name.strip_prefix(start).expect("it begins so");
            assert_eq!(name.len(), 253);
            assert!(rest.starts_with('-') && rest.len() <= 11, "{rest}");
        };
        let room = |workload: &str, template: &str| {
            let hash = letters(fnv1a(workload.bytes().chain(template.bytes())));
            251 - hash.len()
        };
        let (a, b) = (&long[..253], "b".repeat(200));
        let both = room(a, &b);
        let name = pod_group_name(a, &b);
        let (first, second) = ("a".repeat(both - both / 2), "b".repeat(both / 2));
        ends(&name, &format!("{first}-{second}"));
        let only_workload = pod_group_name(a, "t");
        ends(
            &only_workload,
            &format!("{}-t", "a".repeat(room(a, "t") - 1)),
        );
        let only_template = pod_group_name("w", &b.repeat(2));
        let left = room("w", &b.repeat(2)) - 1;
        ends(&only_template, &format!("w-{}", "b".repeat(left)));
    }
}
