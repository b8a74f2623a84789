//! No row of the rules is left out: each is a golden case, or has a test that is named here.
//!
//! `tests/rows/*.txt` say of each document of rules which rows it has, which tables of cases show them,
//! and where the others are tested. Rows that lakh has no use for stand there with the reason. What a
//! case or a test asserts is theirs to say; this one must not repeat it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// What a file of `tests/rows` says.
#[derive(Default)]
struct Document {
    /// All rows that there are.
    rows: BTreeSet<String>,
    /// Rows that are cases of a table.
    cases: BTreeSet<String>,
    /// Rows with the tests that they have elsewhere: file and name.
    tests: BTreeMap<String, Vec<(String, String)>>,
    /// Rows that are not for lakh.
    left_out: BTreeSet<String>,
}

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Document {
    fn read(path: &str) -> Self {
        let mut document = Self::default();
        let text = read(path);
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            document.take_in(line);
        }
        document
    }

    fn take_in(&mut self, line: &str) {
        if let Some(table) = line.strip_prefix("table ") {
            self.cases.extend(cases(&read(table)));
            return;
        }
        if let Some((section, ranges)) = line
            .strip_prefix('[')
            .and_then(|line| line.split_once("] "))
        {
            for range in ranges.split(' ') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let number = |text: &str| -> u32 { text.parse().expect("a number") };
                let rows = (number(first)..=number(last)).map(|row| format!("{section}{row}"));
                self.rows.extend(rows);
            }
            return;
        }
        let (rows, what) = line
            .split_once(" | ")
            .unwrap_or_else(|| panic!("no section, row or table: {line}"));
        for row in rows.split(' ') {
            let twice = self.tests.contains_key(row) || self.left_out.contains(row);
            assert!(!twice, "{row} is there twice");
            if what.starts_with("not here: ") {
                self.left_out.insert(row.to_owned());
                continue;
            }
            let tests = what.split("; ").flat_map(|of_file| {
                let (file, names) = of_file
                    .split_once(": ")
                    .unwrap_or_else(|| panic!("no file and test: {line}"));
                let of_file = |name: &str| (file.to_owned(), name.to_owned());
                names.split(", ").map(of_file).collect::<Vec<_>>()
            });
            self.tests.insert(row.to_owned(), tests.collect());
        }
    }
}

/// The rows that a table's cases show: what their lines begin with.
fn cases(table: &str) -> BTreeSet<String> {
    let lines = table.lines().filter(|line| line.contains(" | "));
    let lines = lines.filter(|line| !line.starts_with('#'));
    let rows = lines.flat_map(|line| {
        let is_row = |word: &&str| {
            let mut parts = word.split('.');
            let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            let of_section = word.contains('.') && parts.all(is_number);
            of_section || word.strip_prefix('V').is_some_and(is_number)
        };
        line.split(' ').take_while(is_row)
    });
    rows.map(str::to_owned).collect()
}

/// Whether a file has a test of this name.
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
    for row in &document.rows {
        let tested = document.cases.contains(row) || document.tests.contains_key(row);
        match (tested, document.left_out.contains(row)) {
            (false, false) => wrong.push(format!("{row} has neither case nor test")),
            (true, true) => wrong.push(format!("{row} is tested, though it is not here")),
            _ => {}
        }
    }
    let named = document.tests.keys().chain(&document.left_out);
    for row in named.chain(&document.cases) {
        if !document.rows.contains(row) {
            wrong.push(format!("there is no row {row}"));
        }
    }
    for (row, tests) in &document.tests {
        for (file, name) in tests {
            if !has_test(file, name) {
                wrong.push(format!("{row}: {file} has no test {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{path}\n{}", wrong.join("\n"));
}

#[test]
fn each_row_about_cron_jobs_has_a_case_or_a_test() {
    check("tests/rows/cronjob.txt");
}

#[test]
fn each_row_about_ttl_and_garbage_has_a_case_or_a_test() {
    check("tests/rows/ttl-and-gc.txt");
}

#[test]
fn what_is_missing_or_made_up_is_found() {
    let document = |lines: &[&str]| {
        let mut document = Document::default();
        lines.iter().for_each(|line| document.take_in(line));
        document
    };
    let all = document(&[
        "[14.] 1-3 5",
        "14.2 14.5 | tests/rules/rows.rs: a, b; src/x.rs: c",
    ]);
    assert_eq!(
        all.rows.iter().map(String::as_str).collect::<Vec<_>>(),
        ["14.1", "14.2", "14.3", "14.5"]
    );
    assert_eq!(all.tests["14.5"].len(), 3);
    let shown = cases("# 1.9 | no\n1.1 V2 a 1.3 | x | y\n1.4.2 10 | z\n");
    assert_eq!(
        shown.iter().map(String::as_str).collect::<Vec<_>>(),
        ["1.1", "1.4.2", "V2"]
    );
    let this = "what_is_missing_or_made_up_is_found";
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
