//! Implements create, update and patch: the pipeline of every client write.
//!
//! Responsible for: the order of steps (defaults, names, rules, optimistic locking, storage). Must not: hold rules of
//! single kinds; those are in `kinds`.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Value, json};

use super::state::ApiServer;
use crate::{
    apiserver::{
        apply::{PatchBody, Writer, managed},
        http::{FieldValidation, Target, body::decode},
        kinds::{Part, job, metadata, pod, strategy},
        object::{
            ApiError, Kept, Kind, Result, Stored, Tree, check, check_change, names, object_details,
            size, tree,
        },
        print::Response,
    },
    model::Time,
};

/// Longest `generateName` that is kept, in bytes, so that the name fits into a label.
const GENERATED_BASE: usize = 58;
/// The number of attempts to generate a free name, as on a real server.
const NAME_ATTEMPTS: usize = 8;

impl ApiServer {
    /// Creates an object with these `managedFields`. If `None`, the client's field manager owns its fields.
    pub(crate) fn create(
        &mut self,
        target: Target,
        tree: Tree,
        managed: Option<Value>,
        now: Time,
    ) -> Result<Response> {
        let warnings = target.warnings.clone();
        let created = self.create_object(target, tree, managed, now);
        created.map_err(|error| error.with_warnings(warnings))
    }

    fn create_object(
        &mut self,
        mut target: Target,
        mut tree: Tree,
        mut managed: Option<Value>,
        now: Time,
    ) -> Result<Response> {
        let kind = target.kind;
        let metadata = tree::metadata(&tree);
        if !tree::text(metadata, "resourceVersion").is_empty() {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(ApiError::new(500, "", why));
        }
        self.check_namespace(&target, metadata)?;
        let has_labels = metadata.contains_key("labels");
        let unset = strategy::set_by_admission(kind, &tree);
        strategy::default(kind, &mut tree);
        if managed.is_none() {
            managed = writer(&target, now).create(&tree, &unset);
        }
        if !has_labels {
            // `prepare_create` copies the template's labels again, once it has generated labels.
            tree::metadata_mut(&mut tree).remove("labels");
        }
        let generated = self.fill_metadata(&target, &mut tree, now);
        strategy::prepare_create(kind, &mut tree);
        managed::put(&mut tree, managed);
        let name = tree::text(&tree, "metadata.name").to_owned();
        check_created(kind, &tree)?;
        target.warnings.append(&mut strategy::warnings(kind, &tree));
        let admitted = self.admit_create(kind, &target.namespace, &tree);
        admitted
            .and_then(|()| self.check_free(kind, &target.namespace, &name, generated))
            .map_err(|error| error.with_warnings(target.warnings.clone()))?;
        if target.options.dry_run {
            // An object that is not stored has no resourceVersion and cannot be encoded as a stored object.
            return Ok(Response::json(201, &Value::Object(tree)).with_warnings(target.warnings));
        }
        if let Err(too_large) = size::check(kind, &tree, &Kept::default()) {
            // A real server retries with another UID and treats the fields that it generated as if the client had sent
            // them.
            self.fill_metadata(&target, &mut tree, now);
            strategy::prepare_create(kind, &mut tree);
            check_created(kind, &tree)?;
            return Err(too_large);
        }
        let object = self.store_put(kind, &tree);
        if kind == Kind::Namespace {
            self.fill_namespace(&name, now);
        }
        Ok(Response::object(201, object, target.form, now).with_warnings(target.warnings))
    }

