//! Tests the official Python client with `lakh local`. It needs Python and a package index, so it only runs on request.

use std::{fs, process::Command};

use crate::support::{self, python::python, serving::Serving};

#[test]
#[ignore = "needs a package index"]
fn the_python_client_works_unmodified() {
    let Some(python) = python("requirements.txt") else {
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
