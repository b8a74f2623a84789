//! Sends requests to the API server within the process.
//!
//! Responsible for: calls without a socket. Must not: wait or retry.

use crate::{
    apiserver::Request,
    request::{ApiRequest, JSON},
    serve::SharedApi,
};

/// Sends a request; returns the status code.
pub(super) fn send(api: &SharedApi, asked: &ApiRequest) -> u16 {
    api.handle(request(asked)).code()
}

/// Converts a request; fields that only a remote client sets stay empty.
pub(super) fn request(asked: &ApiRequest) -> Request<'_> {
    Request {
        method: asked.method,
        path: &asked.path,
        accept: JSON,
        content_type: asked.content_type,
        body: &asked.body,
        ..Request::default()
    }
}
