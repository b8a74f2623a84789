//! Decides which controller manages a Job, and which Job owns a Pod.
//!
//! Read first: [`Claims`] (adoption, release, finalizer removal). Then [`Standing`] (Pods of a Job that has ended, is
//! gone, or belongs to another controller) and [`Mode`] (which Jobs this controller manages). The rules are those of
//! Kubernetes' Job controller: docs/rules/jobs.md, 1.6 and 9.
//!
//! Must not: know of HTTP, tasks, locks, the wall clock, or a Job's progress.

mod alphabet;
mod claims;
mod controllers;
mod hold;
mod lease_name;
mod mode;
mod namespace;
mod standing;
mod unserved;

pub use alphabet::{Claimed, Orphan, PatchAnswer, Round, Told};
pub use claims::Claims;
pub use controllers::Controllers;
pub use lease_name::lease_name;
pub use mode::{BadManagerName, ManagerName, Mode};
pub use standing::Standing;
pub use unserved::Unserved;
