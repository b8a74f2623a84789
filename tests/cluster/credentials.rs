//! Tests the rotation of credentials and certificates in the middle of a run: the Job still ends.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lakh::{
    client::{self, Client, ConnectError},
    embedded::EmbeddedCluster,
    runtime::Controller,
};
use parking_lot::Mutex;
use pem::Pem;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        RootCertStore, ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer},
        server::WebPkiClientVerifier,
    },
};

use crate::support::{
    self, http_get,
    proxy::{Fate, Proxy, refusal},
};

/// Longest wait for an effect of the rotation.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster behind a proxy that accepts only the right token, and a folder for files.
struct Scene {
    cluster: EmbeddedCluster,
    line: Proxy,
    folder: TempDir,
    token: Arc<Mutex<String>>,
    refused: Arc<AtomicUsize>,
}

impl Scene {
    async fn new(token: &str) -> Self {
        let cluster = support::cluster(Duration::from_millis(200)).await;
        let token = Arc::new(Mutex::new(token.to_owned()));
        let refused = Arc::new(AtomicUsize::new(0));
        let (right, count) = (Arc::clone(&token), Arc::clone(&refused));
        let url = cluster.url();
        let line = Proxy::start(&url, move |piece| {
            let starts = ["GET ", "POST ", "PATCH ", "DELETE "];
            let is_request = starts.iter().any(|verb| piece.starts_with(verb));
            let shown = format!("authorization: Bearer {}\r\n", *right.lock());
            if !is_request || piece.contains(&shown) {
                return Fate::Passed;
            }
            count.fetch_add(1, Ordering::SeqCst);
            Fate::Answered(refusal(401, "Unauthorized", "Unauthorized"))
        });
        Self {
            cluster,
            line: line.await,
            folder: tempfile::tempdir().expect("a folder"),
            token,
            refused,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        write(&self.path(name), text)
    }

    /// Writes a kubeconfig for the proxy with these lines for the user.
    fn kubeconfig(&self, user: &str) -> PathBuf {
        let text = kubeconfig(&format!("server: '{}'", self.line.url()), user);
        self.write("config", &text)
    }

    /// Sets the token that the proxy accepts.
    fn expect(&self, token: &str) {
        *self.token.lock() = token.to_owned();
    }

    fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }
}

fn write(path: &Path, text: &str) -> PathBuf {
    fs::write(path, text).expect("the file can be written");
    path.to_owned()
}

fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Config, current-context: x, clusters: [{{name: c, cluster: {{{cluster}}}}}],
          users: [{{name: u, user: {{{user}}}}}], contexts: [{{name: x, context: {{cluster: c, user: u}}}}]}}"
    )
}

