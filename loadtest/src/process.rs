//! Reads CPU and memory of processes from Linux' `/proc`.

use std::{fs, io};

/// Ticks per second of the times in `/proc`, fixed by Linux' interface to user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// A measured process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Name in reports.
    pub(crate) name: String,
    /// Process ID.
    pub(crate) pid: u32,
}

/// Resources that a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// CPU time, user and system, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Memory held now, in MiB.
    pub(crate) rss_mib: f64,
    /// Maximum memory held at once, in MiB.
    pub(crate) peak_rss_mib: f64,
}

impl Process {
    /// Returns this process.
    pub(crate) fn own(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            pid: std::process::id(),
        }
    }

    /// Parses `NAME=PID` from the command line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=');
        let parsed = parts.and_then(|(name, pid)| Some((name, pid.parse().ok()?)));
        let (name, pid) = parsed.ok_or("must be NAME=PID, such as kube-apiserver=4711")?;
        Ok(Self {
            name: name.to_owned(),
            pid,
        })
    }

    /// Returns the resources used so far.
    pub(crate) fn usage(&self) -> io::Result<Usage> {
        let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", self.pid));
        let (stat, status) = (read("stat")?, read("status")?);
        usage(&stat, &status).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn usage(stat: &str, status: &str) -> Option<Usage> {
    // The command's name is in parentheses and may contain any character.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let mib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kib / 1024.0)
    };
    Some(Usage {
        cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
        rss_mib: mib("VmRSS:")?,
        peak_rss_mib: mib("VmHWM:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_proc_files_are_parsed() {
        let stat = "4711 (odd (name) ) S 1 1 1 0 -1 4194560 10 20 0 0 250 150 7 8 20 0 9 0 99 1 2";
        let status = "Name:\todd\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t9\n";
        let expected = Usage {
            cpu_seconds: 4.0,
            rss_mib: 1.0,
            peak_rss_mib: 2.0,
        };
        assert_eq!(usage(stat, status), Some(expected));
        assert_eq!(usage("4711 (odd) Z", status), None);
        assert_eq!(usage(stat, "Name:\tkernel thread\n"), None);
    }

    #[test]
    fn own_figures_are_there() {
        let usage = Process::own("test").usage().expect("/proc is mounted");
        assert!(usage.rss_mib > 0.0 && usage.peak_rss_mib >= usage.rss_mib / 2.0);
    }

    #[test]
    fn a_named_process_is_typed_with_its_id() {
        let etcd = Process::parse("etcd=12").expect("it is well formed");
        assert_eq!((etcd.name.as_str(), etcd.pid), ("etcd", 12));
        for wrong in ["etcd", "etcd=", "etcd=x"] {
            assert!(Process::parse(wrong).is_err(), "{wrong}");
        }
    }
}
