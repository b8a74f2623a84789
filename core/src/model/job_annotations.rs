//! What a Job may ask lakh for, beside its work, by annotations.
//!
//! Must not: know what becomes of it.

use compact_str::CompactString;

/// Asks for a record of each index.
pub const INDEX_RECORD: &str = "lakh.dev/index-record";

/// Asks for Events that sum up what Pods failed of.
pub const FAILURE_SUMMARY: &str = "lakh.dev/failure-summary";

/// Asks for metrics of this one Job.
pub const JOB_METRICS: &str = "lakh.dev/job-metrics";

/// Letters of an odd value that are kept, to be told.
const SHOWN: usize = 40;

/// What an annotation says that turns something on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AnnotationSwitch {
    /// It is not there.
    #[default]
    Unset,
    /// `true`.
    On,
    /// `false`.
    Off,
    /// Anything else; this is how it begins.
    Odd(CompactString),
}

/// The annotations of a Job that mean something to lakh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobAnnotations {
    /// By [`INDEX_RECORD`].
    pub index_record: AnnotationSwitch,
    /// By [`FAILURE_SUMMARY`].
    pub failure_summary: AnnotationSwitch,
    /// By [`JOB_METRICS`].
    pub job_metrics: AnnotationSwitch,
}

impl AnnotationSwitch {
    /// Reads a value.
    pub fn parse(text: &str) -> Self {
        match text {
            "true" => Self::On,
            "false" => Self::Off,
            odd => Self::Odd(odd.chars().take(SHOWN).collect()),
        }
    }
}

impl JobAnnotations {
    /// Whether none of them is there.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }

    /// Those that cannot be read, with their names.
    pub fn odd(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            (INDEX_RECORD, &self.index_record),
            (FAILURE_SUMMARY, &self.failure_summary),
            (JOB_METRICS, &self.job_metrics),
        ];
        all.into_iter().filter_map(|(name, switch)| match switch {
            AnnotationSwitch::Odd(text) => Some((name, text.as_str())),
            AnnotationSwitch::Unset | AnnotationSwitch::On | AnnotationSwitch::Off => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_true_and_false_mean_something() {
        assert_eq!(AnnotationSwitch::parse("true"), AnnotationSwitch::On);
        assert_eq!(AnnotationSwitch::parse("false"), AnnotationSwitch::Off);
        for odd in ["", "yes", "True", " true", "1"] {
            assert_eq!(
                AnnotationSwitch::parse(odd),
                AnnotationSwitch::Odd(odd.into())
            );
        }
        let annotations = JobAnnotations {
            failure_summary: AnnotationSwitch::parse(&"x".repeat(1000)),
            job_metrics: AnnotationSwitch::On,
            ..JobAnnotations::default()
        };
        let odd: Vec<_> = annotations.odd().collect();
        let shown = "x".repeat(SHOWN);
        assert_eq!(odd, [(FAILURE_SUMMARY, shown.as_str())]);
    }
}
