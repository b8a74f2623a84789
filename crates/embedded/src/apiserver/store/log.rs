//! Keeps a bounded log of the events of one kind: the source of all watches.
//!
//! Responsible for: the newest events, and finding a position by version. Must not: filter or encode.

use std::{collections::VecDeque, sync::Arc};

use crate::apiserver::object::Stored;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// The object was created.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted; the event has its last state at the version of the deletion.
    Deleted,
}

/// One entry of the log.
#[derive(Clone, Debug)]
#[doc(alias = "watchCacheEvent")]
pub struct Event {
    /// The type.
    pub event_type: EventType,
    /// The object after the change.
    pub object: Arc<Stored>,
    /// The object before the change; selectors need it to detect objects that stop matching.
    pub previous: Option<Arc<Stored>>,
}

/// Events in version order; the oldest are dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventLog {
    events: VecDeque<Event>,
    /// Position of the front entry; positions count up from 0 and are never reused.
    first: u64,
    /// Version of the newest dropped entry.
    dropped_version: u64,
    capacity: usize,
}

impl EventLog {
    /// An empty log of at most `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            ..Self::default()
        }
    }

    /// Appends an event; drops the oldest one if the log is full.
    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() >= self.capacity
            && let Some(oldest) = self.events.pop_front()
        {
            self.first += 1;
            self.dropped_version = oldest.object.version;
        }
        self.events.push_back(event);
    }

    /// Drops all events and invalidates all positions, including that after the newest event. Every open watch then
    /// expires.
    pub(crate) fn forget(&mut self) {
        if let Some(newest) = self.events.back() {
            self.dropped_version = newest.object.version;
        }
        self.first = self.end() + 1;
        self.events.clear();
    }

    /// Makes the log start after `version`.
    pub(crate) const fn start_after(&mut self, version: u64) {
        self.dropped_version = version;
    }

    /// The position after the newest entry.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// The position of the first event after `version`; the oldest valid version if that is too old.
    pub(crate) fn after_version(&self, version: u64) -> Result<u64, u64> {
        if version < self.dropped_version {
            return Err(self.dropped_version);
        }
        let index = self
            .events
            .partition_point(|event| event.object.version <= version);
        Ok(self.first + index as u64)
    }

    /// Up to `limit` events from `position` on; `None` if that position was dropped.
    pub(crate) fn read(&self, position: u64, limit: usize) -> Option<Vec<Event>> {
        let start = usize::try_from(position.checked_sub(self.first)?).ok()?;
        let events = self.events.iter().skip(start).take(limit);
        Some(events.cloned().collect())
    }

    /// The newest events, at most `count`, newest first.
    pub(crate) fn newest(&self, count: usize) -> impl Iterator<Item = &Event> {
        self.events.iter().rev().take(count)
    }

    /// The version up to which events were dropped.
    pub(crate) const fn dropped_version(&self) -> u64 {
        self.dropped_version
    }
}
