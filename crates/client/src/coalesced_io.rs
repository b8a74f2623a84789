//! Batches the wakeups of a busy namespace's sockets, so that their owner handles several answers at once.
//!
//! A wakeup for each of a Pod's five answers and events costs several times their handling. So these sockets have an
//! epoll instance of their own. A task polls it and sleeps between two polls while more arrives, like a network card's
//! interrupt moderation. Nothing else is delayed: other namespaces' sockets, timers, signals and messages wake the
//! thread as usual.
//!
//! Must not: run calls, or interpret the bytes.

use std::{
    io::{self, IoSlice, Read as _, Write as _},
    net::Shutdown,
    os::fd::{AsRawFd as _, RawFd},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::task::AtomicWaker;
use hyper_util::client::legacy::connect::{Connected, Connection};
use mio::{Events, Interest, Registry, Token};
use parking_lot::Mutex;
use slab::Slab;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf, unix::AsyncFd},
    net::TcpStream,
    task_local,
    time::sleep,
};
use tokio_util::{either::Either, task::AbortOnDropHandle};

/// Events taken from the kernel per poll; as many as in tokio.
const EVENTS: usize = 1024;

task_local! {
    /// The sockets that connections opened in this scope belong to.
    static OPENED_FOR: Sockets;
}

/// Owner of a set of sockets with batched wakeups, and of the task that polls them. Once it is dropped, the sockets
/// receive no more events.
#[derive(Debug)]
pub struct CoalescedIo {
    sockets: Sockets,
    driver: AbortOnDropHandle<io::Result<()>>,
}

/// Handle to the set of sockets; clones share it.
#[derive(Clone, Debug)]
pub struct Sockets(Arc<Reactor>);

#[derive(Debug)]
struct Reactor {
    registry: Registry,
    open: Mutex<Slab<Arc<Readiness>>>,
    /// Pause between two polls, in microseconds.
    delay: AtomicU64,
}

impl CoalescedIo {
    /// Starts without sockets and without delay. The polling task runs on the current runtime.
    pub fn start() -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let sockets = Sockets(Arc::new(Reactor {
            registry: poll.registry().try_clone()?,
            open: Mutex::default(),
            delay: AtomicU64::new(0),
        }));
        let driver = tokio::spawn(sockets.clone().drive(poll));
        Ok(Self {
            sockets,
            driver: AbortOnDropHandle::new(driver),
        })
    }

    /// Returns the handle by which connections are opened.
    pub fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// Sets the pause between two polls.
    pub fn set_delay(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        let reactor = &self.sockets.0;
        if reactor.delay.load(Ordering::Relaxed) != micros {
            reactor.delay.store(micros, Ordering::Relaxed);
        }
    }

    /// Waits until the polling task ends, which should not happen: the sockets receive no more events.
    pub async fn broken(&mut self) -> io::Error {
        match (&mut self.driver).await {
            Ok(Err(error)) => error,
            Ok(Ok(())) => io::Error::other("it ended"),
            Err(error) => error.into(),
        }
    }
}

impl Sockets {
    /// Runs a future that opens a connection, so that its socket joins this set.
    pub(super) async fn scope<T>(&self, opens: impl Future<Output = T>) -> T {
        OPENED_FOR.scope(self.clone(), opens).await
    }

    fn add(&self, stream: TcpStream) -> io::Result<CoalescedStream> {
        let mut stream = mio::net::TcpStream::from_std(stream.into_std()?);
        let readiness = Arc::new(Readiness::default());
        let key = self.0.open.lock().insert(Arc::clone(&readiness));
        let both = Interest::READABLE | Interest::WRITABLE;
        let added = self.0.registry.register(&mut stream, Token(key), both);
        let stream = CoalescedStream {
            stream,
            readiness,
            key,
            sockets: self.clone(),
        };
        added.map(|()| stream)
    }

