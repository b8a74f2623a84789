//! Runs the pure half through the situations of docs/rules/jobs.md, 11, as text cases (`tests/golden/*.case`).
//!
//! Read first: `common/case.rs` for the format. `UPDATE_GOLDEN=1` rewrites the expectations. Compare the diff with the
//! rules before committing it.

use std::{collections::BTreeSet, fs, path::PathBuf};

use lakh::model::{IndexSet, Limits};

use crate::common::{
    case::{self, Case},
    new_pod,
    one_sync::Driver,
    owners::Owners,
};

/// The rules, with a table of situations and the files of their cases.
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/rules/jobs.md");

type Found = Vec<(std::ops::Range<usize>, Vec<String>)>;

/// The part that a case tests.
enum Subject {
    Machine(Box<Driver>),
    Owners(Box<Owners>),
    Template,
}

impl Subject {
    fn of(case: &Case) -> Self {
        let first = &case.steps.first().expect("a case has an `expect`").inputs;
        let has = |wanted: &str| first.iter().any(|(key, _)| key == wanted);
        if has("jobs") {
            Self::Owners(Box::new(Owners::new()))
        } else if has("template") {
            Self::Template
        } else {
            // `Driver::new` has applied the first step's inputs.
            Self::Machine(Box::new(Driver::new(first)))
        }
    }

    fn step(&mut self, inputs: &[(String, String)], is_first: bool) -> Vec<String> {
        match self {
            Self::Machine(driver) => {
                let new = inputs.iter().filter(|_| !is_first);
                new.for_each(|(key, rest)| driver.take_in(key, rest));
                driver.run()
            }
            Self::Owners(driver) => {
                inputs
                    .iter()
                    .for_each(|(key, rest)| driver.take_in(key, rest));
                driver.run()
            }
            Self::Template => new_pod::made_of(inputs),
        }
    }
}

/// Runs a case and returns the trace of each step.
fn check(case: &Case) -> Found {
    let mut subject = Subject::of(case);
    let steps = case.steps.iter().enumerate();
    let found = steps.map(|(at, step)| {
        let trace = subject.step(&step.inputs, at == 0);
        (step.lines.clone(), trace)
    });
    found.collect()
}

fn files() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "case"))
        .collect();
    files.sort();
    files
}

#[test]
fn every_case_is_as_written() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = String::new();
    for path in files() {
        let text = fs::read_to_string(&path).expect("a case file");
        let mut all = Found::new();
        for case in case::parse(&text) {
            let run = std::panic::catch_unwind(|| check(&case));
            let Ok(found) = run else {
                wrong += &format!("{} \"{}\" panicked\n", path.display(), case.name);
                continue;
            };
            for (step, (_, trace)) in case.steps.iter().zip(&found) {
                if step.expect != *trace && !update {
                    wrong += &format!(
                        "{}:{} \"{}\"\n expected\n  {}\n found\n  {}\n",
                        path.display(),
                        step.lines.start,
                        case.name,
                        step.expect.join("\n  "),
                        trace.join("\n  ")
                    );
                }
            }
            all.extend(found);
        }
        if update {
            case::rewrite(&path, &text, &all);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The rows of the rules' tables of situations, with the files that must contain their cases.
fn rows(rules: &str) -> BTreeSet<(u32, String)> {
    let rows = rules.lines().filter_map(|line| {
        let row = line.strip_prefix("| ")?.strip_suffix(".case |")?;
        let (number, rest) = row.split_once(" | ")?;
        let (_, file) = rest.rsplit_once(" | ")?;
        Some((number.parse().expect("a number"), format!("{file}.case")))
    });
    rows.collect()
}

#[test]
fn every_row_of_the_table_has_a_case() {
    let mut found = BTreeSet::new();
    for path in files() {
        let text = fs::read_to_string(&path).expect("a case file");
        let file = path.file_name().expect("a name").to_string_lossy();
        let cases = case::parse(&text);
        let rows = cases.iter().flat_map(|case| &case.rows);
        found.extend(rows.map(|row| (*row, file.to_string())));
    }
    let wanted = rows(&fs::read_to_string(RULES).expect("the rules can be read"));
    let missing: Vec<_> = wanted.difference(&found).collect();
    assert!(missing.is_empty(), "situations without a case: {missing:?}");
    let known: BTreeSet<u32> = wanted.iter().map(|(row, _)| *row).collect();
    let unknown: Vec<_> = found
        .iter()
        .filter(|(row, _)| !known.contains(row))
        .collect();
    assert!(unknown.is_empty(), "cases of no situation: {unknown:?}");
    let last = known.last().copied().unwrap_or_default();
    let gaps: Vec<u32> = (1..=last).filter(|row| !known.contains(row)).collect();
    assert!(
        last > 0 && gaps.is_empty(),
        "rows that are not there: {gaps:?}"
    );
}

#[test]
fn interval_text_is_read_and_written_as_the_rules_say() {
    for (text, completions, expect) in [
        ("0-2,4,6,7", 7, "0-2,4,6"),
        ("2,4,5,7-9", 20, "2,4,5,7-9"),
        ("5", 9, "5"),
        ("5,6", 9, "5,6"),
        ("5,6,7", 9, "5-7"),
        ("0-1,2-3", 9, "0-3"),
        ("x,1-y,3", 9, "3"),
        ("1,9,2", 9, "1"),
        ("7-99", 9, "7,8"),
        ("", 9, ""),
        ("0", 0, ""),
    ] {
        let read = IndexSet::parse(text, completions);
        assert_eq!(read.to_string(), expect, "{text} of {completions}");
    }
}

#[test]
fn failed_pods_are_waited_for_as_the_rules_say() {
    let backoff = Limits::default().pod_failure_backoff;
    let delays: Vec<u64> = (0..9).map(|n| backoff.delay(n).as_secs()).collect();
    assert_eq!(delays, [0, 10, 20, 40, 80, 160, 320, 600, 600]);
}
