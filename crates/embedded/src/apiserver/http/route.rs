//! Turns an HTTP request into a prepared call.
//!
//! Responsible for: routing, options and decoding, which need no state, so that a shell can do them outside of its
//! lock. Must not: access stored objects.

use compact_str::CompactString;
use serde_json::Value;

use super::{
    body::{decode, patch},
    discovery::documents::{self, REVIEWS},
    negotiation,
    options::{self, MAX_MANAGER, WriteOptions},
    query::{self, Query},
    request::{ApiCall, BODY_LIMIT, Label, Prepared, Request, Target, verb_of},
    resource_version,
};
use crate::apiserver::{
    object::{ApiError, EVENTS_V1, Kind, Result, Tree, events_v1, served_rows},
    print::Form,
};

/// Routes and decodes a request. It needs no server: a shell calls this before it takes its lock.
pub fn prepare(request: Request<'_>) -> Prepared {
    let mut label = Label {
        verb: "other",
        resource: "",
        subresource: "",
    };
    let call = route(request, &mut label);
    Prepared { call, label }
}

fn route(request: Request<'_>, label: &mut Label) -> Result<ApiCall> {
    let decoded = query::decode_path(request.path);
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
    if version == "v1" && REVIEWS.iter().any(|[of, ..]| *of == group) {
        return review(request, group, &segments);
    }
    let legacy_watch = segments.first() == Some(&"watch");
    if legacy_watch {
        segments.remove(0);
    }
    let target = locate(request, group, version, &segments)?;
    label.resource = target.kind.info().plural;
    label.subresource = target.subresource.map_or("", |part| part.name);
    if request.body.len() > BODY_LIMIT {
        return Err(too_large());
    }
    call(request, target, legacy_watch, &mut label.verb)
}

/// The error for a body that is larger than [`BODY_LIMIT`].
pub(crate) fn too_large() -> ApiError {
    let message = format!("Request entity too large: limit is {BODY_LIMIT}");
    ApiError::new(413, "RequestEntityTooLarge", message)
}

fn fixed(request: Request<'_>, path: &str) -> Result<ApiCall> {
    if !matches!(request.method, "GET" | "HEAD") {
        return Err(ApiError::method_not_allowed());
    }
    let accepted = negotiation::of_document(request.accept);
    let path = path.trim_end_matches('/');
    documents::answer(path, request.query, accepted).map(ApiCall::Answered)
}

fn review(request: Request<'_>, group: &str, segments: &[&str]) -> Result<ApiCall> {
    let find = |plural: &str| {
        let mut rows = REVIEWS.iter();
        rows.find(|[of, known, _]| *of == group && *known == plural)
    };
    match segments {
        [resource] if let Some([_, _, kind]) = find(resource) => {
            if request.method != "POST" {
                return Err(ApiError::method_not_allowed());
            }
            // Every user may do everything here, so the response does not depend on the body.
            let body = decode::json_or_yaml(request).unwrap_or_default();
            Ok(ApiCall::Answered(documents::review(kind, body)))
        }
        _ => Err(ApiError::no_resource()),
    }
}

