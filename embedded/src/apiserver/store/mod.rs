//! Objects by kind and key, the global version, and the logs of changes.
//!
//! Responsible for: the one path by which stored objects change. Must not: judge whether a change is legal,
//! know what kinds mean, or know requests.
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

/// All state that requests can see.
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
    /// Objects per namespace, so that neither a page nor a quota has to count them.
    per_namespace: HashMap<CompactString, Count>,
}

/// How many objects there are.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: usize,
    /// Those of them that are Pods and have ended.
    ended: usize,
}

impl Shelf {
    /// Puts an object in; gives the state that it takes the place of.
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

    /// Takes an object out.
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
    /// An empty store whose logs hold `log_capacity` events per kind.
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

    /// The version of the newest change.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Finds an object.
    pub(crate) fn get(&self, kind: Kind, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        self.shelf(kind).objects.get(&stored::key(namespace, name))
    }

    /// How many objects of a kind a namespace holds; all of them if it is empty.
    pub(crate) fn count(&self, kind: Kind, namespace: &str) -> usize {
        let shelf = self.shelf(kind);
        if namespace.is_empty() {
            return shelf.objects.len();
        }
        shelf.count(namespace).all
    }

    /// How many of a namespace's Pods have not ended.
    pub(crate) fn count_live_pods(&self, namespace: &str) -> usize {
        let count = self.shelf(Kind::Pod).count(namespace);
        count.all - count.ended
    }

    /// The log of a kind.
    pub(crate) fn log(&self, kind: Kind) -> &EventLog {
        &self.shelf(kind).log
    }

    /// Forgets the events of all kinds.
    pub(crate) fn forget_events(&mut self) {
        for shelf in &mut self.shelves {
            shelf.log.forget();
        }
    }

    /// Objects of a namespace (all if empty) in key order, those after key `after` only.
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

    /// A kind as it was so many of its changes ago, as far back as events are kept; all other kinds
    /// are empty, and so are the logs.
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

    /// Stores a new state of an object, some of it as it was in the state before, and logs it.
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

    /// Restores an object of an earlier server, without an event.
    pub(crate) fn load(&mut self, object: Stored) -> Arc<Stored> {
        let object = Arc::new(object);
        self.shelves[object.kind as usize].insert(&object);
        object
    }

    /// Goes on with versions above this one; what was before, no log knows.
    pub(crate) fn resume(&mut self, version: u64) {
        self.version = version;
        for shelf in &mut self.shelves {
            shelf.log.start_after(version);
        }
    }

    /// Takes an object away and logs its last state; `None` if there is none.
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
