//! The guide for batch users, docs/first-job.md: its Job and its commands, as they stand there, against `lakh local`.
//!
//! The Job is smaller than there, or it would take minutes.

use std::{fs, process::Command};

use crate::support::{self, serving::Serving};

/// What stands between fences of a language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1);
    blocks
        .filter_map(|rest| Some(rest.split_once("```")?.0))
        .collect()
}

#[test]
fn the_first_job_goes_as_its_guide_says() {
    if !support::kubectl::is_installed() {
        return;
    }
    let guide = fs::read_to_string(support::project("docs/first-job.md")).expect("it is there");
    let job = blocks(&guide, "yaml")[0];
    let smaller = job
        .replace("completions: 100000", "completions: 20")
        .replace("parallelism: 500", "parallelism: 5")
        .replace("maxFailedIndexes: 100", "maxFailedIndexes: 1");
    assert_eq!(job.len() - smaller.len(), "0000".len() + "00".len() * 2);
    let cluster = Serving::start_with(&["--mode", "managed-by", "--pod-duration", "1s"]);
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("frames.yaml"), smaller).expect("it is written");
    let commands: Vec<&str> = blocks(&guide, "sh")
        .into_iter()
        .flat_map(str::lines)
        .collect();
    assert!(commands.len() > 5, "{commands:?}");
    for command in commands {
        // Who watches stops it by hand.
        let watches = command.ends_with(" -w");
        let output = Command::new("timeout")
            .args([if watches { "2" } else { "30" }, "sh", "-c", command])
            .current_dir(folder.path())
            .env("KUBECONFIG", cluster.kubeconfig())
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || watches, "{command}: {said}");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(!watches || printed.contains("frames"), "{printed}");
    }
}
