//! Calls within the process.
//!
//! Responsible for: asking the API server without a socket. Must not: wait or try again.

use crate::{
    apiserver::Request,
    request::{ApiRequest, JSON},
    serve::SharedApi,
};

/// Makes a request; gives the status code.
pub(super) fn send(api: &SharedApi, asked: &ApiRequest) -> u16 {
    api.handle(request(asked)).code()
}

/// The request, without anything that only a client elsewhere would say.
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
