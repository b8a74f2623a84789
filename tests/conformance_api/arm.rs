//! The two servers, as something that answers requests.
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
    /// Names of namespaces begin so.
    pub(crate) prefix: String,
    embedded: Option<ServerHandle>,
}

/// An answer in full.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Arm {
    /// An embedded server of our own; or one that runs elsewhere, if `LAKH_CONFORMANCE_EMBEDDED` names its kubeconfig.
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

    /// The server that a kubeconfig names.
    pub(crate) async fn real(path: &str) -> Self {
        let config = Kubeconfig::read_from(path).unwrap();
        // Runs must not meet in namespaces that an earlier one left.
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

    /// Forgets what watchers could still ask for. A real server does not know what was before its
    /// start, which is all that cases ask it for.
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

    /// Sends a request and reads the whole answer.
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

    /// Sends a request whose answer is a stream.
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
