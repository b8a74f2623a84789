//! Validates updates of a Job's status.
//!
//! Responsible for: the thirty rules about counters, conditions, times and index lists. They apply to all writers,
//! including the controller. Must not: validate the spec.

use serde::{Deserialize, de::IgnoredAny};

use super::index_list::{self, Intervals};
use crate::{
    apiserver::object::{CheckedField, JsonView, Tree},
    model::Time,
};

/// Parses a stored Job spec without its template, which the status rules do not need.
pub(crate) fn spec_without_template(spec: &str) -> Tree {
    #[derive(Deserialize)]
    struct Spec {
        #[serde(default, rename = "template")]
        _template: IgnoredAny,
        #[serde(flatten)]
        rest: Tree,
    }
    let spec: Spec = serde_json::from_str(spec).expect("what was stored is the spec of a Job");
    spec.rest
}

/// An update of a Job's status, with the spec.
struct StatusChange<'a, 'v> {
    spec: JsonView<'v>,
    status: CheckedField<'a, 'v>,
}

/// Validates an updated status; each rule applies only if its activating condition holds.
#[doc(alias = "ValidateJobStatusUpdate")]
pub(crate) fn validate_status(job: &CheckedField<'_, '_>) {
    let change = StatusChange {
        spec: *job.at("spec"),
        status: job.at("status"),
    };
    change.check_counters();
    change.check_uncounted();
    change.check_complete();
    change.check_targets();
    change.check_finished();
    change.check_indexes();
    change.check_terminating_and_ready();
    change.check_success_criteria();
    change.check_transitions();
}

