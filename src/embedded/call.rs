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
    let accept = "application/json";
    let request = Request {
        method,
        path,
        query: "",
        accept,
        content_type,
        body,
        ..Request::default()
    };
    api.handle(request).code()
}
