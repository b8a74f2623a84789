//! What this process has taken of the machine, as Linux tells it.

use std::{fs, io};

/// Ticks per second of the times in `/proc`: fixed by Linux' interface to user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time so far, user and system, in seconds.
pub(crate) fn cpu_seconds() -> io::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The command's name stands in parentheses and may have spaces in it.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    let (user, system) = ticks(11).zip(ticks(12)).ok_or(io::ErrorKind::InvalidData)?;
    Ok((user + system) / TICKS_PER_SECOND)
}

/// The most memory held at once, in MiB.
pub(crate) fn peak_memory_mib() -> io::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| {
        line.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<f64>()
            .ok()
    });
    kib.map(|kib| kib / 1024.0)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}