    async fn drive(self, mut poll: mio::Poll) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            // The runtime is woken for an event only while none is left to handle.
            let first = awaited(&poll)?;
            let _ = first.readable().await?;
            drop(first);
            loop {
                let delay = Duration::from_micros(self.0.delay.load(Ordering::Relaxed));
                if !delay.is_zero() {
                    sleep(delay).await;
                }
                match poll.poll(&mut events, Some(Duration::ZERO)) {
                    Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                    _ => {}
                }
                let open = self.0.open.lock();
                for event in &events {
                    // The socket may be closed, or another may have its slot: that one finds nothing to read.
                    if let Some(readiness) = open.get(event.token().0) {
                        readiness.heard(event);
                    }
                }
                if events.is_empty() || delay.is_zero() {
                    break;
                }
            }
        }
    }
}

/// Registers the epoll instance with the runtime, which wakes the task for its next event.
#[expect(
    deprecated,
    reason = "it is sound here, as the list outlives it; what replaces it is unsafe code"
)]
fn awaited(poll: &mio::Poll) -> io::Result<AsyncFd<RawFd>> {
    AsyncFd::with_interest(poll.as_raw_fd(), tokio::io::Interest::READABLE)
}

/// Readiness of a socket as of its events. They are edge-triggered: each reports a change.
#[derive(Debug, Default)]
struct Readiness {
    read: Direction,
    write: Direction,
}

impl Readiness {
    fn heard(&self, event: &mio::event::Event) {
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read.heard(event.is_read_closed() || event.is_error());
        }
        if event.is_writable() || event.is_write_closed() || event.is_error() {
            self.write
                .heard(event.is_write_closed() || event.is_error());
        }
    }
}

/// Readiness for reading or for writing.
#[derive(Debug, Default)]
struct Direction {
    /// An attempt may succeed.
    is_ready: AtomicBool,
    /// Attempts do not block any more.
    is_closed: AtomicBool,
    waker: AtomicWaker,
}

impl Direction {
    fn heard(&self, closed: bool) {
        if closed {
            self.is_closed.store(true, Ordering::Release);
        }
        self.is_ready.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Calls `attempt`, which moves bytes, if it may succeed. If it moves fewer than `all`, the next one would block.
    fn poll_io(
        &self,
        context: &Context<'_>,
        all: usize,
        mut attempt: impl FnMut() -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            // Cleared before the attempt, so that an event that arrives meanwhile is kept.
            if !self.is_ready.swap(false, Ordering::AcqRel) {
                self.waker.register(context.waker());
                if !self.is_ready.swap(false, Ordering::AcqRel) {
                    return Poll::Pending;
                }
            }
            match attempt() {
                Ok(done) => {
                    // An end that arrived with the last bytes has no event of its own.
                    if done == all || done == 0 || self.is_closed.load(Ordering::Acquire) {
                        self.is_ready.store(true, Ordering::Release);
                    }
                    return Poll::Ready(Ok(done));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.is_ready.store(true, Ordering::Release);
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Poll::Ready(Err(error));
                    }
                }
            }
        }
    }
}

/// A socket with batched wakeups.
#[derive(Debug)]
pub(super) struct CoalescedStream {
    stream: mio::net::TcpStream,
    readiness: Arc<Readiness>,
    key: usize,
    sockets: Sockets,
}

impl Drop for CoalescedStream {
    fn drop(&mut self) {
        self.sockets.0.open.lock().remove(self.key);
    }
}

impl AsyncRead for CoalescedStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self {
            stream, readiness, ..
        } = self.get_mut();
        let room = buffer.initialize_unfilled();
        let all = room.len();
        let read = readiness
            .read
            .poll_io(context, all, || stream.read(&mut *room));
        buffer.advance(ready!(read)?);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CoalescedStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self {
            stream, readiness, ..
        } = self.get_mut();
        let all = slices.iter().map(|slice| slice.len()).sum();
        readiness
            .write
            .poll_io(context, all, || stream.write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}

/// A connection's socket.
#[derive(Debug)]
pub(super) struct Socket(Either<TcpStream, CoalescedStream>);

