//! Provides a terminal for programs that need one: tmux returns its screen as text.

#![allow(clippy::print_stdout, reason = "a test that was left out must say so")]

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::PATIENCE;

/// Returns true if tmux is installed. Prints a notice otherwise.
pub fn is_installed() -> bool {
    let is_there = Command::new("tmux").arg("-V").output().is_ok();
    if !is_there {
        println!("tmux is not installed: skipped");
    }
    is_there
}

/// A terminal with a shell, in a tmux server of its own that is killed on drop.
pub struct Tmux {
    socket: PathBuf,
    _folder: TempDir,
}

impl Tmux {
    /// Runs a sh script on a terminal of this size.
    pub fn start(script: &str, width: u16, height: u16) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let tmux = Self {
            socket: folder.path().join("tmux"),
            _folder: folder,
        };
        let (width, height) = (width.to_string(), height.to_string());
        let size = ["-x", width.as_str(), "-y", height.as_str()];
        let head = ["new-session", "-d", "-s", "t"];
        tmux.run(&[&head[..], &size, &["sh", "-c", script]].concat());
        tmux
    }

    /// Runs a tmux command. Returns its output.
    fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        // Ignore the user's settings; use UTF-8 whatever the locale.
        command.args(["-u", "-f", "/dev/null", "-S"]);
        command.arg(&self.socket).args(args);
        command.env("LC_ALL", "C.UTF-8").env_remove("TMUX");
        let output = command.output().expect("tmux runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {args:?}: {errors}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Presses keys, by tmux's names.
    pub fn press(&self, keys: &[&str]) {
        self.run(&[&["send-keys", "-t", "t"][..], keys].concat());
    }

    /// Resizes the terminal.
    pub fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        self.run(&["resize-window", "-t", "t", "-x", &width, "-y", &height]);
    }

    /// Returns the text of the screen.
    pub fn screen(&self) -> String {
        self.run(&["capture-pane", "-p", "-t", "t"])
    }

    /// Returns the screen with escape sequences for colours.
    pub fn colours(&self) -> String {
        self.run(&["capture-pane", "-p", "-e", "-t", "t"])
    }

    /// Returns the screen once the condition holds.
    pub async fn screen_when(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        self.seen_when(Self::screen, what, holds).await
    }

    /// Returns the screen with escape sequences for colours once the condition holds.
    pub async fn colours_when(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        self.seen_when(Self::colours, what, holds).await
    }

    async fn seen_when(
        &self,
        see: impl Fn(&Self) -> String,
        what: &str,
        holds: impl Fn(&str) -> bool,
    ) -> String {
        let started = Instant::now();
        loop {
            let screen = tokio::task::block_in_place(|| see(self));
            if holds(&screen) {
                return screen;
            }
            assert!(started.elapsed() < PATIENCE, "never {what}:\n{screen}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the screen once it has these words.
    pub async fn screen_with(&self, words: &str) -> String {
        self.screen_when(words, |screen| screen.contains(words))
            .await
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).arg("kill-server");
        // The server ends by itself when its shell has.
        let _ = command.output();
    }
}

/// Returns a line of sh that runs the binary. It then prints the exit code, and the terminal modes that a shell
/// expects.
pub fn script(before: &str, args: &str, config: &Path) -> String {
    format!(
        "export LC_ALL=C.UTF-8; echo on the shell; {before} {} {args} --kubeconfig {}; echo ended with $?; \
         stty -a | tr ' ;' '\\n\\n' | grep -x -e icanon -e echo | tr '\\n' ' '; sleep 1000",
        env!("CARGO_BIN_EXE_lakh"),
        config.display()
    )
}
