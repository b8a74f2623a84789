//! What may be written to a Job's status.
//!
//! Responsible for: the thirty rules that guard counters, conditions, times and index lists.
//! They hold for every writer, the controller included. Must not: check the spec.

use serde_json::{Value, json};

use super::index_list::{self, Intervals};
use crate::{
    apiserver::object::{
        field_errors::{FieldErrors, shown},
        tree::{self, Tree},
    },
    model::Time,
};

const CONDITIONS: &str = "status.conditions";

/// Old and new status of one Job.
struct Change<'a> {
    spec: &'a Tree,
    new: &'a Tree,
    old: &'a Tree,
}

/// Checks a changed status; each rule only where its activating condition holds.
#[doc(alias = "ValidateJobStatusUpdate")]
pub(crate) fn validate_status(tree: &Tree, old: &Tree) -> FieldErrors {
    let change = Change {
        spec: tree::section(old, "spec"),
        new: tree::section(tree, "status"),
        old: tree::section(old, "status"),
    };
    let mut errors = FieldErrors::new();
    change.check_counters(&mut errors);
    change.check_uncounted(&mut errors);
    change.check_complete(&mut errors);
    change.check_targets(&mut errors);
    change.check_finished(&mut errors);
    change.check_indexes(&mut errors);
    change.check_terminating_and_ready(&mut errors);
    change.check_success_criteria(&mut errors);
    change.check_transitions(&mut errors);
    errors
}

