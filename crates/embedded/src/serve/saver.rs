//! Saves changes to disk in batches.
//!
//! Responsible for: the queue of unsaved changes, in order, and signals when they are saved. Must not: know the file
//! format.
//!
//! One thread saves all changes queued since its last batch began. So a change waits for at most two batches, however
//! many changes are queued.

use std::{sync::Arc, thread::JoinHandle};

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::state_file::{About as _, Batch, FileError, StateFile};
use crate::apiserver::{ApiServer, EventType, KINDS};

/// Sequence number of a change in the order of all changes.
pub(super) type Ticket = u64;

/// Progress of the saving thread.
#[derive(Clone, Debug, Default)]
struct Progress {
    saved: Ticket,
    failed: Option<String>,
}

/// Unsaved changes.
#[derive(Debug, Default)]
struct Queue {
    /// Position up to which each kind's log has been read.
    positions: Vec<u64>,
    batch: Batch,
    last: Ticket,
    ended: bool,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: Mutex<Queue>,
    more: Condvar,
}

/// Saves the changes of one server.
#[derive(Debug)]
pub(super) struct Saver {
    waiting: Arc<Waiting>,
    progress: watch::Receiver<Progress>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Saver {
    /// Starts saving to `file`, with all changes after these log positions.
    pub(super) fn start(file: StateFile, positions: Vec<u64>) -> Result<Self, FileError> {
        let waiting = Arc::new(Waiting::default());
        waiting.queue.lock().positions = positions;
        let (sender, progress) = watch::channel(Progress::default());
        let theirs = Arc::clone(&waiting);
        let path = file.path().to_owned();
        let thread = std::thread::Builder::new()
            .name("saver".into())
            .spawn(move || save(&theirs, &file, &sender))
            .about(&path)?;
        Ok(Self {
            waiting,
            progress,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Queues the changes since the last call; called under the server's lock.
    pub(super) fn take(&self, server: &ApiServer) -> Ticket {
        let mut queue = self.waiting.queue.lock();
        let queue = &mut *queue;
        for (row, position) in KINDS.iter().zip(&mut queue.positions) {
            let end = server.log_end(row.kind);
            if *position == end {
                continue;
            }
            match server.events(row.kind, *position, usize::MAX) {
                Some(events) => {
                    for event in events {
                        let place = (row.kind, event.object.key());
                        let gone = event.event_type == EventType::Deleted;
                        queue
                            .batch
                            .objects
                            .insert(place, (!gone).then_some(event.object));
                    }
                }
                None => {
                    // The log no longer holds all changes.
                    queue.batch.objects.retain(|(kind, _), _| *kind != row.kind);
                    queue.batch.cleared.insert(row.kind);
                    for object in server.objects(row.kind) {
                        let place = (row.kind, object.key());
                        queue.batch.objects.insert(place, Some(Arc::clone(object)));
                    }
                }
            }
            *position = end;
        }
        queue.batch.version = server.version();
        queue.last += 1;
        self.waiting.more.notify_one();
        queue.last
    }

    /// Returns the ticket that covers all queued changes.
    pub(super) fn last(&self) -> Ticket {
        self.waiting.queue.lock().last
    }

    /// Waits until a change is saved, or saving has failed.
    pub(super) async fn saved(&self, ticket: Ticket) -> Result<(), String> {
        let mut progress = self.progress.clone();
        let reached = progress
            .wait_for(|progress| progress.saved >= ticket || progress.failed.is_some())
            .await;
        match reached {
            Ok(progress) if progress.saved >= ticket => Ok(()),
            Ok(progress) => Err(progress.failed.clone().unwrap_or_default()),
            Err(_) => Err("the thread that saves objects has ended".to_owned()),
        }
    }

    /// Waits until a save fails; returns the reason.
    pub(super) async fn failure(&self) -> String {
        let mut progress = self.progress.clone();
        let failed = progress
            .wait_for(|progress| progress.failed.is_some())
            .await;
        let failed = failed.ok().and_then(|progress| progress.failed.clone());
        match failed {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }

    /// Saves the queued changes and stops the thread.
    pub(super) fn end(&self) {
        self.waiting.queue.lock().ended = true;
        self.waiting.more.notify_one();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that saves objects panicked");
        }
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        self.end();
    }
}

fn save(waiting: &Waiting, file: &StateFile, progress: &watch::Sender<Progress>) {
    let mut saved = 0;
    loop {
        let (batch, last) = {
            let mut queue = waiting.queue.lock();
            while queue.last == saved && !queue.ended {
                waiting.more.wait(&mut queue);
            }
            if queue.last == saved {
                return;
            }
            (std::mem::take(&mut queue.batch), queue.last)
        };
        if let Err(error) = file.save(&batch) {
            progress.send_modify(|progress| progress.failed = Some(error.to_string()));
            return;
        }
        saved = last;
        progress.send_modify(|progress| progress.saved = last);
    }
}
