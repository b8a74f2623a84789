//! A folder that npm installs and builds, for tests that others' packages take part in.

#![expect(
    clippy::print_stdout,
    reason = "whoever runs it learns that it was skipped"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A copy of a folder below `tests`, installed as its lock file says and built, kept between runs; none without npm.
pub fn npm(folder: &str) -> Option<PathBuf> {
    let version = Command::new("npm").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        println!("skipped: npm is not installed");
        return None;
    }
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("npm-{folder}"));
    fs::create_dir_all(&copy).expect("a folder");
    let source = super::project(&format!("tests/{folder}"));
    for entry in fs::read_dir(source).expect("a folder") {
        let entry = entry.expect("an entry");
        if entry.path().is_file() {
            fs::copy(entry.path(), copy.join(entry.file_name())).expect("a copy");
        }
    }
    // No package runs anything of its own while it is installed.
    let install = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"].as_slice();
    for args in [install, &["run", "build"]] {
        let output = Command::new("npm").args(args).current_dir(&copy).output();
        let output = output.expect("npm runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "npm {args:?}: {said}");
    }
    Some(copy)
}