impl<'v> StatusChange<'_, 'v> {
    fn at<'b>(&'b self, field: &'b str) -> CheckedField<'b, 'v> {
        self.status.at(field)
    }

    fn is(&self, condition: &str) -> bool {
        condition_is(*self.status, condition, "True")
    }

    fn was(&self, condition: &str) -> bool {
        condition_is(self.status.old(), condition, "True")
    }

    fn switched(&self, condition: &str) -> bool {
        self.is(condition) != self.was(condition)
    }

    fn changed(&self, field: &str) -> bool {
        self.at(field).has_changed()
    }

    fn time(&self, field: &str) -> Option<Time> {
        Time::parse_rfc3339(self.at(field).text())
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn finish_switched(&self) -> bool {
        self.is_finished() != (self.was("Complete") || self.was("Failed"))
    }

    fn indexed(&self) -> bool {
        self.spec.at("completionMode").text() == "Indexed"
    }

    /// Records an error for the conditions if `is_wrong`.
    fn refuse_if(&self, is_wrong: bool, detail: &str) {
        if is_wrong {
            let conditions = self.at("conditions");
            conditions.complain(format!("Invalid value: {detail}"));
        }
    }

    /// Rule 1.
    fn check_counters(&self) {
        for field in ["active", "succeeded", "failed", "ready", "terminating"] {
            self.at(field).must_not_be_negative();
        }
    }

    /// Rules 2 and 3.
    fn check_uncounted(&self) {
        let mut seen: hashbrown::HashSet<&str> = hashbrown::HashSet::new();
        let uncounted = self.at("uncountedTerminatedPods");
        for list in ["succeeded", "failed"] {
            for uid in uncounted.at(list).items() {
                if uid.text().is_empty() {
                    uid.invalid("must not be empty");
                } else if !seen.insert(uid.text()) {
                    uid.duplicate();
                }
            }
        }
    }

    /// Rules 4 to 8.
    fn check_complete(&self) {
        let complete = self.is("Complete");
        for other in ["Failed", "FailureTarget"] {
            self.refuse_if(
                (self.switched("Complete") || self.switched(other)) && complete && self.is(other),
                &format!("cannot set Complete=True and {other}=true conditions"),
            );
        }
        let end = self.at("completionTime");
        if self.switched("Complete") || self.changed("completionTime") {
            if end.is_set() && !complete {
                end.invalid("cannot set completionTime when there is no Complete=True condition");
            }
            if !end.is_set() && complete {
                end.required("completionTime is required for Complete jobs");
            }
        }
        if (self.changed("startTime") || self.changed("completionTime"))
            && let (Some(started), Some(ended)) =
                (self.time("startTime"), self.time("completionTime"))
            && ended < started
        {
            end.invalid("must be equal to or after `startTime`");
        }
    }

    /// Rules 9 and 10.
    fn check_targets(&self) {
        self.refuse_if(
            (self.switched("Failed") || self.changed("failedIndexes"))
                && self.is("Failed")
                && !self.is("FailureTarget"),
            "cannot set Failed=True condition without the FailureTarget=true condition",
        );
        self.refuse_if(
            (self.switched("Complete") || self.switched("SuccessCriteriaMet"))
                && self.is("Complete")
                && !self.is("SuccessCriteriaMet"),
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        );
    }

    /// Rules 11 to 13.
    fn check_finished(&self) {
        if !self.is_finished() {
            return;
        }
        let active = self.at("active");
        if (self.finish_switched() || self.changed("active")) && active.is_above(0) {
            active.invalid("active>0 is invalid for finished job");
        }
        let never_runs =
            self.spec.at("suspend").flag() && self.spec.at("completions").int() == Some(0);
        let start = self.at("startTime");
        if (self.finish_switched() || self.changed("startTime")) && !never_runs && !start.is_set() {
            start.required("startTime is required for finished job");
        }
        let uncounted = self.at("uncountedTerminatedPods");
        let (succeeded, failed) = (uncounted.at("succeeded"), uncounted.at("failed"));
        let some = !succeeded.list().is_empty() || !failed.list().is_empty();
        if (self.finish_switched() || self.changed("uncountedTerminatedPods")) && some {
            let (succeeded, failed) = (succeeded.value(), failed.value());
            let shown = format!("{{\"Succeeded\":{succeeded},\"Failed\":{failed}}}");
            uncounted.invalid_as(shown, "must be empty for finished job");
        }
    }

    /// Rules 14 to 18.
    fn check_indexes(&self) {
        let completed_changed = self.changed("completedIndexes");
        let failed_changed = self.changed("failedIndexes");
        let per_index = self.spec.at("backoffLimitPerIndex").is_set();
        let (completed, failed) = (self.at("completedIndexes"), self.at("failedIndexes"));
        let completed_list = self.index_list(&completed);
        let failed_list = self.index_list(&failed);
        if completed_changed && let Some(Err(why)) = &completed_list {
            completed.invalid(&format!("error parsing completedIndexes: {why}"));
        }
        if failed_changed
            && per_index
            && let Some(Err(why)) = &failed_list
        {
            failed.invalid(&format!("error parsing failedIndexes: {why}"));
        }
        if completed_changed && !self.indexed() && !completed.text().is_empty() {
            completed
                .invalid("cannot set non-empty completedIndexes when non-indexed completion mode");
        }
        if failed_changed && failed.is_set() && !per_index {
            failed.invalid("cannot set non-null failedIndexes when backoffLimitPerIndex is null");
        }
        if (completed_changed || failed_changed)
            && per_index
            && let (Some(Ok(one)), Some(Ok(other))) = (completed_list, failed_list)
            && let Some(index) = index_list::overlap(&one, &other)
        {
            failed.invalid(&format!(
                "failedIndexes and completedIndexes overlap at index: {index}"
            ));
        }
    }

    fn index_list(&self, field: &CheckedField<'_, '_>) -> Option<Result<Intervals, String>> {
        let completions = self.spec.at("completions").int()?;
        Some(index_list::parse(field.as_text()?, completions))
    }

    /// Rules 19 and 20.
    fn check_terminating_and_ready(&self) {
        let (terminating, ready) = (self.at("terminating"), self.at("ready"));
        if (self.finish_switched() || self.changed("terminating"))
            && self.is_finished()
            && terminating.is_above(0)
        {
            terminating.invalid("terminating>0 is invalid for finished job");
        }
        if (self.changed("ready") || self.changed("active"))
            && ready.is_above(self.at("active").number())
        {
            ready.invalid("cannot set more ready pods than active");
        }
    }

    /// Rules 21 to 23.
    fn check_success_criteria(&self) {
        let met = self.is("SuccessCriteriaMet");
        for other in ["Failed", "FailureTarget"] {
            self.refuse_if(
                met && self.is(other),
                &format!("cannot set SuccessCriteriaMet=True and {other}=true conditions"),
            );
        }
        self.refuse_if(
            self.spec.at("successPolicy").is_set() && self.is("Complete") && !met,
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        );
    }

    /// Rules 24 to 30.
    fn check_transitions(&self) {
        for terminal in ["Failed", "Complete", "FailureTarget"] {
            self.refuse_if(
                self.was(terminal) && !self.is(terminal),
                &format!("cannot disable the terminal {terminal}=True condition"),
            );
        }
        let elastic = self.indexed()
            && self.spec.at("completions").int() == self.spec.at("parallelism").int();
        for (field, may_decrease) in [("failed", false), ("succeeded", elastic)] {
            let counter = self.at(field);
            if counter.number() < counter.old().number() && !may_decrease {
                let detail = format!("cannot decrease the {field} counter");
                counter.invalid_as(counter.number(), &detail);
            }
        }
        let (start, end) = (self.at("startTime"), self.at("completionTime"));
        if end.is_set() && end.old().is_set() {
            end.must_not_change();
        }
        let resumed = self.was("Suspended") && condition_is(*self.status, "Suspended", "False");
        let may_start = resumed || !start.old().is_set() || self.spec.at("suspend").flag();
        if start.has_changed() && !may_start {
            start.invalid("field is immutable for unsuspended job once set");
        }
        let met = "SuccessCriteriaMet";
        let (was_met, is_met) = (self.was(met), self.is(met));
        self.refuse_if(
            was_met && !is_met,
            "cannot disable the SuccessCriteriaMet=True condition",
        );
        self.refuse_if(
            self.was("Complete") && !was_met && is_met,
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        );
    }
}

/// Returns true if a condition of this type has this status.
pub(super) fn condition_is(status: JsonView<'_>, condition_type: &str, value: &str) -> bool {
    let mut conditions = status.at("conditions").items();
    conditions.any(|it| it.at("type").text() == condition_type && it.at("status").text() == value)
}
