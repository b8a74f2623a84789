//! Writes the report of a run: as JSON, as a page, and as a line of a history.
//!
//! Read first: [`Report`]. `page` renders the page, `compare` two reports side by side.
//!
//! Must not: measure, or judge.

mod compare;
mod page;

pub(crate) use compare::{CompareArgs, compare};

use std::{
    collections::BTreeMap,
    error::Error,
    fmt, fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::latency::Distribution;

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    /// Format version, for readers of old reports.
    pub(crate) format: u32,
    pub(crate) scenario: String,
    /// Start of the run, as RFC 3339.
    pub(crate) started: String,
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    pub(crate) outcome: Outcome,
    /// From the first Job's creation to the end of the scenario.
    pub(crate) wall_seconds: f64,
    /// Created Pods per second of wall time.
    pub(crate) pods_per_second: f64,
    /// The parts of the wall time, in order.
    pub(crate) phases: Vec<Phase>,
    pub(crate) processes: Vec<ProcessReport>,
    /// Writes counted by the API server, from all clients.
    pub(crate) calls: Vec<Calls>,
    /// Latency from a Pod's last phase to the removal of its finalizer.
    pub(crate) finished_to_counted: Distribution,
    /// Latency from a Job to its first Pod.
    pub(crate) created_to_first_pod: Distribution,
    /// Latencies of a tenant's small Jobs, if there is a tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waits: Vec<Waits>,
    /// Completion times of the main Job's indexes, if it has indexes.
    pub(crate) indexes: Option<Indexes>,
    pub(crate) samples: Vec<Sample>,
}

/// The machine of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Machine {
    /// Processors that this program may use.
    pub(crate) processors: usize,
    /// The program was built without optimization, so its figures are meaningless.
    pub(crate) debug_build: bool,
}

/// Settings of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    pub(crate) size: u32,
    #[serde(default = "one")]
    pub(crate) jobs: u32,
    pub(crate) parallelism: u32,
    pub(crate) max_in_flight: usize,
    pub(crate) pod_duration_ms: u64,
    pub(crate) call_latency_ms: u64,
    pub(crate) cluster: String,
    pub(crate) controller: String,
    pub(crate) controller_flags: Vec<String>,
}

/// Returns the number of Jobs for reports without that field.
fn one() -> u32 {
    1
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    pub(crate) timed_out: bool,
    pub(crate) jobs_complete: u32,
    pub(crate) jobs_failed: u32,
    pub(crate) pods_created: u32,
    pub(crate) pods_succeeded: u32,
    pub(crate) pods_failed: u32,
    /// Finished Pods without the tracking finalizer.
    pub(crate) pods_counted: u32,
}

/// Latencies of a tenant's Jobs of one Pod, from their creation request on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Waits {
    /// The other load at that time: none, or the giant Job.
    pub(crate) when: String,
    pub(crate) first_pod: Distribution,
    pub(crate) end: Distribution,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Phase {
    pub(crate) name: String,
    pub(crate) seconds: f64,
}

/// Resources that a process used during the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProcessReport {
    pub(crate) name: String,
    pub(crate) cpu_seconds: f64,
    pub(crate) cpu_ms_per_pod: f64,
    /// Maximum memory that it ever held.
    pub(crate) peak_rss_mib: f64,
}

/// Writes of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Calls {
    pub(crate) verb: String,
    pub(crate) resource: String,
    /// The server refused them.
    pub(crate) refused: bool,
    pub(crate) count: u64,
    pub(crate) per_pod: f64,
}

/// State of the run at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sample {
    /// Since the start.
    pub(crate) seconds: f64,
    pub(crate) created: u32,
    pub(crate) active: u32,
    pub(crate) succeeded: u32,
    pub(crate) failed: u32,
    pub(crate) counted: u32,
    /// lakh's writes that are queued or in flight.
    pub(crate) writes_pending: Option<u64>,
    /// Latencies of the Pods that were counted since the last sample.
    pub(crate) counted_p50_ms: Option<f64>,
    pub(crate) counted_p99_ms: Option<f64>,
    pub(crate) processes: BTreeMap<String, ProcessSample>,
}

/// State of a process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProcessSample {
    /// Since the process was started.
    pub(crate) cpu_seconds: f64,
    pub(crate) rss_mib: f64,
}

/// Completion times of indexes, with neighbours merged into cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Indexes {
    pub(crate) completions: usize,
    /// Number of neighbouring indexes per cell; the last may have fewer.
    pub(crate) per_cell: usize,
    /// Completion time of the last index of each cell, in seconds; none if one never succeeded.
    pub(crate) done: Vec<Option<f64>>,
}

/// Maximum number of cells that can be distinguished on a page.
const CELLS: usize = 5_000;

