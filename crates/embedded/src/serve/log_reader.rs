//! Follows the objects of a kind from within the process.
//!
//! Responsible for: completeness: a reader that falls behind the server's log gets a full list. Must not: know how the
//! events are used.

use std::sync::Arc;

use tokio::sync::watch;

use super::SharedApi;
use crate::apiserver::{Event, EventType, Kind};

/// Reads the events of a kind. Call [`Self::read`] until it returns none, then wait for [`Self::changed`].
#[derive(Debug)]
pub struct LogReader {
    api: Arc<SharedApi>,
    kind: Kind,
    /// End of the kind's log.
    end: watch::Receiver<u64>,
    /// Position up to which the log has been read; none before the first list.
    position: Option<u64>,
}

/// A batch of events.
#[derive(Debug)]
pub struct News {
    /// The events are a full list: all earlier state is out of date.
    pub is_list: bool,
    /// Events in order. A list has one Added event per object.
    pub events: Vec<Event>,
}

impl LogReader {
    /// Creates a reader that starts with a full list.
    pub fn new(api: &Arc<SharedApi>, kind: Kind) -> Self {
        Self {
            api: Arc::clone(api),
            kind,
            end: api.changes(kind),
            position: None,
        }
    }

    /// Returns the kind of the objects.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the next batch: a full list, or at most `limit` events. None if all has been read.
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

    /// Waits until there is more to read; fails when the server is gone.
    pub async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        self.end.changed().await
    }
}
