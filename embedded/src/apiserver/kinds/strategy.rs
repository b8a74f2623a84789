//! Where the kinds differ: a strategy for each kind, a function in it for each step.
//!
//! Responsible for: calling the right kind's rules. Must not: hold rules of more than a line.

use serde_json::Value;

use super::{gang, job, namespace, pod, quota};
use crate::apiserver::object::{
    field::check,
    field_errors::FieldErrors,
    kind::Kind,
    tree::{self, Tree},
};

/// The part of an object that a write is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The main resource.
    Main,
    /// `/status`.
    Status,
    /// `/finalize` of namespaces.
    Finalize,
}

/// The rules of one kind: a function for each step of a write. `status` stands for writes to `/status`.
struct Strategy {
    default: fn(&mut Tree),
    prepare_create: fn(&mut Tree),
    prepare_status: fn(&mut Tree, &Tree),
    validate_create: fn(&Tree) -> FieldErrors,
    validate_update: fn(&Tree, &Tree) -> FieldErrors,
    validate_status: fn(&Tree, &Tree) -> FieldErrors,
    warnings: fn(&Tree) -> Vec<String>,
    update_warnings: fn(&Tree, &Tree) -> Vec<String>,
}

/// Of a kind without rules of its own.
const PLAIN: Strategy = Strategy {
    default: |_| {},
    prepare_create: |_| {},
    prepare_status: |_, _| {},
    validate_create: |_| FieldErrors::default(),
    validate_update: |_, _| FieldErrors::default(),
    validate_status: |_, _| FieldErrors::default(),
    warnings: |_| Vec::new(),
    update_warnings: |_, _| Vec::new(),
};

const fn of(kind: Kind) -> Strategy {
    match kind {
        Kind::Pod => Strategy {
            default: pod::default,
            prepare_create: pod::prepare_create,
            prepare_status: pod::prepare_status,
            validate_create: pod::validate_create,
            validate_update: pod::validate_update,
            validate_status: pod::validate_status,
            ..PLAIN
        },
        Kind::Job => Strategy {
            default: job::default,
            prepare_create: job::prepare_create,
            prepare_status: |tree, _| job::prepare_status(tree),
            validate_create: job::validate_create,
            validate_update: job::validate_update,
            validate_status: job::validate_status,
            warnings: job::warnings,
            ..PLAIN
        },
        Kind::CronJob => Strategy {
            default: job::default_cron_job,
            prepare_create: clear_status,
            validate_create: job::cron_job::validate_create,
            validate_update: job::cron_job::validate_update,
            warnings: job::cron_job::warnings,
            update_warnings: job::cron_job::update_warnings,
            ..PLAIN
        },
        Kind::Namespace => Strategy {
            default: namespace::default,
            prepare_create: namespace::prepare_create,
            ..PLAIN
        },
        Kind::Event => Strategy {
            validate_create: validate_event,
            validate_update: |tree, _| validate_event(tree),
            ..PLAIN
        },
        Kind::Workload => Strategy {
            validate_create: gang::validate_workload,
            validate_update: |tree, old| {
                gang::validate_update(&["controllerRef", "podGroupTemplates"], tree, old)
            },
            ..PLAIN
        },
        Kind::PodGroup => Strategy {
            prepare_create: clear_status,
            validate_create: gang::validate_pod_group,
            validate_update: |tree, old| {
                gang::validate_update(&["podGroupTemplateRef", "schedulingPolicy"], tree, old)
            },
            ..PLAIN
        },
        Kind::ResourceQuota => Strategy {
            prepare_create: clear_status,
            validate_create: quota::validate,
            validate_update: |tree, _| quota::validate(tree),
            ..PLAIN
        },
        Kind::Node | Kind::Lease | Kind::ServiceAccount | Kind::ConfigMap | Kind::Secret => PLAIN,
    }
}

/// Applies defaults.
pub(crate) fn default(kind: Kind, tree: &mut Tree) {
    (of(kind).default)(tree);
}

/// Fields of `spec` that defaults fill in here and admission on a real server, where nobody owns them;
/// those that the object does not have yet.
pub(crate) fn set_by_admission(kind: Kind, tree: &Tree) -> Vec<&'static str> {
    if kind != Kind::Pod {
        return Vec::new();
    }
    let spec = tree::section(tree, "spec");
    let mut fields = pod::SET_BY_ADMISSION.to_vec();
    fields.retain(|name| !spec.contains_key(*name));
    fields
}

