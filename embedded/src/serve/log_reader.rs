//! Follows the objects of a kind from within the process.
//!
//! Responsible for: that nothing is missed: who falls behind the server's log gets all objects anew. Must not: know what
//! is done with them.

use std::sync::Arc;

use tokio::sync::watch;

use super::SharedApi;
use crate::apiserver::{Event, EventType, Kind};

/// Reads what happens to the objects of a kind.
#[derive(Debug)]
pub struct LogReader {
    api: Arc<SharedApi>,
    kind: Kind,
    /// Where the log of the kind ends.
    end: watch::Receiver<u64>,
    /// Up to where it has been read; none before the first list.
    position: Option<u64>,
}

/// What has happened since the last look.
#[derive(Debug)]
pub struct News {
    /// Whether these are all objects that there are: whatever was known before is out of date.
    pub is_list: bool,
    /// In order. An object of a list counts as added.
    pub events: Vec<Event>,
}

impl LogReader {
    /// A reader to whom all is news.
    pub fn new(api: &Arc<SharedApi>, kind: Kind) -> Self {
        Self {
            api: Arc::clone(api),
            kind,
            end: api.changes(kind),
            position: None,
        }
    }

    /// Whose objects are read.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The next news, of up to `limit` events if it is no list; none if all has been read.
    pub fn read(&mut self, limit: usize) -> Option<News> {
        let end = *self.end.borrow_and_update();
        if self.position.is_some_and(|position| position >= end) {
            return None;
        }
        if let Some(position) = &mut self.position
            && let Some(events) = self.api.events(self.kind, *position, limit)
        {
            *position += events.len() as u64;
            let is_list = false;
            return Some(News { is_list, events });
        }
        let (objects, position) = self.api.objects(self.kind);
        self.position = Some(position);
        let added = objects.into_iter().map(|object| Event {
            event_type: EventType::Added,
            object,
            previous: None,
        });
        Some(News {
            is_list: true,
            events: added.collect(),
        })
    }

    /// Waits until there is more to read; gives up when the server is gone.
    pub async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.end.changed().await
    }
}
