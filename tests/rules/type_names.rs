//! Checks that no two types of a crate share a name.
//!
//! Responsible for: finding structs, enums, traits and type aliases of production code that share a name. Must not:
//! look at tests, or at associated types.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The folders of the crates.
const CRATES: &[&str] = &[
    "crates/model/src",
    "crates/clock/src",
    "crates/core/src",
    "crates/record/src",
    "crates/wire/src",
    "crates/client/src",
    "crates/controller/src",
    "crates/inspect/src",
    "crates/embedded/src",
    "src",
    "loadtest/src",
];

/// The sources below a folder, without tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of ours can be read") {
        let path = entry.expect("an entry can be read").path();
        let is_rust = path.extension().is_some_and(|end| end == "rs");
        if path.is_dir() && !path.ends_with("tests") {
            files.extend(sources(&path));
        } else if is_rust && !path.ends_with("tests.rs") {
            files.push(path);
        }
    }
    files
}

/// The name of the type that a line defines, if it defines one.
fn type_name(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let is_outermost = code.len() == line.len();
    let code = match code.strip_prefix("pub") {
        Some(rest) => rest.strip_prefix('(').map_or(rest, |rest| {
            rest.split_once(')').map_or(rest, |(_, rest)| rest)
        }),
        None => code,
    };
    let (keyword, rest) = code.trim_start().split_once(' ')?;
    let defines = match keyword {
        "struct" | "enum" | "trait" => true,
        // An indented `type` is an associated type.
        "type" => is_outermost,
        _ => false,
    };
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &rest[..end.unwrap_or(rest.len())];
    (defines && name.starts_with(char::is_uppercase)).then_some(name)
}

#[test]
fn a_type_name_means_one_thing_in_its_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut wrong = Vec::new();
    for folder in CRATES {
        let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for path in sources(&root.join(folder)) {
            let text = fs::read_to_string(&path).expect("a source can be read");
            let code = text
                .split("#[cfg(test)]\nmod tests {")
                .next()
                .unwrap_or_default();
            let shown = path.strip_prefix(root).expect("below the root").display();
            for (line, number) in code.lines().zip(1..) {
                if let Some(name) = type_name(line) {
                    let place = format!("{shown}:{number}");
                    places.entry(name.to_owned()).or_default().push(place);
                }
            }
        }
        assert!(!places.is_empty(), "no types found below {folder}");
        for (name, found) in &places {
            if found.len() > 1 {
                wrong.push(format!("{name}: {}", found.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn definitions_are_recognized() {
    for (line, name) in [
        ("pub(super) struct Pod<'a> {", Some("Pod")),
        ("    struct Inner;", Some("Inner")),
        ("pub enum Kind {", Some("Kind")),
        ("pub(in crate::kubelet) trait Step: Sized {", Some("Step")),
        ("type Place = (u8, u8);", Some("Place")),
        ("    type Output = u8;", None),
        ("// struct Pod", None),
        ("let structure = 1;", None),
    ] {
        assert_eq!(type_name(line), name, "{line}");
    }
}
