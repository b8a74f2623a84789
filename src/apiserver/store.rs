//! Objects by kind and key, the global version, and the logs.
//!
//! Responsible for: the one path by which state changes. Must not: judge whether a change is
//! legal, or know what kinds mean.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use compact_str::CompactString;
use hashbrown::HashMap;

use super::{
    log::{Event, EventLog, EventType},
    object::{self, Stored, Tree},
    resources::{KINDS, Kind},
};

/// All state that requests can see.
#[derive(Debug)]
pub(crate) struct Store {
    version: u64,
    shelves: Vec<Shelf>,
}

/// The objects of one kind.
#[derive(Debug)]
struct Shelf {
    objects: BTreeMap<Box<str>, Arc<Stored>>,
    log: EventLog,
    /// Objects per namespace, so that a page can say how many remain without counting them.
    per_namespace: HashMap<CompactString, usize>,
}

impl Store {
    /// An empty store whose logs hold `log_capacity` events per kind.
    pub(crate) fn new(log_capacity: usize) -> Self {
        let shelf = || Shelf {
            objects: BTreeMap::new(),
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
        self.shelf(kind).objects.get(&object::key(namespace, name))
    }

    /// How many objects of a kind a namespace holds; all of them if it is empty.
    pub(crate) fn count(&self, kind: Kind, namespace: &str) -> usize {
        let shelf = self.shelf(kind);
        if namespace.is_empty() {
            return shelf.objects.len();
        }
        shelf
            .per_namespace
            .get(namespace)
            .copied()
            .unwrap_or_default()
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
        let start = match after {
            Some(key) => Bound::Excluded(key.to_owned()),
            None => Bound::Included(prefix.clone()),
        };
        self.shelf(kind)
            .objects
            .range::<str, _>((start.as_ref().map(String::as_str), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(&prefix))
            .map(|(_, object)| object)
    }

    /// A kind as it was so many of its changes ago, as far back as events are kept; all other kinds
    /// are empty, and so are the logs.
    pub(crate) fn as_of(&self, kind: Kind, changes: u64) -> Self {
        let mut past = Self::new(0);
        past.version = self.version;
        let shelf = &mut past.shelves[kind as usize];
        shelf.objects = self.shelf(kind).objects.clone();
        let changes = usize::try_from(changes).unwrap_or(usize::MAX);
        for event in self.log(kind).newest(changes) {
            let key = event.object.key();
            match &event.previous {
                Some(previous) => shelf.objects.insert(key, Arc::clone(previous)),
                None => shelf.objects.remove(&key),
            };
            past.version = event.object.version - 1;
        }
        for object in shelf.objects.values() {
            *shelf
                .per_namespace
                .entry(object.namespace.clone())
                .or_default() += 1;
        }
        past
    }

    /// Stores a new state of an object and logs it.
    pub(crate) fn put(&mut self, kind: Kind, tree: &Tree) -> Arc<Stored> {
        self.version += 1;
        let object = Arc::new(Stored::encode(kind, self.version, tree));
        let shelf = &mut self.shelves[kind as usize];
        let previous = shelf.objects.insert(object.key(), Arc::clone(&object));
        if previous.is_none() {
            *shelf
                .per_namespace
                .entry(object.namespace.clone())
                .or_default() += 1;
        }
        let event_type = if previous.is_some() {
            EventType::Modified
        } else {
            EventType::Added
        };
        shelf.log.push(Event {
            event_type,
            object: Arc::clone(&object),
            previous,
        });
        object
    }

    /// Takes in an object of an earlier server: nobody is told.
    pub(crate) fn load(&mut self, object: Stored) -> Arc<Stored> {
        let object = Arc::new(object);
        let shelf = &mut self.shelves[object.kind as usize];
        shelf.objects.insert(object.key(), Arc::clone(&object));
        *shelf
            .per_namespace
            .entry(object.namespace.clone())
            .or_default() += 1;
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
    pub(crate) fn remove(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Stored>> {
        let shelf = &mut self.shelves[kind as usize];
        let last = shelf.objects.remove(&object::key(namespace, name))?;
        if let Some(count) = shelf.per_namespace.get_mut(&last.namespace) {
            *count -= 1;
        }
        self.version += 1;
        let object = Arc::new(last.at_version(self.version));
        let event = Event {
            event_type: EventType::Deleted,
            object: Arc::clone(&object),
            previous: Some(last),
        };
        shelf.log.push(event);
        Some(object)
    }

    fn shelf(&self, kind: Kind) -> &Shelf {
        &self.shelves[kind as usize]
    }
}
