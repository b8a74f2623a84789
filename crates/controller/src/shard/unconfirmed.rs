//! Tracks versions that are known from responses to our writes, and that no list or watch has shown yet.
//!
//! A list may be older than such a response, and a watch may break before it shows the version. The next watch must
//! then show the object before it passes that version. Otherwise the server was restored from a backup without that
//! write. A caller that cannot wait for the watch reads the object from the server.
//!
//! Must not: keep anything while lists and watches are newer than all cached versions, as they nearly always are.

use std::sync::Arc;

use hashbrown::HashMap;

use lakh_model::Uid;

use crate::informer::Kind;

/// The version of an object known from a response.
#[derive(Debug)]
struct ToldVersion {
    version: u64,
    /// A read of the object is in flight.
    is_asked: bool,
}

/// Objects of a kind that one watch covers.
type Objects = HashMap<Uid, ToldVersion>;

/// The unconfirmed versions, by kind and watch. Empty nearly always.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed(HashMap<(Kind, Option<Arc<str>>), Objects>);

impl Unconfirmed {
    /// Replaces the versions of a scope after a complete list; `newer` are objects cached in a newer version.
    pub(super) fn listed(
        &mut self,
        kind: Kind,
        namespace: Option<Arc<str>>,
        newer: impl Iterator<Item = (Uid, u64)>,
    ) {
        self.forget(kind, namespace.as_ref());
        self.told(kind, namespace, newer);
    }

    /// Adds versions from responses that the watch cannot be relied on to show.
    pub(super) fn told(
        &mut self,
        kind: Kind,
        namespace: Option<Arc<str>>,
        newer: impl Iterator<Item = (Uid, u64)>,
    ) {
        let mut newer = newer.peekable();
        if newer.peek().is_none() {
            return;
        }
        let objects = self.0.entry((kind, namespace)).or_default();
        for (uid, version) in newer {
            let told = objects.entry(uid).or_insert(ToldVersion {
                version,
                is_asked: false,
            });
            told.version = told.version.max(version);
        }
    }

    /// Confirms this version of an object: a list, a watch or a response has shown it.
    pub(super) fn shown(&mut self, kind: Kind, uid: Uid, version: u64) {
        if self.0.is_empty() {
            return;
        }
        self.0.retain(|(of, _), objects| {
            if *of == kind
                && objects
                    .get(&uid)
                    .is_some_and(|told| told.version <= version)
            {
                objects.remove(&uid);
            }
            !objects.is_empty()
        });
    }

    /// Returns true if a version of the object is unconfirmed.
    pub(super) fn has(&self, kind: Kind, uid: Uid) -> bool {
        let mut all = self.0.iter();
        all.any(|((of, _), objects)| *of == kind && objects.contains_key(&uid))
    }

    /// Starts a read of an object. Returns the unconfirmed version; none, if a read is in flight.
    pub(super) fn ask(&mut self, kind: Kind, uid: Uid) -> Option<u64> {
        let told = self.told_mut(kind, uid).filter(|told| !told.is_asked)?;
        told.is_asked = true;
        Some(told.version)
    }

    /// Records the end of a read.
    pub(super) fn answered(&mut self, kind: Kind, uid: Uid) {
        if let Some(told) = self.told_mut(kind, uid) {
            told.is_asked = false;
        }
    }

    fn told_mut(&mut self, kind: Kind, uid: Uid) -> Option<&mut ToldVersion> {
        let mut of_kind = self.0.iter_mut().filter(|((of, _), _)| *of == kind);
        of_kind.find_map(|(_, objects)| objects.get_mut(&uid))
    }

    /// Returns true if the watch has passed a version that it did not show.
    pub(super) fn is_overdue(&self, kind: Kind, namespace: Option<&Arc<str>>, seen: u64) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let objects = self.0.get(&(kind, namespace.cloned()));
        objects.is_some_and(|objects| objects.values().any(|told| told.version <= seen))
    }

    /// Forgets the versions of a scope.
    pub(super) fn forget(&mut self, kind: Kind, namespace: Option<&Arc<str>>) {
        self.0.remove(&(kind, namespace.cloned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_passes_what_an_answer_told_must_have_shown_it() {
        let mut unconfirmed = Unconfirmed::default();
        let (one, other) = (Uid::from_u128(1), Uid::from_u128(2));
        unconfirmed.listed(Kind::Pod, None, [(one, 12), (other, 15)].into_iter());
        assert!(!unconfirmed.is_overdue(Kind::Pod, None, 11));
        assert!(unconfirmed.is_overdue(Kind::Pod, None, 12));
        assert!(!unconfirmed.is_overdue(Kind::Job, None, 20));
        unconfirmed.shown(Kind::Pod, one, 11);
        assert!(unconfirmed.is_overdue(Kind::Pod, None, 12));
        unconfirmed.shown(Kind::Pod, one, 12);
        assert!(!unconfirmed.is_overdue(Kind::Pod, None, 14));
        assert!(unconfirmed.is_overdue(Kind::Pod, None, 15));
        unconfirmed.shown(Kind::Pod, other, 20);
        assert!(unconfirmed.0.is_empty());
    }

    #[test]
    fn the_server_is_asked_once_at_a_time_for_what_is_to_be_confirmed() {
        let mut unconfirmed = Unconfirmed::default();
        let job = Uid::from_u128(1);
        unconfirmed.told(Kind::Job, None, [(job, 12)].into_iter());
        assert!(unconfirmed.has(Kind::Job, job) && !unconfirmed.has(Kind::Pod, job));
        assert_eq!(unconfirmed.ask(Kind::Job, job), Some(12));
        assert_eq!(unconfirmed.ask(Kind::Job, job), None);
        // Another response has a newer version meanwhile: confirming the first is not enough.
        unconfirmed.told(Kind::Job, None, [(job, 14)].into_iter());
        unconfirmed.answered(Kind::Job, job);
        unconfirmed.shown(Kind::Job, job, 12);
        assert_eq!(unconfirmed.ask(Kind::Job, job), Some(14));
        unconfirmed.shown(Kind::Job, job, 14);
        assert!(!unconfirmed.has(Kind::Job, job));
        // A list as new as all cached versions confirms them.
        unconfirmed.told(Kind::Job, None, [(job, 20)].into_iter());
        unconfirmed.listed(Kind::Job, None, std::iter::empty());
        assert!(unconfirmed.0.is_empty());
    }
}
