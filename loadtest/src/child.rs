//! Runs the programs of a run as child processes: `lakh controller`, another controller, the bare writer, hollow nodes.
//!
//! Must not: let a child survive its handle; a dropped child is killed.

use std::{
    error::Error,
    fmt::Display,
    io::{self, BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use lakh::client::Client;
use tokio::time::sleep;

use crate::{
    metrics,
    process::Process,
    scenario::{HOLLOW_NODE, Load},
};

/// Polling interval while waiting for a condition.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Time for another controller to fill its caches: controllers share no readiness check.
const WARM_UP: Duration = Duration::from_secs(8);

/// Placeholder for the path of the cluster's kubeconfig in another controller's flags.
const KUBECONFIG: &str = "{kubeconfig}";

/// A child process; it is killed on drop.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// Address of its metrics, if it serves them.
    pub(crate) metrics: Option<SocketAddr>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// Starts lakh and waits until its caches are filled.
    pub(crate) async fn lakh(load: &Load, kubeconfig: &Path) -> Result<Self, Box<dyn Error>> {
        let binary = match &load.lakh {
            Some(path) => path.clone(),
            None => beside_this_program("lakh")?,
        };
        let listen = free_port()?;
        let mut command = Command::new(&binary);
        command
            .arg("controller")
            // lakh has no other replica here, and may have no access to Leases.
            .arg("--leader-elect=false")
            .args(load.mode_flags())
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--listen", &listen.to_string()])
            .args(["--max-in-flight", &load.max_in_flight.to_string()])
            .args(&load.controller_flags);
        let mut running = Self::start(&mut command)
            .map_err(|error| format!("{}: {error}; build it, or set --lakh", binary.display()))?;
        running.metrics = Some(listen);
        let is_ready =
            |answer: io::Result<(u16, String)>| answer.is_ok_and(|(code, _)| code == 200);
        while !is_ready(metrics::get(listen, "/readyz").await) {
            running.check(&binary.display())?;
            sleep(LOOK_EVERY).await;
        }
        Ok(running)
    }

    /// Starts another controller, and waits for its caches to fill.
    pub(crate) async fn other(
        load: &Load,
        program: &Path,
        kubeconfig: &Path,
    ) -> Result<Self, Box<dyn Error>> {
        let path = kubeconfig.to_string_lossy();
        let flags = load.controller_flags.iter();
        let mut command = Command::new(program);
        command
            .args(flags.map(|flag| flag.replace(KUBECONFIG, &path)))
            .stderr(Stdio::null());
        let mut running = Self::start(&mut command)
            .map_err(|error| format!("--controller-command {}: {error}", program.display()))?;
        sleep(WARM_UP).await;
        running.check(&program.display())?;
        Ok(running)
    }

    /// Starts this program as a hollow node, and waits until the Node object exists.
    pub(crate) async fn kubelet(
        kubeconfig: &Path,
        client: &Client,
    ) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["kubelet", "--nodes", "1", "--pod-duration", "0s"])
            .arg("--kubeconfig")
            .arg(kubeconfig);
        let mut running = Self::start(&mut command)?;
        let node = format!("/api/v1/nodes/{HOLLOW_NODE}");
        while client.get(&node).await.is_err() {
            running.check(&"the hollow node")?;
            sleep(LOOK_EVERY).await;
        }
        Ok(running)
    }

    /// Starts this program as the bare writer.
    pub(crate) fn writer(load: &Load, kubeconfig: &Path, namespace: &str) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("write")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--namespace", namespace])
            .args(["--size", &load.size.to_string()])
            .args(["--max-in-flight", &load.max_in_flight.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        Self::start(&mut command)
    }

    fn start(command: &mut Command) -> io::Result<Self> {
        Ok(Self {
            child: command.spawn()?,
            metrics: None,
        })
    }

    /// Fails if the process has exited.
    fn check(&mut self, name: &dyn Display) -> Result<(), Box<dyn Error>> {
        match self.child.try_wait()? {
            Some(status) => Err(format!("{name} ended early: {status}").into()),
            None => Ok(()),
        }
    }

    /// Returns the process, for measurements.
    pub(crate) fn process(&self, name: &str) -> Process {
        Process {
            name: name.to_owned(),
            pid: self.child.id(),
        }
    }

    /// Waits until the bare writer reports that it has written everything. It then stays alive, so that it can still be
    /// measured.
    pub(crate) async fn written(&mut self) -> Result<(), Box<dyn Error>> {
        let said = self
            .child
            .stdout
            .take()
            .ok_or("its output was already taken")?;
        let mut line = String::new();
        let read = move || BufReader::new(said).read_line(&mut line).map(|_| line);
        match tokio::task::spawn_blocking(read).await??.trim() {
            crate::write::DONE => Ok(()),
            _ => Err("the bare writer failed".into()),
        }
    }
}

fn beside_this_program(name: &str) -> io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

/// Returns a port that was free a moment ago; the child needs the number at its start.
fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
