//! Deletes objects: grace periods, dependents' finalizers, preconditions, collections.
//!
//! Responsible for: the effect of one DELETE on one object. Must not: follow owner references; garbage collection does.

use std::sync::Arc;

use serde_json::Value;

use super::{
    dependents::{FOREGROUND, ORPHAN, Work},
    state::ApiServer,
};
use crate::{
    apiserver::{
        http::{DeleteOptions, Propagation, Selector, Target},
        kinds::{namespace, strategy},
        object::{ApiError, Kind, Result, Stored, Tree, object_details, tree},
        print::Response,
    },
    model::Time,
};

const JOB_WARNING: &str = "child pods are preserved by default when jobs are deleted; set \
                           propagationPolicy=Background to remove them or set \
                           propagationPolicy=Orphan to suppress this warning";

/// The result of a deletion.
#[derive(Debug)]
pub(crate) enum Deletion {
    /// The object was removed; its last state.
    Gone(Arc<Stored>),
    /// The object stays until finalizers or its grace period allow its removal.
    Stays(Arc<Stored>),
}

/// The effect of a deletion on an object, computed before anything is written.
#[derive(Default)]
struct DeletionPlan {
    /// The tree to store first; `None` if it does not change.
    tree: Option<Tree>,
    /// The object is removed.
    gone: bool,
}

impl ApiServer {
    /// Answers a DELETE of one object.
    pub(crate) fn delete(
        &mut self,
        target: &Target,
        options: &DeleteOptions,
        now: Time,
    ) -> Result<Response> {
        let warnings = job_warning(target.kind, options);
        let with_warnings = |error: ApiError| match warnings.first() {
            Some(text) => error.with_header("Warning", format!("299 - \"{text}\"")),
            None => error,
        };
        let object = self.find(target).map_err(with_warnings)?;
        check_preconditions(&object, options).map_err(with_warnings)?;
        if target.kind == Kind::Namespace && namespace::PROTECTED.contains(&target.name.as_str()) {
            let why = "this namespace may not be deleted";
            return Err(ApiError::forbidden(target.kind, &target.name, why));
        }
        let response = match self.delete_object(&object, options, now) {
            Deletion::Gone(last) if target.kind == Kind::Pod => {
                let last = match options.dry_run {
                    true => last,
                    false => Arc::new(last.at_version(self.store.version())),
                };
                Response::object(200, last, target.form, now)
            }
            Deletion::Gone(last) => success(&last),
            Deletion::Stays(object) => {
                let status = match options.explicit_dependents {
                    true => 202,
                    false => 200,
                };
                Response::object(status, object, target.form, now)
            }
        };
        Ok(response.with_warnings(warnings))
    }

    /// Answers a DELETE of a collection.
    pub(crate) fn delete_collection(
        &mut self,
        target: &Target,
        options: &DeleteOptions,
        now: Time,
    ) -> Result<Response> {
        let selector = Selector::read(&target.query, target.kind)?;
        let mut page = self.page(target, &selector)?;
        // The response contains the objects as they were before the deletion.
        for object in &page.items {
            self.delete_object(object, options, now);
        }
        page.list.version = self.store.version();
        let response = page.answer(target, now);
        Ok(response.with_warnings(job_warning(target.kind, options)))
    }

    /// Deletes an object, or marks it for deletion if a grace period or finalizers keep it.
    pub(crate) fn delete_object(
        &mut self,
        object: &Arc<Stored>,
        options: &DeleteOptions,
        now: Time,
    ) -> Deletion {
        let kind = object.kind;
        let plan = plan(object, options, now);
        let last = match &plan.tree {
            Some(tree) if options.dry_run => Arc::new(Stored::encode(kind, object.version, tree)),
            Some(tree) => self.store_put(kind, tree),
            None => Arc::clone(object),
        };
        if plan.gone {
            if !options.dry_run {
                self.store_remove(object);
            }
            return Deletion::Gone(last);
        }
        if kind == Kind::Namespace && !options.dry_run {
            self.garbage.push(Work::namespace(&object.name));
        }
        Deletion::Stays(last)
    }
}

fn plan(object: &Stored, options: &DeleteOptions, now: Time) -> DeletionPlan {
    let kind = object.kind;
    let graceful = kind == Kind::Pod;
    let mut tree = object.tree();
    let mut changed = false;
    let mut grace = 0;
    if graceful {
        match pod_grace(&tree, options, now) {
            Grace::Pending => return DeletionPlan::default(),
            Grace::Expired => {}
            Grace::Ends { due, period } => {
                mark(&mut tree, due, period);
                (changed, grace) = (true, period);
            }
        }
    }
    changed |= set_dependents_finalizers(&mut tree, kind, options.propagation);
    if grace > 0 {
        let (tree, gone) = (Some(tree), false);
        return DeletionPlan { tree, gone };
    }
    let held = strategy::is_held(kind, &tree);
    if held && object.deletion.is_none() && !graceful {
        mark(&mut tree, now.whole_secs(), 0);
        changed = true;
    }
    if held && kind == Kind::Namespace {
        let status = tree::section_mut(&mut tree, "status");
        changed |=
            status.insert("phase".into(), "Terminating".into()) != Some(Value::from("Terminating"));
        let metadata = tree::metadata_mut(&mut tree);
        metadata.remove("deletionGracePeriodSeconds");
    }
    DeletionPlan {
        tree: changed.then_some(tree),
        gone: !held,
    }
}

