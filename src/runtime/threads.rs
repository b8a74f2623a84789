//! Creates the threads of a controller of several shards, and the channels between its loops.
//!
//! Must not: know the messages, or the work of a loop.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
};

use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    oneshot,
};

use crate::controller::{Message, Recipient};

/// The senders to each loop.
#[derive(Clone, Debug, Default)]
pub(super) struct Channels {
    feed: Option<UnboundedSender<Message>>,
    shards: Vec<UnboundedSender<Message>>,
}

/// The receiver of a loop.
pub(super) type Inbox = UnboundedReceiver<Message>;

impl Channels {
    /// Creates channels to the informers and to `shards` shards; returns the receivers of the informers and of the
    /// shards.
    pub(super) fn new(shards: usize) -> (Self, Inbox, Vec<Inbox>) {
        let (feed, own) = unbounded_channel();
        let (shards, inboxes) = (0..shards).map(|_| unbounded_channel()).unzip();
        let feed = Some(feed);
        (Self { feed, shards }, own, inboxes)
    }

    /// Sends a message. A loop that has ended receives none, and the controller ends with it.
    pub(super) fn send(&self, recipient: Recipient, message: Message) {
        let sender = match recipient {
            Recipient::Feed => self.feed.as_ref(),
            Recipient::Shard(number) => self.shards.get(number),
        };
        if let Some(sender) = sender {
            let _ = sender.send(message);
        }
    }
}

/// Runs a loop on a thread of its own; the returned future ends, or panics, when the loop does.
pub(super) fn on_thread<F: FnOnce() + Send + 'static>(
    name: String,
    run: F,
) -> std::io::Result<impl Future<Output = ()> + Send + use<F>> {
    let (done, ended) = oneshot::channel::<Result<(), Box<dyn Any + Send>>>();
    thread::Builder::new().name(name).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(run));
        // The receiver may be gone.
        let _ = done.send(result);
    })?;
    Ok(async move {
        if let Ok(Err(panic)) = ended.await {
            resume_unwind(panic);
        }
    })
}
