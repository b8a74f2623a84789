//! One Job, as `lakh status` and `lakh why` see it: the Job, what its Pods tell together, Events, quotas.
//!
//! [`look()`] asks for no more than is needed. The rest is values: what is kept of Pods (`census`), what
//! waits after them ([`Waits`]), how quick it goes ([`JobPace`]). Must not: say what is wrong, or print anything.

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
