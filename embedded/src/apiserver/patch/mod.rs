//! Patches: four kinds of body, applied to a tree.
//!
//! Responsible for: reading patch bodies and computing the patched tree. Must not: know which
//! results are legal, or store them.

mod json_patch;
mod merge;
mod strategic;

use serde_json::{Value, json};

use super::{
    decode,
    error::{ApiError, Result},
    managed::{self, MANAGED_FIELDS},
    meta,
    object::Tree,
    request::{Request, Target},
};

/// A decoded patch.
#[derive(Debug)]
pub(crate) enum PatchBody {
    /// RFC 6902.
    Json(Vec<json_patch::Operation>),
    /// RFC 7386.
    Merge(Tree),
    /// Kubernetes' own: lists merge by key.
    Strategic(Tree),
    /// Server-side apply.
    Apply(Tree),
}

impl PatchBody {
    /// Reads the body by its content type.
    pub(crate) fn read(request: Request<'_>, target: &Target) -> Result<Self> {
        let media = request
            .content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        if media != "application/apply-patch+yaml" && target.options.force.is_some() {
            let error = "Forbidden: may not be specified for non-apply patch";
            return Err(ApiError::invalid_option("PatchOptions", "force", error));
        }
        match media {
            "application/json-patch+json" => Ok(Self::Json(json_patch::read(request.body)?)),
            "application/merge-patch+json" => {
                Ok(Self::Merge(tree(request.body, "error decoding patch: ")?))
            }
            "application/strategic-merge-patch+json" => {
                Ok(Self::Strategic(tree(request.body, "")?))
            }
            "application/apply-patch+yaml" => apply(request, target),
            _ => Err(
                ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
                    .with_details(json!({})),
            ),
        }
    }

    /// The patch itself as an error tells it, where that tells the patch and not what came of it.
    pub(crate) fn shown(&self) -> Option<String> {
        match self {
            Self::Strategic(patch) => Some(strategic::go_text(&Value::Object(patch.clone()))),
            Self::Json(_) | Self::Merge(_) | Self::Apply(_) => None,
        }
    }

    /// Whether the patch can change the given top-level member.
    pub(crate) fn touches(&self, member: &str) -> bool {
        match self {
            Self::Json(operations) => operations.iter().any(|operation| operation.touches(member)),
            Self::Merge(patch) | Self::Strategic(patch) | Self::Apply(patch) => {
                patch.contains_key(member)
            }
        }
    }

    /// Applies the patch.
    pub(crate) fn apply(&self, tree: &mut Tree) -> Result<()> {
        match self {
            Self::Json(operations) => json_patch::apply(operations, tree),
            Self::Merge(patch) => {
                merge::apply(tree, patch);
                Ok(())
            }
            Self::Strategic(patch) => strategic::apply(tree, patch),
            Self::Apply(_) => unreachable!("what is applied is merged by who owns what"),
        }
    }
}

/// Reads a patch that is an object; `start` is how errors about other values begin.
fn tree(body: &[u8], start: &str) -> Result<Tree> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(tree)) => Ok(tree),
        Ok(other) => Err(ApiError::bad_request(format!(
            "{start}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            decode::go_name(&other)
        ))),
        Err(error) if error.is_eof() => Err(ApiError::bad_request(
            "error decoding patch: unexpected end of JSON input",
        )),
        Err(error) => Err(ApiError::bad_request(format!(
            "error decoding patch: {error}"
        ))),
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
    let mut tree = decode::apply_body(request.body)?;
    check_type(target, &tree)?;
    let managed = tree
        .get("metadata")
        .and_then(|metadata| metadata.get(MANAGED_FIELDS));
    if managed.is_some_and(|fields| !fields.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    // What is no quantity is told when the whole object is checked.
    let _ = decode::normalize(target.kind, &mut tree);
    let mut config = Value::Object(tree);
    managed::check(target.kind, &target.name, &config)?;
    match &mut config {
        Value::Object(tree) => Ok(PatchBody::Apply(std::mem::take(tree))),
        _ => unreachable!("it was just made an object"),
    }
}

fn check_type(target: &Target, tree: &Tree) -> Result<()> {
    let info = target.kind.info();
    let (api_version, kind) = (meta::text(tree, "apiVersion"), meta::text(tree, "kind"));
    if (api_version, kind) == (info.api_version, info.name) {
        return Ok(());
    }
    let slash = if api_version.contains('/') { "" } else { "/" };
    Err(ApiError::bad_request(format!(
        "invalid object type: {slash}{api_version}, Kind={kind}"
    )))
}