impl Indexes {
    /// Merges the completion times of indexes; NaN means never.
    pub(crate) fn of(moments: &[f32]) -> Self {
        let per_cell = moments.len().div_ceil(CELLS).max(1);
        let last = |cell: &[f32]| {
            let latest = cell.iter().copied().fold(0.0, |a: f32, b: f32| {
                if a.is_nan() || b.is_nan() {
                    f32::NAN
                } else {
                    a.max(b)
                }
            });
            (!latest.is_nan()).then(|| rounded(f64::from(latest)))
        };
        Self {
            completions: moments.len(),
            per_cell,
            done: moments.chunks(per_cell).map(last).collect(),
        }
    }
}

impl Machine {
    /// Returns the machine that this program runs on.
    pub(crate) fn this() -> Self {
        Self {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            debug_build: cfg!(debug_assertions),
        }
    }
}

impl Report {
    /// Format version of reports that this program writes.
    pub(crate) const FORMAT: u32 = 1;

    /// Returns true if the run ended in time, with no Job failed.
    pub(crate) fn is_good(&self) -> bool {
        !self.outcome.timed_out && self.outcome.jobs_failed == 0
    }

    /// Writes the files; returns the path of the page.
    pub(crate) fn write(&self, folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("report.json"), serde_json::to_vec(self)?)?;
        let page = folder.join("report.html");
        fs::write(&page, page::page(&[("", self)])?)?;
        let mut history = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(folder.join("history.jsonl"))?;
        writeln!(history, "{}", self.history_line())?;
        Ok(page)
    }

    /// Reads a `report.json`.
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let named = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
        let text = fs::read(path).map_err(|error| named(&error))?;
        let report: Self = serde_json::from_slice(&text).map_err(|error| named(&error))?;
        if report.format != Self::FORMAT {
            return Err(named(&format!("format {} is not known", report.format)).into());
        }
        Ok(report)
    }

    /// Returns the figures without the time series.
    fn history_line(&self) -> serde_json::Value {
        json!({
            "started": self.started,
            "scenario": self.scenario,
            "settings": self.settings,
            "machine": self.machine,
            "figures": self.figures().into_iter().map(|figure| (figure.name, figure.value))
                .collect::<BTreeMap<_, _>>(),
        })
    }

    /// Returns the figures by which runs are compared.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let mut figures = vec![
            Figure::new("wall time", "s", self.wall_seconds),
            Figure::new("Pods", "/s", self.pods_per_second),
        ];
        for process in &self.processes {
            let name = &process.name;
            figures.extend([
                Figure::new(&format!("CPU, {name}"), "s", process.cpu_seconds),
                Figure::new(
                    &format!("CPU per Pod, {name}"),
                    "ms",
                    process.cpu_ms_per_pod,
                ),
                Figure::new(&format!("peak memory, {name}"), "MiB", process.peak_rss_mib),
            ]);
        }
        let mut latencies = vec![
            (
                "Pod finished to counted".to_owned(),
                &self.finished_to_counted,
            ),
            ("Job to first Pod".to_owned(), &self.created_to_first_pod),
        ];
        for waits in &self.waits {
            let when = &waits.when;
            latencies.push((format!("tenant {when}: to first Pod"), &waits.first_pod));
            latencies.push((format!("tenant {when}: to the end"), &waits.end));
        }
        for (what, latencies) in latencies {
            if latencies.count > 0 {
                figures.extend([
                    Figure::new(&format!("{what}, p50"), "ms", latencies.p50),
                    Figure::new(&format!("{what}, p99"), "ms", latencies.p99),
                ]);
            }
        }
        for calls in &self.calls {
            let refused = if calls.refused { ", refused" } else { "" };
            let name = format!("{} {} per Pod{refused}", calls.verb, calls.resource);
            figures.push(Figure::new(&name, "", calls.per_pod));
        }
        figures
    }
}

/// A figure of a report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) value: f64,
}

impl Figure {
    fn new(name: &str, unit: &'static str, value: f64) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            value,
        }
    }

    /// Formats the value with a suitable number of digits, and its unit.
    pub(crate) fn shown(&self) -> String {
        let digits = match self.value.abs() {
            value if value >= 100.0 => 0,
            value if value >= 10.0 => 1,
            value if value >= 1.0 => 2,
            value if value >= 0.01 => 3,
            _ => 5,
        };
        let space = if self.unit.starts_with('/') { "" } else { " " };
        format!("{:.digits$}{space}{}", self.value, self.unit)
            .trim_end()
            .to_owned()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome {
            timed_out,
            jobs_complete,
            jobs_failed,
            pods_created,
            pods_succeeded,
            pods_failed,
            pods_counted,
        } = &self.outcome;
        writeln!(f, "{} by {}", self.scenario, self.settings.controller)?;
        writeln!(
            f,
            "Jobs: {jobs_complete} Complete, {jobs_failed} Failed. Pods: {pods_created} created, \
             {pods_succeeded} succeeded, {pods_failed} failed, {pods_counted} counted."
        )?;
        if *timed_out {
            writeln!(f, "The time ran out.")?;
        }
        if self.machine.debug_build {
            writeln!(f, "A debug build: the figures say nothing.")?;
        }
        for phase in &self.phases {
            writeln!(f, "  {:<44} {:>12.2} s", phase.name, phase.seconds)?;
        }
        for figure in self.figures() {
            writeln!(f, "  {:<44} {:>14}", figure.name, figure.shown())?;
        }
        Ok(())
    }
}

