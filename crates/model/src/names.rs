//! Generates the names of a Job's Pods, Workload and PodGroup.
//!
//! Pod names follow upstream's `podGenerateNameWithIndex`; names of gang objects follow its Job controller. The
//! random-looking part of a Pod's name is derived from the Job's UID, the Pod's index, the Job's run and a count. So
//! every controller gives the same Pod the same name, and the API server refuses to create it twice.

use std::fmt::{Display, Write as _};

use compact_str::{CompactString, format_compact};

use super::{Time, Uid};

/// The alphabet that the API server uses for generated names: no vowels, no look-alikes.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Marks bytes in [`DIGITS`] that are not in the alphabet.
const NO_DIGIT: u8 = u8::MAX;

/// The position of each byte in the alphabet. A table, because each Pod's name is parsed once.
const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut at = 0;
    while at < ALPHABET.len() {
        digits[ALPHABET[at] as usize] = at as u8;
        at += 1;
    }
    digits
};

/// The number of suffixes of five letters.
pub const SUFFIXES: u32 = 27 * 27 * 27 * 27 * 27;

/// A step that is coprime to 27^5: counting by it visits every suffix once, and consecutive suffixes look different.
const STEP: u64 = 8_675_309;

/// The inverse of [`STEP`]: their product is 1 modulo 27^5.
const STEP_BACK: u64 = 8_101_670;

/// The part of a Pod's name before the suffix is cut to this many characters.
const PREFIX_MAX: usize = 58;

/// The maximum length of an object's name.
const NAME_MAX: usize = 253;

/// The last five letters of a Pod's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodSuffix([u8; 5]);

impl PodSuffix {
    /// The `count`-th suffix of a series. A series repeats only after all suffixes have been used.
    pub fn nth(series: Series, count: u32) -> Self {
        let step = u64::from(count) * STEP % u64::from(SUFFIXES);
        let mut rest = (series.0 + step) % u64::from(SUFFIXES);
        let mut letters = [0; 5];
        for letter in &mut letters {
            *letter = ALPHABET[(rest % 27) as usize];
            rest /= 27;
        }
        Self(letters)
    }

    /// The suffix's position in a series: below [`SUFFIXES`].
    pub fn count(self, series: Series) -> u32 {
        let number = self.0.iter().rev().fold(0, |number, letter| {
            number * 27 + u64::from(DIGITS[usize::from(*letter)])
        });
        let steps = number + u64::from(SUFFIXES) - series.0;
        (steps % u64::from(SUFFIXES) * STEP_BACK % u64::from(SUFFIXES)) as u32
    }

    /// Extracts the suffix of a Pod's name, if the name ends like a generated one.
    pub fn of_name(name: &str) -> Option<Self> {
        let letters: [u8; 5] = name.as_bytes().last_chunk().copied()?;
        letters
            .iter()
            .all(|letter| DIGITS[usize::from(*letter)] != NO_DIGIT)
            .then_some(Self(letters))
    }

    /// The letters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("the alphabet is ASCII")
    }
}

/// The sequence of suffixes of Pods that differ only by a count: those of an index, or of a Job without indexes.
///
/// Controllers of different versions may run at once, so a Job's series must never change between versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Series(u64);

impl Series {
    /// Returns the series of a Job's index, or of a Job without indexes.
    pub const fn new(job: Uid, index: Option<u32>) -> Self {
        let uid = job.as_u128();
        let job = mix(mix((uid >> 64) as u64) ^ uid as u64);
        let start = match index {
            Some(index) => mix(job ^ (index as u64 + 1)),
            None => job,
        };
        Self(start % SUFFIXES as u64)
    }
}

/// The first count of the Job's run that began at this time.
///
/// Like a series, it must never change between versions.
pub fn first_count(job: Uid, run: Time) -> u32 {
    let uid = job.as_u128();
    let seconds = run.as_millis().div_euclid(1000) as u64;
    let number = mix(mix(mix((uid >> 64) as u64) ^ uid as u64) ^ seconds);
    (number % u64::from(SUFFIXES)) as u32
}