/// The state of a Pod's grace period when a DELETE arrives.
enum Grace {
    /// Deletion has started; this DELETE changes nothing.
    Pending,
    /// Deletion has started and the period is 0: only finalizers keep the Pod.
    Expired,
    /// Deletion starts, or its period becomes shorter.
    Ends { due: Time, period: i64 },
}

fn pod_grace(tree: &Tree, options: &DeleteOptions, now: Time) -> Grace {
    if let Some(due) = Time::parse_rfc3339(tree::text(tree, "metadata.deletionTimestamp")) {
        let current = tree::int(tree, "metadata.deletionGracePeriodSeconds").unwrap_or_default();
        return match options.grace {
            _ if current == 0 => Grace::Expired,
            Some(period) if period < current => Grace::Ends {
                due: Time::from_secs(due.as_secs() - current + period),
                period,
            },
            _ => Grace::Pending,
        };
    }
    let unscheduled = tree::text(tree, "spec.nodeName").is_empty();
    let ended = matches!(tree::text(tree, "status.phase"), "Succeeded" | "Failed");
    let own = tree::int(tree, "spec.terminationGracePeriodSeconds").unwrap_or(30);
    let period = match options.grace.unwrap_or(own) {
        _ if unscheduled || ended => 0,
        ..0 => 1,
        period => period,
    };
    let due = Time::from_secs(now.as_secs() + period);
    Grace::Ends { due, period }
}

/// Sets the deletion timestamp and the grace period; the first time, it also increments the generation.
fn mark(tree: &mut Tree, due: Time, grace: i64) {
    let metadata = tree::metadata_mut(tree);
    let before = metadata.insert("deletionTimestamp".into(), due.to_rfc3339().into());
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    if let (None, Some(generation)) = (before, tree::int(metadata, "generation")) {
        metadata.insert("generation".into(), (generation + 1).into());
    }
}

/// Sets the finalizer of the propagation policy; returns true if the finalizers have changed.
fn set_dependents_finalizers(
    tree: &mut Tree,
    kind: Kind,
    propagation: Option<Propagation>,
) -> bool {
    if kind == Kind::Event {
        return false;
    }
    let metadata = tree::metadata_mut(tree);
    let has = |metadata: &Tree, name: &str| {
        let mut finalizers = tree::strings(metadata, "finalizers");
        finalizers.any(|have| have == name)
    };
    let policy = propagation.unwrap_or(match (has(metadata, ORPHAN), has(metadata, FOREGROUND)) {
        (true, _) => Propagation::Orphan,
        (false, true) => Propagation::Foreground,
        (false, false) if kind == Kind::Job => Propagation::Orphan,
        (false, false) => Propagation::Background,
    });
    let mut changed = false;
    for (name, wanted) in [
        (ORPHAN, policy == Propagation::Orphan),
        (FOREGROUND, policy == Propagation::Foreground),
    ] {
        changed |= has(metadata, name) != wanted;
        match wanted {
            true => tree::add_string(metadata, "finalizers", name),
            false => tree::remove_string(metadata, "finalizers", name),
        }
    }
    changed
}

fn check_preconditions(object: &Stored, options: &DeleteOptions) -> Result<()> {
    let (kind, name) = (object.kind, &object.name);
    let conflict = |why: String| Err(ApiError::conflict(kind, name, kind.info().name, &why));
    if let Some(uid) = options.uid.as_ref().filter(|uid| ***uid != *object.uid) {
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The \
             object might have been deleted and then recreated",
            object.uid
        ));
    }
    match &options.version {
        Some(version) if version.parse() != Ok(object.version) => conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the \
             ResourceVersion in record ({}). The object might have been modified",
            object.version
        )),
        _ => Ok(()),
    }
}

fn job_warning(kind: Kind, options: &DeleteOptions) -> Vec<String> {
    let is_due = kind == Kind::Job && options.propagation.is_none();
    is_due.then(|| JOB_WARNING.to_owned()).into_iter().collect()
}

fn success(object: &Stored) -> Response {
    let mut details = object_details(object.kind, &object.name, object.kind.info().plural);
    details["uid"] = Value::from(&*object.uid);
    Response::success(200, "details", details)
}
