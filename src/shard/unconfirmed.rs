//! What answers to own writes have told, and no list or watch has shown yet.
//!
//! A list may be older than such an answer. Then the watch that begins with the list has to show the object before it
//! comes past the version that the answer told. If it has not, the server's data are those of a backup in which
//! that write never happened.
//!
//! Must not: keep anything while lists are newer than all that is known, as they nearly always are.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::{informer::Kind, model::Uid};

/// Objects of a kind that one watch covers, with the versions that answers told.
type Versions = HashMap<Uid, u64>;

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Unconfirmed(HashMap<(Kind, Option<Arc<str>>), Versions>);

impl Unconfirmed {
    /// A list is complete, and these objects are known to be newer than it.
    pub(super) fn listed(
        &mut self,
        kind: Kind,
        namespace: Option<Arc<str>>,
        newer: impl Iterator<Item = (Uid, u64)>,
    ) {
        let versions: Versions = newer.collect();
        match versions.is_empty() {
            true => self.0.remove(&(kind, namespace)),
            false => self.0.insert((kind, namespace), versions),
        };
    }

    /// A list or watch has shown this version of an object.
    pub(super) fn shown(&mut self, kind: Kind, uid: Uid, version: u64) {
        if self.0.is_empty() {
            return;
        }
        self.0.retain(|(of, _), versions| {
            if *of == kind && versions.get(&uid).is_some_and(|told| *told <= version) {
                versions.remove(&uid);
            }
            !versions.is_empty()
        });
    }

    /// A watch has come this far; whether it should have shown something and has not.
    pub(super) fn is_overdue(&self, kind: Kind, namespace: Option<&Arc<str>>, seen: u64) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let versions = self.0.get(&(kind, namespace.cloned()));
        versions.is_some_and(|versions| versions.values().any(|version| *version <= seen))
    }

    /// All is forgotten that a watch covers.
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
}
