//! Runs `lakh why` and `lakh doctor` against the server of a [`World`](super::world::World), over HTTP on streams
//! within the process.
//!
//! The commands' own calls do not fail: they run elsewhere, with permissions of their own. The server's clock shows the
//! World's time.
//!
//! Must not: judge the output of the commands.

use std::{convert::Infallible, sync::Arc, time::SystemTime};

use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::duplex;

use lakh_inspect::{
    doctor::{Verdict, examine_by},
    why::explain_by,
};

use crate::{
    client::{Client, configure_streams},
    embedded::apiserver::{ApiServer, Reply, Request, prepare},
    model::{JobKey, Time},
};

use super::{ACCOUNT, calls::CallKind, in_virtual_time};

/// Bytes in flight on a stream.
const STREAM: usize = 64 * 1024;

/// The server for the commands.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) api: Arc<Mutex<ApiServer>>,
    pub(super) now: Time,
    /// The kind of calls for which the controller lacks the permission, if it lacks one.
    pub(super) missing_right: Option<&'static CallKind>,
}

/// The results of the commands.
pub(super) struct CommandFindings {
    /// Each Job's cause and text by `lakh why`.
    pub(super) why: Vec<(String, (&'static str, String))>,
    /// The checks of `lakh doctor` that find something.
    pub(super) doctor: Vec<(&'static str, Verdict)>,
    /// The text of `lakh doctor`.
    pub(super) doctor_text: String,
}

/// Runs `lakh why` for each of these Jobs, and `lakh doctor`.
pub(super) fn run(server: Server, jobs: &[String]) -> CommandFindings {
    in_virtual_time(async {
        let client = server.client();
        let mut why = Vec::new();
        for name in jobs {
            let key = JobKey {
                namespace: "d".into(),
                name: name.as_str().into(),
            };
            let explained = explain_by(client.clone(), &key).await;
            why.extend(explained.map(|explained| (name.clone(), explained)));
        }
        let arguments = [
            "--mode=replace",
            "--leader-elect-resource-name=lakh",
            &format!("--service-account={ACCOUNT}"),
        ];
        let (doctor, doctor_text) = examine_by(client, &arguments).await;
        CommandFindings {
            why,
            doctor,
            doctor_text,
        }
    })
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        configure_streams(move || {
            let (near, far) = duplex(STREAM);
            let server = server.clone();
            let service = service_fn(move |request| server.clone().answer(request));
            let served = http1::Builder::new().serve_connection(TokioIo::new(far), service);
            tokio::spawn(served);
            Ok(near)
        })
    }

    async fn answer(
        self,
        request: hyper::Request<Incoming>,
    ) -> Result<Response<Full<bytes::Bytes>>, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.expect("a whole body").to_bytes();
        let text = |name| {
            let value: Option<&HeaderValue> = parts.headers.get(name);
            value.and_then(|it| it.to_str().ok()).unwrap_or_default()
        };
        let asked = Request {
            method: parts.method.as_str(),
            path: parts.uri.path(),
            query: parts.uri.query().unwrap_or_default(),
            accept: text(header::ACCEPT),
            content_type: text(header::CONTENT_TYPE),
            body: &body,
            ..Request::default()
        };
        let Reply::Complete(response) = self.api.lock().handle_prepared(prepare(asked), self.now)
        else {
            unreachable!("the commands watch nothing");
        };
        let (status, content_type) = (response.status, response.content_type);
        let mut answer = response.into_bytes();
        if parts.uri.path().ends_with("/subjectaccessreviews") {
            self.review(&mut answer);
        }
        let mut http = Response::new(Full::from(answer));
        *http.status_mut() = StatusCode::from_u16(status).expect("a status code");
        let headers = http.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        let millis = u64::try_from(self.now.as_millis()).expect("after 1970");
        let date = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(millis);
        let date = HeaderValue::try_from(httpdate::fmt_http_date(date)).expect("a date");
        headers.insert(header::DATE, date);
        Ok(http)
    }

    /// Denies the permission that the controller lacks, because the embedded server has no roles.
    fn review(&self, answer: &mut Vec<u8>) {
        let Some(kind) = self.missing_right else {
            return;
        };
        let mut review: Value = serde_json::from_slice(answer).expect("JSON");
        let of = &review["spec"]["resourceAttributes"];
        let text = |field: &str| of[field].as_str().unwrap_or_default();
        let resource = match text("subresource") {
            "" => text("resource").to_owned(),
            part => format!("{}/{part}", text("resource")),
        };
        if (text("verb"), text("group"), resource.as_str()) == kind.right {
            review["status"]["allowed"] = false.into();
            *answer = review.to_string().into_bytes();
        }
    }
}
