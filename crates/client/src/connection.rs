//! Holds one HTTP/1.1 connection to the API server, for one call at a time.
//!
//! The caller drives it, so that no task has to be woken for each call. While it is idle, the pool checks at intervals
//! whether it has ended.
//!
//! Must not: repeat a call, or know its content.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    body::{Body as HttpBody, Frame, Incoming},
    client::conn::http1::{self, SendRequest, handshake},
    rt::{Read, Write},
};

use tokio::sync::OwnedSemaphorePermit;

use super::{budget::OpenGuard, transport::TransportError};

/// The body of a request.
pub(super) type Body = Full<Bytes>;

/// An open connection.
pub(super) struct Connection<Io: Read + Write> {
    sender: SendRequest<Body>,
    /// Moves the bytes; has to be polled while an answer is awaited. Boxed because it is large and moves from call to
    /// call.
    driver: Box<http1::Connection<Io, Body>>,
    /// Counts the connection while it is open.
    guard: OpenGuard,
}

/// Reason why there is no answer.
pub(super) enum Failure {
    /// The connection was closed before the request was sent. Returns the request.
    Closed(Box<Request<Body>>, TransportError),
    /// The connection was lost; the server may have handled the request.
    Lost(TransportError),
}

impl<Io: Read + Write + Unpin> Connection<Io> {
    pub(super) async fn new(io: Io, guard: OpenGuard) -> Result<Self, TransportError> {
        let (sender, driver) = handshake(io).await?;
        let driver = Box::new(driver);
        Ok(Self {
            sender,
            driver,
            guard,
        })
    }

    /// Returns true if the server has closed it, or sent unexpected data. Call it only while the connection is idle.
    pub(super) fn has_ended(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let driver = Pin::new(&mut self.driver);
        driver.poll(&mut context).is_ready() || self.sender.is_closed()
    }

    /// Makes a call, reads an answer of at most `answer_max` bytes, and returns the connection if it can be reused.
    pub(super) async fn send(
        self,
        request: Request<Body>,
        answer_max: usize,
    ) -> Result<(Response<Bytes>, Option<Self>), Failure> {
        let Self {
            mut sender,
            driver,
            guard,
        } = self;
        let mut driver = Some(driver);
        let answer = {
            let answer = async {
                let response = exchange(&mut sender, request).await?;
                let (head, body) = response.into_parts();
                let body = Limited::new(body, answer_max).collect().await;
                let body = body.map_err(Failure::Lost)?;
                Ok(Response::from_parts(head, body.to_bytes()))
            };
            drive(answer, &mut driver).await?
        };
        let driver = driver.filter(|_| !sender.is_closed());
        let again = driver.map(|driver| Self {
            sender,
            driver,
            guard,
        });
        Ok((answer, again))
    }

    /// Makes a call and streams its answer. The connection serves no other call, and keeps its slot until it is closed.
    pub(super) async fn open(
        self,
        request: Request<Body>,
        slot: OwnedSemaphorePermit,
    ) -> Result<Response<DrivenBody<Io>>, Failure> {
        let Self {
            mut sender,
            driver,
            guard,
        } = self;
        let mut driver = Some(driver);
        let answer = drive(exchange(&mut sender, request), &mut driver).await?;
        Ok(answer.map(|body| DrivenBody {
            body,
            driver,
            _held: (guard, slot),
        }))
    }
}

/// The body of an answer that is read as it arrives. The reader drives the connection: all data that arrived are read
/// in one go, and no task has to be woken for each piece.
pub(super) struct DrivenBody<Io: Read + Write> {
    body: Incoming,
    /// None once the connection has ended; the body reports the error.
    driver: Option<Box<http1::Connection<Io, Body>>>,
    _held: (OpenGuard, OwnedSemaphorePermit),
}

impl<Io: Read + Write + Unpin> HttpBody for DrivenBody<Io> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { body, driver, .. } = self.get_mut();
        poll_driven(driver, context, |context| {
            Pin::new(&mut *body).poll_frame(context)
        })
    }
}