    /// Replaces an object or its status.
    pub(crate) fn update(&mut self, target: Target, mut tree: Tree, now: Time) -> Result<Response> {
        let old = self.find(&target)?;
        let uid = tree::text(&tree, "metadata.uid");
        if !uid.is_empty() && *uid != *old.uid {
            let info = target.kind.info();
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, \
                 AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in \
                 object meta: {}",
                info.plural,
                old.key(),
                old.uid
            );
            let (kind, name) = (target.kind, &target.name);
            return Err(ApiError::conflict(kind, name, info.plural, &why));
        }
        let mut old_tree = old.tree();
        let write = Write {
            kept: Kept::default(),
            before: managed::take(&mut old_tree),
            owners: Owners::Written(managed::take(&mut tree)),
            now,
        };
        self.replace(target, &old, old_tree, tree, write)
    }

    /// Patches an object or its status.
    pub(crate) fn patch(
        &mut self,
        mut target: Target,
        patch: &PatchBody,
        now: Time,
    ) -> Result<Response> {
        let Some(old) = self.get(target.kind, &target.namespace, &target.name) else {
            return match patch {
                PatchBody::Apply(config) if target.is_main() => {
                    self.create_by_apply(target, config, now)
                }
                _ => Err(ApiError::not_found(target.kind, &target.name)),
            };
        };
        let (mut old_tree, kept) = read_for(&target, patch, &old);
        let before = managed::take(&mut old_tree);
        let (mut tree, owners);
        if let PatchBody::Apply(config) = patch {
            let force = target.options.force == Some(true);
            let (applied, after) =
                writer(&target, now).apply(Some(&old_tree), before.as_ref(), config, force)?;
            tree = applied;
            owners = Owners::Applied(after);
        } else {
            tree = old_tree.clone();
            let sent = patch_with_owners(&target, patch, &mut tree, before.as_ref())?;
            owners = Owners::Written(sent);
        }
        check_same_name(&target, &tree)?;
        let checked = check_patched(&mut target, patch, &mut tree, &kept);
        checked.map_err(|error| error.with_warnings(target.warnings.clone()))?;
        let write = Write {
            kept,
            before,
            owners,
            now,
        };
        self.replace(target, &old, old_tree, tree, write)
    }

    fn create_by_apply(
        &mut self,
        mut target: Target,
        config: &Tree,
        now: Time,
    ) -> Result<Response> {
        let (mut tree, managed) = writer(&target, now).apply(None, None, config, false)?;
        let metadata = tree::metadata_mut(&mut tree);
        metadata.remove("resourceVersion");
        if tree::text(metadata, "name").is_empty() {
            return Err(ApiError::no_name(&target.name));
        }
        check_same_name(&target, &tree)?;
        let uid = tree::text(&tree, "metadata.uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was \
                 found"
            );
            let (kind, plural) = (target.kind, target.kind.info().plural);
            return Err(ApiError::conflict(kind, &target.name, plural, &why));
        }
        check_types(&mut target, None, &mut tree, &Kept::default())?;
        self.create(target, tree, managed, now)
    }

    /// The second half of update and patch: validation, then storage. The old tree lacks `managedFields`.
    fn replace(
        &mut self,
        target: Target,
        old: &Arc<Stored>,
        old_tree: Tree,
        tree: Tree,
        write: Write<'_>,
    ) -> Result<Response> {
        let warnings = target.warnings.clone();
        let replaced = self.replace_object(target, old, old_tree, tree, write);
        replaced.map_err(|error| error.with_warnings(warnings))
    }

    fn replace_object(
        &mut self,
        mut target: Target,
        old: &Arc<Stored>,
        old_tree: Tree,
        mut tree: Tree,
        write: Write<'_>,
    ) -> Result<Response> {
        let kind = target.kind;
        let Write {
            kept,
            before,
            owners,
            now,
        } = write;
        let version = tree::text(&tree, "metadata.resourceVersion");
        if !version.is_empty() {
            let asked: u64 = version.parse().map_err(|_| {
                let why = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
                ApiError::new(500, "", why)
            })?;
            if asked != old.version {
                return Err(ApiError::stale(kind, &target.name));
            }
        }
        let part = part_of(&target);
        let mut errors = metadata::restore(&mut tree, &old_tree);
        strategy::prepare_update(kind, part, &mut tree, &old_tree);
        let after = match owners {
            Owners::Applied(after) => after,
            Owners::Written(sent) => {
                let live = defaulted(kind, part, &old_tree);
                writer(&target, now).update(&live, &tree, before.as_ref(), sent.as_ref())
            }
        };
        errors.append(check_change(&tree, &old_tree, |object| {
            metadata::check_update(kind, object);
            strategy::validate_update(kind, part, object);
        }));
        errors.check(kind, &target.name)?;
        if target.is_main() {
            self.admit_update(kind, &target.namespace, &tree, &old_tree)?;
        }
        let mut warnings = std::mem::take(&mut target.warnings);
        warnings.append(&mut strategy::update_warnings(kind, part, &tree, &old_tree));
        let reply = |object: Arc<Stored>| {
            Response::object(200, object, target.form, now).with_warnings(warnings)
        };
        if tree == old_tree && managed::same_but_for_times(before.as_ref(), after.as_ref()) {
            return Ok(reply(Arc::clone(old)));
        }
        strategy::bump_generation(kind, part, &mut tree, &old_tree);
        managed::put(&mut tree, after);
        let dry_run = target.options.dry_run;
        if !dry_run {
            size::check(kind, &tree, &kept)?;
        }
        // Without its last finalizer, the object is removed in the same write. The response has its previous version.
        let is_finished = strategy::is_finished(kind, &tree);
        if is_finished && !dry_run {
            self.store_remove(old);
        }
        Ok(reply(match is_finished || dry_run {
            true => Arc::new(Stored::encode_with(kind, old.version, &tree, &kept)),
            false => self.store_put_with(kind, &tree, &kept),
        }))
    }

    /// Sets the fields that the server decides; returns true if the name was generated.
    fn fill_metadata(&mut self, target: &Target, tree: &mut Tree, now: Time) -> bool {
        let uid = names::new_uid(&mut self.rng);
        let metadata = tree::metadata_mut(tree);
        for field in metadata::SERVER_OWNED {
            metadata.remove(*field);
        }
        if target.kind.info().namespaced {
            metadata.insert("namespace".into(), target.namespace.clone().into());
        } else {
            metadata.remove("namespace");
        }
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), now.to_rfc3339().into());
        if target.kind.info().counts_generations {
            metadata.insert("generation".into(), 1.into());
        }
        let base = tree::text(metadata, "generateName");
        if !tree::text(metadata, "name").is_empty() || base.is_empty() {
            return false;
        }
        let base = base[..base.floor_char_boundary(GENERATED_BASE)].to_owned();
        let mut name = String::new();
        for _ in 0..NAME_ATTEMPTS {
            name = format!("{base}{}", names::name_suffix(&mut self.rng));
            let taken = self.store.get(target.kind, &target.namespace, &name);
            if taken.is_none() {
                break;
            }
        }
        tree::metadata_mut(tree).insert("name".into(), name.into());
        true
    }

    fn check_namespace(&self, target: &Target, metadata: &Tree) -> Result<()> {
        if !target.kind.info().namespaced {
            return Ok(());
        }
        let found = self.get(Kind::Namespace, "", &target.namespace);
        let namespace =
            found.ok_or_else(|| ApiError::not_found(Kind::Namespace, &target.namespace))?;
        if namespace.deletion.is_none() {
            return Ok(());
        }
        let name = match tree::text(metadata, "name") {
            "" => tree::text(metadata, "generateName"),
            name => name,
        };
        let (kind, namespace) = (target.kind, &target.namespace);
        Err(ApiError::namespace_terminating(kind, name, namespace))
    }

    fn check_free(&self, kind: Kind, namespace: &str, name: &str, generated: bool) -> Result<()> {
        let Some(existing) = self.store.get(kind, namespace, name) else {
            return Ok(());
        };
        let error = ApiError::already_exists(kind, name);
        let about = |message| ApiError::about(409, "AlreadyExists", message, kind, name);
        if generated {
            let message = format!(
                "{error}, the server was not able to generate a unique name for the object"
            );
            let mut details = object_details(kind, name, kind.info().plural);
            details["retryAfterSeconds"] = 1.into();
            return Err(about(message)
                .with_details(details)
                .with_header("Retry-After", "1"));
        }
        Err(match existing.deletion {
            Some(_) => about(format!("object is being deleted: {error}")),
            None => error,
        })
    }
}