impl Socket {
    /// Joins the set of the enclosing scope, or else the runtime.
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        match OPENED_FOR.try_with(Clone::clone) {
            Ok(sockets) => Ok(Self(Either::Right(sockets.add(stream)?))),
            Err(_) => Ok(Self(Either::Left(stream))),
        }
    }
}

impl Connection for Socket {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    /// Returns a coalesced connection to a listener, and its other end.
    async fn connection(io: &CoalescedIo, listener: &TcpListener) -> (Socket, TcpStream) {
        let address = listener.local_addr().expect("an address");
        let opens = async { Socket::new(TcpStream::connect(address).await.expect("it is there")) };
        let near = io.sockets().scope(opens).await.expect("it is taken");
        let (far, _) = listener.accept().await.expect("its other end");
        assert!(matches!(near.0, Either::Right(_)));
        (near, far)
    }

    async fn listener() -> TcpListener {
        TcpListener::bind("127.0.0.1:0").await.expect("a port")
    }

    #[tokio::test]
    async fn a_delay_holds_up_no_other_socket() {
        let (io, listener) = (CoalescedIo::start().expect("it starts"), listener().await);
        let (mut coalesced, mut far) = connection(&io, &listener).await;
        let address = listener.local_addr().expect("an address");
        let other = TcpStream::connect(address).await.expect("a connection");
        let mut other = Socket::new(other).expect("it is taken");
        let (mut other_far, _) = listener.accept().await.expect("its other end");

        io.set_delay(Duration::from_secs(1));
        far.write_all(b"a").await.expect("a byte");
        other_far.write_all(b"b").await.expect("a byte");
        let first = tokio::select! {
            biased;
            byte = coalesced.read_u8() => byte,
            byte = other.read_u8() => byte,
        };
        assert_eq!(first.expect("a byte"), b'b');
        assert_eq!(coalesced.read_u8().await.expect("a byte"), b'a');
        // Without a delay, data are delivered at once, also if they arrive while no read waits.
        io.set_delay(Duration::ZERO);
        far.write_all(b"c").await.expect("a byte");
        assert_eq!(coalesced.read_u8().await.expect("a byte"), b'c');
    }

    #[tokio::test]
    async fn all_bytes_come_both_ways_however_many_and_then_the_end() {
        let (io, listener) = (CoalescedIo::start().expect("it starts"), listener().await);
        io.set_delay(Duration::from_millis(1));
        let many: Vec<u8> = (0..4_000_000_u32).map(|number| number as u8).collect();
        for _ in 0..2 {
            let (coalesced, far) = connection(&io, &listener).await;
            let (mut reads, mut writes) = tokio::io::split(coalesced);
            let (mut far_reads, mut far_writes) = far.into_split();
            let (mut here, mut there) = (Vec::new(), Vec::new());
            let send_here = async {
                far_writes.write_all(&many).await.expect("they go");
                drop(far_writes);
            };
            let send_there = async {
                writes.write_all(&many).await.expect("they go");
                writes.shutdown().await.expect("the end goes");
            };
            let (read_here, read_there, (), ()) = futures::join!(
                reads.read_to_end(&mut here),
                far_reads.read_to_end(&mut there),
                send_here,
                send_there
            );
            assert_eq!(read_here.expect("they come"), many.len());
            assert_eq!(read_there.expect("they come"), many.len());
            assert!(here == many && there == many);
        }
        assert!(io.sockets.0.open.lock().is_empty());
    }

    #[tokio::test]
    async fn a_lost_connection_is_reported() {
        let (io, listener) = (CoalescedIo::start().expect("it starts"), listener().await);
        let (mut coalesced, far) = connection(&io, &listener).await;
        let wait = async {
            // Unread data turn the close into a reset.
            coalesced.write_all(b"a").await.expect("a byte");
            coalesced.read_u8().await
        };
        let lose = async {
            let _ = far.readable().await;
            drop(far);
        };
        let (read, ()) = futures::join!(wait, lose);
        assert!(read.is_err());
        // The error is permanent.
        assert!(coalesced.read_u8().await.is_err());
    }
}
