//! Provides Python with packages, for tests that need third-party programs.

#![expect(
    clippy::print_stdout,
    reason = "whoever runs it learns that it was skipped"
)]

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

/// Runs a program, which must succeed.
fn run(program: &Path, args: &[&OsStr]) {
    let output = Command::new(program).args(args).output();
    let output = output.expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
}

/// Returns a Python with the packages that a file in `tests/python` names. It is kept between runs. Returns `None`
/// without Python or pip.
pub fn python(requirements: &str) -> Option<PathBuf> {
    let works = |args: &[&str]| {
        let output = Command::new("python3").args(args).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !works(&["-c", "import venv, ensurepip"]) {
        println!("skipped: python3 with venv and pip is not installed");
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-{requirements}"));
    let python = folder.join("bin/python");
    // An existing environment is completed: an earlier run may have been cut short.
    let args = ["-m".as_ref(), "venv".as_ref(), folder.as_os_str()];
    run(Path::new("python3"), &args);
    let requirements = super::project(&format!("tests/python/{requirements}"));
    let install = ["-m", "pip", "install", "--quiet", "--requirement"].map(OsStr::new);
    run(
        &python,
        &[&install[..], &[OsStr::new(&requirements)]].concat(),
    );
    Some(python)
}

/// Returns the path of Chromium, if it is installed.
pub fn chromium() -> Option<&'static str> {
    let browsers = ["/usr/bin/chromium", "/usr/bin/chromium-browser"];
    let found = browsers.into_iter().find(|path| Path::new(path).exists());
    if found.is_none() {
        println!("skipped: there is no {}", browsers.join(" or "));
    }
    found
}
