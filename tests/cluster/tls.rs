//! Tests the API server over TLS: a certificate of its own or a given one, and good and bad clients.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use lakh::{
    client::{self, Client},
    embedded::{Certificate, ClusterOptions, EmbeddedCluster, ServeOptions, Users},
};
use pem::Pem;
use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::support::{self, kubectl::Kubectl, serving::Serving};

const TOKENS: &str = "full-token,ann,1,\"system:masters\"\nguest-token,bob,2,\"readers\"\n";

/// A folder with the files of a test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("the file can be written");
        path
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

async fn start(state: Option<&Path>, certificate: Certificate) -> EmbeddedCluster {
    let options = ClusterOptions {
        server: ServeOptions {
            state: state.map(Path::to_owned),
            users: Some(Users::read(TOKENS).expect("good tokens")),
            tls: Some(certificate),
            ..ServeOptions::default()
        },
        ..ClusterOptions::default()
    };
    EmbeddedCluster::start(options)
        .await
        .expect("the cluster starts")
}

/// Returns the certificates that a kubeconfig trusts.
fn trusted(config: &str) -> &str {
    let mut lines = config.lines().map(str::trim);
    let data = lines.find_map(|line| line.strip_prefix("certificate-authority-data: "));
    data.expect("a CA in the kubeconfig")
}

/// Returns the line with the server's URL.
fn server(config: &str) -> &str {
    let mut lines = config.lines();
    let line = lines.find(|line| line.trim().starts_with("server: https://127.0.0.1:"));
    line.expect("a URL in the kubeconfig")
}

async fn connect(config: &Path) -> Result<Client, String> {
    let client = client::connect(Some(config), None).await;
    client.map_err(|error| error.to_string())
}

/// Opens a connection and sends only these bytes.
fn begin(port: u16, said: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    stream.write_all(said).expect("it is open");
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).expect("a timeout");
    stream
}

/// Returns the server's data until it ends the connection.
fn heard(mut stream: TcpStream) -> String {
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).expect("an end");
    String::from_utf8_lossy(&heard).into_owned()
}

#[test]
fn kubectl_has_the_rights_of_its_token() {
    if !support::kubectl::is_installed() {
        return;
    }
    let folder = Folder::new();
    let tokens = folder.write("tokens", TOKENS);
    let serving = Serving::start_with(&["--token-file", text(&tokens)]);
    let config = fs::read_to_string(serving.kubeconfig()).expect("it is there");
    let port = server(&config).rsplit(':').next().expect("a port");
    let port = port.parse().expect("a number");
    // Clients that do not complete a handshake, or send garbage, do not block others.
    let silent: Vec<TcpStream> = (0..50).map(|_| begin(port, b"")).collect();
    let slow = begin(port, b"\x16\x03\x01\x02");
    let garbled = begin(port, b"\x16garbage and so on");
    let plain = begin(port, b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n");
    let told = heard(plain);
    assert!(
        told.contains(" 400 ") && told.contains("Client sent an HTTP request to an HTTPS server."),
        "{told}"
    );
    assert!(heard(garbled).starts_with('\u{15}'), "a TLS alert");

    let as_token =
        |name: &str, token: &str| folder.write(name, &config.replace("full-token", token));
    let (guest, stranger) = (as_token("b", "guest-token"), as_token("c", "no-token"));
    let full = Kubectl {
        config: serving.kubeconfig(),
    };
    let guest = Kubectl { config: &guest };
    guest.check("get nodes", "", &["hollow-0", "hollow-2"]);
    guest.refuse(
        "create job a --image=b",
        "",
        "error: failed to create job: jobs.batch is forbidden: User \"bob\" cannot create resource \
         \"jobs\" in API group \"batch\" in the namespace \"default\"",
    );
    guest.refuse(
        "delete node hollow-0",
        "",
        "Error from server (Forbidden): nodes \"hollow-0\"",
    );
    for (question, answer) in [
        ("create jobs", "no"),
        ("list jobs", "yes"),
        ("get /metrics", "yes"),
        ("delete pods/log --all-namespaces", "no"),
    ] {
        let output = guest.run(&format!("auth can-i {question}"), "");
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.trim(), answer, "{question}");
        assert_eq!(output.status.success(), answer == "yes", "{question}");
        full.check(&format!("auth can-i {question}"), "", &["yes"]);
    }
    guest.check("auth can-i --list", "", &["*.*", "[get list watch]"]);
    full.check("create job a --image=b", "", &["job.batch/a created"]);
    full.check("wait --for=condition=complete job/a --timeout=60s", "", &[]);
    guest.check("get job a", "", &["Complete"]);
    let stranger = Kubectl { config: &stranger };
    stranger.refuse(
        "get nodes",
        "",
        "You must be logged in to the server (Unauthorized)",
    );

    for stream in silent.into_iter().chain([slow]) {
        assert_eq!(
            heard(stream),
            "",
            "who does not shake hands is left in the end"
        );
    }
}

