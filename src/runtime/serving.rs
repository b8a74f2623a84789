//! Serves HTTP at a port, with TLS or without, for as long as it is polled.
//!
//! Any client that reaches the port may connect. So each connection serves one request and has a timeout, and their
//! number is limited: one too many closes the oldest. A probe is answered at once, so the oldest belongs to a silent
//! client. Streams of changes for pages have no such timeout and do not count: their handler limits them. They end once
//! their reader takes nothing for a minute.
//!
//! Must not: interpret requests or answers.

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
use tokio_io_timeout::TimeoutStream;

use crate::client::{descriptor_limit, descriptors_of_a_port};

use super::certificate::Tls;

/// Pause after a failed accept, for want of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Timeout of a handshake, and then of a request's head: ten times a kubelet's default timeout for the whole answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of a connection: more than that of a scrape, which is 10 s by default.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Time after which a reader that takes no data is disconnected: twice the timeout for a whole answer.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum number of connections, if the limit on open files allows it: a kubelet's probes and some scrapers, several
/// times over.
const CONNECTIONS_MAX: usize = 64;

/// A body that may arrive piece by piece. One of unknown length is a stream of changes for a page.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// Handler of requests.
pub(super) trait Answers: Clone + Send + Sync + 'static {
    /// Answers a request from this address.
    fn answer(
        &self,
        request: Request<Incoming>,
        from: IpAddr,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;
}

/// A connection, with the task that serves it.
struct OpenConnection {
    task: AbortHandle,
    /// It carries a stream of changes for a page.
    is_followed: Arc<AtomicBool>,
}

/// Accepts connections, forever, unless the runtime refuses the listener.
pub(super) async fn serve(
    listener: std::net::TcpListener,
    tls: Option<Tls>,
    answers: impl Answers,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(%error, "could not accept a connection");
            return;
        }
    };
    let most = descriptors_of_a_port(descriptor_limit(), CONNECTIONS_MAX);
    let mut open: VecDeque<OpenConnection> = VecDeque::with_capacity(most);
    loop {
        let (stream, from) = match listener.accept().await {
            Ok((stream, from)) => (stream, from.ip()),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                // If descriptors are exhausted, the next connection needs that of the oldest.
                make_room(&mut open, 0);
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        open.retain(|connection| !connection.task.is_finished());
        make_room(&mut open, most);
        let is_followed = Arc::new(AtomicBool::new(false));
        let (answers, followed) = (answers.clone(), Arc::clone(&is_followed));
        let acceptor = tls.as_ref().map(Tls::acceptor);
        let connection = async move {
            let Some(acceptor) = acceptor else {
                return answer_in_time(stream, from, &followed, answers).await;
            };
            // A failed handshake concerns only the client.
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

/// Closes the oldest connection if `most` are open.
fn make_room(open: &mut VecDeque<OpenConnection>, most: usize) {
    let is_one_of_few = |it: &OpenConnection| !it.is_followed.load(Ordering::Relaxed);
    if open.iter().filter(|it| is_one_of_few(it)).count() < most {
        return;
    }
    if let Some(oldest) = open.iter().position(is_one_of_few)
        && let Some(oldest) = open.remove(oldest)
    {
        oldest.task.abort();
    }
}

/// Answers within [`CONNECTION_TIMEOUT`], unless the answer is a stream of changes: that lasts as long as it is open.
async fn answer_in_time<S>(stream: S, from: IpAddr, is_followed: &AtomicBool, answers: impl Answers)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut connection = pin!(answer_on(stream, from, is_followed, answers));
    // A client that disconnects early or is too slow is no error.
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
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(STALL_TIMEOUT));
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
        .serve_connection(TokioIo::new(Box::pin(stream)), answer)
        .await
}

/// Listens at an address.
pub(super) fn listen(address: std::net::SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body_util::{BodyExt as _, StreamBody};
    use hyper::body::Frame;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        join,
        time::Instant,
    };

    use super::*;

    /// Answers with an endless body.
    #[derive(Clone)]
    struct Endless;

    impl Answers for Endless {
        async fn answer(&self, _: Request<Incoming>, _: IpAddr) -> Response<ResponseBody> {
            let piece = || Ok(Frame::data(Bytes::from_static(&[b'x'; 1024])));
            Response::new(StreamBody::new(stream::repeat_with(piece)).boxed_unsync())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_gets_everything_and_a_stuck_one_is_dropped() {
        let (server, mut reader) = duplex(64);
        let (began, is_followed) = (Instant::now(), AtomicBool::new(false));
        let from = IpAddr::from([127, 0, 0, 1]);
        let told = async {
            answer_in_time(server, from, &is_followed, Endless).await;
            began.elapsed()
        };
        let read = async {
            let asked = reader.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
            asked.expect("it is asked");
            let stalls = STALL_TIMEOUT.saturating_sub(Duration::from_secs(1));
            for _ in 0..10 {
                reader
                    .read_exact(&mut [0; 64])
                    .await
                    .expect("there is more");
                sleep(stalls).await;
            }
            began.elapsed()
        };
        let both = async { join!(told, read) };
        let ended = timeout(Duration::from_secs(3600), both).await;
        let (told, read) = ended.expect("who takes nothing is left");
        assert!(
            told > read && told < read + STALL_TIMEOUT,
            "{told:?} {read:?}"
        );
        drop(reader);
    }
}
