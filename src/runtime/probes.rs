//! Serves `/livez`, `/readyz`, `/metrics`, the controller's view of Jobs ([`debug`](super::debug)), and the page that
//! shows them ([`ui`](super::ui)).
//!
//! It has a thread and a runtime of its own: it answers also while the controller's thread is busy or stuck, and cannot
//! block it. Pages are rendered on yet another thread, so that probes and scrapes are answered at once whatever the
//! number of viewers; [`serving`](super::serving) limits the connections.
//!
//! Must not: judge the controller's health; see [`Health`].

use std::{
    fmt::Write as _,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    thread,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::{
    sync::oneshot,
    time::{MissedTickBehavior, interval},
};

use crate::metrics::Exposition;

use super::{
    debug::DebugJobs,
    health::{Check, Health},
    records::RecordRefusal,
    serving::{Answers, ResponseBody, listen, serve},
    tasks::BEAT,
    ui::Ui,
};

const TEXT: &str = "text/plain";

const JSON: &str = "application/json";

/// The server for probes. It answers until it is dropped.
#[derive(Debug)]
pub(super) struct Probes {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Probes {
    /// Opens the port and answers there.
    pub(super) fn start(
        address: SocketAddr,
        health: Arc<Health>,
        debug: DebugJobs,
        ui: Ui,
    ) -> io::Result<Self> {
        let listener = listen(address)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let answering = Answering { health, debug, ui };
        let work = async move {
            tokio::select! {
                () = serve(listener, None, answering.clone()) => {}
                () = answering.look() => {}
                // Dropping the sender ends this, too.
                _ = stopped => {}
            }
        };
        let thread = thread::Builder::new()
            .name("probes".to_owned())
            .spawn(move || runtime.block_on(work))?;
        Ok(Self {
            address,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Returns its address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // The thread does nothing that takes long. A panic was logged.
            let _ = thread.join();
        }
    }
}

/// Sources of the answers.
#[derive(Clone, Debug)]
struct Answering {
    health: Arc<Health>,
    debug: DebugJobs,
    ui: Ui,
}

impl Answering {
    /// Samples the pulses of the controller's loops, forever.
    async fn look(self) {
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            self.health.pulses().look();
        }
    }
}

impl Answers for Answering {
    async fn answer(&self, request: Request<Incoming>, from: IpAddr) -> Response<ResponseBody> {
        if Ui::is_ui_path(request.uri().path()) {
            return self.ui.answer(request, from).await;
        }
        let (request, _) = request.into_parts();
        if let Some(answer) = self.debug.answer_records(&request, from).await {
            return answer.unwrap_or_else(|RecordRefusal(status, why)| response(status, TEXT, why));
        }
        if let Some((status, body)) = self.debug.answer(&request, from).await {
            let kind = if status.is_success() { JSON } else { TEXT };
            return response(status, kind, body);
        }
        let path = request.uri.path();
        if path == "/metrics" {
            let accept = request.headers.get_all(header::ACCEPT).iter();
            let accept: Vec<_> = accept.filter_map(|value| value.to_str().ok()).collect();
            let format = Exposition::preferred_by(&accept.join(","));
            let body = format.write(self.health.metrics());
            return response(StatusCode::OK, format.content_type(), body);
        }
        let query = request.uri.query().unwrap_or_default();
        let mut words = path.trim_start_matches('/').splitn(2, '/');
        let (status, body) = match (words.next().unwrap_or_default(), words.next()) {
            ("livez", one) => verdict("livez", self.health.alive(), one, query),
            ("readyz", one) => verdict("readyz", self.health.ready(), one, query),
            _ => not_found(),
        };
        response(status, TEXT, body)
    }
}

fn response(status: StatusCode, kind: &'static str, body: String) -> Response<ResponseBody> {
    let body = Full::new(Bytes::from(body)).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn not_found() -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, "not found".to_owned())
}

/// Returns an answer in the API server's format: `ok`, or a line for each check if one has failed or all are requested
/// (`?verbose`). One check can be requested by its name, and some be excluded (`?exclude=NAME`).
fn verdict(
    asked: &str,
    mut checks: Vec<Check>,
    one: Option<&str>,
    query: &str,
) -> (StatusCode, String) {
    let words = || query.split('&');
    let is_verbose = words().any(|word| matches!(word, "verbose" | "verbose=true"));
    checks.retain(|check| {
        let is_left_out = words().any(|word| word.strip_prefix("exclude=") == Some(check.name));
        !is_left_out && one.is_none_or(|one| one == check.name)
    });
    if one.is_some() && checks.is_empty() {
        return not_found();
    }
    let is_ok = checks.iter().all(|check| check.failed.is_none());
    if is_ok && !is_verbose {
        return (StatusCode::OK, "ok".to_owned());
    }
    let mut text = String::new();
    for Check { name, failed } in &checks {
        // Writing to a string does not fail.
        let _ = match failed {
            None => writeln!(text, "[+]{name} ok"),
            Some(why) => writeln!(text, "[-]{name} failed: {why}"),
        };
    }
    let (status, verdict) = match is_ok {
        true => (StatusCode::OK, "passed"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failed"),
    };
    // Writing to a string does not fail.
    let _ = writeln!(text, "{asked} check {verdict}");
    (status, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_of_an_api_server() {
        let checks = |failed: Option<&str>| {
            let failed = failed.map(str::to_owned);
            let name = "caches";
            vec![
                Check {
                    name: "loops",
                    failed: None,
                },
                Check { name, failed },
            ]
        };
        let ask = |failed, one, query| {
            let (status, text) = verdict("readyz", checks(failed), one, query);
            (status.as_u16(), text)
        };
        let lines = |lines: &[&str]| {
            lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        };
        assert_eq!(ask(None, None, ""), (200, "ok".to_owned()));
        let all = lines(&["[+]loops ok", "[+]caches ok", "readyz check passed"]);
        assert_eq!(ask(None, None, "verbose"), (200, all));
        let failed = lines(&[
            "[+]loops ok",
            "[-]caches failed: why",
            "readyz check failed",
        ]);
        assert_eq!(ask(Some("why"), None, ""), (503, failed));
        assert_eq!(ask(Some("why"), Some("loops"), ""), (200, "ok".to_owned()));
        assert_eq!(
            ask(Some("why"), None, "exclude=caches"),
            (200, "ok".to_owned())
        );
        assert_eq!(ask(None, Some("nothing"), "").0, 404);
    }
}
