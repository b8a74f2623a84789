//! A call to the API server, ready to be sent: method, path, body, and the media types of the answer.
//!
//! Must not: send anything, or know why it is called.

use bytes::Bytes;
use http::Method;

/// Asks for an object's metadata only, which is all that is read of an answer to a write, and for
/// the shortest form of it; a server that cannot do that sends the object. The server reads this text
/// several times for each call, so it names no more than that.
const METADATA_ONLY: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

const JSON: &str = "application/json";

/// Asks for a list of objects of which only the metadata come. A server that cannot do that sends the objects.
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The same in protobuf.
const COMPACT_METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Protobuf where the server has it, which is for its own types.
const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf,application/json";

/// The longest answer that is read as a whole, unless a call sets another limit.
pub const ANSWER_MAX: usize = 256 << 20;

/// The kinds of patch that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// RFC 7386.
    Merge,
    /// Kubernetes' own, which knows how lists are merged.
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
    /// With query, without the server.
    pub path: String,
    /// What the body is.
    pub content_type: Option<&'static str>,
    /// In which forms the answer may come.
    pub accept: &'static str,
    /// The body.
    pub body: Bytes,
    /// The longest answer that is read, in bytes.
    pub answer_max: usize,
}

impl Call {
    /// GET of JSON.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, None, JSON, Bytes::new())
    }

    /// GET of protobuf, or of JSON where the server has nothing else.
    pub fn get_compact(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, None, PROTOBUF_OR_JSON, Bytes::new())
    }

    /// GET of a list in JSON, of which no more is wanted than its objects' metadata.
    pub fn list_metadata(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, None, METADATA_LIST, Bytes::new())
    }

    /// The same in protobuf, or in JSON where the server has nothing else.
    pub fn list_compact_metadata(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path, None, COMPACT_METADATA_LIST, Bytes::new())
    }

    /// POST of a JSON object.
    pub fn create(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self::new(Method::POST, path, Some(JSON), METADATA_ONLY, body)
    }

    /// POST of a JSON object of which more is wanted than what it is called: the answer is all of it.
    pub fn create_whole(path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self::new(Method::POST, path, Some(JSON), JSON, body)
    }

    /// PUT of a JSON object: the answer is all of it.
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

    /// DELETE of all that a list shows, with these options, as JSON. A server does not answer with the
    /// metadata of so many.
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

    /// The same with another limit on the length of the answer.
    #[must_use]
    pub fn with_answer_max(self, answer_max: usize) -> Self {
        Self { answer_max, ..self }
    }
}
