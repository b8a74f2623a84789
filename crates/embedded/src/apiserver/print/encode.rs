//! Encodes lists, single objects and watch events in each form.
//!
//! Responsible for: slicing responses out of stored bytes. Must not: choose the objects, or parse them other than for
//! tables.

use serde_json::{Value, json};

use super::{
    form::{Form, IncludeObject},
    table,
};
use crate::{
    apiserver::object::{ApiError, Kind, Stored, Tree, events_v1},
    model::Time,
};

/// State of a table's column definitions: still to be sent, or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableHead {
    Due,
    Sent,
}

/// The metadata of a list.
#[derive(Debug)]
pub(crate) struct ListMeta {
    pub(crate) version: u64,
    /// The token of the next page; `None` on the last page.
    pub(crate) token: Option<String>,
    pub(crate) remaining: Option<u64>,
    /// The selector of the shard, if the list is limited to one.
    pub(crate) shard: Option<String>,
}

/// The JSON of a list up to and including the bracket that opens its items.
pub(crate) fn list_head(kind: Kind, form: Form, list: &ListMeta) -> Vec<u8> {
    let mut metadata = json!({"resourceVersion": list.version.to_string()});
    if let Some(token) = &list.token {
        metadata["continue"] = token.as_str().into();
    }
    if let Some(remaining) = list.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    if let Some(shard) = &list.shard {
        metadata["shardInfo"] = json!({"selector": shard});
    }
    let head = match form {
        Form::Table(_) => table_head(&metadata, table::columns(kind)),
        Form::Plain | Form::Metadata | Form::EventsV1 => {
            let (name, api_version) = type_meta(kind, form);
            format!(
                "{{\"kind\":\"{name}List\",\"apiVersion\":\"{api_version}\",\
                 \"metadata\":{metadata},\"items\":["
            )
        }
    };
    head.into_bytes()
}

/// Kind and API version of an object in this form.
fn type_meta(kind: Kind, form: Form) -> (&'static str, &'static str) {
    match form {
        Form::Plain => (kind.info().name, kind.info().api_version),
        Form::EventsV1 => (kind.info().name, events_v1::API_VERSION),
        Form::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1"),
        Form::Table(_) => ("Table", "meta.k8s.io/v1"),
    }
}

/// One item of a list.
pub(crate) fn list_item(out: &mut Vec<u8>, object: &Stored, form: Form, now: Time) {
    match form {
        Form::Plain => {
            out.push(b'{');
            out.extend_from_slice(object.list_item());
        }
        Form::EventsV1 => {
            let mut event = event_v1(object);
            event.remove("kind");
            event.remove("apiVersion");
            push(out, &Value::Object(event));
        }
        Form::Metadata => metadata_object(out, object),
        Form::Table(include) => row(out, object, include, now),
    }
}

/// One object as a whole response; a table has its columns unless they were sent before.
pub(crate) fn single(
    out: &mut Vec<u8>,
    object: &Stored,
    form: Form,
    head: &mut TableHead,
    now: Time,
) {
    match form {
        Form::Plain => out.extend_from_slice(object.bytes()),
        Form::EventsV1 => push(out, &Value::Object(event_v1(object))),
        Form::Metadata => metadata_object(out, object),
        Form::Table(include) => {
            let columns = match std::mem::replace(head, TableHead::Sent) {
                TableHead::Due => table::columns(object.kind),
                TableHead::Sent => &Value::Null,
            };
            let metadata = json!({"resourceVersion": object.version.to_string()});
            out.extend_from_slice(table_head(&metadata, columns).as_bytes());
            row(out, object, include, now);
            out.extend_from_slice(b"]}");
        }
    }
}

/// One watch event.
pub(crate) fn event_frame(
    out: &mut Vec<u8>,
    event_type: &str,
    object: &Stored,
    form: Form,
    head: &mut TableHead,
    now: Time,
) {
    out.extend_from_slice(format!("{{\"type\":\"{event_type}\",\"object\":").as_bytes());
    single(out, object, form, head, now);
    out.extend_from_slice(b"}\n");
}

/// A bookmark event; `initial_end` marks the end of the initial objects of a streaming list.
pub(crate) fn bookmark(out: &mut Vec<u8>, kind: Kind, form: Form, version: u64, initial_end: bool) {
    let (name, api_version) = type_meta(kind, form);
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if initial_end {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let mut object = json!({"kind": name, "apiVersion": api_version});
    if let Form::Table(_) = form {
        let row = json!({
            "cells": [],
            "object": {
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
            },
        });
        object["metadata"] = json!({"resourceVersion": version.to_string()});
        object["columnDefinitions"] = Value::Null;
        object["rows"] = json!([row]);
    } else {
        object["metadata"] = metadata;
        zero_fields(kind, form, &mut object);
    }
    push_line(out, &json!({"type": "BOOKMARK", "object": object}));
}

/// An ERROR event.
pub(crate) fn error_frame(out: &mut Vec<u8>, error: &ApiError) {
    push_line(out, &json!({"type": "ERROR", "object": error.status()}));
}

/// Adds the required members of its type to a bookmark object.
fn zero_fields(kind: Kind, form: Form, object: &mut Value) {
    match (form, kind) {
        (Form::Plain, Kind::Pod) => {
            object["spec"] = json!({"containers": null});
            object["status"] = json!({});
        }
        (Form::Plain, Kind::Job) => {
            object["spec"] = json!({"template": {"metadata": {}, "spec": {"containers": null}}});
            object["status"] = json!({});
        }
        (Form::EventsV1, _) => object["eventTime"] = Value::Null,
        (Form::Plain, Kind::Event) => object["involvedObject"] = json!({}),
        _ => {}
    }
}

fn push_line(out: &mut Vec<u8>, value: &Value) {
    push(out, value);
    out.push(b'\n');
}

fn push(out: &mut Vec<u8>, value: &Value) {
    serde_json::to_writer(out, value).expect("writing to memory does not fail");
}

fn event_v1(object: &Stored) -> Tree {
    let mut event = object.tree();
    events_v1::from_core(&mut event);
    event
}

fn metadata_object(out: &mut Vec<u8>, object: &Stored) {
    out.extend_from_slice(
        b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",",
    );
    out.extend_from_slice(object.metadata());
    out.push(b'}');
}

/// The JSON of a table up to and including the bracket that opens its rows.
fn table_head(metadata: &Value, columns: &Value) -> String {
    format!(
        "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\
         \"columnDefinitions\":{columns},\"rows\":["
    )
}

fn row(out: &mut Vec<u8>, object: &Stored, include: IncludeObject, now: Time) {
    let row = table::row(object.kind, &object.tree(), now);
    out.extend_from_slice(format!("{{\"cells\":{}", Value::Array(row.cells)).as_bytes());
    if let Some(condition) = row.condition {
        out.extend_from_slice(format!(",\"conditions\":[{condition}]").as_bytes());
    }
    out.extend_from_slice(b",\"object\":");
    match include {
        IncludeObject::None => out.extend_from_slice(b"null"),
        IncludeObject::Object => out.extend_from_slice(object.bytes()),
        IncludeObject::Metadata => metadata_object(out, object),
    }
    out.push(b'}');
}
