//! A thread that waits for the sockets of a busy namespace, and is woken once for several answers.
//!
//! To be woken for each of a Pod's five answers and events costs several times what is then done with it. So these
//! sockets have a thread of their own to wait for them, which pauses each time before it waits: by then more has
//! come, as network cards let packets gather (interrupt moderation). Whoever drives the calls is woken once, and
//! everything else, other namespaces' sockets, timers, signals and messages, wakes it as ever.
//!
//! Must not: run calls, or anything else that must not wait for the pause.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{runtime::Handle, sync::oneshot};

/// See the module's text. Dropped, the thread ends, and calls by its sockets fail.
#[derive(Debug)]
pub(super) struct CoalescedIo {
    handle: Handle,
    /// The pause, in microseconds.
    pause: Arc<AtomicU64>,
    /// Dropped with this, which the thread waits for.
    _stop: oneshot::Sender<()>,
}

impl CoalescedIo {
    /// Starts the thread, without a pause.
    pub(super) fn start(name: &str) -> io::Result<Self> {
        let pause = Arc::new(AtomicU64::new(0));
        let paused = Arc::clone(&pause);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .on_thread_park(move || {
                let micros = paused.load(Ordering::Relaxed);
                if micros > 0 {
                    thread::sleep(Duration::from_micros(micros));
                }
            })
            .build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let name = format!("{name} io");
        thread::Builder::new().name(name).spawn(move || {
            // It is never sent: this ends when the other end is dropped.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self {
            handle,
            pause,
            _stop: stop,
        })
    }

    /// By which a socket is given to the thread.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Sets how long answers may gather from now on.
    pub(super) fn set_pause(&self, pause: Duration) {
        let micros = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        if self.pause.load(Ordering::Relaxed) != micros {
            self.pause.store(micros, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };
    use tokio_util::context::TokioContext;

    use super::*;

    #[tokio::test]
    async fn a_pause_holds_up_no_other_socket() {
        let io = CoalescedIo::start("test").expect("a thread");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let near = TokioContext::new(TcpStream::connect(address), io.handle().clone());
        let mut coalesced = near.await.expect("a connection");
        let (mut far, _) = listener.accept().await.expect("its other end");
        let mut other = TcpStream::connect(address).await.expect("a connection");
        let (mut other_far, _) = listener.accept().await.expect("its other end");

        // The first is told of at once; then comes the pause.
        io.set_pause(Duration::from_secs(1));
        far.write_all(b"a").await.expect("a byte");
        // More than there is, so that the next read waits.
        let mut bytes = [0; 2];
        assert_eq!(coalesced.read(&mut bytes).await.expect("a byte"), 1);
        far.write_all(b"b").await.expect("a byte");
        other_far.write_all(b"c").await.expect("a byte");
        let first = tokio::select! {
            biased;
            byte = coalesced.read_u8() => byte,
            byte = other.read_u8() => byte,
        };
        assert_eq!(first.expect("a byte"), b'c');
        io.set_pause(Duration::ZERO);
        assert_eq!(coalesced.read_u8().await.expect("a byte"), b'b');
    }
}
