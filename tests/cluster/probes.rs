//! What is answered to those who ask whether the controller lives and is ready.

use std::time::Duration;

use lakh::{cluster, runtime::Controller};

use crate::support::{
    self, http_get, listening, options,
    proxy::{Fate, Proxy},
};

#[tokio::test(flavor = "multi_thread")]
async fn it_lives_before_it_is_ready() {
    let cluster = support::cluster(Duration::ZERO).await;
    let proxy = Proxy::start(&cluster.url(), |_| Fate::Passed).await;
    let client = cluster::connect_url(&proxy.url())
        .await
        .expect("the line is good");
    proxy.freeze(true);
    let started = Controller::start(client, listening(options())).await;
    let controller = started.expect("a port");
    let address = controller.listening().expect("it listens");
    let status = |path: &str| {
        let answer = tokio::task::block_in_place(|| http_get(address, path)).expect("an answer");
        answer.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(status("/livez"), "HTTP/1.1 200 OK");
    assert_eq!(status("/readyz"), "HTTP/1.1 503 Service Unavailable");
    assert_eq!(status("/elsewhere"), "HTTP/1.1 404 Not Found");
    proxy.freeze(false);
    controller.ready().await;
    assert_eq!(status("/readyz"), "HTTP/1.1 200 OK");
    controller.stop().await;
    cluster.shutdown().await;
}
