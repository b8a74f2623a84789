//! Saves changes to disk, in batches.
//!
//! Responsible for: the changes that wait, in order, and who is told when they are saved. Must not: know the file's
//! form.
//!
//! One thread saves everything that has gathered since its last batch began. So a change waits for two batches at
//! most, however many others wait.

use std::{sync::Arc, thread::JoinHandle};

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::state_file::{About as _, Batch, FileError, StateFile};
use crate::apiserver::{ApiServer, EventType, KINDS};

/// A change's place in the order of all changes.
pub(super) type Ticket = u64;

/// How far saving has come.
#[derive(Clone, Debug, Default)]
struct Progress {
    saved: Ticket,
    failed: Option<String>,
}

/// What waits to be saved.
#[derive(Debug, Default)]
struct Queue {
    /// Up to where each kind's log has been read.
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
    /// Begins to save into a file, all changes from these positions of the logs on.
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

    /// Takes what has changed since the last call; called under the server's lock.
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
                    // More has changed than the log holds.
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

    /// The ticket for all that was taken so far.
    pub(super) fn last(&self) -> Ticket {
        self.waiting.queue.lock().last
    }

    /// Waits until a change is saved, or never will be.
    pub(super) async fn saved(&self, ticket: Ticket) -> Result<(), String> {
        let mut progress = self.progress.clone();
        let reached = progress
            .wait_for(|progress| progress.saved >= ticket || progress.failed.is_some())
            .await;
        match reached {
            Ok(progress) if progress.saved >= ticket => Ok(()),
            Ok(progress) => Err(progress.failed.clone().unwrap_or_default()),
            Err(_) => Err("nothing is saved any more".to_owned()),
        }
    }

    /// Waits until something could not be saved.
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

    /// Saves what waits, and ends.
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
