//! Checks that cited rules exist, and that the files named in the rules exist.
//!
//! A citation is the path of a document in `docs/rules`, a comma, and numbers: `2.3 to 2.6 and 6.2`. A number exists if
//! the document has a heading, a table row or a list item with it. Must not: judge the content of a rule.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The folder of the documents.
const RULES: &str = "docs/rules/";

/// Folders that may cite rules.
const PLACES: &[&str] = &["crates", "src", "tests", "benches", "loadtest", "docs"];

/// Extensions of the files to search.
const KINDS: &[&str] = &["rs", "md", "case", "rows", "api"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder with one of these extensions.
fn files_below(folder: &str) -> Vec<PathBuf> {
    let mut folders = vec![root().join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of ours can be read") {
            let path = entry.expect("an entry can be read").path();
            let kind = path.extension().and_then(|kind| kind.to_str());
            if path.is_dir() {
                folders.push(path);
            } else if kind.is_some_and(|kind| KINDS.contains(&kind)) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// A number like `2`, `2.5` or `1.2.3`, or `V7`.
fn is_number(word: &str) -> bool {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    word.strip_prefix('V')
        .unwrap_or(word)
        .split('.')
        .all(is_digits)
}

/// The numbers that a document has.
fn numbers(document: &str) -> BTreeSet<String> {
    let mut numbers = BTreeSet::new();
    let mut section = String::new();
    for line in document.lines() {
        let word = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        if line.starts_with("##") {
            let number = word(line.trim_start_matches(['#', ' ']));
            section = number.trim_end_matches('.').to_owned();
            numbers.insert(section.clone());
        } else if let Some(row) = line.strip_prefix("| ") {
            numbers.insert(word(row));
        } else {
            let item = word(line);
            let item = item.strip_suffix('.').filter(|item| is_number(item));
            numbers.extend(item.map(|item| format!("{section}.{item}")));
        }
    }
    numbers.retain(|number| is_number(number));
    numbers
}

/// The citations in a line: the document's name, and the numbers after it.
fn citations(line: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found = Vec::new();
    for rest in line.split(RULES).skip(1) {
        let Some((name, rest)) = rest.split_once(".md") else {
            continue;
        };
        if !name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        {
            continue;
        }
        let mut numbers = Vec::new();
        for word in rest.strip_prefix(", ").unwrap_or_default().split(' ') {
            let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            if is_number(bare) {
                numbers.push(bare);
            }
            let goes_on = word == bare || word.ends_with(',');
            if !goes_on || !(is_number(bare) || ["to", "and"].contains(&bare)) {
                break;
            }
        }
        found.push((name, numbers));
    }
    found
}

#[test]
fn rules_that_are_cited_are_there() {
    let documents: BTreeMap<String, BTreeSet<String>> = files_below(RULES)
        .iter()
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy();
            let text = fs::read_to_string(path).expect("a document can be read");
            (name.into_owned(), numbers(&text))
        })
        .collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    let files = PLACES.iter().flat_map(|place| files_below(place));
    // This file contains false citations on purpose.
    for path in files.filter(|path| !path.ends_with(file!())) {
        let text = fs::read_to_string(&path).expect("a file of ours can be read");
        for (line, at) in text.lines().zip(1..) {
            for (name, cited) in citations(line) {
                let place = format!("{}:{at}", path.display());
                let Some(document) = documents.get(name) else {
                    wrong.push(format!("{place}: there is no {RULES}{name}.md"));
                    continue;
                };
                count += cited.len();
                let missing = cited.iter().filter(|number| !document.contains(**number));
                wrong.extend(missing.map(|number| format!("{place}: {name}.md has no {number}")));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(count > 30, "only {count} rules are cited");
}

#[test]
fn files_that_rules_name_are_there() {
    let mut wrong = Vec::new();
    for path in files_below(RULES) {
        let text = fs::read_to_string(&path).expect("a document can be read");
        for (line, at) in text.lines().zip(1..) {
            let quoted = line.split('`').skip(1).step_by(2);
            let ours = quoted.filter(|text| {
                let top = text.split('/').next().unwrap_or_default();
                PLACES.contains(&top) && text.contains('.') && !text.contains(['*', ' '])
            });
            let missing = ours.filter(|file| !root().join(file).is_file());
            wrong.extend(missing.map(|file| format!("{}:{at}: {file}", path.display())));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Checks the tests that docs/security.md names: a file in backticks, a colon, and names in backticks.
#[test]
fn tests_that_hold_attacks_off_are_there() {
    let text = fs::read_to_string(root().join("docs/security.md")).expect("it can be read");
    let mut count = 0;
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let mut file = None;
        for quoted in line.split('`').skip(1).step_by(2) {
            if quoted.ends_with(".rs") {
                file = Some(fs::read_to_string(root().join(quoted)).expect(quoted));
            } else if let Some(file) = &file {
                let is_there = file.contains(&format!("fn {quoted}("));
                assert!(is_there, "no test {quoted}: {line}");
                count += 1;
            }
        }
        let is_head = line.starts_with("| What ");
        assert!(is_head || file.is_some(), "no test is named: {line}");
    }
    assert!(count > 15, "only {count} tests are named");
}

#[test]
fn citations_and_numbers_are_read() {
    let line =
        "//! Source: docs/rules/jobs.md, 2.3 to 2.6 and 6.2. 10 Pods, docs/rules/x-y.md, V7, 9) 8";
    assert_eq!(
        citations(line),
        [
            ("jobs", vec!["2.3", "2.6", "6.2"]),
            ("x-y", vec!["V7", "9"])
        ]
    );
    assert_eq!(citations("docs/rules/jobs.md says 2.5"), [("jobs", vec![])]);
    let text = "## 2. One\n### 2.4 Two\n1. a\n2. b\n| Rule |\n| 7.1 | c |\n| V2 | d |\n10 Pods\n";
    let found = numbers(text);
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(found, ["2", "2.4", "2.4.1", "2.4.2", "7.1", "V2"]);
}
