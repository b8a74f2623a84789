//! Rules about the spec of a Job.
//!
//! Responsible for: everything that is checked on creation, and again on update. Must not:
//! compare with an older state.

use serde_json::Value;

use super::{
    defaults::{GENERATED, SELECTOR_LABEL},
    policies, selector,
};
use crate::apiserver::{
    kinds::template,
    object::{
        field_errors::{FieldErrors, shown},
        names,
        tree::{self, Tree},
    },
};

/// Most parallel Pods of an Indexed Job, and most failed indexes.
const MAX_PARALLEL: i64 = 100_000;
/// Completions above which failed indexes must be limited more tightly.
const MANY_COMPLETIONS: i64 = 100_000;
/// The tighter limits.
const MAX_WITH_MANY: i64 = 10_000;
/// What a path may have beside letters and digits.
const PATH_MARKS: &str = "/-._~%!$&'()*+,;=:";
/// Longest `managedBy`.
const MAX_MANAGED_BY: usize = 63;

/// Checks a new Job.
#[doc(alias = "ValidateJob")]
pub(crate) fn validate_create(tree: &Tree) -> FieldErrors {
    let spec = tree::section(tree, "spec");
    let mut errors = check_generated(tree, spec);
    errors.append(check_spec(spec));
    check_selector(spec, &mut errors);
    check_hostnames(tree, spec, &mut errors);
    errors
}

/// Checks labels and selector that the server generates.
pub(super) fn check_generated(tree: &Tree, spec: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if tree::flag(spec, "manualSelector") {
        return errors;
    }
    let metadata = tree::metadata(tree);
    let template = tree::section(tree::section(spec, "template"), "metadata");
    let labels = tree::section(template, "labels");
    let mut wanted = Tree::new();
    wanted.insert(SELECTOR_LABEL.into(), tree::text(metadata, "uid").into());
    let job_selector = tree::section(spec, "selector");
    // Old Jobs select by the label without prefix; both forms are the server's own.
    let mut legacy = Tree::new();
    legacy.insert("controller-uid".into(), tree::text(metadata, "uid").into());
    let have = tree::section(job_selector, "matchLabels");
    let generated = (*have == wanted || *have == legacy) && job_selector.len() == 1;
    if !generated {
        let value = shown(spec.get("selector"));
        errors.invalid("spec.selector", value, "`selector` not auto-generated");
    }
    for (label, field) in GENERATED {
        let value = tree::text(metadata, field);
        let have = labels.get(label).and_then(Value::as_str);
        if have != Some(value) {
            let path = format!("spec.template.metadata.labels[{label}]");
            let all = shown(template.get("labels"));
            errors.invalid(path, all, &format!("must be '{value}'"));
        }
    }
    if tree::text(metadata, "name").len() > 63 {
        for _ in 0..2 {
            let name = Value::from(tree::text(metadata, "name"));
            errors.invalid(
                "spec.template.labels",
                name,
                "must be no more than 63 bytes",
            );
        }
    }
    errors
}

/// The same on update.
pub(super) fn check_generated_on_update(tree: &Tree, spec: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    // A missing selector is reported elsewhere.
    if tree::flag(spec, "manualSelector") || !spec.contains_key("selector") {
        return errors;
    }
    let template = tree::section(tree::section(spec, "template"), "metadata");
    for (label, field) in GENERATED {
        let wanted = tree::text(tree::metadata(tree), field);
        let have = tree::section(template, "labels")
            .get(label)
            .and_then(Value::as_str);
        let path = format!("spec.template.metadata.labels[{label}]");
        let detail = format!("must be '{wanted}'");
        match have {
            Some(have) if have == wanted => {}
            Some(_) => errors.invalid(path, shown(template.get("labels")), &detail),
            None => errors.required(path, &detail),
        }
    }
    let uid = tree::text(tree::metadata(tree), "uid");
    let selected = tree::section(tree::section(spec, "selector"), "matchLabels");
    let own = selected.len() == 1 && selected.values().all(|value| value == uid);
    if let Some(selector) = spec.get("selector").filter(|_| !own) {
        let value = shown(Some(selector));
        errors.invalid("spec.selector", value, "`selector` not auto-generated");
    }
    errors
}

/// Checks the spec but for selector and generated labels.
pub(super) fn check_spec(spec: &Tree) -> FieldErrors {
    let mut errors = FieldErrors::new();
    check_numbers(spec, &mut errors);
    check_managed_by(spec, &mut errors);
    match tree::text(spec, "completionMode") {
        "Indexed" => check_indexed(spec, &mut errors),
        "NonIndexed" => check_non_indexed(spec, &mut errors),
        other => errors.unsupported(
            "spec.completionMode",
            Value::from(other),
            &["NonIndexed", "Indexed"],
        ),
    }
    policies::check_failure_policy(spec, &mut errors);
    policies::check_success_policy(spec, &mut errors);
    check_replacement_policy(spec, &mut errors);
    check_template(spec, &mut errors);
    errors
}

fn check_numbers(spec: &Tree, errors: &mut FieldErrors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    ] {
        errors.not_negative(format!("spec.{field}"), tree::int(spec, field));
    }
    let max_failed = tree::int(spec, "maxFailedIndexes");
    errors.not_negative("spec.maxFailedIndexes", max_failed);
    if max_failed.is_some() && tree::int(spec, "backoffLimitPerIndex").is_none() {
        errors.required(
            "spec.backoffLimitPerIndex",
            "when maxFailedIndexes is specified",
        );
    }
}

