//! Reads golden cases: blocks of `key   words` lines, with the expected trace at the end of each step.
//!
//! ```text
//! name    the behavior that the case shows
//! rows    5 6                     the rows of docs/rules/jobs.md, 11, that it covers
//! better  the difference from upstream, and the reason for it
//! job     p=2 c=5 bl=6 indexed suspend deleting ads=10 policy=Failed restart=OnFailure
//! status  active=1 failed=1 completed=0-2 uncounted.failed=a,x start=-15s Suspended=True
//! pods    0:Succeeded@-8s, 3*-:Running ready, a=1:Failed nofin, 2:T, -:Pending restarts=3
//! fake    accept 10 creates
//! expect
//!   create 0 1
//!   ...
//! at      +10s                    another step: its time, inputs and expected trace
//! clock   -3600s                  the wall clock alone is set back or forward
//! pod     a Succeeded
//! expect
//! again                           the Job is deleted and recreated under its name
//! restart                         the controller restarts
//! expect
//! ```
//!
//! `policies.rs` has the words for policies. Pods are labelled `a`, `b`, ... in order unless a label is given; Pods
//! that the machine creates are `new1`, `new2`, ... `T` is a Running Pod that is being deleted.
//!
//! A case with `jobs` tests the ownership of Pods: see `owners.rs`. One with `template` tests the content of a new Pod:
//! see `new_pod.rs`. All others drive a Job machine: see `one_sync.rs`.

use std::fs;

/// One case.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) rows: Vec<u32>,
    pub(crate) steps: Vec<Step>,
}

/// Inputs and the expected trace.
#[derive(Default)]
pub(crate) struct Step {
    pub(crate) inputs: Vec<(String, String)>,
    /// The lines of the file that hold the expectation.
    pub(crate) lines: std::ops::Range<usize>,
    pub(crate) expect: Vec<String>,
}

/// Reads the cases of a file's text.
pub(crate) fn parse(text: &str) -> Vec<Case> {
    let lines: Vec<&str> = text.lines().collect();
    let mut cases: Vec<Case> = Vec::new();
    let mut step = Step::default();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        if key == "name" {
            assert!(step.inputs.is_empty(), "no `expect` before {line}");
            cases.push(Case {
                name: rest.to_owned(),
                rows: Vec::new(),
                steps: Vec::new(),
            });
            continue;
        }
        let case = cases.last_mut().expect("a case starts with its name");
        match key {
            "rows" => case.rows = rest.split(' ').map(row).collect(),
            "better" => {}
            "expect" => {
                let from = at;
                while at < lines.len() && lines[at].starts_with("  ") {
                    step.expect.push(lines[at].trim().to_owned());
                    at += 1;
                }
                step.lines = from..at;
                case.steps.push(std::mem::take(&mut step));
            }
            _ => step.inputs.push((key.to_owned(), rest.to_owned())),
        }
    }
    cases
}

fn row(word: &str) -> u32 {
    word.parse().expect("a row's number")
}

/// Replaces the expected traces by the actual ones.
pub(crate) fn rewrite(
    path: &std::path::Path,
    text: &str,
    found: &[(std::ops::Range<usize>, Vec<String>)],
) {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    let mut at = 0;
    for (range, trace) in found {
        for line in &lines[at..range.start] {
            out.push_str(line);
            out.push('\n');
        }
        for line in trace {
            out.push_str("  ");
            out.push_str(line);
            out.push('\n');
        }
        at = range.end;
    }
    for line in &lines[at..] {
        out.push_str(line);
        out.push('\n');
    }
    fs::write(path, out).expect("the case file can be written");
}
