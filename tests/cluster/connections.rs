//! Tests a client's connections as the server sees them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lakh::{
    client::{Client, configure, connect},
    wire::{Call, ErrorKind},
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Barrier, watch},
};

/// Longest wait for a step that takes seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that answers every request with an empty object, and records the requests.
#[derive(Clone, Default)]
struct Server {
    connections: Arc<AtomicUsize>,
    /// Heads of requests.
    asked: Arc<Mutex<Vec<String>>>,
    /// It closes each connection after a response, without notice.
    hangs_up: Arc<AtomicBool>,
}

impl Server {
    async fn start(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                self.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(self.clone().serve(stream));
            }
        });
        address.to_string()
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut piece = [0; 4096];
        // Each request of these tests fits into one read.
        while let Ok(length @ 1..) = stream.read(&mut piece).await {
            let head = String::from_utf8_lossy(&piece[..length]).to_lowercase();
            self.asked.lock().push(head);
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(answer).await.expect("somebody listens");
            if self.hangs_up.load(Ordering::SeqCst) {
                return;
            }
        }
    }
}

/// Connects a client with a kubeconfig that has these lines for the user.
async fn client(address: &str, user: &str) -> Client {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig(address, user)).expect("it can be written");
    connect(Some(&path), None).await.expect("it answers")
}

/// Makes such a client without sending a request.
async fn unasked_client(address: &str) -> Client {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig(address, "")).expect("it can be written");
    configure(Some(&path), None).await.expect("a good file")
}

fn kubeconfig(address: &str, user: &str) -> String {
    format!(
        "apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: \"http://{address}/k8s/c-1/\"}}}}]
users: [{{name: u, user: {{{user}}}}}]
"
    )
}

#[tokio::test]
async fn calls_one_after_the_other_share_a_connection() {
    let server = Server::default();
    let address = server.clone().start().await;
    let client = client(&address, "").await;
    for _ in 0..10 {
        client.get("/api").await.expect("an answer");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    let ten = (0..10).map(|_| client.get("/apis"));
    for answer in futures::future::join_all(ten).await {
        answer.expect("an answer");
    }
    assert!(server.connections.load(Ordering::SeqCst) <= 10);
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_costs_no_call() {
    let server = Server::default();
    server.hangs_up.store(true, Ordering::SeqCst);
    let address = server.clone().start().await;
    let client = client(&address, "").await;
    for call in 0..50 {
        // Wait until the client has noticed the close: the fate of an earlier call would be unknown.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        client
            .patch(
                "/api",
                lakh::client::Patch::Merge,
                format!("{{\"n\":{call}}}"),
            )
            .await
            .expect("an answer");
    }
    assert_eq!(server.asked.lock().len(), 1 + 50, "each was made once");
}

#[tokio::test]
async fn each_request_has_a_host_and_a_user_agent() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "of-a-file").expect("it can be written");
    let by_file = format!("tokenFile: {}, as: somebody", file.path().display());
    for (user, expected) in [
        (
            "token: of-the-config",
            "authorization: bearer of-the-config",
        ),
        (&*by_file, "authorization: bearer of-a-file"),
        (&*by_file, "impersonate-user: somebody"),
        ("username: a, password: b", "authorization: basic ytpi"),
    ] {
        let server = Server::default();
        let address = server.clone().start().await;
        let client = client(&address, user).await;
        client.get("/api/v1/pods?limit=1").await.expect("an answer");
        let asked = server.asked.lock();
        let head = asked.last().expect("it was asked");
        assert!(
            head.starts_with("get /k8s/c-1/api/v1/pods?limit=1 http/1.1\r\n"),
            "{head}"
        );
        for line in [
            expected,
            &format!("host: {address}"),
            "user-agent: cluster-",
        ] {
            assert!(head.contains(&format!("\r\n{line}")), "{line} in {head}");
        }
    }
}

