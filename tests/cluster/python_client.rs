//! The official Python client against `lakh local`. Needs Python, and a package index: ignored
//! unless it is asked for.
#![expect(
    clippy::print_stdout,
    reason = "whoever runs it learns that it was skipped"
)]

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{self, serving::Serving};

/// Runs a program, which must succeed.
fn run(program: &Path, args: &[&OsStr]) {
    let output = Command::new(program).args(args).output();
    let output = output.expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {said}");
}

/// A Python with the packages of `requirements.txt`, kept between runs; none without Python or pip.
fn python() -> Option<PathBuf> {
    let works = |args: &[&str]| {
        let output = Command::new("python3").args(args).output();
        output.is_ok_and(|output| output.status.success())
    };
    if !works(&["-c", "import venv, ensurepip"]) {
        println!("skipped: python3 with venv and pip is not installed");
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let python = folder.join("bin/python");
    // Of one that is there it makes sure; a run may have been cut short.
    let args = ["-m".as_ref(), "venv".as_ref(), folder.as_os_str()];
    run(Path::new("python3"), &args);
    let requirements = support::project("tests/python/requirements.txt");
    let install = ["-m", "pip", "install", "--quiet", "--requirement"].map(OsStr::new);
    run(
        &python,
        &[&install[..], &[OsStr::new(&requirements)]].concat(),
    );
    Some(python)
}

#[test]
#[ignore = "needs a package index"]
fn the_python_client_works_unmodified() {
    let Some(python) = python() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, "secret,ann,1,\"system:masters\"\n").expect("the file can be written");
    let tokens = tokens.display().to_string();
    for args in [&[][..], &["--token-file", &tokens]] {
        let cluster = Serving::start_with(args);
        let output = Command::new(&python)
            .arg(support::project("tests/python/job.py"))
            .env("KUBECONFIG", cluster.kubeconfig())
            .output()
            .expect("Python runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}");
    }
}
