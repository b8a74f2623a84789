//! The connections of a client, as a server sees them.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use lakh::cluster::{Client, connect};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// A server that answers everything with an empty object, and remembers what it was asked.
#[derive(Clone, Default)]
struct Server {
    connections: Arc<AtomicUsize>,
    /// Heads of requests.
    asked: Arc<Mutex<Vec<String>>>,
    /// Whether it closes each connection after an answer, without a word.
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
        // What is asked here fits into one piece.
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

/// A client by a kubeconfig with these lines for the user.
async fn client(address: &str, user: &str) -> Client {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("kubeconfig");
    let config = format!(
        "apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: \"http://{address}/k8s/c-1/\"}}}}]
users: [{{name: u, user: {{{user}}}}}]
"
    );
    std::fs::write(&path, config).expect("it can be written");
    connect(Some(&path), None).await.expect("it answers")
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
        // Until the news has come: it cannot be told what became of a call that was sent before.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        client
            .patch(
                "/api",
                lakh::cluster::Patch::Merge,
                format!("{{\"n\":{call}}}"),
            )
            .await
            .expect("an answer");
    }
    assert_eq!(server.asked.lock().len(), 1 + 50, "each was made once");
}

#[tokio::test]
async fn each_call_says_where_it_goes_and_who_makes_it() {
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
