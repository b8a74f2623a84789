//! Decides what one Job needs next.
//!
//! Responsible for: turning what is known of a Job and its Pods, and the time, into effects.
//! Must not: know of HTTP, JSON, tasks, locks, random sources or the wall clock; scan all Pods of
//! a Job because of one Pod's event.
//!
//! Read first: [`JobMachine`], then `steer` (Pods wanted), `account` (Pods counted), `verdict`
//! (how it ends), `status` (what is written); then the
//! policies: `failure_policy`, `retention` (failures index by index), `success_policy`; and `gang` (all
//! Pods at once, or none). The rules are those of Kubernetes' Job controller:
//! docs/rules/jobs.md.

mod account;
mod alphabet;
mod backoff;
mod check;
mod errands;
mod failure_policy;
mod gang;
mod gate;
mod holders;
mod indexes;
mod lane;
mod machine;
mod pod_names;
mod ramp;
mod rank;
mod retention;
mod status;
mod steer;
mod success_policy;
mod tracked;
mod verdict;

pub use alphabet::{CreateError, CreationId, CreationReason, Effect, NewPod, Outcome};

pub use crate::model::{Report, Severity};
pub use gang::Fallback;
pub use machine::JobMachine;
pub use verdict::Verdict;
