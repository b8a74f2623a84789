//! Connects to a server under test, embedded or real, and sends requests.
//!
//! Responsible for: connecting and sending. Must not: know cases.

use std::env;

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use kube::{
    Client, Config,
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use lakh::embedded::serve::{self, ServeOptions, ServerHandle};
use serde_json::Value;

/// A server under test.
pub(crate) struct Arm {
    client: Client,
    /// Prefix of namespace names.
    pub(crate) prefix: String,
    embedded: Option<ServerHandle>,
}

/// A complete response.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Arm {
    /// Starts an embedded server, or connects to one that runs elsewhere if `LAKH_CONFORMANCE_EMBEDDED` names its
    /// kubeconfig.
    pub(crate) async fn embedded() -> Self {
        if let Ok(path) = env::var("LAKH_CONFORMANCE_EMBEDDED") {
            return Self::real(&path).await;
        }
        let server = serve::start(ServeOptions::default()).await.unwrap();
        let config = Kubeconfig::from_yaml(&server.kubeconfig()).unwrap();
        let mut arm = Self::connect(config, "c".to_owned()).await;
        arm.embedded = Some(server);
        arm
    }

    /// Connects to the server that a kubeconfig names.
    pub(crate) async fn real(path: &str) -> Self {
        let config = Kubeconfig::read_from(path).unwrap();
        // A run must not reuse namespaces that an earlier run left behind.
        let prefix = format!("conformance-{}", std::process::id());
        Self::connect(config, prefix).await
    }

    async fn connect(kubeconfig: Kubeconfig, prefix: String) -> Self {
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .unwrap();
        config.default_retry = false;
        Self {
            client: Client::try_from(config).unwrap(),
            prefix,
            embedded: None,
        }
    }

    /// Drops the embedded server's watch history. A real server needs no such call: it has no events from before its
    /// start, and cases request only those.
    pub(crate) fn forget(&self) {
        if let Some(server) = &self.embedded {
            server.api().forget_events();
        }
    }

    /// The server's version.
    pub(crate) async fn version(&self) -> String {
        let answer = self.send("GET", "/version", &[], Vec::new()).await;
        let version: Value = serde_json::from_slice(&answer.body).unwrap();
        version["gitVersion"].as_str().unwrap().to_owned()
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Answer {
        let response = self.open(method, path, headers, body).await;
        let (parts, body) = response.into_parts();
        Answer {
            code: parts.status.as_u16(),
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes().to_vec(),
        }
    }

    /// Sends a request with a stream as the response.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Body::from(body)).unwrap();
        self.client.send(request).await.unwrap()
    }
}
