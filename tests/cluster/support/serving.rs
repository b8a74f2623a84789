//! Runs `lakh local` as a server until it is dropped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The process and its kubeconfig. It is killed on drop.
pub struct Serving {
    child: Child,
    kubeconfig: PathBuf,
    _folder: tempfile::TempDir,
}

impl Serving {
    /// Starts it, and waits until it serves.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts it with more arguments.
    pub fn start_with(args: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let kubeconfig = folder.path().join("config");
        let path = kubeconfig.display().to_string();
        let child = super::lakh(&["local", "--kubeconfig-out", &path])
            .args(args)
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let serving = Self {
            child,
            kubeconfig,
            _folder: folder,
        };
        let started = Instant::now();
        let is_whole = |text: String| text.contains("current-context");
        while !fs::read_to_string(&serving.kubeconfig).is_ok_and(is_whole) {
            assert!(started.elapsed() < Duration::from_secs(10), "no kubeconfig");
            thread::sleep(Duration::from_millis(20));
        }
        serving
    }

    /// Path of the kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