impl Change<'_> {
    fn is(&self, condition: &str) -> bool {
        is_true(self.new, condition)
    }

    fn was(&self, condition: &str) -> bool {
        is_true(self.old, condition)
    }

    fn switched(&self, condition: &str) -> bool {
        self.is(condition) != self.was(condition)
    }

    fn changed(&self, field: &str) -> bool {
        self.new.get(field) != self.old.get(field)
    }

    fn count_changed(&self, field: &str) -> bool {
        tree::int(self.new, field).unwrap_or(0) != tree::int(self.old, field).unwrap_or(0)
    }

    fn time(&self, field: &str) -> Option<Time> {
        Time::parse_rfc3339(tree::text(self.new, field))
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn finish_switched(&self) -> bool {
        self.is_finished() != (self.was("Complete") || self.was("Failed"))
    }

    fn indexed(&self) -> bool {
        tree::text(self.spec, "completionMode") == "Indexed"
    }

    /// Rule 1.
    fn check_counters(&self, errors: &mut FieldErrors) {
        for field in ["active", "succeeded", "failed", "ready", "terminating"] {
            errors.not_negative(format!("status.{field}"), tree::int(self.new, field));
        }
    }

    /// Rules 2 and 3.
    fn check_uncounted(&self, errors: &mut FieldErrors) {
        let uncounted = tree::section(self.new, "uncountedTerminatedPods");
        let mut seen: hashbrown::HashSet<&str> = hashbrown::HashSet::new();
        for list in ["succeeded", "failed"] {
            for (index, uid) in tree::strings(uncounted, list).enumerate() {
                let path = || format!("status.uncountedTerminatedPods.{list}[{index}]");
                if uid.is_empty() {
                    errors.invalid(path(), "\"\"", "must not be empty");
                } else if !seen.insert(uid) {
                    errors.duplicate(path(), Value::from(uid));
                }
            }
        }
    }

    /// Rules 4 to 8.
    fn check_complete(&self, errors: &mut FieldErrors) {
        let complete = self.is("Complete");
        if (self.switched("Complete") || self.switched("Failed")) && complete && self.is("Failed") {
            errors.wrong(
                CONDITIONS,
                "cannot set Complete=True and Failed=true conditions",
            );
        }
        if (self.switched("Complete") || self.switched("FailureTarget"))
            && complete
            && self.is("FailureTarget")
        {
            errors.wrong(
                CONDITIONS,
                "cannot set Complete=True and FailureTarget=true conditions",
            );
        }
        let path = "status.completionTime";
        let time = self.new.get("completionTime");
        if self.switched("Complete") || self.changed("completionTime") {
            if time.is_some() && !complete {
                let detail = "cannot set completionTime when there is no Complete=True condition";
                errors.invalid(path, shown(time), detail);
            }
            if time.is_none() && complete {
                errors.required(path, "completionTime is required for Complete jobs");
            }
        }
        if (self.changed("startTime") || self.changed("completionTime"))
            && let (Some(start), Some(end)) = (self.time("startTime"), self.time("completionTime"))
            && end < start
        {
            errors.invalid(path, shown(time), "must be equal to or after `startTime`");
        }
    }

    /// Rules 9 and 10.
    fn check_targets(&self, errors: &mut FieldErrors) {
        if (self.switched("Failed") || self.changed("failedIndexes"))
            && self.is("Failed")
            && !self.is("FailureTarget")
        {
            let detail = "cannot set Failed=True condition without the FailureTarget=true \
                          condition";
            errors.wrong(CONDITIONS, detail);
        }
        if (self.switched("Complete") || self.switched("SuccessCriteriaMet"))
            && self.is("Complete")
            && !self.is("SuccessCriteriaMet")
        {
            let detail = "cannot set Complete=True condition without the \
                          SuccessCriteriaMet=true condition";
            errors.wrong(CONDITIONS, detail);
        }
    }

    /// Rules 11 to 13.
    fn check_finished(&self, errors: &mut FieldErrors) {
        let finished = self.is_finished();
        let active = tree::int(self.new, "active").unwrap_or_default();
        if (self.finish_switched() || self.count_changed("active")) && finished && active > 0 {
            errors.invalid(
                "status.active",
                active,
                "active>0 is invalid for finished job",
            );
        }
        let never_runs =
            tree::flag(self.spec, "suspend") && tree::int(self.spec, "completions") == Some(0);
        if (self.finish_switched() || self.changed("startTime"))
            && !never_runs
            && finished
            && !self.new.contains_key("startTime")
        {
            errors.required("status.startTime", "startTime is required for finished job");
        }
        let uncounted = tree::section(self.new, "uncountedTerminatedPods");
        let some = ["succeeded", "failed"]
            .iter()
            .any(|list| !tree::items(uncounted, list).is_empty());
        if (self.finish_switched() || self.changed("uncountedTerminatedPods")) && finished && some {
            let list = |name: &str| shown(uncounted.get(name));
            let value = format!(
                "{{\"Succeeded\":{},\"Failed\":{}}}",
                list("succeeded"),
                list("failed")
            );
            let path = "status.uncountedTerminatedPods";
            errors.invalid(path, value, "must be empty for finished job");
        }
    }

    /// Rules 14 to 18.
    fn check_indexes(&self, errors: &mut FieldErrors) {
        let completed_changed = self.changed("completedIndexes");
        let failed_changed = self.changed("failedIndexes");
        let per_index = self.spec.contains_key("backoffLimitPerIndex");
        let completed = self.index_list("completedIndexes");
        let failed = self.index_list("failedIndexes");
        if completed_changed && let Some(Err(why)) = &completed {
            self.broken_list("completedIndexes", why, errors);
        }
        if failed_changed
            && per_index
            && let Some(Err(why)) = &failed
        {
            self.broken_list("failedIndexes", why, errors);
        }
        if completed_changed
            && !self.indexed()
            && !tree::text(self.new, "completedIndexes").is_empty()
        {
            let value = shown(self.new.get("completedIndexes"));
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.invalid("status.completedIndexes", value, detail);
        }
        let failed_value = self.new.get("failedIndexes");
        if failed_changed && failed_value.is_some() && !per_index {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.invalid("status.failedIndexes", shown(failed_value), detail);
        }
        if (completed_changed || failed_changed)
            && per_index
            && let (Some(Ok(completed)), Some(Ok(failed))) = (completed, failed)
            && let Some(index) = index_list::overlap(&completed, &failed)
        {
            let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.invalid("status.failedIndexes", shown(failed_value), &detail);
        }
    }

    fn index_list(&self, field: &str) -> Option<Result<Intervals, String>> {
        let completions = tree::int(self.spec, "completions")?;
        let text = self.new.get(field)?.as_str()?;
        Some(index_list::parse(text, completions))
    }

    fn broken_list(&self, field: &str, why: &str, errors: &mut FieldErrors) {
        let detail = format!("error parsing {field}: {why}");
        errors.invalid(
            format!("status.{field}"),
            shown(self.new.get(field)),
            &detail,
        );
    }

    /// Rules 19 and 20.
    fn check_terminating_and_ready(&self, errors: &mut FieldErrors) {
        let number = |field: &str| tree::int(self.new, field).unwrap_or_default();
        if (self.finish_switched() || self.changed("terminating"))
            && self.is_finished()
            && number("terminating") > 0
        {
            let detail = "terminating>0 is invalid for finished job";
            errors.invalid("status.terminating", number("terminating"), detail);
        }
        if (self.changed("ready") || self.count_changed("active"))
            && self.new.contains_key("ready")
            && number("ready") > number("active")
        {
            let detail = "cannot set more ready pods than active";
            errors.invalid("status.ready", number("ready"), detail);
        }
    }

    /// Rules 21 to 23.
    fn check_success_criteria(&self, errors: &mut FieldErrors) {
        let met = self.is("SuccessCriteriaMet");
        for other in ["Failed", "FailureTarget"] {
            if met && self.is(other) {
                let detail =
                    format!("cannot set SuccessCriteriaMet=True and {other}=true conditions");
                errors.wrong(CONDITIONS, &detail);
            }
        }
        if self.spec.contains_key("successPolicy") && self.is("Complete") && !met {
            let detail = "cannot set Complete=True for Job with SuccessPolicy unless \
                          SuccessCriteriaMet=True";
            errors.wrong(CONDITIONS, detail);
        }
    }

    /// Rules 24 to 30.
    fn check_transitions(&self, errors: &mut FieldErrors) {
        for terminal in ["Failed", "Complete", "FailureTarget"] {
            if self.was(terminal) && !self.is(terminal) {
                let detail = format!("cannot disable the terminal {terminal}=True condition");
                errors.wrong(CONDITIONS, &detail);
            }
        }
        self.check_decrease("failed", errors);
        let elastic = self.indexed()
            && tree::int(self.spec, "completions") == tree::int(self.spec, "parallelism");
        if !elastic {
            self.check_decrease("succeeded", errors);
        }
        let end = self.new.get("completionTime");
        if end.is_some()
            && self.old.contains_key("completionTime")
            && self.changed("completionTime")
        {
            errors.invalid("status.completionTime", shown(end), "field is immutable");
        }
        self.check_start_time(errors);
        if self.was("SuccessCriteriaMet") && !self.is("SuccessCriteriaMet") {
            let detail = "cannot disable the SuccessCriteriaMet=True condition";
            errors.wrong(CONDITIONS, detail);
        }
        if self.was("Complete") && !self.was("SuccessCriteriaMet") && self.is("SuccessCriteriaMet")
        {
            let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true \
                          conditions";
            errors.wrong(CONDITIONS, detail);
        }
    }

    fn check_decrease(&self, field: &str, errors: &mut FieldErrors) {
        let number = |status: &Tree| tree::int(status, field).unwrap_or_default();
        if number(self.new) < number(self.old) {
            let detail = format!("cannot decrease the {field} counter");
            errors.invalid(format!("status.{field}"), json!(number(self.new)), &detail);
        }
    }

    fn check_start_time(&self, errors: &mut FieldErrors) {
        let resumed = self.was("Suspended") && condition_is(self.new, "Suspended", "False");
        if self.changed("startTime")
            && !resumed
            && self.old.contains_key("startTime")
            && !tree::flag(self.spec, "suspend")
        {
            let value = shown(self.new.get("startTime"));
            let detail = "field is immutable for unsuspended job once set";
            errors.invalid("status.startTime", value, detail);
        }
    }
}

fn is_true(status: &Tree, condition_type: &str) -> bool {
    condition_is(status, condition_type, "True")
}

fn condition_is(status: &Tree, condition_type: &str, value: &str) -> bool {
    tree::items(status, "conditions").iter().any(|condition| {
        condition
            .get("type")
            .is_some_and(|have| have == condition_type)
            && condition.get("status").is_some_and(|have| have == value)
    })
}
