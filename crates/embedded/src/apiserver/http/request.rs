//! Defines requests: as received, and after routing and decoding.
//!
//! Responsible for: the content of a request and its target. Must not: parse bodies or paths; `route` does.

use compact_str::CompactString;

use super::{
    options::{DeleteOptions, WriteOptions},
    query::Query,
};
use crate::apiserver::{
    apply::PatchBody,
    object::{Kind, Result, Subresource, Tree},
    print::{Form, Response},
};

/// The largest accepted body in bytes, as on a real server.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// One HTTP request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// `GET`, `POST`, ...
    pub method: &'a str,
    /// Path without the query.
    pub path: &'a str,
    /// The part after `?`, still encoded.
    pub query: &'a str,
    /// `Accept`, or empty.
    pub accept: &'a str,
    /// `Content-Type`, or empty.
    pub content_type: &'a str,
    /// `User-Agent`, or empty. Its first part is the field manager of a write without the option `fieldManager`.
    pub user_agent: &'a str,
    /// `Authorization`, or empty.
    pub authorization: &'a str,
    /// The body.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// The media type of the body, without parameters.
    pub(crate) fn media_type(self) -> &'a str {
        let media = self.content_type.split(';').next();
        media.unwrap_or_default().trim()
    }
}

/// A request that has been routed and decoded; see `prepare`.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) call: Result<ApiCall>,
    pub(super) label: Label,
}

/// The labels of a request in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// Verb, such as `create`; `other` for paths without a resource.
    pub verb: &'static str,
    /// Resource, such as `pods`; empty for paths without one.
    pub resource: &'static str,
    /// Subresource, such as `status`; empty for the resource itself.
    pub subresource: &'static str,
}

/// The decoded call.
#[derive(Debug)]
pub(crate) enum ApiCall {
    /// A call that needs no objects, with its response.
    Answered(Response),
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

/// The target of a call, an object or a collection, with its options.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    /// Empty for cluster-scoped kinds and for lists over all namespaces.
    pub(crate) namespace: String,
    /// Empty for collections.
    pub(crate) name: String,
    pub(crate) subresource: Option<&'static Subresource>,
    pub(crate) query: Query,
    /// Events are read and written as `events.k8s.io/v1`.
    pub(crate) as_events_v1: bool,
    pub(crate) form: Form,
    pub(crate) options: WriteOptions,
    /// The field manager if the options name none.
    pub(crate) agent: CompactString,
    /// Warnings collected while decoding.
    pub(crate) warnings: Vec<String>,
}

impl Prepared {
    /// The labels of the request in metrics.
    pub const fn label(&self) -> Label {
        self.label
    }

    /// Returns true if it reads an object or a list.
    pub fn is_read(&self) -> bool {
        self.kind_read().is_some()
    }

    /// The kind that it reads, if it reads an object or a list.
    pub(crate) fn kind_read(&self) -> Option<Kind> {
        match &self.call {
            Ok(ApiCall::Get(target) | ApiCall::List(target)) => Some(target.kind),
            _ => None,
        }
    }
}

impl Target {
    /// Returns true if the target is the main resource.
    pub(crate) const fn is_main(&self) -> bool {
        self.subresource.is_none()
    }

    /// The field manager in `managedFields`.
    pub(crate) fn manager(&self) -> &str {
        let said = self.options.field_manager.as_deref();
        said.unwrap_or(&self.agent)
    }
}

/// The verb of a method, on one object or on a collection.
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
