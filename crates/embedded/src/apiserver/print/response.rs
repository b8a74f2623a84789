//! Defines responses.
//!
//! Responsible for: the shapes of responses and the lazy encoding of lists. Must not: decide the content of a response.

use std::sync::Arc;

use hashbrown::HashSet;
use serde_json::{Value, json};

use super::{
    encode::{self, ListMeta, TableHead},
    form::Form,
};
use crate::{
    apiserver::object::{ApiError, Kind, Stored},
    model::Time,
};

/// Content type of JSON responses.
pub const JSON: &str = "application/json";
/// Content type of plain-text responses.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// If all warnings together have more characters than this, each is cut to [`MAX_WARNING`].
const MAX_WARNINGS: usize = 4096;
const MAX_WARNING: usize = 256;

/// One response.
#[derive(Debug)]
pub struct Response {
    /// HTTP status code.
    pub status: u16,
    /// `Content-Type`; no header if empty.
    pub content_type: &'static str,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Body,
}

/// A body: bytes, or a list that is encoded in chunks.
#[derive(Debug)]
pub enum Body {
    /// Encoded bytes.
    Bytes(Vec<u8>),
    /// One stored object, unchanged.
    Object(Arc<Stored>),
    /// A list, encoded outside of the server's lock.
    List(Box<ListBody>),
}

/// A list that is still to be encoded; it holds a snapshot of the objects.
#[derive(Debug)]
pub struct ListBody {
    head: Vec<u8>,
    items: Vec<Arc<Stored>>,
    next: usize,
    form: Form,
    now: Time,
    finished: bool,
}

impl Response {
    /// A response with encoded bytes.
    pub fn bytes(status: u16, content_type: &'static str, bytes: Vec<u8>) -> Self {
        Self {
            status,
            content_type,
            headers: Vec::new(),
            body: Body::Bytes(bytes),
        }
    }

    /// A JSON response.
    pub fn json(status: u16, value: &Value) -> Self {
        let bytes = serde_json::to_vec(value).expect("trees always serialize");
        Self::bytes(status, JSON, bytes)
    }

    /// A `Status` of success with one more member.
    pub(crate) fn success(status: u16, member: &str, value: Value) -> Self {
        let mut body =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
        body[member] = value;
        Self::json(status, &body)
    }

    /// One stored object in the requested form.
    pub(crate) fn object(status: u16, object: Arc<Stored>, form: Form, now: Time) -> Self {
        let body = match form {
            Form::Plain => Body::Object(object),
            Form::Table(_) | Form::Metadata | Form::EventsV1 => {
                let mut out = Vec::new();
                encode::single(&mut out, &object, form, &mut TableHead::Due, now);
                Body::Bytes(out)
            }
        };
        Self {
            body,
            ..Self::bytes(status, JSON, Vec::new())
        }
    }

    /// A list of objects of a kind, encoded later.
    pub(crate) fn list(
        kind: Kind,
        list: &ListMeta,
        items: Vec<Arc<Stored>>,
        form: Form,
        now: Time,
    ) -> Self {
        let list = ListBody {
            head: encode::list_head(kind, form, list),
            items,
            next: 0,
            form,
            now,
            finished: false,
        };
        Self {
            body: Body::List(Box::new(list)),
            ..Self::bytes(200, JSON, Vec::new())
        }
    }

    /// Adds `Warning` headers.
    pub(crate) fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.headers.extend(warning_headers(warnings));
        self
    }

    /// The whole body; encodes a list.
    pub fn into_bytes(self) -> Vec<u8> {
        match self.body {
            Body::Bytes(bytes) => bytes,
            Body::Object(object) => object.bytes().to_vec(),
            Body::List(mut list) => {
                let mut out = Vec::new();
                while list.encode_some(usize::MAX, &mut out) {}
                out
            }
        }
    }
}

impl ListBody {
    /// Appends to `out` until it has about `limit` bytes; returns false if the list was complete before.
    pub fn encode_some(&mut self, limit: usize, out: &mut Vec<u8>) -> bool {
        if self.finished {
            return false;
        }
        out.append(&mut self.head);
        while let Some(object) = self.items.get(self.next) {
            if out.len() >= limit {
                return true;
            }
            if self.next > 0 {
                out.push(b',');
            }
            encode::list_item(out, object, self.form, self.now);
            self.next += 1;
        }
        out.extend_from_slice(b"]}");
        self.finished = true;
        self.items = Vec::new();
        true
    }
}

impl From<ApiError> for Response {
    fn from(error: ApiError) -> Self {
        let code = error.code();
        let mut response = match error.plain_text() {
            None => Self::json(code, &error.status()),
            Some("") => Self::bytes(code, "", Vec::new()),
            Some(text) => Self::bytes(code, TEXT, text.as_bytes().to_vec()),
        };
        let (headers, warnings) = error.into_headers();
        response.headers = headers;
        response.with_warnings(warnings)
    }
}

/// The `Warning` headers of these texts without duplicates. If the texts are too long together, each is cut, and those
/// that still do not fit are omitted.
#[doc(alias = "AddWarning")]
fn warning_headers(mut warnings: Vec<String>) -> Vec<(&'static str, String)> {
    let mut seen = HashSet::new();
    warnings.retain(|text| seen.insert(text.clone()));
    let length: usize = warnings.iter().map(|text| text.chars().count()).sum();
    if length > MAX_WARNINGS {
        let mut written = 0;
        warnings.retain_mut(|text| {
            if let Some((end, _)) = text.char_indices().nth(MAX_WARNING) {
                text.truncate(end);
            }
            let fits = written < MAX_WARNINGS;
            written += text.chars().count();
            fits
        });
    }
    let header = |text: String| ("Warning", format!("299 - \"{}\"", escape(&text)));
    warnings.into_iter().map(header).collect()
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace(['\n', '\r'], " ")
}
