//! Whose a Pod is: which Jobs are ours, which Pods come to them, leave them, or have nobody.
//!
//! Read first: [`Claims`] (adopted, released, freed), then [`Standing`] (what becomes of the Pods
//! of a Job that has ended, is gone, or is another's) and [`Mode`] (which Jobs are ours at all). The rules
//! are those of Kubernetes' Job controller: docs/rules/jobs.md, 1.6 and 9.
//!
//! Must not: know of HTTP, tasks, locks or the wall clock, or how a Job is doing.

mod alphabet;
mod claims;
mod hold;
mod mode;
mod namespace;
mod standing;
mod unserved;

pub use alphabet::{Claimed, Orphan, PatchAnswer, Round, Told};
pub use claims::Claims;
pub use mode::{BadManagerName, ManagerName, Mode};
pub use standing::Standing;
pub use unserved::Unserved;
