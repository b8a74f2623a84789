//! Tracks managed fields, and implements server-side apply on top of them.
//!
//! Responsible for: the effect of a write on `metadata.managedFields`, the effect of an applied configuration on an
//! object, and conflicts. Must not: default, validate or store.
//! Read first: [`Writer`], then [`Writer::update`] and [`Writer::apply`].
//!
//! Different from a real server: Events, Leases and the Pods of controllers are not tracked until a client applies
//! them, because tens of thousands of them are written per second. On the first apply, all fields of such an object
//! belong to `before-first-apply`, as on a real server after a reset. Writes by the server itself (garbage collection,
//! deletion) do not change the owners.

mod entries;
mod set;
mod typed;
mod walk;

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::{
    apiserver::{
        kinds::Part,
        object::{ApiError, JsonView, Kind, Result, Tree, TypeDef, tree, type_def},
    },
    model::Time,
};
pub(crate) use entries::same_but_for_times;
use entries::{Entries, Entry, FieldManager, ManagerOperation};
use set::{FieldSet, shown};

/// The name of the member of `metadata`.
pub(crate) const MANAGED_FIELDS: &str = "managedFields";

/// The manager of all existing fields when a client first applies to an untracked object.
const BEFORE: &str = "before-first-apply";

/// Fields that no manager owns.
const UNOWNED: [&[&str]; 9] = [
    &["f:apiVersion"],
    &["f:kind"],
    &["f:metadata", "f:name"],
    &["f:metadata", "f:namespace"],
    &["f:metadata", "f:creationTimestamp"],
    &["f:metadata", "f:selfLink"],
    &["f:metadata", "f:uid"],
    &["f:metadata", "f:generation"],
    &["f:metadata", "f:resourceVersion"],
];

/// The annotation with the last configuration of client-side apply, and kubectl's name as field manager.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const KUBECTL: &str = "kubectl";

/// A write by one field manager.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) kind: Kind,
    pub(crate) part: Part,
    pub(crate) manager: &'a str,
    pub(crate) now: Time,
}

/// Removes `managedFields` from an object and returns it.
pub(crate) fn take(tree: &mut Tree) -> Option<Value> {
    match tree.get_mut("metadata") {
        Some(Value::Object(metadata)) => metadata.remove(MANAGED_FIELDS),
        _ => None,
    }
}

/// Inserts `managedFields` into an object, unless it is empty.
pub(crate) fn put(tree: &mut Tree, managed: Option<Value>) {
    let managed = managed.filter(|value| value.as_array().is_some_and(|list| !list.is_empty()));
    if let Some(managed) = managed {
        tree::metadata_mut(tree).insert(MANAGED_FIELDS.to_owned(), managed);
    }
}

