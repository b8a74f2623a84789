//! Stores values that many situations share only once, and compares them by a digest of their Debug text.
//!
//! Two values with the same digest count as equal. With 64 bits and ten million values, the odds of any collision are
//! one in 300,000.

use std::{
    cmp::Ordering,
    collections::HashMap,
    fmt::{self, Debug, Write},
    hash::{DefaultHasher, Hash, Hasher},
    ops::Deref,
    rc::Rc,
};

/// An immutable value that clones share. Equality, order and hash use the digest alone.
pub(super) struct Shared<T> {
    value: Rc<T>,
    digest: u64,
}

impl<T: Debug> Shared<T> {
    pub(super) fn new(value: T) -> Self {
        Self::without(value, &[])
    }

    /// Creates a value with a digest that ignores these fields. Each is the start of a field in the Debug text, up to
    /// the first letters of its value; `#` stands for a digit.
    pub(super) fn without(value: T, fields: &[&str]) -> Self {
        let mut text = String::with_capacity(4096);
        write!(text, "{value:?}").expect("writing to a string");
        let mut hasher = DefaultHasher::new();
        digest(&text, fields, &mut hasher);
        Self {
            value: Rc::new(value),
            digest: hasher.finish(),
        }
    }
}

/// Hashes a Debug text without some fields. A field is skipped up to the end of its value.
fn digest(text: &str, fields: &[&str], hasher: &mut DefaultHasher) {
    let mut kept = 0;
    let mut at = 0;
    while let Some(next) = text[at..].find(' ').map(|found| at + found + 1) {
        at = next;
        if !text.as_bytes().get(at).is_some_and(u8::is_ascii_lowercase) {
            continue;
        }
        let rest = &text[at..];
        if fields.iter().any(|field| begins(rest, field)) {
            hasher.write(&text.as_bytes()[kept..at]);
            at += value_len(rest);
            kept = at;
        }
    }
    hasher.write(&text.as_bytes()[kept..]);
}

fn begins(text: &str, field: &str) -> bool {
    match field.strip_suffix('#') {
        Some(name) => text
            .strip_prefix(name)
            .is_some_and(|value| value.starts_with(|letter: char| letter.is_ascii_digit())),
        None => text.starts_with(field),
    }
}

/// The length of a field with its value, up to the comma or the bracket that ends it.
fn value_len(text: &str) -> usize {
    let mut depth = 0_u32;
    for (at, letter) in text.bytes().enumerate() {
        match letter {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' | b',' if depth == 0 => return at,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

impl<T> Shared<T> {
    pub(super) fn digest(&self) -> u64 {
        self.digest
    }
}

/// A pool that stores each value once.
pub(super) struct Pool<T>(HashMap<u64, Shared<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Pool<T> {
    /// The stored value with this digest. A new value is stored.
    pub(super) fn kept(&mut self, value: Shared<T>) -> Shared<T> {
        self.0.entry(value.digest).or_insert(value).clone()
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self {
            value: Rc::clone(&self.value),
            digest: self.digest,
        }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Debug> Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.digest);
    }
}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl<T> Eq for Shared<T> {}

impl<T> PartialOrd for Shared<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Shared<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.digest.cmp(&other.digest)
    }
}

#[test]
fn an_ignored_field_distinguishes_no_states() {
    #[derive(Debug)]
    #[allow(dead_code, reason = "read by Debug alone")]
    struct Two {
        left: Option<(u8, Vec<u8>)>,
        right: u8,
    }
    let digest = |left, right| Shared::without(Two { left, right }, &["left: "]).digest();
    let one = digest(None, 1);
    assert_eq!(one, digest(Some((1, vec![2, 3])), 1));
    assert_ne!(one, digest(None, 2));
}
