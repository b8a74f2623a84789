//! From an HTTP request to a prepared call: everything that needs no state.
//!
//! Responsible for: routing, options and decoding, so that a shell may do them outside of its
//! lock. Must not: look at stored objects.

use compact_str::CompactString;
use serde_json::Value;

use super::{
    accept::{self, Accepted},
    decode, discovery,
    error::{ApiError, Result},
    list,
    object::Tree,
    options::{self, DeleteOptions, MAX_MANAGER, WriteOptions},
    patch::PatchBody,
    query::{self, Query},
    resources::{Kind, Subresource},
};

/// Largest body taken, as the real server limits it.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// One HTTP request as a value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// `GET`, `POST`, ...
    pub method: &'a str,
    /// Path without the query.
    pub path: &'a str,
    /// What follows `?`, still encoded.
    pub query: &'a str,
    /// `Accept`, or empty.
    pub accept: &'a str,
    /// `Content-Type`, or empty.
    pub content_type: &'a str,
    /// `User-Agent`, or empty: who owns what the request writes, unless it says so itself.
    pub user_agent: &'a str,
    /// `Authorization`, or empty.
    pub authorization: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// The form in which objects are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As stored.
    Plain,
    /// `PartialObjectMetadata`.
    Metadata,
    /// A table with the columns of `kubectl get`.
    Table(IncludeObject),
}

/// What rows of a table carry beside their cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeObject {
    /// The metadata.
    Metadata,
    /// The whole object.
    Object,
    /// Nothing.
    None,
}

/// A request that has been routed and decoded; see [`prepare`].
#[derive(Debug)]
pub struct Prepared {
    pub(crate) call: Result<Call>,
    label: Label,
}

/// What a request is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// Verb, such as `create`; `other` for paths without a resource.
    pub verb: &'static str,
    /// Resource, such as `pods`; empty for paths without one.
    pub resource: &'static str,
    /// What of the resource, such as `status`; empty for the resource itself.
    pub subresource: &'static str,
}

/// What is asked.
#[derive(Debug)]
pub(crate) enum Call {
    /// A path without objects: discovery, health, version.
    Fixed {
        path: String,
        query: String,
        accepted: Accepted,
    },
    /// `selfsubjectaccessreviews` and the like, by kind: the answer is made from the body.
    Review(&'static str, Tree),
    Get(Target),
    /// `pods/log`.
    Log(Target),
    List(Target),
    Watch(Target),
    Create(Target, Box<Tree>),
    Update(Target, Box<Tree>),
    Patch(Target, Box<PatchBody>),
    Delete(Target, DeleteOptions),
    DeleteCollection(Target, DeleteOptions),
    Bind(Target, Tree),
    Evict(Target, Tree, DeleteOptions),
}

/// The object or collection that a call is about, with its options.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    /// Empty for cluster-scoped kinds and for lists over all namespaces.
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
    pub(crate) subresource: Option<&'static Subresource>,
    pub(crate) query: Query,
    pub(crate) form: Form,
    pub(crate) options: WriteOptions,
    /// What writes, if its options do not say who.
    pub(crate) agent: CompactString,
    /// Warnings gathered while decoding.
    pub(crate) warnings: Vec<String>,
}

impl Prepared {
    /// What the request is counted as.
    pub const fn label(&self) -> Label {
        self.label
    }
}

impl Target {
    /// Whether the main resource is meant.
    pub(crate) const fn is_main(&self) -> bool {
        self.subresource.is_none()
    }

    /// Who writes, as `managedFields` name it.
    pub(crate) fn manager(&self) -> &str {
        let said = self.options.field_manager.as_deref();
        said.unwrap_or(&self.agent)
    }
}

/// Routes and decodes a request. Needs no server: a shell calls this before taking its lock.
pub fn prepare(request: Request<'_>) -> Prepared {
    let mut label = Label {
        verb: "other",
        resource: "",
        subresource: "",
    };
    let call = route(request, &mut label);
    Prepared { call, label }
}