/// Sets what the server decides on creation, the metadata being complete.
#[doc(alias = "PrepareForCreate")]
pub(crate) fn prepare_create(kind: Kind, tree: &mut Tree) {
    (of(kind).prepare_create)(tree);
}

fn clear_status(tree: &mut Tree) {
    tree.insert("status".into(), Value::Object(Tree::new()));
}

/// Checks an object that is to be created.
#[doc(alias = "Validate")]
pub(crate) fn validate_create(kind: Kind, tree: &Tree) -> FieldErrors {
    (of(kind).validate_create)(tree)
}

/// Warnings about an object that was created.
#[doc(alias = "WarningsOnCreate")]
pub(crate) fn warnings(kind: Kind, tree: &Tree) -> Vec<String> {
    (of(kind).warnings)(tree)
}

/// Warnings about an object that was changed.
#[doc(alias = "WarningsOnUpdate")]
pub(crate) fn update_warnings(kind: Kind, part: Part, tree: &Tree, old: &Tree) -> Vec<String> {
    match part {
        Part::Main => (of(kind).update_warnings)(tree, old),
        Part::Status | Part::Finalize => Vec::new(),
    }
}

/// Restores what this write must not change and applies defaults.
#[doc(alias = "PrepareForUpdate")]
pub(crate) fn prepare_update(kind: Kind, part: Part, tree: &mut Tree, old: &Tree) {
    let has_status = !kind.info().subresources.is_empty();
    match part {
        Part::Main if has_status => {
            tree::restore(tree, old, "status");
            // A Pod's patch may come without the spec, which then keeps its defaults.
            if kind != Kind::Pod || tree.get("spec") != old.get("spec") {
                default(kind, tree);
            }
            if kind == Kind::Namespace {
                tree::restore(tree, old, "spec");
            }
        }
        Part::Main => default(kind, tree),
        Part::Status => {
            tree::restore(tree, old, "spec");
            (of(kind).prepare_status)(tree, old);
        }
        Part::Finalize => tree::restore(tree, old, "status"),
    }
}

/// Checks a changed object against its old state.
#[doc(alias = "ValidateUpdate")]
pub(crate) fn validate_update(kind: Kind, part: Part, tree: &Tree, old: &Tree) -> FieldErrors {
    match part {
        Part::Main => (of(kind).validate_update)(tree, old),
        Part::Status => (of(kind).validate_status)(tree, old),
        Part::Finalize => FieldErrors::default(),
    }
}

/// Whether objects of a kind count generations.
pub(crate) const fn has_generation(kind: Kind) -> bool {
    matches!(kind, Kind::Pod | Kind::Job | Kind::CronJob)
}

/// Counts the generation up if the spec has changed.
pub(crate) fn bump_generation(kind: Kind, part: Part, tree: &mut Tree, old: &Tree) {
    if !has_generation(kind) || part != Part::Main || tree.get("spec") == old.get("spec") {
        return;
    }
    let generation = tree::int(tree::metadata(old), "generation").unwrap_or_default() + 1;
    tree::metadata_mut(tree).insert("generation".into(), generation.into());
}

/// Whether a written object is to go away: deletion was asked for and nothing holds it.
pub(crate) fn is_finished(kind: Kind, tree: &Tree) -> bool {
    let metadata = tree::metadata(tree);
    metadata.contains_key("deletionTimestamp")
        && tree::items(metadata, "finalizers").is_empty()
        && tree::int(metadata, "deletionGracePeriodSeconds").unwrap_or_default() == 0
        && (kind != Kind::Namespace
            || tree::items(tree::section(tree, "spec"), "finalizers").is_empty())
}

fn validate_event(tree: &Tree) -> FieldErrors {
    check(tree, |event| {
        let about = event.at("involvedObject.namespace");
        let own = event.at("metadata.namespace").text();
        if about.text() != own && !(about.text().is_empty() && own == "default") {
            about.invalid_as(Value::from(about.text()), "does not match event.namespace");
        }
    })
}