/// One step of SplitMix64: close inputs give distant outputs.
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// The part before the suffix in the name of a Pod without completion index.
pub fn generate_name(job: &str) -> CompactString {
    let mut prefix = CompactString::new(job);
    if job.len() < NAME_MAX {
        prefix.push('-');
    }
    prefix
}

/// The part before the suffix in the name of a Pod with a completion index.
#[doc(alias = "podGenerateNameWithIndex")]
pub fn generate_name_indexed(job: &str, index: u32) -> CompactString {
    let mut tail = CompactString::default();
    write!(tail, "-{index}-").expect("writing to a string");
    let mut prefix = CompactString::new(&job[..job.len().min(PREFIX_MAX - tail.len())]);
    prefix.push_str(&tail);
    prefix
}

/// A Pod's full name from its prefix; the API server cuts long prefixes the same way.
pub fn pod_name(generate_name: &str, suffix: PodSuffix) -> CompactString {
    let mut name = CompactString::new(&generate_name[..generate_name.len().min(PREFIX_MAX)]);
    name.push_str(suffix.as_str());
    name
}

/// The name of a Job's Workload. It is stable for one Job, and differs for a Job recreated under the same name.
pub fn workload_name(job: &str, uid: impl Display) -> CompactString {
    // Upstream hashes the value with its type in front.
    let hash = letters(fnv1a(format!("(types.UID){uid}").bytes()));
    let room = NAME_MAX - hash.len() - 1;
    format_compact!("{}-{hash}", cut(job, room))
}

/// The name of the PodGroup of a Workload's template. If both names are too long, each gets half of the space.
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

/// The decimal digits of a number, each as a letter; the letters spell no word.
fn letters(number: u32) -> String {
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    number.to_string().bytes().map(letter).collect()
}

fn cut(name: &str, room: usize) -> &str {
    &name[..name.len().min(room)]
}

/// Returns true if it is a DNS subdomain, as names of objects are.
pub fn is_subdomain(name: &str) -> bool {
    let is_label = |label: &str| {
        let mut letters = label.bytes();
        letters.all(|letter| matches!(letter, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            && !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const JOB: Uid = Uid::from_u128(0x0a1b_2c3d_4e5f_6071_8293_a4b5_c6d7_e8f9);

    #[test]
    fn suffixes_of_a_series_do_not_repeat_and_tell_their_count() {
        let series = Series::new(JOB, None);
        let mut suffixes = HashSet::new();
        for count in (0..200_000).chain([SUFFIXES - 1]) {
            let suffix = PodSuffix::nth(series, count);
            assert_eq!(suffix.count(series), count);
            assert!(suffixes.insert(suffix), "{count}");
        }
        assert_eq!(PodSuffix::nth(series, SUFFIXES), PodSuffix::nth(series, 0));
    }

    #[test]
    fn names_are_those_of_all_versions() {
        let names = |job, index| {
            let series = Series::new(job, index);
            [0, 1, 2].map(|count| PodSuffix::nth(series, count).as_str().to_owned())
        };
        assert_eq!(names(JOB, None), ["8qvsx", "x2m6k", "pcfh7"]);
        assert_eq!(names(JOB, Some(0)), ["hbh2t", "8k8ch", "xtxn4"]);
        assert_eq!(names(JOB, Some(1)), ["pchvj", "gm875", "7vxjq"]);
        assert_eq!(names(Uid::from_u128(1), None), ["kkgmk", "bt7w6", "25w9q"]);
        let run = |seconds| first_count(JOB, Time::from_secs(seconds));
        assert_eq!([run(0), run(1_767_225_600)], [11_520_815, 6_022_712]);
    }

    #[test]
    fn a_suffix_is_found_in_its_name() {
        let suffix = PodSuffix::nth(Series::new(JOB, Some(7)), 3);
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
        // Names that the built-in controller of 1.36 gave on a cluster.
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
