//! Stores the records of live Pods.
//!
//! Responsible for: finding a record by UID and by a small number. Must not: read the records.

use compact_str::CompactString;
use hashbrown::HashMap;
use slab::Slab;

use super::life::Pod;

/// A small number for a Pod; it is reused after the Pod is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PodId(usize);

/// The Pods that still need writes or deadlines from this kubelet.
#[derive(Debug, Default)]
pub(super) struct Pods {
    slots: Slab<Box<Pod>>,
    by_uid: HashMap<CompactString, PodId>,
}

impl Pods {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn find(&self, uid: &str) -> Option<PodId> {
        self.by_uid.get(uid).copied()
    }

    pub(super) fn insert(&mut self, pod: Pod) -> PodId {
        let uid = pod.uid.clone();
        let id = PodId(self.slots.insert(Box::new(pod)));
        self.by_uid.insert(uid, id);
        id
    }

    pub(super) fn get_mut(&mut self, id: PodId) -> Option<&mut Pod> {
        self.slots.get_mut(id.0).map(Box::as_mut)
    }

    pub(super) fn find_mut(&mut self, uid: &str) -> Option<(PodId, &mut Pod)> {
        let id = self.find(uid)?;
        Some((id, self.get_mut(id)?))
    }

    pub(super) fn remove(&mut self, id: PodId) -> Option<Box<Pod>> {
        let pod = self.slots.try_remove(id.0)?;
        self.by_uid.remove(&pod.uid);
        Some(pod)
    }
}