fn route(request: Request<'_>, label: &mut Label) -> Result<Call> {
    let decoded = query::decode(request.path, false);
    let mut segments: Vec<&str> = decoded.split('/').filter(|part| !part.is_empty()).collect();
    let (group, version) = match segments.as_slice() {
        ["api", "v1", _, ..] => {
            segments.drain(..2);
            ("", "v1")
        }
        ["apis", group, version, _, ..] => {
            let found = (*group, *version);
            segments.drain(..3);
            found
        }
        _ => return fixed(request, &decoded),
    };
    if group == "authorization.k8s.io" && version == "v1" {
        return review(request, &segments);
    }
    let legacy_watch = segments.first() == Some(&"watch");
    if legacy_watch {
        segments.remove(0);
    }
    let place = locate(group, version, &segments)?;
    label.resource = place.kind.info().plural;
    label.subresource = place.subresource.map_or("", |subresource| subresource.name);
    if request.body.len() > BODY_LIMIT {
        let message = format!("Request entity too large: limit is {BODY_LIMIT}");
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    call(request, place, legacy_watch, &mut label.verb)
}

fn fixed(request: Request<'_>, path: &str) -> Result<Call> {
    let accepted = accept::of_document(request.accept);
    if !matches!(request.method, "GET" | "HEAD") {
        return Err(ApiError::method_not_allowed());
    }
    Ok(Call::Fixed {
        path: path.trim_end_matches('/').to_owned(),
        query: request.query.to_owned(),
        accepted,
    })
}

fn review(request: Request<'_>, segments: &[&str]) -> Result<Call> {
    let find = |plural: &str| discovery::REVIEWS.iter().find(|row| row[0] == plural);
    match segments {
        [resource] if let Some([_, _, kind]) = find(resource) => {
            if request.method != "POST" {
                return Err(ApiError::method_not_allowed());
            }
            // Where all may do all, the answer does not depend on the body.
            let body = decode::json_or_yaml(request).unwrap_or_default();
            Ok(Call::Review(kind, body))
        }
        _ => Err(ApiError::no_resource()),
    }
}

/// Refuses a version of one object that is none; any other will do.
fn check_version(text: &str) -> Result<()> {
    match list::parse_version(text) {
        Ok(_) => Ok(()),
        Err(error) => Err(list::unprefixed(&error)),
    }
}

struct Place<'a> {
    kind: Kind,
    namespace: &'a str,
    name: &'a str,
    subresource: Option<&'static Subresource>,
}

fn locate<'a>(group: &str, version: &str, segments: &[&'a str]) -> Result<Place<'a>> {
    let known = super::resources::KINDS
        .iter()
        .any(|row| row.group == group && row.version == version);
    if !known {
        let group_is_known = super::resources::KINDS.iter().any(|row| row.group == group);
        return Err(if group_is_known {
            ApiError::no_resource()
        } else {
            ApiError::no_path()
        });
    }
    let is_namespace_itself =
        |third: &str| Kind::Namespace.info().subresource(third).is_some() && group.is_empty();
    let (namespace, rest) = match segments {
        ["namespaces", namespace, third, rest @ ..]
            if !(rest.is_empty() && is_namespace_itself(third)) =>
        {
            (*namespace, &segments[2..])
        }
        _ => ("", segments),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, "", ""),
        [plural, name] => (*plural, *name, ""),
        [plural, name, subresource] => (*plural, *name, *subresource),
        _ => return Err(ApiError::no_resource()),
    };
    let kind = Kind::find(group, version, plural).ok_or_else(ApiError::no_resource)?;
    let info = kind.info();
    if info.namespaced == namespace.is_empty() && !(name.is_empty() && namespace.is_empty()) {
        return Err(ApiError::no_resource());
    }
    let subresource = match subresource {
        "" => None,
        other => Some(info.subresource(other).ok_or_else(ApiError::no_resource)?),
    };
    Ok(Place {
        kind,
        namespace,
        name,
        subresource,
    })
}

/// What a method does to a resource: to one object of it, or to all.
pub(crate) fn verb_of(method: &str, watch: bool, collection: bool) -> Option<&'static str> {
    Some(match method {
        "GET" | "HEAD" if watch => "watch",
        "GET" | "HEAD" if collection => "list",
        "GET" | "HEAD" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if collection => "deletecollection",
        "DELETE" => "delete",
        _ => return None,
    })
}

