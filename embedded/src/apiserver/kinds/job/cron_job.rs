//! Rules about CronJobs.
//!
//! Responsible for: schedule, time zone and what a Job template must not have. Must not: repeat the
//! rules of Jobs, which hold for the template, too.

use serde_json::{Value, json};

use super::validate;
use crate::{
    apiserver::object::{
        field_errors::{FieldErrors, shown},
        tree::{self, Tree},
    },
    cron::{Schedule, Zone, names_zone},
};

/// Longest name: the Jobs' names are longer by the minute of their run.
const NAME_MAX: usize = 52;

const NO_ZONE: &str = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";

const NOT_BOTH: &str = "cannot use both timeZone field and TZ or CRON_TZ in schedule";

const NOT_LOCAL: &str = "timeZone must be an explicit time zone as defined in \
                         https://www.iana.org/time-zones";

/// Checks a new CronJob.
pub(crate) fn validate_create(tree: &Tree) -> FieldErrors {
    let spec = tree::section(tree, "spec");
    let mut errors = check_spec(spec, &Tree::new());
    let name = tree::text(tree::metadata(tree), "name");
    if name.len() > NAME_MAX {
        let detail = format!("must be no more than {NAME_MAX} characters");
        errors.invalid("metadata.name", Value::from(name), &detail);
    }
    errors
}

/// Checks a changed CronJob against its old state.
pub(crate) fn validate_update(tree: &Tree, old: &Tree) -> FieldErrors {
    check_spec(tree::section(tree, "spec"), tree::section(old, "spec"))
}

/// Warnings about a CronJob that was created.
pub(crate) fn warnings(tree: &Tree) -> Vec<String> {
    let name = super::defaults::name_warning(tree);
    name.into_iter().chain(template_warning(tree)).collect()
}

/// Warnings about a CronJob that was changed.
pub(crate) fn update_warnings(tree: &Tree, old: &Tree) -> Vec<String> {
    let spec = tree.get("spec");
    let template = template_warning(tree).filter(|_| spec != old.get("spec"));
    let schedule = tree::text(tree::section(tree, "spec"), "schedule");
    // Upstream names the field so.
    let zone = names_zone(schedule).then(|| {
        "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see \
         https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
            .to_owned()
    });
    template.into_iter().chain(zone).collect()
}

fn template_warning(tree: &Tree) -> Option<String> {
    let template = tree::section(tree::section(tree, "spec"), "jobTemplate");
    super::defaults::template_warning("spec.jobTemplate.", tree::section(template, "spec"))
}

fn check_spec(spec: &Tree, old: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    check_schedule(spec, old, &mut errors);
    let deadline = tree::int(spec, "startingDeadlineSeconds");
    errors.not_negative("spec.startingDeadlineSeconds", deadline);
    if spec.get("timeZone") != old.get("timeZone") {
        check_time_zone(spec, &mut errors);
    }
    let policy = tree::text(spec, "concurrencyPolicy");
    let policies = ["Allow", "Forbid", "Replace"];
    if !policies.contains(&policy) {
        errors.unsupported("spec.concurrencyPolicy", Value::from(policy), &policies);
    }
    check_template(spec, &mut errors);
    for field in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.not_negative(format!("spec.{field}"), tree::int(spec, field));
    }
    errors
}

fn check_schedule(spec: &Tree, old: &Tree, errors: &mut FieldErrors) {
    let path = "spec.schedule";
    let schedule = tree::text(spec, "schedule");
    if schedule.is_empty() {
        return errors.required(path, "");
    }
    let value = || Value::from(schedule);
    if let Err(error) = Schedule::parse(schedule) {
        errors.invalid(path, value(), &error.to_string());
    }
    if !names_zone(schedule) {
        return;
    }
    // What older servers took may stay.
    if !names_zone(tree::text(old, "schedule")) {
        errors.invalid(path, value(), NO_ZONE);
    } else if spec.contains_key("timeZone") {
        errors.invalid(path, value(), NOT_BOTH);
    }
}

fn check_time_zone(spec: &Tree, errors: &mut FieldErrors) {
    let path = "spec.timeZone";
    let Some(zone) = spec.get("timeZone").and_then(Value::as_str) else {
        return;
    };
    if zone.is_empty() {
        let detail = "timeZone must be nil or non-empty string";
        return errors.invalid(path, json!(""), detail);
    }
    if zone.eq_ignore_ascii_case("local") {
        errors.invalid(path, Value::from(zone), NOT_LOCAL);
    }
    if let Err(error) = Zone::load(zone) {
        errors.invalid(path, Value::from(zone), &error.to_string());
    }
}

fn check_template(spec: &Tree, errors: &mut FieldErrors) {
    let mut job = tree::section(tree::section(spec, "jobTemplate"), "spec").clone();
    // What a Job would have; in a template it stays unset.
    tree::default(&mut job, "completionMode", "NonIndexed");
    let failed_only = job.contains_key("podFailurePolicy");
    let policy = if failed_only {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    tree::default(&mut job, "podReplacementPolicy", policy);
    let prefix = "spec.jobTemplate.";
    errors.append_under(prefix, validate::check_spec(&job));
    if let Some(selector) = job.get("selector") {
        let detail = "`selector` will be auto-generated";
        errors.invalid(
            format!("{prefix}spec.selector"),
            shown(Some(selector)),
            detail,
        );
    }
    if tree::flag(&job, "manualSelector") {
        let path = format!("{prefix}spec.manualSelector");
        errors.unsupported(path, true, &["nil", "false"]);
    }
}
