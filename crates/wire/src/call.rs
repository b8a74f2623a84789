//! Describes a request to the API server: method, path, body, and the media types of the response.
//!
//! Must not: send it, or know its purpose.

use bytes::Bytes;
use http::Method;

/// Requests only the object's metadata, in protobuf: a write's response is read no further. A server that cannot do
/// that sends the object. The server parses this header several times per request, so it lists no more types.
const METADATA_ONLY: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

const JSON: &str = "application/json";

/// Requests a list with only the metadata of the objects. A server that cannot do that sends the objects.
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The same in protobuf.
const COMPACT_METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Prefers protobuf, which a server has only for its own types.
const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf,application/json";

/// The maximum size in bytes of a response that is read as a whole, unless a call sets another limit.
pub const ANSWER_MAX: usize = 256 << 20;

/// The kinds of patch that lakh sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, which has rules for merging lists.
    Strategic,
}

impl Patch {
    fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

/// A request to the API server.
#[derive(Clone, Debug)]
pub struct Call {
    /// The HTTP method.
    pub method: Method,
    /// The path with query, without the server.
    pub path: String,
    /// The media type of the body.
    pub content_type: Option<&'static str>,
    /// The accepted media types of the response.
    pub accept: &'static str,
    /// The body.
    pub body: Bytes,
    /// The maximum size of the response, in bytes.
    pub answer_max: usize,
}

impl Call {
    /// GET of JSON.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, None, JSON, Bytes::new())
    }

    /// GET of protobuf, or of JSON if the server has nothing else.
    pub fn get_compact(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, None, PROTOBUF_OR_JSON, Bytes::new())
    }

    /// GET of a list in JSON with only the objects' metadata.
    pub fn list_metadata(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, None, METADATA_LIST, Bytes::new())
    }

    /// The same in protobuf, or in JSON if the server has nothing else.
    pub fn list_compact_metadata(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, None, COMPACT_METADATA_LIST, Bytes::new())
    }

    /// POST of a JSON object. The response has only metadata.
    pub fn create(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self::new(Method::POST, path, Some(JSON), METADATA_ONLY, body)
    }

    /// POST of a JSON object. The response is the full object.
    pub fn create_whole(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self::new(Method::POST, path, Some(JSON), JSON, body)
    }

    /// PUT of a JSON object. The response is the full object.
    pub fn replace(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self::new(Method::PUT, path, Some(JSON), JSON, body)
    }

    /// PATCH.
    pub fn patch(path: impl Into<String>, patch: Patch, body: impl Into<Bytes>) -> Self {
        let kind = Some(patch.content_type());
        Self::new(Method::PATCH, path, kind, METADATA_ONLY, body)
    }

    /// DELETE with default options.
    pub fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path, None, METADATA_ONLY, Bytes::new())
    }

    /// DELETE with these options, as JSON.
    pub fn delete_with(path: impl Into<String>, options: impl Into<Bytes>) -> Self {
        Self::new(Method::DELETE, path, Some(JSON), METADATA_ONLY, options)
    }

    /// DELETE of all objects that a list would return, with these options, as JSON. A server does not return metadata
    /// alone for a collection.
    pub fn delete_collection(path: impl Into<String>, options: impl Into<Bytes>) -> Self {
        Self::new(Method::DELETE, path, Some(JSON), JSON, options)
    }

    fn new(
        method: Method,
        path: impl Into<String>,
        content_type: Option<&'static str>,
        accept: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        Self {
            method,
            path: path.into(),
            content_type,
            accept,
            body: body.into(),
            answer_max: ANSWER_MAX,
        }
    }

    /// The same request with another limit on the response size.
    #[must_use]
    pub fn with_answer_max(self, answer_max: usize) -> Self {
        Self { answer_max, ..self }
    }
}
