//! Reads the resource usage of the process with each scrape, under the names of Prometheus' client libraries.
//!
//! Without `/proc`, all values stay 0.

use std::{
    fs,
    sync::atomic::{AtomicU64, Ordering},
};

use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::{Registry, Unit},
};
use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
};

/// Metrics of the process. Call [`look`](Self::look) before they are written.
#[derive(Debug, Default)]
pub(super) struct Process {
    cpu: Counter<f64, AtomicU64>,
    resident: Gauge<i64>,
    virtual_memory: Gauge<i64>,
    threads: Gauge<i64>,
    open_files: Gauge<i64>,
    max_files: Gauge<i64>,
    started: Gauge<i64>,
}

impl Process {
    /// Registers and returns the metrics.
    pub(super) fn registered(registry: &mut Registry) -> Self {
        let own = Self::default();
        let process = registry.sub_registry_with_prefix("process");
        process.register_with_unit(
            "cpu",
            "CPU time of the process",
            Unit::Seconds,
            own.cpu.clone(),
        );
        for (name, help, unit, gauge) in [
            (
                "resident_memory",
                "Resident memory",
                Unit::Bytes,
                &own.resident,
            ),
            (
                "virtual_memory",
                "Virtual memory",
                Unit::Bytes,
                &own.virtual_memory,
            ),
            (
                "start_time",
                "Start time of the process since the Unix epoch",
                Unit::Seconds,
                &own.started,
            ),
        ] {
            process.register_with_unit(name, help, unit, gauge.clone());
        }
        process.register("threads", "Threads of the process", own.threads.clone());
        process.register("open_fds", "Open file descriptors", own.open_files.clone());
        process.register(
            "max_fds",
            "Limit on open file descriptors",
            own.max_files.clone(),
        );
        own
    }

    /// Updates all values.
    pub(super) fn look(&self) {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        if let Some(stat) = Stat::read(&stat) {
            self.cpu
                .inner()
                .store(stat.cpu.to_bits(), Ordering::Relaxed);
            self.resident.set(stat.resident);
            self.virtual_memory.set(stat.virtual_memory);
            self.threads.set(stat.threads);
            // It never changes: one read is enough.
            if self.started.get() == 0 {
                self.started.set(booted() + stat.started);
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            self.open_files
                .set(i64::try_from(open.count()).unwrap_or(i64::MAX));
        }
        let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        self.max_files.set(i64::try_from(most).unwrap_or(i64::MAX));
    }
}

/// The values that are read from `/proc/self/stat`, proc(5).
#[derive(Debug, PartialEq)]
struct Stat {
    /// In seconds.
    cpu: f64,
    threads: i64,
    /// In seconds after boot.
    started: i64,
    virtual_memory: i64,
    resident: i64,
}

impl Stat {
    fn read(text: &str) -> Option<Self> {
        // The program's name, in parentheses, may contain any character.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // The first field after it is number 3.
        let number = |field: usize| fields.get(field - 3)?.parse::<i64>().ok();
        let ticks = clock_ticks_per_second() as f64;
        let page = i64::try_from(page_size()).ok()?;
        Some(Self {
            cpu: (number(14)? + number(15)?) as f64 / ticks,
            threads: number(20)?,
            started: (number(22)? as f64 / ticks) as i64,
            virtual_memory: number(23)?,
            resident: number(24)? * page,
        })
    }
}

/// Returns the boot time in seconds since the Unix epoch.
fn booted() -> i64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "));
    line.and_then(|time| time.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_from_behind_the_name() {
        let text = "1 (a) b) S 0 0 0 0 0 0 0 0 0 0 150 50 0 0 20 0 3 0 1000 4096 2 0";
        let ticks = clock_ticks_per_second() as f64;
        let stat = Stat::read(text).expect("it is whole");
        assert_eq!(stat.cpu, 200.0 / ticks);
        assert_eq!((stat.threads, stat.virtual_memory), (3, 4096));
        assert_eq!(stat.resident, 2 * i64::try_from(page_size()).expect("few"));
        assert_eq!(Stat::read("1 (a) S 0"), None);
    }
}
