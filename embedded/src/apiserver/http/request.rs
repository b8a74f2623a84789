//! Requests as values: as they come, and as they are once routed and decoded.
//!
//! Responsible for: what a request says and what it asks for. Must not: read bodies or paths; `route` does.

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
pub(crate) enum ApiCall {
    /// Nothing that needs objects; this is the answer.
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
    /// Events are sent and answered in the form of `events.k8s.io/v1`.
    pub(crate) as_events_v1: bool,
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

    /// Whether it reads an object or a list.
    pub fn is_read(&self) -> bool {
        self.kind_read().is_some()
    }

    /// The kind of what it reads, if it reads an object or a list.
    pub(crate) fn kind_read(&self) -> Option<Kind> {
        match &self.call {
            Ok(ApiCall::Get(target) | ApiCall::List(target)) => Some(target.kind),
            _ => None,
        }
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
