//! Dispatches each step of a write to the rules of the kind: one function per step, one arm per kind.
//!
//! Responsible for: calling the rules of the right kind. Must not: hold rules longer than a line.

use serde_json::{Value, json};

use super::{config, defaults, gang, job, namespace, pod, quota};
use crate::apiserver::object::{CheckedField, Kind, Tree, tree};

/// The part of an object that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The main resource.
    Main,
    /// `/status`.
    Status,
    /// `/finalize` of namespaces.
    Finalize,
}

/// Applies defaults.
pub(crate) fn default(kind: Kind, tree: &mut Tree) {
    match kind {
        Kind::Pod => pod::default(tree),
        Kind::Job => job::default(tree),
        Kind::Namespace => namespace::default(tree),
        Kind::CronJob => job::default_cron_job(tree),
        Kind::Secret => config::default_secret(tree),
        Kind::ConfigMap => config::drop_empty(tree),
        Kind::ResourceQuota => _ = tree::section_mut(tree, "spec"),
        Kind::Service => defaults::fill(tree::section_mut(tree, "spec"), "serviceSpec"),
        _ => {}
    }
}

/// Unset fields of `spec` that defaults set here and admission sets on a real server, where they have no field manager.
pub(crate) fn set_by_admission(kind: Kind, tree: &Tree) -> Vec<&'static str> {
    if kind != Kind::Pod {
        return Vec::new();
    }
    let spec = tree::section(tree, "spec");
    let mut fields = pod::SET_BY_ADMISSION.to_vec();
    fields.retain(|name| !spec.contains_key(*name));
    fields
}

/// Sets the fields that the server decides on creation; the metadata is complete before.
#[doc(alias = "PrepareForCreate")]
pub(crate) fn prepare_create(kind: Kind, tree: &mut Tree) {
    match kind {
        Kind::Pod => pod::prepare_create(tree),
        Kind::Job => job::prepare_create(tree),
        Kind::Namespace => namespace::prepare_create(tree),
        Kind::CronJob | Kind::PodGroup | Kind::ResourceQuota => {
            tree.insert("status".into(), json!({}));
        }
        _ => {}
    }
}

/// Validates a new object.
#[doc(alias = "Validate")]
pub(crate) fn validate_create(kind: Kind, object: &CheckedField<'_, '_>) {
    match kind {
        Kind::Pod => pod::validate_create(object),
        Kind::Job => job::validate_create(object),
        Kind::CronJob => job::cron_job::validate_create(object),
        Kind::Event => validate_event(object),
        Kind::Workload => gang::validate_workload(object),
        Kind::PodGroup => gang::validate_pod_group(object),
        Kind::ResourceQuota => quota::validate(object),
        Kind::Secret => config::validate_secret(object),
        Kind::ConfigMap => config::validate_config_map(object),
        _ => {}
    }
}

/// Warnings for a new object.
#[doc(alias = "WarningsOnCreate")]
pub(crate) fn warnings(kind: Kind, tree: &Tree) -> Vec<String> {
    match kind {
        Kind::Job => job::warnings(tree),
        Kind::CronJob => job::cron_job::warnings(tree),
        Kind::Pod => pod::warnings(tree),
        Kind::ResourceQuota => quota::warnings(tree),
        _ => Vec::new(),
    }
}

/// Warnings for an updated object.
#[doc(alias = "WarningsOnUpdate")]
pub(crate) fn update_warnings(kind: Kind, part: Part, tree: &Tree, old: &Tree) -> Vec<String> {
    match (kind, part) {
        (Kind::Job, Part::Main) => job::update_warnings(tree, old),
        (Kind::CronJob, Part::Main) => job::cron_job::update_warnings(tree, old),
        _ => Vec::new(),
    }
}

/// Restores fields that this write must not change, and applies defaults.
#[doc(alias = "PrepareForUpdate")]
pub(crate) fn prepare_update(kind: Kind, part: Part, tree: &mut Tree, old: &Tree) {
    let has_status = !kind.info().subresources.is_empty();
    match part {
        Part::Main if has_status => {
            tree::restore(tree, old, "status");
            // A patch of a Pod may be applied without its spec, which has its defaults already.
            if kind != Kind::Pod || tree.get("spec") != old.get("spec") {
                default(kind, tree);
            }
            if kind == Kind::Pod && tree.get("spec") != old.get("spec") {
                pod::default_tolerations(tree::section_mut(tree, "spec"));
            }
            if kind == Kind::Namespace {
                tree::restore(tree, old, "spec");
            }
        }
        Part::Main => default(kind, tree),
        Part::Status => {
            tree::restore(tree, old, "spec");
            match kind {
                Kind::Pod => pod::prepare_status(tree, old),
                Kind::Job => job::prepare_status(tree),
                _ => {}
            }
        }
        Part::Finalize => tree::restore(tree, old, "status"),
    }
}

/// Validates an object against its previous state.
#[doc(alias = "ValidateUpdate")]
pub(crate) fn validate_update(kind: Kind, part: Part, object: &CheckedField<'_, '_>) {
    match (kind, part) {
        (Kind::Job, Part::Main) => job::validate_update(object),
        (Kind::CronJob, Part::Main) => job::cron_job::check_spec(object),
        (Kind::Job, Part::Status) => job::validate_status(object),
        (Kind::Pod, Part::Main) => pod::validate_update(object),
        (Kind::Pod, Part::Status) => pod::validate_status(object),
        (Kind::Event, Part::Main) => validate_event(object),
        (Kind::ResourceQuota, Part::Main) => quota::validate_update(object),
        (Kind::Secret, Part::Main) => config::validate_secret_update(object),
        (Kind::ConfigMap, Part::Main) => config::validate_config_map_update(object),
        (Kind::Workload, Part::Main) => {
            gang::must_not_change(&["controllerRef", "podGroupTemplates"], object);
        }
        (Kind::PodGroup, Part::Main) => {
            gang::must_not_change(&["podGroupTemplateRef", "schedulingPolicy"], object);
        }
        _ => {}
    }
}

/// Increments the generation if the spec has changed.
pub(crate) fn bump_generation(kind: Kind, part: Part, tree: &mut Tree, old: &Tree) {
    if !kind.info().counts_generations || part != Part::Main || tree.get("spec") == old.get("spec")
    {
        return;
    }
    let generation = tree::int(old, "metadata.generation").unwrap_or_default() + 1;
    tree::metadata_mut(tree).insert("generation".into(), generation.into());
}

/// Returns true if finalizers keep an object that is being deleted.
pub(crate) fn is_held(kind: Kind, tree: &Tree) -> bool {
    let has_some = |path: &str| !tree::items(tree, path).is_empty();
    has_some("metadata.finalizers") || (kind == Kind::Namespace && has_some("spec.finalizers"))
}

/// Returns true if a written object must be removed: it is being deleted, without a grace period or finalizers.
pub(crate) fn is_finished(kind: Kind, tree: &Tree) -> bool {
    !tree::text(tree, "metadata.deletionTimestamp").is_empty()
        && tree::int(tree, "metadata.deletionGracePeriodSeconds").unwrap_or_default() == 0
        && !is_held(kind, tree)
}

fn validate_event(event: &CheckedField<'_, '_>) {
    let about = event.at("involvedObject.namespace");
    let own = event.at("metadata.namespace").text();
    if about.text() != own && !(about.text().is_empty() && own == "default") {
        about.invalid_as(Value::from(about.text()), "does not match event.namespace");
    }
}