#[tokio::test]
async fn closed_idle_connections_are_removed() {
    const CALLS: usize = 20;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener
        .local_addr()
        .expect("it has an address")
        .to_string();
    let closed = Arc::new(AtomicUsize::new(0));
    let (hang_up, hangs_up) = watch::channel(false);
    // Responses come once all requests have arrived, so that each has a connection of its own.
    let together = Arc::new(Barrier::new(CALLS));
    let counted = Arc::clone(&closed);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (closed, together) = (Arc::clone(&counted), Arc::clone(&together));
            let mut hangs_up = hangs_up.clone();
            tokio::spawn(async move {
                let mut piece = [0; 4096];
                loop {
                    let length = tokio::select! {
                        length = stream.read(&mut piece) => length.expect("it asks"),
                        _ = hangs_up.wait_for(|hangs_up| *hangs_up) => break,
                    };
                    if !piece[..length].starts_with(b"GET /k8s/c-1/version") {
                        together.wait().await;
                    }
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
                    stream.write_all(answer).await.expect("somebody listens");
                }
                stream.shutdown().await.expect("it is open");
                // Now the client has to close.
                let length = stream.read(&mut piece).await.expect("an end");
                assert_eq!(length, 0);
                closed.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    let client = client(&address, "").await;
    let calls = (0..CALLS).map(|_| client.get("/api"));
    for answer in futures::future::join_all(calls).await {
        answer.expect("an answer");
    }
    hang_up.send_replace(true);
    let started = Instant::now();
    while closed.load(Ordering::SeqCst) < CALLS {
        let closed = closed.load(Ordering::SeqCst);
        let waited = started.elapsed();
        assert!(waited < PATIENCE, "{closed} of {CALLS} are closed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_proxy_is_asked_for_a_tunnel_with_its_password() {
    let server = Server::default();
    let address = server.clone().start().await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = proxy.local_addr().expect("it has an address").port();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (said, target) = (Arc::clone(&heard), address.clone());
    tokio::spawn(async move {
        while let Ok((mut near, _)) = proxy.accept().await {
            let mut piece = [0; 4096];
            let length = near.read(&mut piece).await.expect("it asks");
            let head = String::from_utf8_lossy(&piece[..length]).into_owned();
            said.lock().push(head);
            let mut far = TcpStream::connect(&target).await.expect("it is there");
            let answer = b"HTTP/1.1 200 OK\r\n\r\n";
            near.write_all(answer).await.expect("somebody listens");
            tokio::spawn(async move {
                // Either end may close it.
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("kubeconfig");
    let config = kubeconfig(&address, "token: a").replace(
        "server:",
        &format!("proxy-url: \"http://user:pa%40ss@127.0.0.1:{port}\", server:"),
    );
    std::fs::write(&path, config).expect("it can be written");
    let client = connect(Some(&path), None).await.expect("it answers");
    client.get("/api").await.expect("an answer");
    let heard = heard.lock();
    assert_eq!(heard.len(), 1, "one connection serves both calls");
    let head = heard[0].to_lowercase();
    assert!(
        head.starts_with(&format!("connect {address} http/1.1\r\n")),
        "{head}"
    );
    // "user:pa@ss", in base64.
    assert!(heard[0].contains("Basic dXNlcjpwYUBzcw=="), "{head}");
    let asked = server.asked.lock();
    assert!(
        asked[1].contains("authorization: bearer a\r\n"),
        "{asked:?}"
    );
}

/// RFC 1928 and RFC 1929: the proxy asks for a password, and is asked for a connection by name.
#[tokio::test]
async fn a_socks5_proxy_connects_by_name_with_its_password() {
    let server = Server::default();
    let address = server.clone().start().await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = proxy.local_addr().expect("it has an address").port();
    let (send, mut asked) = tokio::sync::mpsc::unbounded_channel();
    let target = address.clone();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = proxy.accept().await {
            let mut message = async |answer: &[u8]| {
                let mut piece = [0; 512];
                let length = near.read(&mut piece).await.expect("a message");
                near.write_all(answer).await.expect("it is read");
                piece[..length].to_vec()
            };
            let methods = message(&[5, 2]).await;
            let password = message(&[1, 0]).await;
            let connect = message(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await;
            send.send((methods, password, connect))
                .expect("the test runs");
            let mut far = TcpStream::connect(&target).await.expect("it is there");
            tokio::spawn(async move {
                // Either end may close it.
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("kubeconfig");
    let config = kubeconfig(&address, "token: a").replace(
        "server:",
        &format!("proxy-url: \"socks5://user:pa%40ss@127.0.0.1:{port}\", server:"),
    );
    std::fs::write(&path, config).expect("it can be written");
    let client = connect(Some(&path), None).await.expect("it answers");
    client.get("/api").await.expect("an answer");
    let (methods, password, connect) = asked.recv().await.expect("the proxy was used");
    assert!(
        methods.starts_with(&[5]) && methods[2..].contains(&2),
        "{methods:?}"
    );
    assert_eq!(password, b"\x01\x04user\x05pa@ss");
    let (_, server_port) = address.rsplit_once(':').expect("a port");
    let server_port: u16 = server_port.parse().expect("a number");
    assert!(connect.starts_with(&[5, 1, 0]), "{connect:?}");
    assert!(connect.ends_with(&server_port.to_be_bytes()), "{connect:?}");
}

/// Starts a server that answers each connection with these bytes, and closes it.
async fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address.to_string()
}

/// The first table of docs/when-calls-fail.md.
#[tokio::test]
async fn responses_are_classified_as_documented() {
    let status = "{\"kind\":\"Status\",\"reason\":\"TooManyRequests\"}";
    let webhooks: &'static str = Box::leak(
        format!(
            "HTTP/1.1 429 -\r\nContent-Length: {}\r\n\r\n{status}",
            status.len()
        )
        .into_boxed_str(),
    );
    for (answer, code, kind) in [
        (
            "HTTP/1.1 403 -\r\nContent-Length: 0\r\n\r\n",
            403,
            ErrorKind::Refused,
        ),
        (
            "HTTP/1.1 429 -\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
            429,
            ErrorKind::Busy,
        ),
        (webhooks, 429, ErrorKind::TooManyRequests),
        (
            "HTTP/1.1 302 -\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n",
            302,
            ErrorKind::Refused,
        ),
        (
            "HTTP/1.1 503 -\r\nContent-Length: 0\r\n\r\n",
            503,
            ErrorKind::Failed,
        ),
        ("", 0, ErrorKind::Failed),
        ("HTTP/1.1 200 -\r\nContent-Len", 0, ErrorKind::Failed),
        (
            "HTTP/1.1 200 -\r\nContent-Length: 99\r\n\r\n{\"met",
            0,
            ErrorKind::Failed,
        ),
        (
            "HTTP/1.1 200 -\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"met",
            0,
            ErrorKind::Failed,
        ),
        ("SSH-2.0-OpenSSH_9.9\r\n", 0, ErrorKind::Failed),
    ] {
        let client = unasked_client(&answering(answer).await).await;
        let error = client.get("/api/v1/pods/p").await.expect_err(answer);
        assert_eq!((error.code, error.kind), (code, kind), "{answer}");
        let seconds = (code == 429 && kind == ErrorKind::Busy).then_some(Duration::from_secs(7));
        assert_eq!(error.retry_after, seconds, "{answer}");
    }
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = gone.local_addr().expect("it has an address").to_string();
    drop(gone);
    let client = unasked_client(&address).await;
    let error = client.get("/api/v1/pods/p").await.expect_err("refused");
    assert_eq!((error.code, error.kind), (0, ErrorKind::Failed));
}

/// Some proxies send no head before the first byte of the body: a bookmark, after a minute and a quarter.
#[tokio::test(start_paused = true)]
async fn the_head_of_a_watch_may_come_with_its_first_bookmark() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it has an address");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let _ = stream.read(&mut [0; 4096]).await;
        tokio::time::sleep(Duration::from_secs(75)).await;
        let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n";
        stream.write_all(answer).await.expect("somebody listens");
        std::future::pending::<()>().await;
    });
    let client = unasked_client(&address.to_string()).await;
    let watch = client.open(&Call::get("/api/v1/pods?watch=true")).await;
    assert!(watch.is_ok());
}
