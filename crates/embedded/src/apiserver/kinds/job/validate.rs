//! Validates the spec of a Job.
//!
//! Responsible for: the rules of creation, which updates repeat. Must not: compare with the previous state.

use serde_json::Value;

use super::{defaults::GENERATED, policies, selector};
use crate::apiserver::{
    kinds::template,
    object::{CheckedField, Tree, names},
};

/// The largest `parallelism` of an Indexed Job, and the largest `maxFailedIndexes`.
const MAX_PARALLEL: i64 = 100_000;
/// With more completions than this, a Job with `backoffLimitPerIndex` has lower limits.
const MANY_COMPLETIONS: i64 = 100_000;
/// The lower limits of `parallelism` and `maxFailedIndexes`.
const MAX_WITH_MANY: i64 = 10_000;
/// Characters of a path besides letters and digits.
const PATH_MARKS: &str = "/-._~%!$&'()*+,;=:";
/// The longest `managedBy`, in bytes.
const MAX_MANAGED_BY: usize = 63;

/// Validates a new Job.
#[doc(alias = "ValidateJob")]
pub(crate) fn validate_create(job: &CheckedField<'_, '_>) {
    let spec = job.at("spec");
    check_generated(job, &spec);
    let name = job.at("metadata.name");
    if !spec.at("manualSelector").flag() && name.text().len() > 63 {
        for _ in 0..2 {
            let labels = spec.at("template.labels");
            labels.invalid_as(name.value(), "must be no more than 63 bytes");
        }
    }
    check_spec(&spec);
    check_selector(&spec);
    check_hostnames(job, &spec);
}

/// Validates the labels and the selector that the server generates.
#[doc(alias = "validateGeneratedSelector")]
pub(super) fn check_generated(job: &CheckedField<'_, '_>, spec: &CheckedField<'_, '_>) {
    let selector = spec.at("selector");
    // `check_selector` reports a missing selector.
    if spec.at("manualSelector").flag() || !selector.is_set() {
        return;
    }
    let metadata = job.at("metadata");
    let labels = spec.at("template.metadata.labels");
    let mut expected = Tree::new();
    for (label, field) in GENERATED {
        let wanted = metadata.at(field).text();
        expected.insert(label.into(), wanted.into());
        let label = labels.entry(label);
        let detail = format!("must be '{wanted}'");
        match label.as_text() {
            Some(have) if have == wanted => {}
            None => label.required(&detail),
            Some(_) => label.invalid_as(labels.value(), &detail),
        }
    }
    if selector::is_valid(*selector) && !selector::matches(*selector, &expected) {
        selector.invalid_as(selector::shown(*selector), "`selector` not auto-generated");
    }
}

/// Validates the spec except for selector and generated labels.
pub(super) fn check_spec(spec: &CheckedField<'_, '_>) {
    check_numbers(spec);
    check_managed_by(&spec.at("managedBy"));
    match spec.at("completionMode").text() {
        "Indexed" => check_indexed(spec),
        "NonIndexed" => check_non_indexed(spec),
        _ => spec
            .at("completionMode")
            .must_be_one_of(&["NonIndexed", "Indexed"]),
    }
    policies::check_failure_policy(spec);
    policies::check_success_policy(spec);
    let replacement = spec.at("podReplacementPolicy");
    match spec.at("podFailurePolicy").is_set() {
        true => replacement.must_be_one_of(&["Failed"]),
        false => replacement.must_be_one_of(&["Failed", "TerminatingOrFailed"]),
    }
    check_template(spec);
}

fn check_numbers(spec: &CheckedField<'_, '_>) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.at(field).must_not_be_negative();
    }
    let per_index = spec.at("backoffLimitPerIndex");
    if spec.at("maxFailedIndexes").is_set() && !per_index.is_set() {
        per_index.required("when maxFailedIndexes is specified");
    }
}

fn check_managed_by(field: &CheckedField<'_, '_>) {
    if !field.is_set() || !field.must_be_given() {
        return;
    }
    let manager = field.text();
    match manager.split_once('/') {
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            field.complain_of(domain, names::dns_subdomain_problems(domain));
            let fits = |letter: char| letter.is_ascii_alphanumeric() || PATH_MARKS.contains(letter);
            if !rest.chars().all(fits) {
                let detail = "Invalid path (regex used for validation is \
                              '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                field.invalid_as(Value::from(rest), detail);
            }
        }
        _ => field.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    field.must_be_within(manager.len(), MAX_MANAGED_BY);
}

fn check_indexed(spec: &CheckedField<'_, '_>) {
    let completions = spec.at("completions");
    let parallelism = spec.at("parallelism");
    let max_failed = spec.at("maxFailedIndexes");
    if !completions.is_set() {
        completions.required("when completion mode is Indexed");
    }
    let most = format!("must be less than or equal to {MAX_PARALLEL}");
    if parallelism.is_above(MAX_PARALLEL) {
        parallelism.invalid(&format!("{most} when completion mode is Indexed"));
    }
    if max_failed.is_above(completions.int().unwrap_or(i64::MAX)) {
        max_failed.invalid("must be less than or equal to completions");
    }
    if max_failed.is_above(MAX_PARALLEL) {
        max_failed.invalid(&most);
    }
    if !spec.at("backoffLimitPerIndex").is_set() || !completions.is_above(MANY_COMPLETIONS) {
        return;
    }
    if !max_failed.is_set() {
        let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        max_failed.required(&detail);
    }
    for field in [parallelism, max_failed] {
        if field.is_above(MAX_WITH_MANY) {
            field.invalid(&format!(
                "must be less than or equal to {MAX_WITH_MANY} when completions are above \
                 {MANY_COMPLETIONS} and used with backoff limit per index"
            ));
        }
    }
}

fn check_non_indexed(spec: &CheckedField<'_, '_>) {
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if spec.at(field).is_set() {
            spec.at(field).invalid("requires indexed completion mode");
        }
    }
}

fn check_template(spec: &CheckedField<'_, '_>) {
    let template = spec.at("template");
    template::validate_metadata(&template);
    let pod = template.at("spec");
    template::validate_spec(&pod);
    let policy = pod.at("restartPolicy");
    match policy.text() {
        "Always" | "" => policy.required("valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.at("podFailurePolicy").is_set() => {
            policy.invalid("only \"Never\" is supported when podFailurePolicy is specified");
        }
        _ => policy.must_be_one_of(&["OnFailure", "Never"]),
    }
}

/// Requires a selector that matches the template's labels.
pub(super) fn check_selector(spec: &CheckedField<'_, '_>) {
    let selector = spec.at("selector");
    let labels = spec.at("template.metadata.labels");
    if selector.is_set() {
        let before = selector.found();
        selector::check(&selector);
        let selects = !selector.tree().is_empty() && selector::matches(*selector, labels.tree());
        if selects || selector.found() > before {
            return;
        }
    } else {
        selector.required("");
    }
    labels.invalid("`selector` does not match template `labels`");
}

/// Validates the hostnames of an Indexed Job's Pods, which consist of the Job's name and the index.
pub(super) fn check_hostnames(job: &CheckedField<'_, '_>, spec: &CheckedField<'_, '_>) {
    let completions = spec.at("completions").number();
    if spec.at("completionMode").text() != "Indexed" || completions <= 0 {
        return;
    }
    let name = job.at("metadata.name");
    let last = format!("{}-{}", name.text(), completions - 1);
    if !names::is_dns_label(&last) || last.len() > 63 {
        let detail = format!("will not able to create pod with invalid DNS label: {last}");
        name.invalid(&detail);
    }
}
