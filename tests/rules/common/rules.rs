//! Implements the API server's validation of a Job's status (docs/rules/jobs.md, 14) a second time, independent of the
//! machine.

use std::collections::HashSet;

use lakh::model::{Condition, ConditionKind, IndexSet, JobSpec, JobStatus, Uncounted};

const LASTING: [ConditionKind; 4] = [
    ConditionKind::Failed,
    ConditionKind::Complete,
    ConditionKind::FailureTarget,
    ConditionKind::SuccessCriteriaMet,
];

/// Pairs of conditions of which the first requires the second.
const NEEDS: [(ConditionKind, ConditionKind); 2] = [
    (ConditionKind::Failed, ConditionKind::FailureTarget),
    (ConditionKind::Complete, ConditionKind::SuccessCriteriaMet),
];

const EXCLUSIVE: [(ConditionKind, ConditionKind); 4] = [
    (ConditionKind::Complete, ConditionKind::Failed),
    (ConditionKind::Complete, ConditionKind::FailureTarget),
    (ConditionKind::SuccessCriteriaMet, ConditionKind::Failed),
    (
        ConditionKind::SuccessCriteriaMet,
        ConditionKind::FailureTarget,
    ),
];

/// All violations in replacing `old` by `new` in a Job with this spec.
pub(crate) fn violations(spec: &JobSpec, old: &JobStatus, new: &JobStatus) -> Vec<String> {
    let mut found = Vec::new();
    let mut refuse = |wrong: bool, text: &str| {
        if wrong {
            found.push(text.to_owned());
        }
    };
    refuse(
        new.ready.unwrap_or(0) > new.active,
        "cannot set more ready pods than active",
    );
    refuse(
        new.failed < old.failed,
        "cannot decrease the failed counter",
    );
    let elastic = spec.is_indexed() && spec.completions == Some(spec.parallelism);
    refuse(
        new.succeeded < old.succeeded && !elastic,
        "cannot decrease the succeeded counter",
    );
    uncounted(&mut refuse, new.uncounted.as_ref());
    conditions(&mut refuse, old, new);
    times(&mut refuse, spec, old, new);
    indexes(&mut refuse, spec, old, new);
    if new.is_finished() {
        refuse(new.active > 0, "active>0 is invalid for finished job");
        refuse(
            new.terminating.unwrap_or(0) > 0,
            "terminating>0 is invalid for finished job",
        );
        refuse(
            !new.uncounted.as_ref().is_none_or(Uncounted::is_empty),
            "uncounted must be empty for finished job",
        );
    }
    found
}

fn uncounted(refuse: &mut impl FnMut(bool, &str), list: Option<&Uncounted>) {
    let Some(list) = list else { return };
    let mut seen = HashSet::new();
    let twice = list
        .succeeded
        .iter()
        .chain(&list.failed)
        .any(|uid| !seen.insert(*uid));
    refuse(twice, "uncounted UIDs must be unique across both lists");
    refuse(
        list.strange_succeeded + list.strange_failed > 0,
        "uncounted entries must be UIDs",
    );
}

fn conditions(refuse: &mut impl FnMut(bool, &str), old: &JobStatus, new: &JobStatus) {
    let is = |status: &JobStatus, kind| status.true_condition(kind).is_some();
    for kind in LASTING {
        let text = format!("cannot disable the {}=True condition", kind.as_str());
        refuse(is(old, kind) && !is(new, kind), &text);
    }
    for (kind, needed) in NEEDS {
        let (kind_word, needed_word) = (kind.as_str(), needed.as_str());
        let text = format!("cannot set {kind_word}=True without {needed_word}=True");
        refuse(is(new, kind) && !is(new, needed), &text);
    }
    for (one, other) in EXCLUSIVE {
        let text = format!("cannot set {} and {}", one.as_str(), other.as_str());
        refuse(is(new, one) && is(new, other), &text);
    }
    // Not a rule of the server: an unchanged condition keeps its times and place.
    let kept = |(at, before): (usize, &Condition)| {
        let after = new.conditions.get(at);
        after.is_some_and(|after| {
            after.kind == before.kind && (after.status != before.status || after == before)
        })
    };
    refuse(
        !old.conditions.iter().enumerate().all(kept),
        "an unchanged condition was touched",
    );
}

fn times(refuse: &mut impl FnMut(bool, &str), spec: &JobSpec, old: &JobStatus, new: &JobStatus) {
    let suspended = |status: &JobStatus| {
        let found = status
            .conditions
            .iter()
            .find(|found| found.is(ConditionKind::Suspended));
        found.map(Condition::is_true)
    };
    let resumes = suspended(old) == Some(true) && suspended(new) == Some(false);
    let moved = old.start_time.is_some() && old.start_time != new.start_time;
    refuse(
        moved && !spec.suspend && !resumes,
        "startTime: field is immutable for unsuspended job once set",
    );
    let never_ran = spec.suspend && spec.completions == Some(0);
    refuse(
        new.is_finished() && new.start_time.is_none() && !never_ran,
        "startTime is required for finished job",
    );
    let complete = new.true_condition(ConditionKind::Complete).is_some();
    refuse(
        complete != new.completion_time.is_some(),
        "completionTime: required for and only with Complete",
    );
    refuse(
        old.completion_time.is_some() && old.completion_time != new.completion_time,
        "completionTime is immutable",
    );
    refuse(
        new.completion_time
            .is_some_and(|end| new.start_time.is_some_and(|start| end < start)),
        "completionTime before startTime",
    );
    for time in [new.start_time, new.completion_time].into_iter().flatten() {
        refuse(time != time.whole_secs(), "times are whole seconds");
    }
}

fn indexes(refuse: &mut impl FnMut(bool, &str), spec: &JobSpec, old: &JobStatus, new: &JobStatus) {
    let completions = spec.completions.filter(|_| spec.is_indexed());
    let Some(completions) = completions else {
        refuse(
            !new.completed_indexes.is_empty(),
            "completedIndexes only for Indexed",
        );
        refuse(
            new.failed_indexes.is_some(),
            "failedIndexes only with backoffLimitPerIndex",
        );
        return;
    };
    let read = IndexSet::parse(&new.completed_indexes, completions);
    refuse(
        read.to_string() != *new.completed_indexes,
        "completedIndexes: not in the ascending form, or out of range",
    );
    refuse(
        read.len() != new.succeeded,
        "succeeded is not the number of completedIndexes",
    );
    refuse(
        new.failed_indexes.is_some() && spec.per_index.is_none(),
        "failedIndexes only with backoffLimitPerIndex",
    );
    let failed = IndexSet::parse(new.failed_indexes.as_deref().unwrap_or(""), completions);
    refuse(
        failed.to_string() != new.failed_indexes.as_deref().unwrap_or(""),
        "failedIndexes: not in the ascending form, or out of range",
    );
    refuse(
        !failed.is_disjoint(&read),
        "failedIndexes and completedIndexes overlap",
    );
    // Not rules of the server: a failed index stays failed, and the list exists if it may.
    let before = IndexSet::parse(old.failed_indexes.as_deref().unwrap_or(""), completions);
    refuse(
        before.iter().any(|index| !failed.contains(index)),
        "an index failed and has not any more",
    );
    refuse(
        spec.per_index.is_some() && new.failed_indexes.is_none(),
        "failedIndexes with backoffLimitPerIndex",
    );
}
