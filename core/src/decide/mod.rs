//! Decides what one Job needs next.
//!
//! Responsible for: turning what is known of a Job and its Pods, and the time, into effects.
//! Must not: know of HTTP, JSON, tasks, locks, random sources or the wall clock; scan all Pods of
//! a Job because of one Pod's event.
//!
//! Read first: [`JobMachine`], which has the order of the rules and passes values between its parts. Each part
//! has its state to itself: `counting` (the Pods there are, how far each is counted, and their places),
//! `creations` (the Pods that were asked for), `ending` (the verdict), `suspension`, `contest` (another controller), `status` (when and what is
//! written) and `gang` (all Pods at once, or none). `manage_pods` compares the Pods there are with those that
//! are wanted; `overview` tells people. The rules are those of Kubernetes' Job controller: docs/rules/jobs.md.

mod backoff;
mod contest;
mod counting;
mod creations;
mod effect;
mod ending;
mod errands;
mod gang;
mod job;
mod machine;
mod manage_pods;
mod overview;
mod rank;
mod status;
mod suspension;

pub use counting::{End, IndexOverview, Input, Shown, Stage};
pub use effect::{CreateError, CreationId, CreationReason, Effect, NewPod, Outcome};

pub use crate::model::{Report, Severity};
pub use ending::Verdict;
pub use gang::Fallback;
pub use machine::JobMachine;
pub use overview::{Overview, Sums};
