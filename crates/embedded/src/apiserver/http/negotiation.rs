//! Negotiates the form of a response.
//!
//! Responsible for: choosing a form by the `Accept` header. Must not: encode anything.
//!
//! Different from a real server: JSON is the only encoding of responses; protobuf and YAML are not offered, and
//! q-values are ignored.

use crate::apiserver::{
    object::{ApiError, Result},
    print::{Form, IncludeObject},
};

/// The `as=` transformation of the accepted part of an `Accept` header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transform {
    /// None.
    #[default]
    None,
    /// `Table`.
    Table,
    /// `PartialObjectMetadata`.
    Metadata,
    /// `PartialObjectMetadataList`.
    MetadataList,
    /// `APIGroupDiscoveryList`.
    Discovery,
    /// The OpenAPI version 2 document in protobuf.
    OldOpenApi,
}

/// The media type by which clients request the OpenAPI version 2 document in protobuf.
const OLD_OPENAPI: &str = "application/com.github.proto-openapi.spec.v2";

/// Accepts the first clause of the header that the server can serve.
pub(crate) fn negotiate(header: &str) -> Result<Transform> {
    if header.trim().is_empty() {
        return Ok(Transform::None);
    }
    header.split(',').find_map(clause).ok_or_else(|| {
        let all = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        if header.contains("application/json") {
            return not_acceptable(format!(
                "only the following media types are accepted: {all}"
            ));
        }
        let message = format!("406: Not Acceptable\n\nAvailable representations: {all}");
        not_acceptable(message).with_details(serde_json::json!({}))
    })
}

fn not_acceptable(message: String) -> ApiError {
    ApiError::new(406, "NotAcceptable", message)
}

/// The form of responses without objects; JSON if the server can serve nothing that the header names.
pub(crate) fn of_document(header: &str) -> Transform {
    negotiate(header).unwrap_or_else(|_| match header.trim().starts_with(OLD_OPENAPI) {
        true => Transform::OldOpenApi,
        false => Transform::None,
    })
}

fn clause(text: &str) -> Option<Transform> {
    let mut parts = text.split(';').map(str::trim);
    if !matches!(parts.next()?, "application/json" | "application/*" | "*/*") {
        return None;
    }
    let (mut transform, mut group, mut version) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => transform = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            _ => {}
        }
    }
    Some(match (transform, group, version) {
        ("", _, _) => Transform::None,
        ("Table", "meta.k8s.io", "v1") => Transform::Table,
        ("PartialObjectMetadata", "meta.k8s.io", "v1") => Transform::Metadata,
        ("PartialObjectMetadataList", "meta.k8s.io", "v1") => Transform::MetadataList,
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Transform::Discovery,
        _ => return None,
    })
}

/// The form of responses with objects; `include` is the `includeObject` parameter.
pub(crate) fn form(
    accepted: Transform,
    include: &str,
    list: bool,
    watch: bool,
    type_name: &str,
) -> Result<Form> {
    match accepted {
        Transform::None | Transform::Discovery | Transform::OldOpenApi => Ok(Form::Plain),
        Transform::Metadata if list && !watch => Err(not_acceptable(format!(
            "you requested PartialObjectMetadata, but the requested object is a list \
             ({type_name}List)"
        ))),
        Transform::Metadata => Ok(Form::Metadata),
        Transform::MetadataList if list => Ok(Form::Metadata),
        Transform::MetadataList => Err(not_acceptable(format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list \
             ({type_name})"
        ))),
        Transform::Table => match include {
            "" | "Metadata" => Ok(Form::Table(IncludeObject::Metadata)),
            "Object" => Ok(Form::Table(IncludeObject::Object)),
            "None" => Ok(Form::Table(IncludeObject::None)),
            other => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \
                 {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            ))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_clause_that_can_be_served_wins() {
        let check = |header: &str, expected: Option<Transform>| {
            assert_eq!(negotiate(header).ok(), expected, "{header}");
        };
        check("", Some(Transform::None));
        check("*/*", Some(Transform::None));
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Some(Transform::Table),
        );
        check(
            "application/vnd.kubernetes.protobuf, application/json",
            Some(Transform::None),
        );
        check("application/json;as=Table;v=v9;g=meta.k8s.io", None);
        check("application/yaml", None);
    }
}
