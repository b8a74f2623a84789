//! Runs `lakh controller` as a process in mode `replace`, and reads its log.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{Running, lakh};

/// The process and the path of its log. It is killed on drop.
pub struct Logged {
    process: Running,
    log: PathBuf,
}

impl Logged {
    /// Starts it with additional arguments.
    pub fn start(kubeconfig: &Path, log: PathBuf, more: &[&str]) -> Self {
        let usual = [
            "controller",
            "--mode=replace",
            "--log-format=json",
            "--listen=127.0.0.1:0",
        ];
        let process = lakh(&usual)
            .args(more)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .stderr(File::create(&log).expect("it can be written"))
            .spawn()
            .expect("the binary runs");
        Self {
            process: Running(process),
            log,
        }
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.process.0.id()
    }

    /// Returns all complete lines of its log.
    pub fn lines(&self) -> Vec<Value> {
        let log = fs::read_to_string(&self.log).expect("it can be read");
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines.collect()
    }

    /// Returns the first line with these words, and about this kind of object if `kind` is set.
    pub fn says(&self, words: &str, kind: Option<&str>) -> Option<Value> {
        self.lines().into_iter().find(|line| {
            let of_kind = kind.is_none_or(|kind| line["kind"] == kind);
            of_kind
                && line["message"]
                    .as_str()
                    .is_some_and(|said| said.contains(words))
        })
    }

    /// Returns the address at which it answers probes, once it does.
    pub fn listens(&self) -> Option<SocketAddr> {
        let line = self.says("serving probes and metrics", None)?;
        line["listen"].as_str()?.parse().ok()
    }
}
