//! Parses the annotations by which a Job requests extra features.
//!
//! Must not: know the effect of an annotation.

use compact_str::CompactString;

/// Requests a record of each index.
pub const INDEX_RECORD: &str = "lakh.dev/index-record";

/// Requests Events that summarize the causes of Pod failures.
pub const FAILURE_SUMMARY: &str = "lakh.dev/failure-summary";

/// Requests metrics of this one Job.
pub const JOB_METRICS: &str = "lakh.dev/job-metrics";

/// Characters of an unrecognized value that are kept for the message about it.
const SHOWN: usize = 40;

/// The value of an annotation that turns a feature on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AnnotationSwitch {
    /// The annotation is absent.
    #[default]
    Unset,
    /// `true`.
    On,
    /// `false`.
    Off,
    /// Any other value, truncated.
    Odd(CompactString),
}

/// The annotations of a Job that lakh reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobAnnotations {
    /// The value of [`INDEX_RECORD`].
    pub index_record: AnnotationSwitch,
    /// The value of [`FAILURE_SUMMARY`].
    pub failure_summary: AnnotationSwitch,
    /// The value of [`JOB_METRICS`].
    pub job_metrics: AnnotationSwitch,
}

impl AnnotationSwitch {
    /// Parses a value.
    pub fn parse(text: &str) -> Self {
        match text {
            "true" => Self::On,
            "false" => Self::Off,
            odd => Self::Odd(odd.chars().take(SHOWN).collect()),
        }
    }
}

impl JobAnnotations {
    /// Returns true if all of them are absent.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }

    /// The annotations with an unrecognized value: name and value.
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
