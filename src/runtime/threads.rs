//! The threads of a controller of several shards, and the channels between its loops.
//!
//! Must not: know what is sent, or what a loop runs.

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

/// Where each loop's messages go.
#[derive(Clone, Debug, Default)]
pub(super) struct Channels {
    feed: Option<UnboundedSender<Message>>,
    shards: Vec<UnboundedSender<Message>>,
}

/// What a loop gets messages from.
pub(super) type Inbox = UnboundedReceiver<Message>;

impl Channels {
    /// Channels to the informers and to so many shards, with their other ends: the informers' and the shards'.
    pub(super) fn new(shards: usize) -> (Self, Inbox, Vec<Inbox>) {
        let (feed, own) = unbounded_channel();
        let (shards, inboxes) = (0..shards).map(|_| unbounded_channel()).unzip();
        let feed = Some(feed);
        (Self { feed, shards }, own, inboxes)
    }

    /// Sends a message. A loop that has ended hears nothing any more, and the controller ends with it.
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

/// Runs a loop on a thread of its own; what is given back ends, or panics, as it does.
pub(super) fn on_thread<F: FnOnce() + Send + 'static>(
    name: String,
    run: F,
) -> std::io::Result<impl Future<Output = ()> + Send + use<F>> {
    let (done, ended) = oneshot::channel::<Result<(), Box<dyn Any + Send>>>();
    thread::Builder::new().name(name).spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(run));
        // Whoever waited for it may be gone.
        let _ = done.send(result);
    })?;
    Ok(async move {
        if let Ok(Err(panic)) = ended.await {
            resume_unwind(panic);
        }
    })
}
