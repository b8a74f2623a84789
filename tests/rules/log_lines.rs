//! Checks that docs/log.md lists exactly the lines that may be logged, with their levels and fields.
//!
//! Debug and trace lines are for developers, and the page omits them. Must not: judge the page's explanation of a line.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Crates with a log that users see.
const CRATES: &[&str] = &["src", "crates"];

/// Levels that are visible without `-v`, and the other levels.
const SHOWN: &[&str] = &["error", "warn", "info"];
const HIDDEN: &[&str] = &["debug", "trace"];

/// The fields, by level and message.
type Lines = BTreeMap<(String, String), BTreeSet<String>>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Sources below a folder, without those of tests.
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

/// The arguments of a macro call. `code` begins after its opening bracket.
fn arguments(code: &str) -> Vec<String> {
    let (mut depth, mut in_text, mut escaped) = (1_u32, false, false);
    let mut arguments = vec![String::new()];
    for letter in code.chars() {
        let argument = arguments.last_mut().expect("there is one");
        if in_text {
            in_text = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
        } else {
            match letter {
                '"' => in_text = true,
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                ',' if depth == 1 => {
                    arguments.push(String::new());
                    continue;
                }
                _ => {}
            }
        }
        if depth == 0 {
            break;
        }
        argument.push(letter);
    }
    arguments
        .into_iter()
        .map(|argument| argument.trim().to_owned())
        .filter(|argument| !argument.is_empty())
        .collect()
}

/// The name of a field: `name = value`, `%name`, `?name`, or `a.name`.
fn field(argument: &str) -> String {
    let name = argument.split(" = ").next().unwrap_or_default();
    let name = name.trim_start_matches(['%', '?']);
    name.to_owned()
}

/// The lines that a source logs.
fn logged(code: &str) -> Vec<(String, String, BTreeSet<String>)> {
    let mut found = Vec::new();
    for rest in code.split("tracing::").skip(1) {
        let Some((level, call)) = rest.split_once("!(") else {
            continue;
        };
        if !SHOWN.contains(&level) && !HIDDEN.contains(&level) {
            continue;
        }
        let mut arguments = arguments(call);
        let last = arguments.pop().unwrap_or_default();
        let message = last
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        let message = message.unwrap_or_else(|| panic!("no message is last: {last}"));
        // A message with a value in its middle cannot be searched for in a log.
        assert!(!message.contains(['{', '\\']), "{message}");
        let fields = arguments.iter().map(|argument| field(argument)).collect();
        found.push((level.to_owned(), message.to_owned(), fields));
    }
    found
}

/// All visible lines of the code.
fn of_the_code() -> Lines {
    let mut lines = Lines::new();
    let folders = CRATES.iter().map(|folder| root().join(folder));
    for path in folders.flat_map(|folder| sources(&folder)) {
        let text = fs::read_to_string(&path).expect("a source can be read");
        let code = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        let is_comment = |line: &&str| line.trim_start().starts_with("//");
        let code: Vec<&str> = code.lines().filter(|line| !is_comment(line)).collect();
        for (level, message, fields) in logged(&code.join("\n")) {
            if SHOWN.contains(&level.as_str()) {
                lines.entry((level, message)).or_default().extend(fields);
            }
        }
    }
    lines
}

/// The rows of the page: level, message and fields in its first three cells.
fn of_the_page() -> Lines {
    let page = fs::read_to_string(root().join("docs/log.md")).expect("it is there");
    let mut lines = Lines::new();
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let level = cells[0].to_lowercase();
        if !SHOWN.contains(&level.as_str()) {
            continue;
        }
        assert_eq!(cells.len(), 5, "cells: {row}");
        let message = cells[1].trim_matches('`').to_owned();
        let fields = cells[2].split('`').skip(1).step_by(2).map(str::to_owned);
        let before = lines.insert((level, message), fields.collect());
        assert_eq!(before, None, "twice: {row}");
        let is_said = cells[3..].iter().all(|cell| !cell.is_empty());
        assert!(is_said, "without meaning: {row}");
    }
    lines
}

#[test]
fn the_page_has_every_line_of_the_log() {
    let (code, page) = (of_the_code(), of_the_page());
    assert!(code.len() > 30, "only {} lines found", code.len());
    let mut wrong = Vec::new();
    for ((level, message), fields) in &code {
        match page.get(&(level.clone(), message.clone())) {
            None => wrong.push(format!("not in docs/log.md: {level} {message} {fields:?}")),
            Some(told) if told != fields => {
                wrong.push(format!("{message}: has {fields:?}, docs/log.md {told:?}"));
            }
            Some(_) => {}
        }
    }
    let gone = page.keys().filter(|line| !code.contains_key(line));
    wrong.extend(gone.map(|(level, message)| format!("nobody logs: {level} {message}")));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn lines_are_read() {
    let code = r#"x { tracing::warn!(kind, %error, a = b("c, d", e), "it \"fails\"".len(), "told"); }
        tracing::info!("a, b (c)");"#;
    let fields = ["kind", "error", "a", "\"it \\\"fails\\\"\".len()"];
    assert_eq!(
        logged(code),
        [
            (
                "warn".to_owned(),
                "told".to_owned(),
                fields.map(str::to_owned).into()
            ),
            ("info".to_owned(), "a, b (c)".to_owned(), BTreeSet::new())
        ]
    );
}