/// Validates a new object.
fn check_created(kind: Kind, tree: &Tree) -> Result<()> {
    let errors = check(tree, |object| {
        metadata::check_create(kind, object);
        strategy::validate_create(kind, object);
    });
    errors.check(kind, tree::text(tree, "metadata.name"))
}

/// Reads an object for a patch without the members that the patch does not change. They need not be parsed, copied,
/// compared or serialized. Most writes of a busy cluster are such patches. The tree has only those parts of a kept
/// member that the rules need.
fn read_for<'s>(target: &Target, patch: &PatchBody, object: &'s Stored) -> (Tree, Kept<'s>) {
    let part = part_of(target);
    // A status write normalizes and validates the whole status, even if the patch does not change it.
    let members: &[&'static str] = match (target.kind, part) {
        _ if matches!(patch, PatchBody::Apply(_)) => &[],
        (Kind::Pod, Part::Main) => &["spec", "status"],
        (Kind::Pod, _) | (Kind::Job, Part::Status) => &["spec"],
        _ => &[],
    };
    let untouched = members
        .iter()
        .copied()
        .filter(|member| !patch.touches(member));
    let (mut tree, kept) = Kept::read(object, &untouched.collect::<Vec<_>>());
    if let Some(spec) = kept.get("spec").filter(|_| part == Part::Status) {
        let needed = match target.kind {
            Kind::Pod => pod::restart_policies(spec),
            _ => job::spec_without_template(spec),
        };
        tree.insert("spec".into(), Value::Object(needed));
    }
    (tree, kept)
}

