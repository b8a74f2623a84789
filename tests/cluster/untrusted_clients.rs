//! Tests clients that are no program on this machine: web pages, and clients that never finish. Programs still work.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use lakh::embedded::{ClusterOptions, EmbeddedCluster, ServeOptions, Users};
use serde_json::Value;

use crate::support;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"}}"#;

fn address(cluster: &EmbeddedCluster) -> SocketAddr {
    let url = cluster.url();
    let address = url.trim_start_matches("http://").parse();
    address.expect("an address")
}

/// Sends these bytes. Returns the code and the object of the response, which ends the connection.
fn send(address: SocketAddr, request: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).expect("a good limit");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    (
        code.expect("a code"),
        serde_json::from_str(body).unwrap_or_default(),
    )
}

/// POSTs a ConfigMap without a content type, as a web page can.
fn post(address: SocketAddr, headers: &str) -> (u16, Value) {
    let length = MAP.len();
    let end = "Connection: close\r\n";
    send(
        address,
        &format!("POST {MAPS} HTTP/1.1\r\n{headers}{end}Content-Length: {length}\r\n\r\n{MAP}"),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn web_pages_are_not_served() {
    let cluster = support::cluster(Duration::ZERO).await;
    let at = address(&cluster);
    tokio::task::block_in_place(|| {
        let own = format!("Host: {at}\r\n");
        for headers in [
            // The name now resolves to this machine (DNS rebinding).
            "Host: evil.example\r\n".to_owned(),
            format!("Host: evil.example:{}\r\n", at.port()),
            format!("{own}Origin: http://evil.example\r\n"),
            format!("{own}Origin: null\r\n"),
            format!("{own}Origin: http://127.0.0.1:{}\r\n", at.port() ^ 1),
        ] {
            let (code, status) = post(at, &headers);
            assert_eq!(code, 403, "{headers}{status}");
            assert_eq!(status["kind"], "Status");
            assert_eq!(status["reason"], "Forbidden");
            // Other paths are refused, too.
            for path in ["/lakh/faults", "/metrics", "/version"] {
                let request = format!("GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
                assert_eq!(send(at, &request).0, 403, "{path}");
            }
        }
        let gone = format!("GET {MAPS}/m HTTP/1.1\r\n{own}Connection: close\r\n\r\n");
        assert_eq!(send(at, &gone).0, 404, "no page has made it");
        assert_eq!(post(at, &format!("{own}Origin: http://{at}\r\n")).0, 201);
    });
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_with_a_token_may_use_any_host_name() {
    let users = Users::read("secret,ann,1,\"system:masters\"\n").expect("good tokens");
    let options = ClusterOptions {
        server: ServeOptions {
            users: Some(users),
            ..ServeOptions::default()
        },
        ..ClusterOptions::default()
    };
    let cluster = EmbeddedCluster::start(options).await.expect("a free port");
    let at = address(&cluster);
    tokio::task::block_in_place(|| {
        let named = "Host: lakh.example\r\nOrigin: http://lakh.example\r\n";
        let (code, status) = post(at, &format!("{named}Authorization: Bearer secret\r\n"));
        assert_eq!(code, 201, "{status}");
        assert_eq!(post(at, named).0, 403, "a page has no token");
    });
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_never_comes_is_waited_for_no_longer() {
    let options = ClusterOptions {
        server: ServeOptions {
            body_timeout: Some(Duration::from_millis(100)),
            ..ServeOptions::default()
        },
        ..ClusterOptions::default()
    };
    let cluster = EmbeddedCluster::start(options).await.expect("a free port");
    let at = address(&cluster);
    tokio::task::block_in_place(|| {
        let head = format!("POST {MAPS} HTTP/1.1\r\nHost: {at}\r\nContent-Length: 100\r\n\r\n");
        let (code, status) = send(at, &format!("{head}{{"));
        assert_eq!((code, &status["kind"]), (408, &Value::from("Status")));
    });
    cluster.shutdown().await;
}
