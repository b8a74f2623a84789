//! Validates CronJobs.
//!
//! Responsible for: schedule, time zone and fields that the Job template must not set. Must not: repeat the rules of
//! Jobs, which also apply to the template.

use super::validate;
use crate::{
    apiserver::object::{CheckedField, Tree, tree},
    cron::{Schedule, Zone, names_zone},
};

/// The longest name. Names of Jobs are longer, because they end in the minute of the run.
const NAME_MAX: usize = 52;

const NO_ZONE: &str = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";

const NOT_BOTH: &str = "cannot use both timeZone field and TZ or CRON_TZ in schedule";

const NOT_LOCAL: &str = "timeZone must be an explicit time zone as defined in \
                         https://www.iana.org/time-zones";

/// Validates a new CronJob.
pub(crate) fn validate_create(cron_job: &CheckedField<'_, '_>) {
    check_spec(cron_job);
    let name = cron_job.at("metadata.name");
    if name.text().len() > NAME_MAX {
        name.invalid(&format!("must be no more than {NAME_MAX} characters"));
    }
}

/// Warnings for a new CronJob.
pub(crate) fn warnings(tree: &Tree) -> Vec<String> {
    let name = super::defaults::name_warning(tree);
    name.into_iter().chain(job_warnings(tree)).collect()
}

/// Warnings for an update of a CronJob.
pub(crate) fn update_warnings(tree: &Tree, old: &Tree) -> Vec<String> {
    let mut warnings = match tree.get("spec") == old.get("spec") {
        true => Vec::new(),
        false => job_warnings(tree),
    };
    if names_zone(tree::text(tree, "spec.schedule")) {
        // Upstream's path contains `spec` twice.
        warnings.push(
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
                .to_owned(),
        );
    }
    warnings
}

fn job_warnings(tree: &Tree) -> Vec<String> {
    let job = tree::section(tree, "spec.jobTemplate.spec");
    super::defaults::spec_warnings("spec.jobTemplate.spec", job)
}

/// Validates the spec of a new or updated CronJob.
pub(crate) fn check_spec(cron_job: &CheckedField<'_, '_>) {
    let spec = cron_job.at("spec");
    check_schedule(&spec);
    spec.at("startingDeadlineSeconds").must_not_be_negative();
    let zone = spec.at("timeZone");
    if zone.has_changed() {
        check_time_zone(&zone);
    }
    spec.at("concurrencyPolicy")
        .must_be_one_of(&["Allow", "Forbid", "Replace"]);
    check_template(&spec);
    spec.at("successfulJobsHistoryLimit").must_not_be_negative();
    spec.at("failedJobsHistoryLimit").must_not_be_negative();
}

fn check_schedule(spec: &CheckedField<'_, '_>) {
    let schedule = spec.at("schedule");
    if !schedule.must_be_given() {
        return;
    }
    if let Err(error) = Schedule::parse(schedule.text()) {
        schedule.invalid(&error.to_string());
    }
    if !names_zone(schedule.text()) {
        return;
    }
    // A schedule with a time zone that an older server accepted may stay.
    if !names_zone(schedule.old().text()) {
        schedule.invalid(NO_ZONE);
    } else if spec.at("timeZone").is_set() {
        schedule.invalid(NOT_BOTH);
    }
}

fn check_time_zone(zone: &CheckedField<'_, '_>) {
    let Some(name) = zone.as_text() else { return };
    if name.is_empty() {
        return zone.invalid("timeZone must be nil or non-empty string");
    }
    if name.eq_ignore_ascii_case("local") {
        zone.invalid(NOT_LOCAL);
    }
    if let Err(error) = Zone::load(name) {
        zone.invalid(&error.to_string());
    }
}

fn check_template(spec: &CheckedField<'_, '_>) {
    let job = spec.at("jobTemplate.spec");
    let mut defaulted = job.tree().clone();
    // Validation needs the defaults that a Job would have; the template keeps these fields unset.
    tree::default(&mut defaulted, "completionMode", "NonIndexed");
    let policy = super::defaults::replacement_policy(&defaulted);
    tree::default(&mut defaulted, "podReplacementPolicy", policy);
    let job = job.holding(&defaulted);
    validate::check_spec(&job);
    let selector = job.at("selector");
    if selector.is_set() {
        selector.invalid("`selector` will be auto-generated");
    }
    let manual = job.at("manualSelector");
    if manual.flag() {
        manual.unsupported(true, &["nil", "false"]);
    }
}
