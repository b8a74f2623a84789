//! Reads one Job for `lakh status` and `lakh why`: the Job, a summary of its Pods, Events and quotas.
//!
//! [`look()`] sends the requests. The rest is values: the summary of Pods (`census`), backoffs after failures
//! ([`Waits`]), the rate of completions ([`JobPace`]). Must not: judge, or print anything.

mod args;
mod census;
mod job;
mod look;
mod pace;
mod pending;
#[cfg(test)]
pub(super) mod seen;
mod waits;

pub(super) use args::{JobArgs, no_job};
pub(super) use census::AlikePods;
pub(super) use job::JobDetails;
pub(super) use look::{Depth, JobSight, lists_running, look, read_job, running_indexes};
pub(super) use pace::{JobPace, SeenSuccesses};
pub(super) use pending::{PendingGroup, PendingKind};
pub(super) use waits::Waits;
