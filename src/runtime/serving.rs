//! Answers at a port, over HTTP with TLS or without, for as long as it is polled.
//!
//! Anybody who reaches the port may connect, so a connection is for one request, ends by a timeout unless a page is told
//! of changes by it, and there are few: the oldest goes where one too many comes. A probe is answered in a moment, so the
//! oldest is of one who says nothing. Connections by which pages are told of changes are not among these few: who lets
//! them be limits them.
//!
//! Must not: know what is asked or answered.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    net::IpAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::{
    body::{Body as _, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    task::AbortHandle,
    time::{sleep, timeout},
};

use super::certificate::Tls;

/// How long to wait when the system cannot give a connection, for want of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a handshake may take, and then a request's head: ten times what a kubelet waits for the whole answer, if
/// nothing else is set.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may last: more than a scrape may, which ends after 10 s if nothing else is set.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// How many connections there are at most: a kubelet's probes and some scrapers, several times over.
const CONNECTIONS_MAX: usize = 64;

/// A body that may come piece by piece. One whose length is not known is of a page that is told of changes.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// Who answers.
pub(super) trait Answers: Clone + Send + Sync + 'static {
    /// Answers a request from this address.
    fn answer(
        &self,
        request: Request<Incoming>,
        from: IpAddr,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;
}

/// A connection.
struct OpenConnection {
    task: AbortHandle,
    /// A page is told of changes by it.
    is_followed: Arc<AtomicBool>,
}

/// Answers, for ever, unless the system takes no such socket.
pub(super) async fn serve(
    listener: std::net::TcpListener,
    tls: Option<Tls>,
    answers: impl Answers,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(%error, "connection not accepted");
            return;
        }
    };
    let mut open: VecDeque<OpenConnection> = VecDeque::with_capacity(CONNECTIONS_MAX);
    loop {
        let (stream, from) = match listener.accept().await {
            Ok((stream, from)) => (stream, from.ip()),
            Err(error) => {
                tracing::warn!(%error, "connection not accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        open.retain(|connection| !connection.task.is_finished());
        make_room(&mut open);
        let is_followed = Arc::new(AtomicBool::new(false));
        let (answers, followed) = (answers.clone(), Arc::clone(&is_followed));
        let acceptor = tls.as_ref().map(Tls::acceptor);
        let connection = async move {
            let Some(acceptor) = acceptor else {
                return answer_in_time(stream, from, &followed, answers).await;
            };
            // Who does not get that far is no business of ours.
            if let Ok(Ok(stream)) = timeout(HEAD_TIMEOUT, acceptor.accept(stream)).await {
                answer_in_time(stream, from, &followed, answers).await;
            }
        };
        open.push_back(OpenConnection {
            task: tokio::spawn(connection).abort_handle(),
            is_followed,
        });
    }
}

/// Where there is one too many with the next, the oldest goes.
fn make_room(open: &mut VecDeque<OpenConnection>) {
    let is_one_of_few = |it: &OpenConnection| !it.is_followed.load(Ordering::Relaxed);
    if open.iter().filter(|it| is_one_of_few(it)).count() < CONNECTIONS_MAX {
        return;
    }
    if let Some(oldest) = open.iter().position(is_one_of_few)
        && let Some(oldest) = open.remove(oldest)
    {
        oldest.task.abort();
    }
}

/// Answers in [`CONNECTION_TIMEOUT`], unless it is a page that is told of changes: that takes as long as it is open.
async fn answer_in_time<S>(stream: S, from: IpAddr, is_followed: &AtomicBool, answers: impl Answers)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut connection = pin!(answer_on(stream, from, is_followed, answers));
    // Who goes away early, or is too late, is its own business.
    let is_late = timeout(CONNECTION_TIMEOUT, &mut connection).await.is_err();
    if is_late && is_followed.load(Ordering::Relaxed) {
        drop(connection.await);
    }
}

async fn answer_on<S>(
    stream: S,
    from: IpAddr,
    is_followed: &AtomicBool,
    answers: impl Answers,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answers = &answers;
    let answer = service_fn(move |request: Request<Incoming>| async move {
        let answer = answers.answer(request, from).await;
        let is_whole = answer.body().size_hint().exact().is_some();
        is_followed.store(!is_whole, Ordering::Relaxed);
        Ok::<_, Infallible>(answer)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer)
        .await
}

/// Listens at an address.
pub(super) fn listen(address: std::net::SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
