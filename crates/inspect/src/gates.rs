//! Parses `--feature-gates`, as in Kubernetes' components: young features are off by default.

/// The gate of gang scheduling.
const WORKLOAD_WITH_JOB: &str = "WorkloadWithJob";

/// Gates of Kubernetes' Job controller that are always on here.
const ALWAYS_ON: &[&str] = &[
    "JobBackoffLimitPerIndex",
    "JobManagedBy",
    "JobPodReplacementPolicy",
    "JobSuccessPolicy",
    "MutableSchedulingDirectivesForSuspendedJobs",
];

/// The gates of one flag: one or more, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gates(Vec<bool>);

impl Gates {
    /// Parses `Name=true,Name=false`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let gates = text.split(',').filter(|gate| !gate.trim().is_empty());
        gates.map(gate).collect::<Result<_, _>>().map(Self)
    }

    /// Returns true if WorkloadWithJob is on; the last value given counts.
    pub fn workload_with_job(all: &[Self]) -> bool {
        let mut typed = all.iter().flat_map(|gates| &gates.0);
        typed.next_back().copied().unwrap_or_default()
    }
}

fn gate(text: &str) -> Result<bool, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("{text}: must be NAME=true or NAME=false"))?;
    match name.trim() {
        WORKLOAD_WITH_JOB => {}
        known if ALWAYS_ON.contains(&known) => {
            return Err(format!("{known}: is always on in lakh and cannot be set"));
        }
        "GenericWorkload" => {
            return Err(format!(
                "GenericWorkload: is a feature gate of the API server; the gate of lakh is {WORKLOAD_WITH_JOB}"
            ));
        }
        other => {
            return Err(format!(
                "unknown feature gate {other}; lakh has {WORKLOAD_WITH_JOB}"
            ));
        }
    }
    value
        .trim()
        .parse()
        .map_err(|_| format!("{WORKLOAD_WITH_JOB}={value}: must be true or false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_on(texts: &[&str]) -> bool {
        let read = |text: &&str| Gates::parse(text).expect("good gates");
        Gates::workload_with_job(&texts.iter().map(read).collect::<Vec<_>>())
    }

    #[test]
    fn the_last_word_counts() {
        assert!(!is_on(&[]) && !is_on(&[""]));
        assert!(is_on(&["WorkloadWithJob=true"]));
        assert!(!is_on(&["WorkloadWithJob=true,WorkloadWithJob=false"]));
        assert!(is_on(&[
            "WorkloadWithJob=false",
            " WorkloadWithJob = true,"
        ]));
    }

    #[test]
    fn invalid_gates_are_refused_with_a_reason() {
        let says = |text: &str, what: &str| {
            let why = Gates::parse(text).expect_err("no good");
            assert!(why.contains(what), "{text}: {why}");
        };
        says("WorkloadWithJob", "must be NAME=true or NAME=false");
        says("WorkloadWithJob=yes", "must be true or false");
        says(
            "Workload=true",
            "unknown feature gate Workload; lakh has WorkloadWithJob",
        );
        says("JobManagedBy=true", "always on");
        says("GenericWorkload=true", "API server");
    }
}