/// The context of an update.
struct Write<'s> {
    /// Members that the write cannot change. Both trees have only the parts that the rules need, or nothing.
    kept: Kept<'s>,
    /// The `managedFields` before the write.
    before: Option<Value>,
    owners: Owners,
    now: Time,
}

/// The owners of the fields after an update.
enum Owners {
    /// The previous `managedFields`, or those in the request. The writer also owns the fields that it changes.
    Written(Option<Value>),
    /// The `managedFields` that server-side apply computed.
    Applied(Option<Value>),
}

fn writer(target: &Target, now: Time) -> Writer<'_> {
    Writer {
        kind: target.kind,
        part: part_of(target),
        manager: target.manager(),
        now,
    }
}

/// Patches an object; returns the `managedFields` that the patch sets, if any.
fn patch_with_owners(
    target: &Target,
    patch: &PatchBody,
    tree: &mut Tree,
    before: Option<&Value>,
) -> Result<Option<Value>> {
    if patch.touches("metadata") {
        managed::put(tree, before.cloned());
    }
    patch.apply(target.kind, tree)?;
    Ok(managed::take(tree).filter(|sent| Some(sent) != before))
}

/// Applies the defaults that depend on fields generated at creation. A Job without labels gets its template's labels
/// when it is read, and no manager owns them.
fn defaulted(kind: Kind, part: Part, tree: &Tree) -> Cow<'_, Tree> {
    if kind != Kind::Job || part != Part::Main || tree::metadata(tree).contains_key("labels") {
        return Cow::Borrowed(tree);
    }
    let mut tree = tree.clone();
    strategy::default(kind, &mut tree);
    Cow::Owned(tree)
}

fn part_of(target: &Target) -> Part {
    match target.subresource.map(|sub| sub.name) {
        None => Part::Main,
        Some("status") => Part::Status,
        Some(_) => Part::Finalize,
    }
}

fn check_same_name(target: &Target, tree: &Tree) -> Result<()> {
    let metadata = tree::metadata(tree);
    let name = tree::text(metadata, "name");
    if name != target.name {
        return Err(ApiError::other_name(name, &target.name));
    }
    let namespace = tree::text(metadata, "namespace");
    if !namespace.is_empty() && namespace != target.namespace && target.is_main() {
        return Err(ApiError::other_namespace());
    }
    Ok(())
}

/// Validates the types of a patched object; skips Pods if the patch does not change the spec.
fn check_patched(
    target: &mut Target,
    patch: &PatchBody,
    tree: &mut Tree,
    kept: &Kept<'_>,
) -> Result<()> {
    let kind = target.kind;
    let unset = target.options.validation == FieldValidation::Unset;
    let is_object = |name: &&str| tree.get(*name).is_none_or(Value::is_object);
    let are_objects = ["metadata", "status"].iter().all(is_object);
    if kind == Kind::Pod && unset && !patch.touches("spec") && are_objects {
        tree::drop_nulls(tree);
        return Ok(());
    }
    check_types(target, Some(patch), tree, kept)
}

/// Validates the types of a patched object.
fn check_types(
    target: &mut Target,
    patch: Option<&PatchBody>,
    tree: &mut Tree,
    kept: &Kept<'_>,
) -> Result<()> {
    if let Some(PatchBody::Strategic(_)) = patch {
        // A strategic merge patch uses the type of the target. The kind and the API version in the patch are ignored.
        tree.remove("kind");
        tree.remove("apiVersion");
    }
    let checked =
        decode::same_kind(target.kind, tree).and_then(|()| decode::check_types(target, tree, None));
    checked.map_err(|why| {
        let shown = patch.and_then(PatchBody::shown);
        let whole = shown.unwrap_or_else(|| {
            kept.put_back(tree);
            Value::Object(std::mem::take(tree)).to_string()
        });
        let message = format!("Invalid value: {}: {why}", Value::String(whole));
        ApiError::invalid(" \"\"", json!({}), [("patch", &*message)])
    })
}
