//! Produces errors that only a real client detects: an untrusted certificate, and no file descriptor for a connection.

use std::{io, pin::pin, time::Duration};

use tokio::time::timeout;

use crate::{
    client::{ConnectError, Trust, configure_streams, connect_url_as},
    embedded::{Certificate, ClusterOptions, EmbeddedCluster, ServeOptions},
    wire::ApiError,
};

use super::{CALL_TIMEOUT, calls::Fault, in_virtual_time};

/// A short time, compared with the time limit of a call.
const SHORT: Duration = Duration::from_secs(1);

/// Each error as a row: the client's error, and the delay after which it comes.
pub(super) fn faults() -> Vec<Fault> {
    let (after, error) = without_descriptors();
    vec![
        Fault::found_out(
            "certificate not trusted",
            Duration::ZERO,
            untrusted_certificate(),
        ),
        Fault::found_out("no file descriptor left", after, error),
    ]
}

/// Calls a server with a certificate that the client does not trust.
fn untrusted_certificate() -> ApiError {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let start = async || {
            let options = ClusterOptions {
                server: ServeOptions {
                    tls: Some(Certificate::Made),
                    ..ServeOptions::default()
                },
                ..ClusterOptions::default()
            };
            let cluster = EmbeddedCluster::start(options).await;
            cluster.expect("the cluster starts")
        };
        let (cluster, other) = (start().await, start().await);
        let trust = |cluster: &EmbeddedCluster| {
            let loopback = cluster.loopback().expect("it speaks TLS");
            (loopback.authority.to_vec(), loopback.server_name)
        };
        let call = async |(authority, server_name): (Vec<u8>, &'static str)| {
            let trust = Trust {
                authority: &authority,
                server_name,
            };
            connect_url_as(&cluster.url(), None, Some(trust)).await
        };
        call(trust(&cluster))
            .await
            .expect("its own authority is trusted");
        match call(trust(&other)).await {
            Err(ConnectError::Unreachable { message, .. }) => {
                assert!(message.contains("invalid peer certificate"), "{message}");
                ApiError::no_answer(message)
            }
            other => panic!("{other:?}"),
        }
    })
}

/// Calls a server while the system has no descriptor for a connection, in virtual time.
fn without_descriptors() -> (Duration, ApiError) {
    in_virtual_time(async {
        let none = || Err(io::Error::from(rustix::io::Errno::MFILE));
        let client = configure_streams(none);
        let mut call = pin!(client.get("/version"));
        let early = timeout(CALL_TIMEOUT - SHORT, &mut call).await;
        assert!(early.is_err(), "{early:?}");
        let answer = timeout(2 * SHORT, call).await;
        let error = answer.expect("it is given up in time");
        (CALL_TIMEOUT, error.expect_err("no connection"))
    })
}
