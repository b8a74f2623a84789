//! Stores objects by kind and key, with the global version and the event logs.
//!
//! Responsible for: the only code path that changes stored objects. Must not: validate changes, or know kinds or
//! requests.
//! Read first: [`Store`]; then `log`, the source of all watches, and `index`, the objects of one kind.

mod index;
mod log;

use std::sync::Arc;

use compact_str::CompactString;
use hashbrown::HashMap;

use index::Index;
use log::EventLog;
pub use log::{Event, EventType};

use crate::apiserver::object::{KINDS, Kept, Kind, Stored, Tree, stored};

/// All state that requests can read.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    version: u64,
    shelves: Vec<Shelf>,
}

/// The objects of one kind.
#[derive(Clone, Debug)]
struct Shelf {
    objects: Index,
    log: EventLog,
    /// Object counts per namespace, so that pages and quotas need not count.
    per_namespace: HashMap<CompactString, Count>,
}

/// The number of objects.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: usize,
    /// The number of terminated Pods among them.
    ended: usize,
}

impl Shelf {
    /// Inserts an object; returns the state that it replaces.
    fn insert(&mut self, object: &Arc<Stored>) -> Option<Arc<Stored>> {
        let previous = self.objects.insert(Arc::clone(object));
        if let Some(previous) = &previous {
            self.uncount(previous);
        }
        let namespace = object.namespace.clone();
        let count = self.per_namespace.entry(namespace).or_default();
        count.all += 1;
        count.ended += usize::from(object.has_ended());
        previous
    }

    /// Removes an object.
    fn remove(&mut self, key: &str) -> Option<Arc<Stored>> {
        let last = self.objects.remove(key)?;
        self.uncount(&last);
        Some(last)
    }

    fn uncount(&mut self, object: &Stored) {
        if let Some(count) = self.per_namespace.get_mut(&object.namespace) {
            count.all -= 1;
            count.ended -= usize::from(object.has_ended());
        }
    }

    fn count(&self, namespace: &str) -> Count {
        let count = self.per_namespace.get(namespace);
        count.copied().unwrap_or_default()
    }
}

impl Store {
    /// An empty store with logs of `log_capacity` events per kind.
    pub(crate) fn new(log_capacity: usize) -> Self {
        let shelf = || Shelf {
            objects: Index::default(),
            log: EventLog::new(log_capacity),
            per_namespace: HashMap::new(),
        };
        Self {
            version: 1,
            shelves: KINDS.iter().map(|_| shelf()).collect(),
        }
    }

    /// The version of the latest change.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Finds an object.
    pub(crate) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        self.shelf(kind).objects.get(&stored::key(namespace, name))
    }

    /// The number of objects of a kind in a namespace; in all namespaces if it is empty.
    pub(crate) fn count(&self, kind: Kind, namespace: &str) -> usize {
        let shelf = self.shelf(kind);
        if namespace.is_empty() {
            return shelf.objects.len();
        }
        shelf.count(namespace).all
    }

    /// The number of Pods in a namespace that have not terminated.
    pub(crate) fn count_live_pods(&self, namespace: &str) -> usize {
        let count = self.shelf(Kind::Pod).count(namespace);
        count.all - count.ended
    }

    /// The event log of a kind.
    pub(crate) fn log(&self, kind: Kind) -> &EventLog {
        &self.shelf(kind).log
    }

    /// Drops the events of all kinds and expires all open watches.
    pub(crate) fn forget_events(&mut self) {
        for shelf in &mut self.shelves {
            shelf.log.forget();
        }
    }

    /// Objects of a namespace (of all if empty) in key order; only those after key `after`, if given.
    pub(crate) fn range<'a>(
        &'a self,
        kind: Kind,
        namespace: &str,
        after: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Stored>> + use<'a> {
        let prefix = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        self.shelf(kind).objects.range(prefix, after)
    }

    /// The objects of a kind as they were `changes` changes ago, as far back as events are kept. All other kinds and
    /// all logs are empty.
    pub(crate) fn as_of(&self, kind: Kind, changes: u64) -> Self {
        let mut past = Self::new(0);
        past.version = self.version;
        let shelf = &mut past.shelves[kind as usize];
        shelf.objects = self.shelf(kind).objects.clone();
        shelf.per_namespace = self.shelf(kind).per_namespace.clone();
        let changes = usize::try_from(changes).unwrap_or(usize::MAX);
        for event in self.log(kind).newest(changes) {
            match &event.previous {
                Some(previous) => shelf.insert(previous),
                None => shelf.remove(&event.object.key()),
            };
            past.version = event.object.version - 1;
        }
        past
    }

    /// Stores a new state of an object, with the members in `kept` unchanged, and logs it.
    pub(crate) fn put(&mut self, kind: Kind, tree: &Tree, kept: &Kept<'_>) -> Arc<Stored> {
        self.version += 1;
        let shelf = &mut self.shelves[kind as usize];
        let mut object = Stored::encode_with(kind, self.version, tree, kept);
        if let Some(before) = shelf.objects.get(&object.key()) {
            object.share(before);
        }
        let object = Arc::new(object);
        let previous = shelf.insert(&object);
        let event_type = match previous {
            Some(_) => EventType::Modified,
            None => EventType::Added,
        };
        shelf.log.push(Event {
            event_type,
            object: Arc::clone(&object),
            previous,
        });
        object
    }

    /// Restores an object from a previous server without an event.
    pub(crate) fn load(&mut self, object: Stored) -> Arc<Stored> {
        let object = Arc::new(object);
        self.shelves[object.kind as usize].insert(&object);
        object
    }

    /// Continues with versions above this one; the logs hold nothing older.
    pub(crate) fn resume(&mut self, version: u64) {
        self.version = version;
        for shelf in &mut self.shelves {
            shelf.log.start_after(version);
        }
    }

    /// Removes an object and logs its last state; `None` if it does not exist.
    pub(crate) fn remove(&mut self, object: &Stored) -> Option<Arc<Stored>> {
        let shelf = &mut self.shelves[object.kind as usize];
        let last = shelf.remove(&object.key())?;
        self.version += 1;
        let object = Arc::new(last.at_version(self.version));
        shelf.log.push(Event {
            event_type: EventType::Deleted,
            object: Arc::clone(&object),
            previous: Some(last),
        });
        Some(object)
    }

    fn shelf(&self, kind: Kind) -> &Shelf {
        &self.shelves[kind as usize]
    }
}
