//! Tests the files of the embedded cluster: no other user may read them, whatever their names referred to before.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Output,
};

use lakh::embedded::{ClusterOptions, EmbeddedCluster, ServeOptions};

use crate::support;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

/// A cluster with a state, an audit log and a kubeconfig in a folder that all users may read.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        set_mode(folder.path(), 0o755);
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn cluster(&self) -> EmbeddedCluster {
        let options = ClusterOptions {
            server: ServeOptions {
                state: Some(self.path("state")),
                audit_log: Some(self.path("audit")),
                ..ServeOptions::default()
            },
            ..ClusterOptions::default()
        };
        let cluster = EmbeddedCluster::start(options).await.expect("good files");
        let config = self.path("config");
        cluster.write_kubeconfig(&config).expect("a good file");
        cluster
    }

    /// Starts the program with a file of this name that must be refused. Checks the exit code and the error.
    fn check_refused(&self, flag: &str, name: &str, file: &str, why: &str) {
        let given = self.path(name).display().to_string();
        let output = support::run(&[
            "local",
            "--timeout",
            "20s",
            "-f",
            "examples/pi.yaml",
            flag,
            &given,
        ]);
        let Output { status, stderr, .. } = output;
        let said = String::from_utf8_lossy(&stderr).into_owned();
        assert_eq!(status.code(), Some(2), "{said}");
        let file = self.path(file).display().to_string();
        assert!(said.contains(&file), "{file} is not named: {said}");
        assert!(said.contains(why), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_files_are_their_owners_alone() {
    let files = Files::new();
    files.cluster().await.shutdown().await;
    assert_eq!(mode(&files.path("state")), 0o700);
    for name in ["state/objects.redb", "audit", "config"] {
        assert_eq!(mode(&files.path(name)), 0o600, "{name}");
    }
    // All of them are reused, but the kubeconfig is replaced.
    files.cluster().await.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_takes_the_place_of_whatever_was_there() {
    let files = Files::new();
    let (config, other) = (files.path("config"), files.path("other"));
    fs::write(&config, "read by others").expect("a file");
    set_mode(&config, 0o644);
    files.cluster().await.shutdown().await;
    assert_eq!(mode(&config), 0o600);

    fs::remove_file(&config).expect("it is there");
    fs::write(&other, "somebody's").expect("a file");
    symlink(&other, &config).expect("a link");
    files.cluster().await.shutdown().await;
    assert_eq!(fs::read_to_string(&other).expect("text"), "somebody's");
    let config = fs::symlink_metadata(&config).expect("it is there");
    assert!(config.is_file(), "a file instead of the link");
}

#[test]
fn an_audit_log_of_others_is_refused() {
    let files = Files::new();
    let (log, other) = (files.path("log"), files.path("other"));
    fs::write(&other, "somebody's\n").expect("a file");
    set_mode(&other, 0o600);
    symlink(&other, &log).expect("a link");
    files.check_refused("--audit-log", "log", "log", "symbolic link");
    assert_eq!(fs::read_to_string(&other).expect("text"), "somebody's\n");
    set_mode(&other, 0o640);
    files.check_refused("--audit-log", "other", "other", "others may read");
    // A folder cannot be written as a file.
    files.check_refused("--audit-log", "", "", "directory");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_others_is_refused() {
    let files = Files::new();
    files.cluster().await.shutdown().await;
    let (state, other) = (files.path("state/objects.redb"), files.path("other"));
    set_mode(&state, 0o644);
    files.check_refused("--state", "state", "state/objects.redb", "chmod 600");
    set_mode(&state, 0o600);
    fs::rename(&state, &other).expect("one folder");
    symlink(&other, &state).expect("a link");
    files.check_refused("--state", "state", "state/objects.redb", "symbolic link");
    // The same for a link to a file that does not exist yet.
    fs::remove_file(&other).expect("it is there");
    files.check_refused("--state", "state", "state/objects.redb", "symbolic link");
    assert!(!other.exists());
}
