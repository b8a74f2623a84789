//! One connection to the API server, for one call at a time.
//!
//! Nobody but the caller drives it: no task of its own is woken for each call. While nobody calls, whoever
//! keeps it asks now and then whether it has ended.
//!
//! Must not: repeat a call, or know what is sent.

use std::{
    future::Future,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    body::Incoming,
    client::conn::http1::{Connection, SendRequest, handshake},
    rt::{Read, Write},
};

use super::transport::TransportError;

/// How long an answer may be that is taken in as a whole: a page of 500 objects of half a MiB each, far more
/// than the controller has memory for.
const ANSWER_MAX: usize = 256 << 20;

/// What is sent.
pub(super) type Body = Full<Bytes>;

/// See the module's text.
pub(super) struct Line<Io: Read + Write> {
    send: SendRequest<Body>,
    connection: Connection<Io, Body>,
}

/// Why there is no answer.
pub(super) enum Failure {
    /// The connection was closed before the request was sent: here it is again.
    Closed(Box<Request<Body>>, TransportError),
    /// Nobody knows what became of the request.
    Lost(TransportError),
}

impl<Io: Read + Write + Unpin> Line<Io> {
    pub(super) async fn new(io: Io) -> Result<Self, TransportError> {
        let (send, connection) = handshake(io).await?;
        Ok(Self { send, connection })
    }

    /// Whether the server has closed it, or said what nobody asked for. To be asked while nobody calls.
    pub(super) fn has_ended(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let connection = Pin::new(&mut self.connection);
        connection.poll(&mut context).is_ready() || self.send.is_closed()
    }

    /// Makes a call, and gives the line back if it may serve for another.
    pub(super) async fn ask(
        self,
        request: Request<Body>,
    ) -> Result<(Response<Bytes>, Option<Self>), Failure> {
        let Self {
            mut send,
            connection,
        } = self;
        let mut connection = Some(connection);
        let answer = {
            let answer = async {
                let response = exchange(&mut send, request).await?;
                let (head, body) = response.into_parts();
                let body = Limited::new(body, ANSWER_MAX).collect().await;
                let body = body.map_err(Failure::Lost)?;
                Ok(Response::from_parts(head, body.to_bytes()))
            };
            drive(answer, &mut connection).await?
        };
        let connection = connection.filter(|_| !send.is_closed());
        Ok((
            answer,
            connection.map(|connection| Self { send, connection }),
        ))
    }
}

impl<Io: Read + Write + Unpin + Send + 'static> Line<Io> {
    /// Makes a call whose answer is read as it comes; the line is gone with it.
    pub(super) async fn open(self, request: Request<Body>) -> Result<Response<Incoming>, Failure> {
        let Self {
            mut send,
            connection,
        } = self;
        // What goes wrong on it, the answer's body tells.
        tokio::spawn(async { drop(connection.await) });
        exchange(&mut send, request).await
    }
}

async fn exchange(
    send: &mut SendRequest<Body>,
    request: Request<Body>,
) -> Result<Response<Incoming>, Failure> {
    if let Err(error) = send.ready().await {
        return Err(Failure::Closed(Box::new(request), error.into()));
    }
    send.try_send_request(request)
        .await
        .map_err(|mut error| match error.take_message() {
            Some(request) => Failure::Closed(Box::new(request), error.into_error().into()),
            None => Failure::Lost(error.into_error().into()),
        })
}

/// Waits for something that a connection brings, and moves the connection meanwhile. One that has ended
/// is dropped: only then those who wait for something from it hear that it will not come.
async fn drive<T, E>(
    answer: impl Future<Output = T>,
    connection: &mut Option<impl Future<Output = E> + Unpin>,
) -> T {
    let mut answer = pin!(answer);
    std::future::poll_fn(|context| {
        if let Poll::Ready(answer) = answer.as_mut().poll(context) {
            return Poll::Ready(answer);
        }
        let ended = connection
            .as_mut()
            .is_some_and(|connection| pin!(connection).poll(context).is_ready());
        if ended {
            *connection = None;
        }
        // What the connection has brought is here already.
        answer.as_mut().poll(context)
    })
    .await
}
