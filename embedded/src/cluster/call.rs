//! Calls within the process.
//!
//! Responsible for: asking the API server without a socket. Must not: wait or try again.

use crate::{apiserver::Request, serve::SharedApi};

/// Makes a request; gives the status code.
pub(super) fn send(
    api: &SharedApi,
    method: &str,
    path: &str,
    content_type: &str,
    body: &[u8],
) -> u16 {
    api.handle(request(method, path, content_type, body)).code()
}

/// The request, without anything that only a client elsewhere would say.
pub(super) fn request<'a>(
    method: &'a str,
    path: &'a str,
    content_type: &'a str,
    body: &'a [u8],
) -> Request<'a> {
    Request {
        method,
        path,
        query: "",
        accept: "application/json",
        content_type,
        body,
        ..Request::default()
    }
}
