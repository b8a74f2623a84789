//! Sets the version with its commit for `lakh --version` and the log. The commit comes from `LAKH_COMMIT` or git. Debug
//! builds do not ask git, since each commit would then rebuild everything.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rerun-if-env-changed=LAKH_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let given = env::var("LAKH_COMMIT").ok();
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let found = || is_release.then(commit).flatten();
    let commit = given.filter(|commit| !commit.is_empty()).or_else(found);
    let commit = commit.map_or_else(String::new, |commit| format!(" ({commit})"));
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo::rustc-env=LAKH_VERSION={version}{commit}");
}

/// The commit of the checkout, if it is one.
fn commit() -> Option<String> {
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
