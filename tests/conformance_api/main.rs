//! Compares the embedded API server with kube-apiserver: each case is a list of requests with the responses of a real
//! server.
//!
//! The cases are in `*.api` beside this file; `case.rs` documents their format. Every run sends them to the embedded
//! server. If `LAKH_CONFORMANCE_KUBECONFIG` names a real server, it must still answer as recorded.
//! `LAKH_CONFORMANCE_RECORD=1` records its responses instead. `LAKH_CONFORMANCE_ONLY=TEXT` runs only cases with that
//! text in their file's name or title. CONTRIBUTING.md has the commands.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stderr, reason = "tests report there")]

mod arm;
mod body;
mod case;
mod generated;
mod normal;
mod render;
mod run;
mod schema;

use std::{env, fs, path::PathBuf};

use arm::Arm;
use case::{Case, File, Line};
use futures::{StreamExt as _, stream};

/// Minimum number of cases.
const AT_LEAST: usize = 500;

/// The document that lists the embedded server's known differences.
const LEFT_OUT: &str = "docs/embedded-cluster.md";

/// Number of cases that run at once.
const AT_ONCE: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_server_answers_as_recorded() {
    let record = env::var("LAKH_CONFORMANCE_RECORD").is_ok_and(|value| value == "differences");
    let mut wrong = 0;
    for mut file in files() {
        let arm = Arm::embedded().await;
        if record {
            let cases: Vec<&Case> = file.cases().collect();
            let answers = run_all(&arm, &cases).await;
            file.record_differences(answers);
            continue;
        }
        let cases: Vec<&Case> = file.cases().filter(|case| wanted(&file, case)).collect();
        for (case, found) in cases.iter().zip(run_all(&arm, &cases).await) {
            let expected = case.embedded();
            if case.differs.is_some() && found == case.recorded() {
                wrong += 1;
                eprintln!("{}: {}: differs no longer", file.name(), case.title);
            } else if found != expected {
                wrong += 1;
                report(&file, case, &expected, &found);
            }
        }
    }
    assert_eq!(wrong, 0, "cases that the embedded server answers otherwise");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_answers_as_recorded() {
    let Ok(kubeconfig) = env::var("LAKH_CONFORMANCE_KUBECONFIG") else {
        return;
    };
    let record = env::var("LAKH_CONFORMANCE_RECORD").is_ok_and(|value| value == "1");
    let arm = Arm::real(&kubeconfig).await;
    let version = arm.version().await;
    let mut wrong = 0;
    for mut file in files() {
        let cases: Vec<&Case> = file.cases().filter(|case| wanted(&file, case)).collect();
        let mut answers = run_all(&arm, &cases).await.into_iter();
        let mut all = Vec::new();
        for case in file.cases() {
            let found = if wanted(&file, case) {
                answers.next().unwrap()
            } else {
                case.recorded()
            };
            if !record && found != case.recorded() {
                wrong += 1;
                report(&file, case, &case.recorded(), &found);
            }
            all.push(found);
        }
        if record {
            file.record(&version, all);
        }
    }
    assert_eq!(wrong, 0, "cases that the real server answers otherwise");
}

async fn run_all(arm: &Arm, cases: &[&Case]) -> Vec<Vec<Vec<Line>>> {
    stream::iter(cases)
        .map(|case| run::case(arm, case))
        .buffered(AT_ONCE)
        .collect()
        .await
}

#[test]
fn there_are_enough_cases_and_differences_are_documented() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let told = fs::read_to_string(root.join(LEFT_OUT)).unwrap();
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut count = 0;
    for file in files() {
        assert!(file.version().is_some(), "{}: recorded from?", file.name());
        for case in file.cases() {
            count += 1;
            let place = format!("{}: {}", file.name(), case.title);
            for step in case.steps() {
                assert_eq!(
                    step.silent,
                    step.answer.is_empty(),
                    "{place}: {}",
                    step.text
                );
            }
            if let Some(why) = &case.differs {
                assert!(told.contains(why.as_str()), "{place}: not in {LEFT_OUT}");
            }
        }
    }
    assert!(count >= AT_LEAST, "{count} cases");
}

/// All files of cases, by name.
fn files() -> Vec<File> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/conformance_api");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "api"))
        .collect();
    paths.sort();
    paths.into_iter().map(File::read).collect()
}

fn wanted(file: &File, case: &Case) -> bool {
    env::var("LAKH_CONFORMANCE_ONLY").map_or(true, |text| {
        file.name().contains(&text) || case.title.contains(&text)
    })
}

fn report(file: &File, case: &Case, expected: &[Vec<Line>], found: &[Vec<Line>]) {
    eprintln!("{}: {}", file.name(), case.title);
    for ((step, expected), found) in case.recorded_steps().zip(expected).zip(found) {
        if expected == found {
            continue;
        }
        eprintln!("    {}", step.text);
        for line in expected.iter().filter(|line| !found.contains(line)) {
            eprintln!("    - {line}");
        }
        for line in found.iter().filter(|line| !expected.contains(line)) {
            eprintln!("    + {line}");
        }
    }
}
