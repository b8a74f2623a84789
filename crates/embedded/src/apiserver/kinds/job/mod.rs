//! Holds the defaults, generated labels and rules of Jobs and CronJobs.
//!
//! Responsible for: rules that only Jobs and CronJobs have. Must not: hold pod-spec rules, which are in `template`.

pub(crate) mod cron_job;
mod defaults;
mod index_list;
mod policies;
mod selector;
mod status;
mod update;
mod validate;

pub(crate) use defaults::{
    default, default_cron_job, prepare_create, prepare_status, update_warnings, warnings,
};
pub(crate) use status::{spec_without_template, validate_status};
pub(crate) use update::validate_update;
pub(crate) use validate::validate_create;
