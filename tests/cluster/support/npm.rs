//! Installs and builds npm packages in a folder, for tests that need third-party packages.

#![expect(
    clippy::print_stdout,
    reason = "whoever runs it learns that it was skipped"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Copies a folder below `tests`, installs it by its lock file and builds it. The copy is kept between runs. Returns
/// `None` without npm.
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
    // No package may run scripts of its own during installation.
    let install = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"].as_slice();
    for args in [install, &["run", "build"]] {
        let output = Command::new("npm").args(args).current_dir(&copy).output();
        let output = output.expect("npm runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "npm {args:?}: {said}");
    }
    Some(copy)
}
