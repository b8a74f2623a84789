//! Decodes the bodies of patches.
//!
//! Responsible for: selecting the kind of patch by content type, and validating the patch by itself. Must not: apply
//! it.

use serde_json::{Value, json};

use super::{
    decode,
    field_types::{self, go_name},
};
use crate::{
    apiserver::{
        apply::{MANAGED_FIELDS, PatchBody, managed, patch},
        http::request::{Request, Target},
        object::{ApiError, JsonView, Result, Tree, events_v1, tree},
    },
    json::read_json,
};

/// Decodes the body by its content type.
pub(crate) fn read(request: Request<'_>, target: &Target) -> Result<PatchBody> {
    let media = request.media_type();
    if media != "application/apply-patch+yaml" && target.options.force.is_some() {
        let error = "Forbidden: may not be specified for non-apply patch";
        return Err(ApiError::invalid_option("PatchOptions", "force", error));
    }
    match media {
        "application/json-patch+json" => PatchBody::json(request.body),
        "application/merge-patch+json" => {
            let patch = json_object(request.body, "error decoding patch: ")?;
            Ok(PatchBody::Merge(in_core(target, patch)))
        }
        "application/strategic-merge-patch+json" => {
            let patch = json_object(request.body, "")?;
            Ok(PatchBody::Strategic(in_core(target, patch)))
        }
        "application/apply-patch+yaml" => apply(request, target),
        _ => Err(
            ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
                .with_details(json!({})),
        ),
    }
}

/// Converts a patch to the API version in which objects are stored.
fn in_core(target: &Target, mut patch: Tree) -> Tree {
    if target.as_events_v1 {
        events_v1::to_core(&mut patch);
    }
    patch
}

/// Decodes a patch that is an object; `start` begins the error text for other values.
fn json_object(body: &[u8], start: &str) -> Result<Tree> {
    match read_json(body) {
        Ok(Value::Object(tree)) => Ok(tree),
        Ok(other) => Err(ApiError::bad_request(format!(
            "{start}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_name(&other)
        ))),
        Err(error) => Err(patch::not_json(&error)),
    }
}

fn apply(request: Request<'_>, target: &Target) -> Result<PatchBody> {
    if target.options.field_manager.is_none() {
        let error = "Required value: is required for apply patch";
        return Err(ApiError::invalid_option(
            "PatchOptions",
            "fieldManager",
            error,
        ));
    }
    let mut tree = in_core(target, decode::apply_body(request.body)?);
    check_type(target, &tree)?;
    let metadata = JsonView::from(&tree).at("metadata");
    if metadata.at(MANAGED_FIELDS).is_set() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    // Invalid quantities are reported when the whole object is validated.
    field_types::store_quantities(target.kind, &mut tree);
    managed::check(target.kind, &target.name, &tree)?;
    Ok(PatchBody::Apply(tree))
}

fn check_type(target: &Target, tree: &Tree) -> Result<()> {
    let info = target.kind.info();
    let (api_version, kind) = (tree::text(tree, "apiVersion"), tree::text(tree, "kind"));
    if (api_version, kind) == (info.api_version, info.name) {
        return Ok(());
    }
    let slash = if api_version.contains('/') { "" } else { "/" };
    Err(ApiError::bad_request(format!(
        "invalid object type: {slash}{api_version}, Kind={kind}"
    )))
}