/// Writes a script as an exec plug-in.
fn plugin(path: &Path, text: &str) -> String {
    write(path, &format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("it is ours");
    format!(
        "exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: {}}}",
        path.display()
    )
}

/// A plug-in's output before and after the token.
const ANSWER: [&str; 2] = [
    r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"#,
    "}}",
];

async fn controller(kubeconfig: &Path) -> Controller {
    let client = client::connect(Some(kubeconfig), None).await;
    let mut options = support::options();
    options.limits.retry_backoff.base = Duration::from_millis(50);
    Controller::start(client.expect("it answers"), options)
        .await
        .expect("nothing to listen on")
}

/// Runs a Job to its end, with `exchange` in the middle.
async fn runs_through(client: &Client, exchange: impl Future<Output = ()>) {
    support::create(client, &support::indexed_job("long", 60, 6)).await;
    let succeeded = |job: &Value| job["status"]["succeeded"].as_u64().unwrap_or(0);
    let seen = support::job_when(client, "long", |job| succeeded(job) >= 6).await;
    assert!(succeeded(&seen) < 60, "it was over before");
    exchange.await;
    let done = support::job_when(client, "long", |job| support::is(job, "Complete")).await;
    assert_eq!(done["status"]["succeeded"], 60);
    support::check_pods_of_complete_job(&support::pods(client).await, 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_names_no_end_is_asked_again_when_its_token_is_refused() {
    let scene = Scene::new("first").await;
    let file = scene.write("token", "first");
    let [before, after] = ANSWER;
    let script = format!(
        "echo asked >> '{}'\nprintf '{before}\"token\":\"%s\"{after}' \"$(cat '{}')\"",
        scene.path("asked").display(),
        file.display(),
    );
    let user = plugin(&scene.path("plugin"), &script);
    let controller = controller(&scene.kubeconfig(&user)).await;
    let client = support::client(&scene.cluster).await;
    let exchange = async {
        assert_eq!(scene.refused(), 0);
        scene.write("token", "second");
        scene.expect("second");
    };
    runs_through(&client, exchange).await;
    assert!(scene.refused() > 0, "the first token was never refused");
    let asked = fs::read_to_string(scene.path("asked")).expect("it was asked");
    let asked = asked.lines().count();
    assert!((2..10).contains(&asked), "it was asked {asked} times");
    controller.stop().await;
    scene.cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugins_token_is_replaced_before_it_runs_out() {
    let scene = Scene::new("token").await;
    let [before, after] = ANSWER;
    // A token that lasts four seconds is replaced after two.
    let script = format!(
        "echo asked >> '{}'\nprintf '{before}\"token\":\"token\",\"expirationTimestamp\":\"%s\"{after}' \
         \"$(date -u -d '+4 seconds' +%Y-%m-%dT%H:%M:%SZ)\"",
        scene.path("asked").display(),
    );
    let user = plugin(&scene.path("plugin"), &script);
    let client = client::connect(Some(&scene.kubeconfig(&user)), None).await;
    let client = client.expect("it answers");
    let started = Instant::now();
    let asked = || {
        let text = fs::read_to_string(scene.path("asked")).unwrap_or_default();
        text.lines().count()
    };
    while asked() < 3 {
        client.get("/version").await.expect("an answer");
        assert!(started.elapsed() < PATIENCE, "asked {} times", asked());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(scene.refused(), 0);
    scene.cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_plugin_is_reported_and_not_run_for_each_request() {
    let scene = Scene::new("token").await;
    let script = format!(
        "echo asked >> '{}'\necho 'please log in' >&2\nexit 3",
        scene.path("asked").display(),
    );
    let user = plugin(&scene.path("plugin"), &script);
    let client = client::configure(Some(&scene.kubeconfig(&user)), None).await;
    let client = client.expect("its files are there");
    for answer in futures::future::join_all((0..50).map(|_| client.get("/version"))).await {
        let error = answer.expect_err("there are no credentials");
        assert!(error.message.contains("please log in"), "{error}");
    }
    let asked = fs::read_to_string(scene.path("asked")).expect("it was asked");
    assert!(asked.lines().count() < 5, "{asked}");
    let [before, after] = ANSWER;
    plugin(
        &scene.path("plugin"),
        &format!("echo '{before}\"token\":\"token\"{after}'"),
    );
    let started = Instant::now();
    while let Err(error) = client.get("/version").await {
        assert!(started.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    scene.cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_file_may_end_with_a_newline_and_change() {
    let scene = Scene::new("first").await;
    let file = scene.write("token", "first\n");
    let user = format!("tokenFile: {}", file.display());
    let controller = controller(&scene.kubeconfig(&user)).await;
    let client = support::client(&scene.cluster).await;
    let exchange = async {
        scene.write("token", "second\n");
        scene.expect("second");
    };
    runs_through(&client, exchange).await;
    assert!(scene.refused() > 0, "the first token was never refused");
    controller.stop().await;
    scene.cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_fails_after_a_minute_of_401() {
    let scene = Scene::new("good").await;
    let config = scene.kubeconfig("token: good");
    let client = client::connect(Some(&config), None).await;
    let options = support::listening(support::options());
    let started = Controller::start(client.expect("it answers"), options).await;
    let controller = started.expect("a free port");
    controller.ready().await;
    let address = controller.listening().expect("it listens");
    let ask = || {
        let asked = tokio::task::block_in_place(|| http_get(address, "/readyz"));
        asked.expect("it answers")
    };
    assert!(ask().starts_with("HTTP/1.1 200 "));
    scene.expect("another");
    // The watches reconnect and are refused.
    scene.line.cut(Duration::ZERO).await;
    let started = Instant::now();
    let said = loop {
        let said = ask();
        // The silence of the watches may be noticed earlier, and has the same reason.
        let is_ready = said.starts_with("HTTP/1.1 200 ");
        assert!(
            is_ready || said.contains("it refuses the credentials"),
            "{said}"
        );
        if said.contains("[-]credentials failed: API server ") {
            break said;
        }
        assert!(started.elapsed() < PATIENCE, "{said}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert!(said.contains("it refuses the credentials (for 6"), "{said}");
    controller.stop().await;
    scene.cluster.shutdown().await;
}

/// A certificate authority.
struct Authority {
    certificate: String,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params
            .distinguished_name
            .push(DnType::CommonName, "test CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let der = params.self_signed(&key).expect("a certificate");
        let der = der.der().clone();
        Self {
            certificate: pem::encode(&Pem::new("CERTIFICATE", der.to_vec())),
            der,
            issuer: Issuer::new(params, key),
        }
    }

    /// Issues a certificate for this machine and its key.
    fn sign(&self) -> (CertificateDer<'static>, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("a good name");
        let signed = params.signed_by(&key, &self.issuer).expect("a certificate");
        (signed.der().clone(), key)
    }

    /// Issues the same in PEM.
    fn sign_pem(&self) -> [String; 2] {
        let (certificate, key) = self.sign();
        [
            pem::encode(&Pem::new("CERTIFICATE", certificate.to_vec())),
            pem::encode(&Pem::new("PRIVATE KEY", key.serialize_der())),
        ]
    }

    /// Returns a server configuration with such a certificate that trusts certificates of `clients`.
    fn server(&self, clients: &Self) -> Arc<ServerConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(clients.der.clone()).expect("a certificate");
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots));
        let (certificate, key) = self.sign();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = ServerConfig::builder()
            .with_client_cert_verifier(verifier.build().expect("roots"))
            .with_single_cert(vec![certificate], key);
        Arc::new(config.expect("its own key"))
    }
}

/// A TLS proxy in front of a cluster.
struct Front {
    port: u16,
    config: watch::Sender<Arc<ServerConfig>>,
}

impl Front {
    async fn start(cluster: &EmbeddedCluster, config: Arc<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("it has an address").port();
        let target = cluster.url().trim_start_matches("http://").to_owned();
        let (sender, configs) = watch::channel(config);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (mut configs, target) = (configs.clone(), target.clone());
                let acceptor = TlsAcceptor::from(Arc::clone(&configs.borrow_and_update()));
                tokio::spawn(async move {
                    let Ok(mut near) = acceptor.accept(near).await else {
                        return;
                    };
                    let mut far = TcpStream::connect(target).await.expect("it is there");
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = configs.changed() => {}
                    }
                });
            }
        });
        Self {
            port,
            config: sender,
        }
    }

    /// Replaces the configuration and ends all connections.
    fn exchange(&self, config: Arc<ServerConfig>) {
        self.config.send_replace(config);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_in_files_may_change() {
    let cluster = support::cluster(Duration::from_millis(200)).await;
    let (old, new) = (Authority::new(), Authority::new());
    let front = Front::start(&cluster, old.server(&old)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let hand_out = |authority: &Authority| {
        let [certificate, key] = authority.sign_pem();
        write(&path("ca"), &authority.certificate);
        write(&path("certificate"), &certificate);
        write(&path("key"), &key);
    };
    hand_out(&old);
    // Paths are relative to the kubeconfig.
    let server = format!(
        "server: 'https://127.0.0.1:{}', certificate-authority: ca",
        front.port
    );
    let user = "client-certificate: certificate, client-key: key";
    let config = write(&path("config"), &kubeconfig(&server, user));
    let controller = controller(&config).await;
    let client = support::client(&cluster).await;
    let exchange = async {
        hand_out(&new);
        front.exchange(new.server(&new));
    };
    runs_through(&client, exchange).await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugins_certificate_may_change() {
    let cluster = support::cluster(Duration::from_millis(200)).await;
    let (server, old, new) = (Authority::new(), Authority::new(), Authority::new());
    let front = Front::start(&cluster, server.server(&old)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let hand_out = |authority: &Authority| {
        let [certificate, key] = authority.sign_pem().map(Value::from);
        let [before, after] = ANSWER;
        let answer = format!(
            "{before}\"clientCertificateData\":{certificate},\"clientKeyData\":{key}{after}"
        );
        write(&path("answer"), &answer);
    };
    hand_out(&old);
    let user = plugin(
        &path("plugin"),
        &format!("cat '{}'", path("answer").display()),
    );
    write(&path("ca"), &server.certificate);
    let at = format!(
        "server: 'https://127.0.0.1:{}', certificate-authority: ca",
        front.port
    );
    let config = write(&path("config"), &kubeconfig(&at, &user));
    let controller = controller(&config).await;
    let client = support::client(&cluster).await;
    let exchange = async {
        hand_out(&new);
        front.exchange(server.server(&new));
    };
    runs_through(&client, exchange).await;
    controller.stop().await;
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_token_is_reported() {
    let scene = Scene::new("good").await;
    let file = scene.write("token", "two\nlines");
    let user = format!("tokenFile: {}", file.display());
    let refused = client::configure(Some(&scene.kubeconfig(&user)), None).await;
    let said = match refused {
        Err(error @ ConnectError::Client { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(said.contains("the token has characters"), "{said}");
    scene.cluster.shutdown().await;
}