/// Rounds to three decimals: more is noise, and makes reports long.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns a report with data in each part.
    pub(crate) fn example() -> Report {
        let process = ProcessReport {
            name: "controller".into(),
            cpu_seconds: 2.0,
            cpu_ms_per_pod: 0.2,
            peak_rss_mib: 40.5,
        };
        let sample = Sample {
            seconds: 0.2,
            created: 10,
            counted_p50_ms: Some(1.5),
            processes: [("controller".to_owned(), ProcessSample::default())].into(),
            ..Sample::default()
        };
        Report {
            format: Report::FORMAT,
            scenario: "indexed".into(),
            started: "2026-11-21T08:00:00Z".into(),
            machine: Machine::this(),
            settings: Settings {
                size: 10_000,
                parallelism: 10_000,
                jobs: 1,
                max_in_flight: 64,
                pod_duration_ms: 0,
                call_latency_ms: 5,
                cluster: "embedded".into(),
                controller: "lakh".into(),
                controller_flags: vec!["--qps=1".into()],
            },
            outcome: Outcome {
                timed_out: false,
                jobs_complete: 1,
                jobs_failed: 0,
                pods_created: 10_000,
                pods_succeeded: 10_000,
                pods_failed: 0,
                pods_counted: 10_000,
            },
            wall_seconds: 4.0,
            pods_per_second: 2500.0,
            phases: vec![Phase {
                name: "to the end".into(),
                seconds: 4.0,
            }],
            processes: vec![process],
            calls: vec![Calls {
                verb: "create".into(),
                resource: "pods".into(),
                refused: false,
                count: 10_000,
                per_pod: 1.0,
            }],
            finished_to_counted: Distribution {
                count: 2,
                p50: 1.0,
                p90: 2.0,
                p99: 2.0,
                max: 2.0,
                percentiles: vec![1.0, 2.0],
            },
            created_to_first_pod: Distribution::default(),
            waits: Vec::new(),
            indexes: Some(Indexes::of(&[0.5, f32::NAN])),
            samples: vec![sample],
        }
    }

    #[test]
    fn a_report_is_read_back_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let report = example();
        report.write(folder.path()).expect("it is written");
        report.write(folder.path()).expect("it is written again");
        let path = folder.path().join("report.json");
        assert_eq!(Report::read(&path).expect("it is read"), report);
        let history = fs::read_to_string(folder.path().join("history.jsonl")).expect("it is there");
        let lines: Vec<serde_json::Value> = history
            .lines()
            .map(|line| serde_json::from_str(line).expect("a line is JSON"))
            .collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["figures"]["Pods"], 2500.0);
    }

    #[test]
    fn a_report_of_another_form_is_refused() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let report = Report {
            format: 99,
            ..example()
        };
        report.write(folder.path()).expect("it is written");
        let error = Report::read(&folder.path().join("report.json")).expect_err("it is of old");
        assert!(error.to_string().contains("format 99"), "{error}");
    }

    #[test]
    fn a_cell_is_done_with_its_last_index() {
        let indexes = Indexes::of(&[3.0, 1.0, f32::NAN]);
        assert_eq!(indexes.done, [Some(3.0), Some(1.0), None]);
        let many: Vec<f32> = (0..20_000).map(|index| index as f32).collect();
        let indexes = Indexes::of(&many);
        assert_eq!((indexes.per_cell, indexes.done.len()), (4, 5_000));
        assert_eq!(indexes.done[0], Some(3.0));
    }

    #[test]
    fn figures_have_the_digits_they_deserve() {
        let shown = |value, unit| Figure::new("x", unit, value).shown();
        assert_eq!(shown(3512.4, "/s"), "3512/s");
        assert_eq!(shown(28.04, "s"), "28.0 s");
        assert_eq!(shown(0.1234, "ms"), "0.123 ms");
        assert_eq!(shown(0.00031, ""), "0.00031");
        assert_eq!(shown(2.0, ""), "2.00");
    }
}