async fn exchange(
    sender: &mut SendRequest<Body>,
    request: Request<Body>,
) -> Result<Response<Incoming>, Failure> {
    if let Err(error) = sender.ready().await {
        return Err(Failure::Closed(Box::new(request), error.into()));
    }
    sender
        .try_send_request(request)
        .await
        .map_err(|mut error| match error.take_message() {
            Some(request) => Failure::Closed(Box::new(request), error.into_error().into()),
            None => Failure::Lost(error.into_error().into()),
        })
}

/// Awaits an answer and drives the connection meanwhile. A connection that has ended is dropped: only the drop fails
/// the pending answer.
async fn drive<T, E>(
    answer: impl Future<Output = T>,
    driver: &mut Option<impl Future<Output = E> + Unpin>,
) -> T {
    let mut answer = pin!(answer);
    poll_fn(|context| poll_driven(driver, context, |context| answer.as_mut().poll(context))).await
}

/// Polls a future that waits for a connection, and the connection if the future is pending.
fn poll_driven<T, E>(
    driver: &mut Option<impl Future<Output = E> + Unpin>,
    context: &mut Context<'_>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    if let Poll::Ready(answer) = poll(context) {
        return Poll::Ready(answer);
    }
    let ended = driver
        .as_mut()
        .is_some_and(|driver| pin!(driver).poll(context).is_ready());
    if ended {
        *driver = None;
    }
    // The connection may have delivered data just now.
    poll(context)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use http_body_util::LengthLimitError;
    use hyper_util::rt::TokioIo;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        join,
    };

    use super::*;
    use crate::budget::Budget;

    #[tokio::test]
    async fn an_answer_without_end_is_given_up() {
        const MAX: usize = 16 << 20;
        let (ours, mut servers) = duplex(1 << 20);
        let server = tokio::spawn(async move {
            let mut request = [0; 1_024];
            let _ = servers.read(&mut request).await;
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            servers.write_all(head).await.expect("it is read");
            let piece = vec![b'a'; 1 << 20];
            let mut sent = 0;
            while servers.write_all(b"100000\r\n").await.is_ok()
                && servers.write_all(&piece).await.is_ok()
                && servers.write_all(b"\r\n").await.is_ok()
            {
                sent += piece.len();
            }
            sent
        });
        let connection = Connection::new(TokioIo::new(ours), Budget::new(1).open()).await;
        let connection = connection.expect("nothing is asked yet");
        let request = Request::get("/").body(Body::default());
        let answer = connection.send(request.expect("a request"), MAX).await;
        let Err(Failure::Lost(error)) = answer else {
            panic!("it is too long");
        };
        assert!(error.is::<LengthLimitError>());
        let sent = server.await.expect("it ends");
        assert!(sent >= MAX, "{sent}");
    }

    #[tokio::test]
    async fn pieces_that_have_come_are_read_without_waiting() {
        let (ours, mut servers) = duplex(1 << 20);
        let connection = Connection::new(TokioIo::new(ours), Budget::new(1).open()).await;
        let connection = connection.expect("nothing is asked yet");
        let request = Request::get("/").body(Body::default());
        let begins = async {
            let _ = servers.read(&mut [0; 1_024]).await;
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            servers.write_all(head).await.expect("there is room");
        };
        let slot = Budget::new(1).slot().await.expect("it is free");
        let (answer, ()) = join!(connection.open(request.expect("a request"), slot), begins);
        let Ok(answer) = answer else {
            panic!("it has come");
        };
        let mut body = answer.into_body();
        for _ in 0..3 {
            let piece = b"3\r\nabc\r\n";
            servers.write_all(piece).await.expect("there is room");
        }
        for _ in 0..3 {
            let frame = body.frame().now_or_never().flatten();
            let piece = frame.and_then(|frame| frame.ok()?.into_data().ok());
            assert_eq!(piece.as_deref(), Some(&b"abc"[..]));
        }
        assert!(body.frame().now_or_never().is_none(), "more may come");
        drop(servers);
        let end = body.frame().await;
        assert!(end.is_some_and(|frame| frame.is_err()), "it was not over");
    }
}
