//! Checks that each rule has a golden case, or a test that its document names.
//!
//! Applies to documents in `docs/rules` with a column *Shown by*. The column says which rules are rows of a table of
//! cases, and which tests cover the others. For a rule that lakh does not need it gives the reason. Must not: repeat
//! the assertions of cases and tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// The text before the names of a document's tables of cases.
const TABLES: &str = "Tables of cases: ";

/// The rules of a document and the rows of its tables of cases.
#[derive(Default)]
struct Document {
    /// The rules with a row in the tables of cases.
    cases: BTreeSet<String>,
    /// The rules by number.
    rules: BTreeMap<String, Shown>,
}

/// The tests of a rule.
#[derive(Debug, Default, PartialEq)]
struct Shown {
    by_cases: bool,
    /// Tests: file and name.
    tests: Vec<(String, String)>,
    /// The rule does not apply to lakh.
    left_out: bool,
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Document {
    fn read(path: &str) -> Self {
        let mut document = Self::default();
        read(path).lines().for_each(|line| document.take_in(line));
        assert!(!document.rules.is_empty(), "{path} has no rules");
        document
    }

    fn take_in(&mut self, line: &str) {
        if let Some(tables) = line.strip_prefix(TABLES) {
            for table in tables.split(", ") {
                self.cases.extend(cases(&read(table.trim_matches('`'))));
            }
            return;
        }
        let row = line
            .strip_prefix("| ")
            .and_then(|line| line.strip_suffix(" |"));
        let cells: Vec<&str> = row.into_iter().flat_map(|row| row.split(" | ")).collect();
        let [number, .., shown] = cells[..] else {
            return;
        };
        if is_number(number) {
            let before = self.rules.insert(number.to_owned(), Shown::read(shown));
            assert_eq!(before, None, "{number} is there twice");
        }
    }
}

impl Shown {
    fn read(text: &str) -> Self {
        let mut shown = Self::default();
        if text.starts_with("not here: ") {
            shown.left_out = true;
            return shown;
        }
        for part in text.split("; ") {
            if part == "cases" {
                shown.by_cases = true;
                continue;
            }
            let (file, names) = part
                .split_once(": ")
                .unwrap_or_else(|| panic!("no file and test: {part}"));
            let of_file = |name: &str| (file.to_owned(), name.to_owned());
            shown.tests.extend(names.split(", ").map(of_file));
        }
        shown
    }
}

/// Returns true if a word is the number of a rule.
fn is_number(word: &str) -> bool {
    let mut parts = word.split('.');
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let of_section = word.contains('.') && parts.all(is_digits);
    of_section || word.strip_prefix('V').is_some_and(is_digits)
}

/// The rules that a table's cases test: the numbers at the start of its lines.
fn cases(table: &str) -> BTreeSet<String> {
    let lines = table.lines().filter(|line| line.contains(" | "));
    let lines = lines.filter(|line| !line.starts_with('#'));
    let rows = lines.flat_map(|line| line.split(' ').take_while(|word| is_number(word)));
    rows.map(str::to_owned).collect()
}

/// Returns true if a file has a test of this name.
fn has_test(file: &str, name: &str) -> bool {
    let text = read(file);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_it = |line: &&str| {
        let line = line.trim_start_matches("async ");
        line.strip_prefix("fn ")
            .and_then(|line| line.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with('('))
    };
    lines.iter().position(is_it).is_some_and(|at| {
        let attributes = lines[..at].iter().rev();
        attributes
            .take_while(|line| line.starts_with("#["))
            .any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    })
}

fn check(path: &str) {
    let document = Document::read(path);
    let mut wrong = Vec::new();
    for (rule, shown) in &document.rules {
        match (shown.by_cases, document.cases.contains(rule)) {
            (true, false) => wrong.push(format!("{rule} has no case")),
            (false, true) => wrong.push(format!("{rule} has a case and does not say so")),
            (true, true) | (false, false) => {}
        }
        for (file, name) in &shown.tests {
            if !has_test(file, name) {
                wrong.push(format!("{rule}: {file} has no test {name}"));
            }
        }
    }
    let unknown = document.cases.iter();
    let unknown = unknown.filter(|case| !document.rules.contains_key(*case));
    wrong.extend(unknown.map(|case| format!("there is no rule {case}")));
    assert!(wrong.is_empty(), "{path}\n{}", wrong.join("\n"));
}

#[test]
fn each_rule_about_cron_jobs_has_a_case_or_a_test() {
    check("docs/rules/cronjobs.md");
}

#[test]
fn each_rule_about_ttl_and_garbage_has_a_case_or_a_test() {
    check("docs/rules/ttl-and-garbage.md");
}

#[test]
fn missing_and_unknown_rows_are_found() {
    let mut document = Document::default();
    for line in [
        "| Rule | What holds | Shown by |",
        "|---|---|---|",
        "| 14.2 | It is so. | cases; tests/rules/rows.rs: a, b; src/x.rs: c |",
        "| V3 | It is so. | not here: for a reason; or two |",
    ] {
        document.take_in(line);
    }
    let rules: Vec<&str> = document.rules.keys().map(String::as_str).collect();
    assert_eq!(rules, ["14.2", "V3"]);
    assert!(document.rules["14.2"].by_cases && document.rules["V3"].left_out);
    assert_eq!(document.rules["14.2"].tests.len(), 3);
    for shown in ["", "somewhere"] {
        let unsaid = std::panic::catch_unwind(|| Shown::read(shown));
        assert!(unsaid.is_err(), "{shown:?} shows nothing");
    }
    let shown = cases("# 1.9 | no\n1.1 V2 a 1.3 | x | y\n1.4.2 10 | z\n");
    assert_eq!(
        shown.iter().map(String::as_str).collect::<Vec<_>>(),
        ["1.1", "1.4.2", "V2"]
    );
    let this = "missing_and_unknown_rows_are_found";
    assert!(has_test("tests/rules/rows.rs", this));
    assert!(
        !has_test("tests/rules/rows.rs", "has_test"),
        "it is no test"
    );
    assert!(
        !has_test("tests/rules/rows.rs", "what_is_missing"),
        "half a name"
    );
}