#[test]
fn kubectl_needs_no_token_where_there_are_none() {
    if !support::kubectl::is_installed() {
        return;
    }
    let serving = Serving::start_with(&["--tls"]);
    let kubectl = Kubectl {
        config: serving.kubeconfig(),
    };
    kubectl.check("create job a --image=b", "", &["job.batch/a created"]);
    kubectl.check("wait --for=condition=complete job/a --timeout=60s", "", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_with_the_ca_trust_the_server() {
    let folder = Folder::new();
    let ours = start(None, Certificate::Made).await;
    let other = start(None, Certificate::Made).await;
    let (config, foreign) = (ours.server().kubeconfig(), other.server().kubeconfig());
    connect(&folder.write("good", &config))
        .await
        .expect("it is believed");
    let mixed = config.replace(trusted(&config), trusted(&foreign));
    let mixed = folder.write("mixed", &mixed);
    let refused = connect(&mixed).await.expect_err("nobody knows the CA");
    assert!(refused.contains("certificate"), "{refused}");
    if support::kubectl::is_installed() {
        tokio::task::spawn_blocking(move || {
            let kubectl = Kubectl { config: &mixed };
            kubectl.refuse("get nodes", "", "certificate signed by unknown authority");
        })
        .await
        .expect("kubectl refuses");
    }
    ours.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_keeps_the_ca() {
    let folder = Folder::new();
    let state = folder.path("state");
    let first = start(Some(&state), Certificate::Made).await;
    let before = first.server().kubeconfig();
    first.shutdown().await;
    let second = start(Some(&state), Certificate::Made).await;
    let after = second.server().kubeconfig();
    assert_eq!(trusted(&before), trusted(&after));
    let old = before.replace(server(&before), server(&after));
    connect(&folder.write("old", &old))
        .await
        .expect("who knew the first knows the second");
    second.shutdown().await;

    let path = state.join("ca.pem");
    let mode = fs::metadata(&path).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600, "the key is nobody else's");
    let kept = fs::read_to_string(&path).expect("it is there");
    let elsewhere = folder.path("elsewhere");
    start(Some(&elsewhere), Certificate::Made)
        .await
        .shutdown()
        .await;
    let other = fs::read_to_string(elsewhere.join("ca.pem")).expect("it is there");
    let certificate = |text: &str| text.find("-----BEGIN CERTIFICATE").expect("one");
    let mixed = kept[..certificate(&kept)].to_owned() + &other[certificate(&other)..];
    for damaged in [mixed.as_str(), &kept[..kept.len() / 2], ""] {
        fs::write(&path, damaged).expect("the file can be written");
        let output = support::run(&["local", "--tls", "--state", text(&state)]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{damaged}");
        assert!(said.contains(text(&path)), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_works_over_tls() {
    let folder = Folder::new();
    let cluster = start(None, Certificate::Made).await;
    let config = folder.path("config");
    cluster
        .write_kubeconfig(&config)
        .expect("it can be written");
    let mode = fs::metadata(&config).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600, "there is a token in it");
    let mut controller = support::lakh(&["controller", "--kubeconfig", text(&config)])
        .args(["--mode=replace", "--listen", "127.0.0.1:0"])
        .spawn()
        .expect("the binary runs");
    let client = connect(&config).await.expect("it is believed");
    support::create(&client, &support::indexed_job("many", 300, 100)).await;
    let job = support::job_when(&client, "many", |job| support::is(job, "Complete")).await;
    controller.kill().expect("SIGKILL");
    controller.wait().expect("it ends");
    assert_eq!(job["status"]["succeeded"], 300);
    cluster.shutdown().await;
}

/// Returns a certificate for a name with the CA that signed it, and the certificate's key; in PEM.
fn issued(name: &str) -> (String, String) {
    let params = |names: &[&str], who: &str| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("good names");
        params.distinguished_name.push(DnType::CommonName, who);
        params
    };
    let (mut ca, ca_key) = (params(&[], "test CA"), KeyPair::generate().expect("a key"));
    ca.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = ca.self_signed(&ca_key).expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let leaf = params(&[name], "test server")
        .signed_by(&key, &Issuer::new(ca, ca_key))
        .expect("a certificate");
    let certificates = [leaf, root].map(|it| Pem::new("CERTIFICATE", it.der().to_vec()));
    let key = Pem::new("PRIVATE KEY", key.serialize_der());
    (pem::encode_many(&certificates), pem::encode(&key))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_given_certificate_is_shown() {
    let folder = Folder::new();
    let (certificate, key) = issued("127.0.0.1");
    let (certificate, key) = (folder.write("crt", &certificate), folder.write("key", &key));
    let cluster = start(None, Certificate::Given { certificate, key }).await;
    connect(&folder.write("config", &cluster.server().kubeconfig()))
        .await
        .expect("the CA is in the kubeconfig");
    cluster.shutdown().await;
}

#[test]
fn internal_clients_accept_any_given_certificate() {
    let folder = Folder::new();
    let (certificate, key) = issued("lakh.example.com");
    let (certificate, key) = (folder.write("crt", &certificate), folder.write("key", &key));
    let output = support::lakh(&[
        "local",
        "-f",
        "examples/indexed.yaml",
        "--pod-duration",
        "1ms",
    ])
    .args(["--tls-cert-file", text(&certificate)])
    .args(["--tls-private-key-file", text(&key)])
    .stdout(Stdio::null())
    .output()
    .expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn bad_files_are_refused_by_name() {
    let folder = Folder::new();
    let ((certificate, key), (_, other)) = (issued("127.0.0.1"), issued("127.0.0.1"));
    let bad_certificate = pem::encode(&Pem::new("CERTIFICATE", *b"no certificate"));
    let bad_key = pem::encode(&Pem::new("PRIVATE KEY", *b"no key"));
    let encrypted = pem::encode(&Pem::new("ENCRYPTED PRIVATE KEY", *b"secret"));
    let (crt, good, missing) = ("crt", "key", folder.path("missing"));
    for (certificate, key, named, why) in [
        (certificate.as_str(), other.as_str(), good, "not the key of"),
        (&certificate, &bad_key, good, "failed to parse private key"),
        (&certificate, &encrypted, good, "or it is encrypted"),
        (
            &certificate,
            &certificate,
            good,
            "there is no private key in it",
        ),
        (&key, &key, crt, "there is no certificate in it"),
        ("", &key, crt, "there is no certificate in it"),
        (&bad_certificate, &key, crt, "invalid peer certificate"),
    ] {
        let files = [folder.write(crt, certificate), folder.write(good, key)];
        let said = refused(&files);
        let named = folder.path(named);
        assert!(said.contains(&format!("{}: ", text(&named))), "{said}");
        assert!(said.contains(why), "{said}");
    }
    let (crt, key) = (folder.write(crt, &certificate), folder.write(good, &key));
    for files in [[missing.clone(), key], [crt.clone(), missing.clone()]] {
        let said = refused(&files);
        assert!(
            said.contains(text(&missing)) && said.contains("No such file"),
            "{said}"
        );
    }
    let output = support::run(&["local", "--tls-cert-file", text(&crt)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("--tls-private-key-file"),
        "{said}"
    );
}

/// Returns the error of `lakh local` about a certificate and a key that it refuses.
fn refused([certificate, key]: &[PathBuf; 2]) -> String {
    let args = ["local", "--tls-cert-file", text(certificate)];
    let output = support::run(&[&args[..], &["--tls-private-key-file", text(key)]].concat());
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}