/// The object or collection that a path names, in the plain form and without options.
fn locate(request: Request<'_>, group: &str, version: &str, segments: &[&str]) -> Result<Target> {
    if !served_rows().any(|row| row.group == group) {
        return Err(ApiError::no_path());
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
    let as_events_v1 =
        (group, version, plural) == (EVENTS_V1.group, EVENTS_V1.version, EVENTS_V1.plural);
    let kind = match as_events_v1 {
        true => Kind::Event,
        false => Kind::find(group, version, plural).ok_or_else(ApiError::no_resource)?,
    };
    let info = kind.info();
    if info.namespaced == namespace.is_empty() && !(name.is_empty() && namespace.is_empty()) {
        return Err(ApiError::no_resource());
    }
    let subresource = match subresource {
        "" => None,
        other => Some(info.subresource(other).ok_or_else(ApiError::no_resource)?),
    };
    Ok(Target {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        subresource,
        query: match as_events_v1 {
            true => Query::parse(&events_v1::query_to_core(request.query)),
            false => Query::parse(request.query),
        },
        as_events_v1,
        form: Form::Plain,
        options: WriteOptions::default(),
        agent: agent(request.user_agent),
        warnings: Vec::new(),
    })
}

fn call(
    request: Request<'_>,
    mut target: Target,
    legacy_watch: bool,
    verb: &mut &'static str,
) -> Result<ApiCall> {
    read_options(request, &mut target, legacy_watch)?;
    let collection = target.name.is_empty();
    let watch = legacy_watch || (collection && target.query.flag("watch"));
    *verb = verb_of(request.method, watch && target.is_main(), collection)
        .ok_or_else(ApiError::method_not_allowed)?;
    let sub = target.subresource;
    if sub.is_some_and(|sub| !sub.verbs.contains(verb)) {
        return Err(ApiError::method_not_allowed());
    }
    let info = target.kind.info();
    let lacks_namespace = info.namespaced && target.namespace.is_empty();
    match *verb {
        "create" | "deletecollection" if lacks_namespace => Err(ApiError::method_not_allowed()),
        "watch" => Ok(ApiCall::Watch(target)),
        "list" => Ok(ApiCall::List(target)),
        "get" if sub.is_some_and(|sub| sub.name == "log") => Ok(ApiCall::Log(target)),
        "get" => {
            // Any valid version is accepted.
            let version = resource_version::parse(target.query.text("resourceVersion"));
            version.map_err(|why| ApiError::new(500, "", why))?;
            Ok(ApiCall::Get(target))
        }
        "create" => create(request, target),
        "update" if !collection => {
            let body = decode::object(request, &mut target)?;
            Ok(ApiCall::Update(target, Box::new(body)))
        }
        "patch" if !collection => {
            target.options = options::write(&target.query, "PatchOptions")?;
            let patch = patch::read(request, &target)?;
            Ok(ApiCall::Patch(target, Box::new(patch)))
        }
        "delete" => {
            let options = options::delete(&target.query, &decode::optional(request)?)?;
            Ok(ApiCall::Delete(target, options))
        }
        "deletecollection" => {
            let options = options::delete(&target.query, &decode::optional(request)?)?;
            Ok(ApiCall::DeleteCollection(target, options))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn create(request: Request<'_>, mut target: Target) -> Result<ApiCall> {
    match target.subresource.map(|sub| sub.name) {
        None if target.name.is_empty() => {
            let body = decode::object(request, &mut target)?;
            Ok(ApiCall::Create(target, Box::new(body)))
        }
        Some("binding") => Ok(ApiCall::Bind(target, decode::json_or_yaml(request)?)),
        Some("eviction") => {
            let body = decode::json_or_yaml(request)?;
            let delete = match body.get("deleteOptions") {
                Some(Value::Object(options)) => options.clone(),
                _ => Tree::new(),
            };
            let options = options::delete(&target.query, &delete)?;
            Ok(ApiCall::Evict(target, body, options))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

/// The program name at the start of a user agent.
fn agent(user_agent: &str) -> CompactString {
    let name = user_agent.split('/').next().unwrap_or_default();
    let printable = name.chars().filter(|c| !c.is_control());
    let name: CompactString = printable.take(MAX_MANAGER).collect();
    if name.is_empty() {
        return "unknown".into();
    }
    name
}

/// Reads the form of the response and the options of a write.
fn read_options(request: Request<'_>, target: &mut Target, legacy_watch: bool) -> Result<()> {
    let is_asked_for = target.query.flag("watch") && target.name.is_empty();
    let watch = legacy_watch || (request.method == "GET" && is_asked_for);
    if watch && !target.name.is_empty() && target.is_main() {
        // A watch of one object is a watch of the collection with a field selector for its name.
        let name = std::mem::take(&mut target.name);
        let query_of_all = format!("{}&fieldSelector=metadata.name={name}", request.query);
        target.query = Query::parse(&query_of_all);
    }
    let info = target.kind.info();
    let list = target.name.is_empty() && matches!(request.method, "GET" | "DELETE");
    let type_name = format!("*{}.{}", info.short_group(), info.name);
    let accepted = negotiation::negotiate(request.accept)?;
    let include = target.query.text("includeObject");
    target.form = negotiation::form(accepted, include, list, watch, &type_name)?;
    if target.as_events_v1 && target.form == Form::Plain {
        target.form = Form::EventsV1;
    }
    target.options = match request.method {
        "POST" => options::write(&target.query, "CreateOptions")?,
        "PUT" => options::write(&target.query, "UpdateOptions")?,
        _ => WriteOptions::default(),
    };
    Ok(())
}