fn check_managed_by(spec: &Tree, errors: &mut FieldErrors) {
    let Some(manager) = spec.get("managedBy").and_then(Value::as_str) else {
        return;
    };
    let path = "spec.managedBy";
    if manager.is_empty() {
        return errors.required(path, "");
    }
    match manager.split_once('/') {
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            if let Some(problem) = names::dns_subdomain_problem(domain) {
                errors.invalid(path, Value::from(domain), &problem);
            }
            let fits = |letter: char| letter.is_ascii_alphanumeric() || PATH_MARKS.contains(letter);
            if !rest.chars().all(fits) {
                let detail = "Invalid path (regex used for validation is \
                              '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                errors.invalid(path, Value::from(rest), detail);
            }
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.invalid(path, Value::from(manager), detail);
        }
    }
    if manager.len() > MAX_MANAGED_BY {
        errors.too_long(path, MAX_MANAGED_BY);
    }
}

fn check_indexed(spec: &Tree, errors: &mut FieldErrors) {
    let completions = tree::int(spec, "completions");
    let parallelism = tree::int(spec, "parallelism");
    let max_failed = tree::int(spec, "maxFailedIndexes");
    let per_index = tree::int(spec, "backoffLimitPerIndex").is_some();
    if completions.is_none() {
        errors.required("spec.completions", "when completion mode is Indexed");
    }
    if let Some(parallelism) = parallelism.filter(|have| *have > MAX_PARALLEL) {
        let detail =
            format!("must be less than or equal to {MAX_PARALLEL} when completion mode is Indexed");
        errors.invalid("spec.parallelism", parallelism, &detail);
    }
    if let (Some(max_failed), Some(completions)) = (max_failed, completions)
        && max_failed > completions
    {
        let detail = "must be less than or equal to completions";
        errors.invalid("spec.maxFailedIndexes", max_failed, detail);
    }
    if let Some(max_failed) = max_failed.filter(|have| *have > MAX_PARALLEL) {
        let detail = format!("must be less than or equal to {MAX_PARALLEL}");
        errors.invalid("spec.maxFailedIndexes", max_failed, &detail);
    }
    if !per_index || completions.is_none_or(|completions| completions <= MANY_COMPLETIONS) {
        return;
    }
    let tight = format!(
        "must be less than or equal to {MAX_WITH_MANY} when completions are above \
         {MANY_COMPLETIONS} and used with backoff limit per index"
    );
    if max_failed.is_none() {
        let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.required("spec.maxFailedIndexes", &detail);
    }
    if let Some(parallelism) = parallelism.filter(|have| *have > MAX_WITH_MANY) {
        errors.invalid("spec.parallelism", parallelism, &tight);
    }
    if let Some(max_failed) = max_failed.filter(|have| *have > MAX_WITH_MANY) {
        errors.invalid("spec.maxFailedIndexes", max_failed, &tight);
    }
}

fn check_non_indexed(spec: &Tree, errors: &mut FieldErrors) {
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if let Some(number) = tree::int(spec, field) {
            errors.invalid(
                format!("spec.{field}"),
                number,
                "requires indexed completion mode",
            );
        }
    }
}

fn check_replacement_policy(spec: &Tree, errors: &mut FieldErrors) {
    let policy = tree::text(spec, "podReplacementPolicy");
    let supported: &[&str] = if spec.contains_key("podFailurePolicy") {
        &["Failed"]
    } else {
        &["Failed", "TerminatingOrFailed"]
    };
    if !supported.contains(&policy) {
        errors.unsupported("spec.podReplacementPolicy", Value::from(policy), supported);
    }
}

fn check_template(spec: &Tree, errors: &mut FieldErrors) {
    let template = tree::section(spec, "template");
    let metadata = tree::metadata(template);
    errors.append(template::validate_template_metadata(
        metadata,
        "spec.template",
    ));
    let pod = tree::section(template, "spec");
    errors.append(template::validate_spec(pod, "spec.template.spec"));
    let path = "spec.template.spec.restartPolicy";
    let policy = tree::text(pod, "restartPolicy");
    match policy {
        "Always" | "" => errors.required(path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if spec.contains_key("podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(path, Value::from(policy), detail);
        }
        "OnFailure" | "Never" => {}
        other => errors.unsupported(path, Value::from(other), &["OnFailure", "Never"]),
    }
}

/// Checks that there is a selector and that it selects the template's labels.
pub(super) fn check_selector(spec: &Tree, errors: &mut FieldErrors) {
    let template = tree::section(tree::section(spec, "template"), "metadata");
    let selects = match spec.get("selector") {
        None => {
            errors.required("spec.selector", "");
            false
        }
        Some(_) => {
            let selector = tree::section(spec, "selector");
            let expressions = selector::check(selector, "spec.selector");
            if !expressions.is_empty() {
                return errors.append(expressions);
            }
            !selector.is_empty() && selector::matches(selector, tree::section(template, "labels"))
        }
    };
    if !selects {
        let labels = shown(template.get("labels"));
        let detail = "`selector` does not match template `labels`";
        errors.invalid("spec.template.metadata.labels", labels, detail);
    }
}

/// Pods of an Indexed Job take their hostname from the Job's name and their index.
pub(super) fn check_hostnames(tree: &Tree, spec: &Tree, errors: &mut FieldErrors) {
    let completions = tree::int(spec, "completions").unwrap_or_default();
    if tree::text(spec, "completionMode") != "Indexed" || completions <= 0 {
        return;
    }
    let name = tree::text(tree::metadata(tree), "name");
    let last = format!("{name}-{}", completions - 1);
    if names::dns_label_problem(&last).is_some() {
        let detail = format!("will not able to create pod with invalid DNS label: {last}");
        errors.invalid("metadata.name", Value::from(name), &detail);
    }
}