/// Validates an applied configuration against the types of the API.
pub(crate) fn check(kind: Kind, name: &str, config: &Tree) -> Result<()> {
    let problems = typed::problems(type_def::of(kind), config);
    let why = match problems.as_slice() {
        [] => return Ok(()),
        [only] => only.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    let info = kind.info();
    let slash = if info.group.is_empty() { "/" } else { "" };
    let namespace = tree::text(config, "metadata.namespace");
    Err(ApiError::new(
        500,
        "",
        format!(
            "failed to create typed patch object ({namespace}/{name}; {slash}{}, Kind={}): {why}",
            info.api_version, info.name
        ),
    ))
}

impl Writer<'_> {
    /// The `managedFields` of a new object; `None` if such objects are not tracked. Fields of the spec in `unset` get
    /// no owner.
    pub(crate) fn create(self, tree: &Tree, unset: &[&str]) -> Option<Value> {
        let hot = match self.kind {
            Kind::Event | Kind::Lease => true,
            Kind::Pod => has_controller(tree),
            _ => false,
        };
        if hot {
            return None;
        }
        let mut entries = self.first(self.manager, tree);
        for entry in &mut entries.0 {
            for name in unset {
                entry.fields.cut(&["f:spec", &format!("f:{name}")]);
            }
        }
        Some(entries.write())
    }

    /// The `managedFields` after a write. `before` is the previous value, `sent` the value in the request; `live` and
    /// `new` do not contain it.
    pub(crate) fn update(
        self,
        live: &Tree,
        new: &Tree,
        before: Option<&Value>,
        sent: Option<&Value>,
    ) -> Option<Value> {
        let sent = sent.filter(|_| self.part == Part::Main);
        if sent.is_some_and(Entries::is_reset) {
            return None;
        }
        let given = sent.and_then(Entries::read);
        let Some(entries) = given.or_else(|| before.and_then(Entries::read)) else {
            return before.cloned();
        };
        if entries.0.is_empty() {
            return None;
        }
        let difference = self.difference(live, new);
        let entries = self.taken(entries, self.manager, difference);
        Some(entries.write())
    }

    /// Applies a configuration. Returns the resulting object and its `managedFields`, or the conflicts.
    ///
    /// `live` does not contain `managedFields`; it is `None` if the object does not exist.
    pub(crate) fn apply(
        self,
        live: Option<&Tree>,
        before: Option<&Value>,
        config: &Tree,
        force: bool,
    ) -> Result<(Tree, Option<Value>)> {
        let mut entries = before.and_then(Entries::read).unwrap_or_default();
        if let Some(live) = live.filter(|_| entries.0.is_empty()) {
            entries = self.first(BEFORE, live);
        }
        let empty = Tree::new();
        let live = live.unwrap_or(&empty);
        let (mut tree, mut entries, mut conflicts) = self.merged(live, entries, config);
        if !force && !conflicts.is_empty() {
            // Fields that kubectl set with client-side apply do not conflict for kubectl.
            let own = self.applied_before(live);
            conflicts.retain(|conflict| !own.has(&conflict.path));
            if !conflicts.is_empty() {
                return Err(refused(&conflicts));
            }
        }
        if self.manager == KUBECTL && last_applied(&tree).is_some() {
            note_last_applied(&mut tree, config);
        }
        let mut own = entries.0.iter_mut();
        let own = own.find(|entry| entry.owner == self.applier());
        if let Some(entry) = own.filter(|_| tree != *live) {
            entry.time = self.now.to_rfc3339();
        }
        Ok((tree, Some(entries.write())))
    }

    /// Applies a configuration with force. Returns the object, the entries, and the fields taken from other managers.
    fn merged(
        self,
        live: &Tree,
        mut entries: Entries,
        config: &Tree,
    ) -> (Tree, Entries, Vec<Conflict>) {
        let shape = type_def::of(self.kind);
        let applier = self.applier();
        let last = entries.get(&applier).cloned();
        let (live_value, config) = (Value::Object(live.clone()), Value::Object(config.clone()));
        let merged = walk::merge(shape, Some(&live_value), &config);
        let mut fields = walk::fields(shape, &config);
        self.ignore(&mut fields);
        entries.set(Entry {
            owner: applier.clone(),
            time: last.as_ref().map_or("", |last| &last.time).to_owned(),
            fields: fields.clone(),
        });
        let merged = match &last {
            Some(last) => prune(shape, merged, &entries, &last.fields),
            None => merged,
        };
        let merged = match merged {
            Value::Object(tree) => tree,
            _ => Tree::new(),
        };
        let difference = self.difference(live, &merged);
        let mut taken = difference.changed;
        taken.add(difference.added);
        let mut conflicts = Vec::new();
        for entry in entries.0.iter_mut().filter(|entry| entry.owner != applier) {
            let common = entry.fields.common(&taken);
            conflicts.extend(common.paths().into_iter().map(|path| Conflict {
                owner: entry.owner.clone(),
                path,
            }));
            entry.fields.subtract(&taken);
            entry.fields.subtract(&difference.removed);
        }
        for entry in &mut entries.0 {
            strip(&mut entry.fields);
        }
        entries.drop_empty();
        (merged, entries, conflicts)
    }

    /// Makes a manager the only owner of the fields that it changed.
    fn taken(self, mut entries: Entries, manager: &str, difference: walk::Difference) -> Entries {
        let mut taken = difference.added;
        taken.add(difference.changed);
        strip(&mut taken);
        for entry in &mut entries.0 {
            entry.fields.subtract(&taken);
            entry.fields.subtract(&difference.removed);
        }
        if !taken.is_empty() {
            let owner = self.owner(manager, ManagerOperation::Update);
            if let Some(last) = entries.get(&owner) {
                taken.add(last.fields.clone());
            }
            entries.set(Entry {
                owner,
                time: self.now.to_rfc3339(),
                fields: taken,
            });
        }
        entries.drop_empty();
        entries.cap();
        entries
    }

    /// The entries of an object with all fields owned by one manager.
    fn first(self, manager: &str, tree: &Tree) -> Entries {
        let blank = tree::section(&BLANK, self.kind.info().name);
        let difference = self.difference(blank, tree);
        self.taken(Entries::default(), manager, difference)
    }

    fn difference(self, live: &Tree, new: &Tree) -> walk::Difference {
        let mut difference = walk::compare(type_def::of(self.kind), live, new);
        for set in difference.sets() {
            self.ignore(set);
        }
        difference
    }

    /// Fields that a write to this part of an object cannot change.
    fn ignored(self) -> &'static [&'static [&'static str]] {
        let has_status = self.kind.info().subresource("status").is_some();
        match (self.part, self.kind) {
            (Part::Main, _) if has_status => &[&["f:status"]],
            (Part::Main, _) => &[],
            (Part::Status, Kind::Pod) => &[
                &["f:spec"],
                &["f:metadata", "f:deletionTimestamp"],
                &["f:metadata", "f:ownerReferences"],
            ],
            (Part::Status, _) => &[&["f:spec"]],
            (Part::Finalize, _) => &[&["f:status"]],
        }
    }

    fn ignore(self, set: &mut FieldSet) {
        for path in self.ignored() {
            set.cut(path);
        }
    }

    fn owner(self, manager: &str, operation: ManagerOperation) -> FieldManager {
        let subresource = match self.part {
            Part::Main => "",
            Part::Status => "status",
            Part::Finalize => "finalize",
        };
        FieldManager {
            operation,
            manager: manager.to_owned(),
            api_version: self.kind.info().api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    fn applier(self) -> FieldManager {
        self.owner(self.manager, ManagerOperation::Apply)
    }

    /// The fields that client-side apply set last and that have not changed since.
    fn applied_before(self, live: &Tree) -> FieldSet {
        let text = last_applied(live).filter(|_| self.manager == KUBECTL);
        let Some(applied) = text.and_then(|text| serde_json::from_str::<Tree>(text).ok()) else {
            return FieldSet::default();
        };
        let shape = type_def::of(self.kind);
        let difference = walk::compare(shape, &applied, live);
        walk::fields(shape, &Value::Object(applied))
            .without(&difference.changed)
            .without(&difference.added)
            .without(&difference.removed)
    }
}

/// A field that another manager owns.
struct Conflict {
    owner: FieldManager,
    path: Vec<String>,
}

/// Removes the fields of the applier's previous configuration that are missing in the new one, unless another manager
/// owns them.
fn prune(shape: &TypeDef, merged: Value, entries: &Entries, last: &FieldSet) -> Value {
    let named = |set: &FieldSet| walk::with_named(shape, set);
    let last = named(last);
    let pruned = walk::remove(shape, &merged, &last);
    let all = named(&walk::fields(shape, &merged));
    let mut kept = named(&walk::fields(shape, &pruned));
    for entry in &entries.0 {
        kept.add(named(&entry.fields));
    }
    let pruned = walk::remove(shape, &merged, &all.clone().without(&kept));
    // Restores items that were removed only along with a parent and that the applier never owned.
    let gone = all.without(&named(&walk::fields(shape, &pruned)));
    walk::remove(shape, &merged, &gone.common(&last))
}

/// Removes the fields that no manager owns.
fn strip(set: &mut FieldSet) {
    set.here = false;
    if let Some(metadata) = set.below.get_mut("f:metadata") {
        metadata.here = false;
    }
    for path in UNOWNED {
        set.cut(path);
    }
}

fn refused(conflicts: &[Conflict]) -> ApiError {
    let message = match conflicts {
        [Conflict { owner, path }] => {
            let (owner, path) = (owner.shown(), shown(path));
            format!("Apply failed with 1 conflict: conflict with {owner}: {path}")
        }
        several => {
            let mut owners: Vec<&FieldManager> =
                several.iter().map(|conflict| &conflict.owner).collect();
            owners.sort_by_key(|owner| owner.shown());
            owners.dedup();
            let mut lines = Vec::new();
            for owner in owners {
                lines.push(format!("conflicts with {}:", owner.shown()));
                let theirs = several.iter().filter(|conflict| conflict.owner == *owner);
                lines.extend(theirs.map(|conflict| format!("- {}", shown(&conflict.path))));
            }
            let list = lines.join("\n");
            format!("Apply failed with {} conflicts: {list}", several.len())
        }
    };
    let cause = |conflict: &Conflict| {
        json!({
            "reason": "FieldManagerConflict",
            "message": format!("conflict with {}", conflict.owner.shown()),
            "field": shown(&conflict.path),
        })
    };
    let causes: Vec<Value> = conflicts.iter().map(cause).collect();
    ApiError::new(409, "Conflict", message).with_details(json!({"causes": causes}))
}

fn last_applied(tree: &Tree) -> Option<&str> {
    let annotations = tree::section(tree, "metadata.annotations");
    annotations.get(LAST_APPLIED).and_then(Value::as_str)
}

/// Updates the annotation of client-side apply, so that the user can switch back.
fn note_last_applied(tree: &mut Tree, config: &Tree) {
    let mut config = config.clone();
    let metadata = tree::metadata_mut(&mut config);
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove(LAST_APPLIED);
    }
    let text = format!("{}\n", Value::Object(config));
    let annotations = tree::section_mut(tree::metadata_mut(tree), "annotations");
    annotations.insert(LAST_APPLIED.to_owned(), text.into());
}

fn has_controller(tree: &Tree) -> bool {
    let mut owners = JsonView::from(tree).at("metadata.ownerReferences").items();
    owners.any(|owner| owner.at("controller").flag())
}

/// An object of each kind without any field set.
static BLANK: LazyLock<Tree> = LazyLock::new(|| {
    let blank = serde_saphyr::from_str(include_str!("blank.yaml"));
    blank.expect("what is blank is YAML")
});