fn call(
    request: Request<'_>,
    place: Place<'_>,
    legacy_watch: bool,
    verb: &mut &'static str,
) -> Result<Call> {
    let mut target = target(request, place, legacy_watch)?;
    let collection = target.name.is_empty();
    let watch = legacy_watch || (collection && target.query.flag("watch"));
    *verb = verb_of(request.method, watch && target.is_main(), collection)
        .ok_or_else(ApiError::method_not_allowed)?;
    let sub = target.subresource;
    if sub.is_some_and(|sub| !sub.verbs.contains(verb)) {
        return Err(ApiError::method_not_allowed());
    }
    match *verb {
        "watch" => Ok(Call::Watch(target)),
        "list" => Ok(Call::List(target)),
        "get" if sub.is_some_and(|sub| sub.name == "log") => Ok(Call::Log(target)),
        "get" => {
            check_version(target.query.text("resourceVersion"))?;
            Ok(Call::Get(target))
        }
        "create" => create(request, target),
        "update" if !collection => {
            let body = decode::object(request, &mut target)?;
            Ok(Call::Update(target, Box::new(body)))
        }
        "patch" if !collection => {
            target.options = options::write(&target.query, "PatchOptions")?;
            let patch = PatchBody::read(request, &target)?;
            Ok(Call::Patch(target, Box::new(patch)))
        }
        "delete" => {
            let options = options::delete(&target.query, &decode::optional(request)?)?;
            Ok(Call::Delete(target, options))
        }
        "deletecollection" => {
            if target.kind.info().namespaced && target.namespace.is_empty() {
                return Err(ApiError::method_not_allowed());
            }
            let options = options::delete(&target.query, &decode::optional(request)?)?;
            Ok(Call::DeleteCollection(target, options))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn create(request: Request<'_>, mut target: Target) -> Result<Call> {
    match target.subresource.map(|sub| sub.name) {
        None if target.name.is_empty() => {
            if target.kind.info().namespaced && target.namespace.is_empty() {
                return Err(ApiError::method_not_allowed());
            }
            let body = decode::object(request, &mut target)?;
            Ok(Call::Create(target, Box::new(body)))
        }
        Some("binding") => Ok(Call::Bind(target, decode::json_or_yaml(request)?)),
        Some("eviction") => {
            let body = decode::json_or_yaml(request)?;
            let delete = match body.get("deleteOptions") {
                Some(Value::Object(options)) => options.clone(),
                _ => Tree::new(),
            };
            let options = options::delete(&target.query, &delete)?;
            Ok(Call::Evict(target, body, options))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// The name of a program, as its user agent begins.
fn agent(user_agent: &str) -> CompactString {
    let name = user_agent.split('/').next().unwrap_or_default();
    let printable = name.chars().filter(|c| !c.is_control());
    let name: CompactString = printable.take(MAX_MANAGER).collect();
    if name.is_empty() {
        return "unknown".into();
    }
    name
}

fn target(request: Request<'_>, place: Place<'_>, legacy_watch: bool) -> Result<Target> {
    let mut query = Query::parse(request.query);
    let mut name = place.name.to_owned();
    let asked = request.method == "GET" && query.flag("watch") && name.is_empty();
    let watch = legacy_watch || asked;
    if watch && !name.is_empty() && place.subresource.is_none() {
        // Watching one object is watching the collection for its name.
        query = Query::parse(&format!(
            "{}&fieldSelector=metadata.name={name}",
            request.query
        ));
        name.clear();
    }
    let info = place.kind.info();
    let list = name.is_empty() && matches!(request.method, "GET" | "DELETE");
    let type_name = match info.group {
        "" => format!("*core.{}", info.name),
        group => format!(
            "*{}.{}",
            group.split('.').next().unwrap_or(group),
            info.name
        ),
    };
    let accepted = accept::negotiate(request.accept)?;
    let form = accept::form(
        accepted,
        query.text("includeObject"),
        list,
        watch,
        &type_name,
    )?;
    let options = match request.method {
        "POST" => options::write(&query, "CreateOptions")?,
        "PUT" => options::write(&query, "UpdateOptions")?,
        _ => WriteOptions::default(),
    };
    Ok(Target {
        kind: place.kind,
        namespace: place.namespace.to_owned(),
        name,
        subresource: place.subresource,
        query,
        form,
        options,
        agent: agent(request.user_agent),
        warnings: Vec::new(),
    })
}
