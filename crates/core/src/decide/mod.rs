//! Decides the next actions for one Job.
//!
//! Responsible for: turning the known state of a Job and its Pods, and the time, into effects.
//! Must not: know of HTTP, JSON, tasks, locks, random sources or the wall clock; scan all Pods of a Job because of one
//! Pod's event.
//!
//! Read first: [`JobMachine`]. It applies the rules in order and passes values between its parts. Each part owns its
//! state: `counting` (the existing Pods, the progress of counting each, and their indexes and names), `creations`
//! (requested Pods), `ending` (the verdict), `suspension`, `contest` (another controller), `status` (when to write the
//! status, and its conditions) and `gang` (gang scheduling). `manage_pods` compares existing Pods with wanted ones;
//! `overview` exposes the state to users. The rules are those of Kubernetes' Job controller: docs/rules/jobs.md.

mod backoff;
mod contest;
mod counting;
mod creations;
mod effect;
mod ending;
mod gang;
mod job;
mod machine;
mod manage_pods;
mod overview;
mod rank;
mod status;
mod suspension;
mod write_latency;

pub use counting::{End, IndexOverview, Input, Shown, Stage};
pub use effect::{CreateError, CreationId, CreationReason, Effect, NewPod, Outcome};

pub use crate::model::{Report, Severity};
pub use ending::Verdict;
pub use gang::Fallback;
pub use machine::JobMachine;
pub use overview::{Overview, Sums};
