//! Interprets API objects for several commands.
//!
//! Must not: make a request, or recommend an action.

mod events;
mod managers;
mod quotas;
mod refusals;
mod server_leases;

pub(super) use events::event_time;
pub(super) use managers::meant_manager;
pub(super) use quotas::{is_of_all_pods, used_up};
pub(super) use refusals::{Refusal, RefusedWrite, Refuser};
pub(super) use server_leases::{STUCK_CAUSE, STUCK_REMEDY, ServerLease};
