//! Decides which Pods a Job adopts, which it releases, and which Pods without an owner lose the finalizer.
//!
//! Source: docs/rules/jobs.md, 1.6 and 9. The claims keep the selectors of active Jobs and the labels of Pods without
//! an owner. Labels of owned Pods are compared as events arrive and not kept. The work for a Job is a [`Round`]: one
//! live read of the Job, then a patch for each Pod. A Job is on hold from the moment a claim arises until the store has
//! its outcome: until then the Job's Pods are not known. A failed patch holds it until a later round succeeds. Other
//! Jobs go on.
//!
//! Must not: send anything.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry},
    sync::Arc,
};

use compact_str::CompactString;
use hashbrown::{HashMap, HashSet};

use crate::model::{
    Controller, DecodedPod, Exponential, Job, JobId, Monotonic, PodFlags, Selector, Uid,
};

use super::{
    Claimed, Orphan, PatchAnswer, Round, Told,
    hold::{Adopted, Claim, ClaimKind, ClaimState, Freeing, Hold, Patching, Retry},
    namespace::{Namespace, Ownerless, is_over},
};

/// The claims of all Jobs on Pods.
///
/// `handle_*` methods take input. Those for watch events return a [`Told`], to be passed to [`Claims::settle`] once the
/// store has the same event. Then call [`Claims::poll_round`], [`Claims::poll_free`] and [`Claims::poll_resumed`] until
/// they are empty. [`Claims::poll_timeout`] returns when to call [`Claims::handle_timeout`].
#[derive(Debug, Default)]
#[doc(alias = "PodControllerRefManager")]
pub struct Claims {
    retry: Exponential,
    namespaces: BTreeMap<CompactString, Namespace>,
    holds: BTreeMap<JobId, Hold>,
    /// The Jobs with a claim on each Pod.
    claimants: BTreeMap<Uid, BTreeSet<JobId>>,
    frees: BTreeMap<Uid, Freeing>,
    /// Pods with a patch in flight: for a claim, or to remove the finalizer.
    busy: HashMap<Uid, Patching>,
    /// Pods with the resourceVersion of their adoption, until the watch shows it. Older events of them are stale.
    adopted: BTreeMap<Uid, Adopted>,
    /// Jobs that may have a round due.
    ready: BTreeSet<JobId>,
    free_next: VecDeque<Uid>,
    resumed: VecDeque<JobId>,
    timers: BTreeSet<(Monotonic, Retry)>,
}

impl Claims {
    /// Creates an empty set of claims. `retry` is the backoff after a failed patch.
    pub fn new(retry: Exponential) -> Self {
        Self {
            retry,
            ..Self::default()
        }
    }

    /// Handles a new version of a managed Job. A Job that is being deleted or has ended claims nothing.
    pub fn handle_job(&mut self, job: &Job, selector: Option<&Arc<Selector>>) -> Told {
        let at_work = !job.deleting && !job.status.is_finished();
        let Some(selector) = selector.filter(|_| at_work) else {
            return self.handle_job_gone(&job.id());
        };
        let id = job.id();
        let namespace = self.namespace(&id.key.namespace);
        if namespace.has_job(&id) {
            // A Job's selector is immutable.
            return Told::default();
        }
        namespace.add_job(job, selector);
        for (pod, version) in namespace.ownerless_meant_by(job.uid, selector) {
            self.open(&id, pod, version, ClaimKind::Adopt);
        }
        Told::default()
    }

    /// Handles the deletion of a Job.
    pub fn handle_job_gone(&mut self, job: &JobId) -> Told {
        let namespace = job.key.namespace.as_str();
        if let Some(found) = self.namespaces.get_mut(namespace) {
            found.remove_job(job);
            self.tidy(namespace);
        }
        let pods = self.holds.get(job).map(|hold| hold.claims.keys());
        let pods: Vec<Uid> = pods.into_iter().flatten().copied().collect();
        let mut told = Told::default();
        for pod in pods {
            self.close(job, pod, &mut told);
        }
        told
    }

    /// Handles a complete list of the Jobs in a scope.
    pub fn handle_job_list(&mut self, scope: Option<&str>, listed: &HashSet<Uid>) -> Told {
        let namespaces = self.namespaces.iter();
        let known = namespaces
            .filter(|(name, _)| scope.is_none_or(|scope| name.as_str() == scope))
            .flat_map(|(_, found)| found.jobs());
        let gone = known.filter(|job| !listed.contains(&job.uid));
        let gone: Vec<JobId> = gone.cloned().collect();
        let mut told = Told::default();
        for job in gone {
            told.0.extend(self.handle_job_gone(&job).0);
        }
        told
    }

    /// Handles a new version of a Pod.
    pub fn handle_pod(&mut self, pod: &DecodedPod<'_>) -> Told {
        let uid = pod.record.uid;
        if let Some(patching) = self.busy.get_mut(&uid) {
            patching.seen = patching.seen.max(pod.record.resource_version);
        }
        if self.is_reported_late(uid, pod.record.resource_version) {
            return Told::default();
        }
        match &pod.controller {
            Controller::None => self.ownerless(pod),
            Controller::Job(job) => {
                self.forget_ownerless(uid, &pod.namespace);
                let strays = self.strays(pod, job);
                let told = self.keep_claims(uid, |claimant, kind| {
                    strays && claimant == job && kind == ClaimKind::Release
                });
                if strays {
                    let version = pod.record.resource_version;
                    let pod = Claimed::new(uid, &pod.name);
                    self.open(job, pod, version, ClaimKind::Release);
                }
                told
            }
            Controller::Other => {
                self.forget_ownerless(uid, &pod.namespace);
                self.keep_claims(uid, |_, _| false)
            }
        }
    }

    /// Handles the deletion of a Pod.
    pub fn handle_pod_gone(&mut self, pod: Uid, namespace: &str) -> Told {
        self.forget_ownerless(pod, namespace);
        self.adopted.remove(&pod);
        if let Some(patching) = self.busy.get_mut(&pod) {
            patching.seen = u64::MAX;
        }
        self.keep_claims(pod, |_, _| false)
    }

    /// Handles a complete list of the Pods in a scope as of `version`.
    pub fn handle_pod_list(
        &mut self,
        scope: Option<&str>,
        listed: &HashSet<Uid>,
        version: u64,
    ) -> Told {
        let in_scope = |name: &str| scope.is_none_or(|scope| name == scope);
        let mut lost: BTreeSet<(Uid, CompactString)> = BTreeSet::new();
        for (name, namespace) in self.namespaces.iter().filter(|(name, _)| in_scope(name)) {
            let pods = namespace.ownerless.iter();
            let old = pods.filter(|(_, pod)| pod.version <= version);
            lost.extend(old.map(|(uid, _)| (*uid, name.clone())));
        }
        let holds = self.holds.iter();
        for (job, hold) in holds.filter(|(job, _)| in_scope(&job.key.namespace)) {
            let claims = hold.claims.iter();
            let old = claims.filter(|(_, claim)| !claim.is_newer_than(version));
            lost.extend(old.map(|(uid, _)| (*uid, job.key.namespace.clone())));
        }
        let frees = self.frees.values().map(|free| &free.orphan);
        let frees = frees.filter(|orphan| in_scope(&orphan.namespace));
        lost.extend(frees.map(|orphan| (orphan.uid, orphan.namespace.clone())));
        let adopted = self.adopted.iter();
        let old = adopted.filter(|(_, pod)| in_scope(&pod.namespace) && pod.version <= version);
        lost.extend(old.map(|(uid, pod)| (*uid, pod.namespace.clone())));
        let mut all = Told::default();
        for (pod, namespace) in lost.iter().filter(|(uid, _)| !listed.contains(uid)) {
            all.0.extend(self.handle_pod_gone(*pod, namespace).0);
        }
        all
    }

    /// Records that the store has the event that returned `told`.
    pub fn settle(&mut self, told: Told) {
        for job in told.0 {
            if let Some(hold) = self.holds.get_mut(&job) {
                hold.unsettled -= 1;
                self.resume(&job);
            }
        }
    }

    /// Handles the outcomes of a round's patches.
    pub fn handle_round(&mut self, round: &Round, answers: &[(Uid, PatchAnswer)], now: Monotonic) {
        let job = &round.job;
        let mut failed = false;
        for (pod, answer) in answers {
            let patching = self.busy.remove(pod);
            let adopts = patching.filter(|patching| patching.kind == Some(ClaimKind::Adopt));
            if let (PatchAnswer::Done(version), Some(patching)) = (answer, adopts)
                && patching.seen < *version
            {
                self.adopted(round, *pod, *version);
            }
            let claim = self.holds.get_mut(job);
            let claim = claim.and_then(|hold| hold.claims.get_mut(pod));
            let is_open = matches!(answer, PatchAnswer::Failed | PatchAnswer::Unknown);
            failed |= claim.is_some() && is_open;
            if let Some(claim) = claim {
                match (claim.state, answer) {
                    (ClaimState::Withdrawn, _) | (ClaimState::Sent, PatchAnswer::Ignored) => {
                        self.drop_claim(job, *pod);
                    }
                    (ClaimState::Sent, PatchAnswer::Done(at)) => {
                        claim.state = ClaimState::Done(*at)
                    }
                    (ClaimState::Sent, PatchAnswer::Failed | PatchAnswer::Unknown) => {
                        claim.state = ClaimState::Wanted;
                        claim.is_doubted |= *answer == PatchAnswer::Unknown;
                    }
                    // It was reopened meanwhile and is still pending.
                    (ClaimState::Wanted | ClaimState::Done(_), _) => {}
                }
            }
            self.no_longer_busy(*pod);
        }
        let Some(hold) = self.holds.get_mut(job) else {
            return;
        };
        hold.under_way = false;
        if failed {
            hold.failures = hold.failures.saturating_add(1);
            let at = now + self.retry.delay(hold.failures);
            hold.retry_at = Some(at);
            self.timers.insert((at, Retry::Round(job.clone())));
        } else {
            hold.failures = 0;
        }
        self.ready.insert(job.clone());
        self.resume(job);
    }

    /// Records that the server has made the Job the Pod's owner, even if later events ended the claim. The Job waits
    /// until the store has the Pod.
    fn adopted(&mut self, round: &Round, pod: Uid, version: u64) {
        self.frees.remove(&pod);
        let adopted = Adopted {
            version,
            namespace: round.job.key.namespace.clone(),
        };
        self.adopted.insert(pod, adopted);
        let claimed = round.adopt.iter().find(|claimed| claimed.pod == pod);
        let found = self.namespaces.get(&round.job.key.namespace);
        let at_work = found.is_some_and(|found| found.has_job(&round.job));
        if let Some(claimed) = claimed.filter(|_| at_work) {
            self.open(&round.job, claimed.clone(), version, ClaimKind::Adopt);
            let hold = self.holds.get_mut(&round.job);
            if let Some(claim) = hold.and_then(|hold| hold.claims.get_mut(&pod)) {
                claim.state = ClaimState::Done(version);
            }
        }
    }

    /// Handles the outcome of a finalizer removal from a Pod without an owner.
    pub fn handle_freed(&mut self, pod: Uid, freed: bool, now: Monotonic) {
        if freed {
            self.frees.remove(&pod);
        } else if let Some(free) = self.frees.get_mut(&pod) {
            free.failures = free.failures.saturating_add(1);
            let at = now + self.retry.delay(free.failures);
            free.retry_at = Some(at);
            self.timers.insert((at, Retry::Free(pod)));
        }
        self.no_longer_busy(pod);
    }

    /// Handles expired timers; does nothing when none has expired.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        while let Some((at, _)) = self.timers.first()
            && *at <= now
            && let Some((at, retry)) = self.timers.pop_first()
        {
            let Some(due) = self.retry_at(&retry).filter(|due| **due == Some(at)) else {
                continue;
            };
            *due = None;
            match retry {
                Retry::Round(job) => drop(self.ready.insert(job)),
                Retry::Free(pod) => self.free_next.push_back(pod),
            }
        }
    }

    fn retry_at(&mut self, retry: &Retry) -> Option<&mut Option<Monotonic>> {
        Some(match retry {
            Retry::Round(job) => &mut self.holds.get_mut(job)?.retry_at,
            Retry::Free(pod) => &mut self.frees.get_mut(pod)?.retry_at,
        })
    }

    /// Returns true if a Job must wait because it does not know yet which Pods it has.
    pub fn holds(&self, job: &JobId) -> bool {
        self.holds.get(job).is_some_and(|hold| !hold.is_over())
    }

    /// Returns a Job's next round. A Job has one round at a time. A Pod with another patch in flight waits.
    pub fn poll_round(&mut self) -> Option<Round> {
        while let Some(job) = self.ready.pop_first() {
            let Some(hold) = self.holds.get_mut(&job) else {
                continue;
            };
            if hold.under_way || hold.retry_at.is_some() {
                continue;
            }
            let mut round = Round {
                job,
                adopt: Vec::new(),
                release: Vec::new(),
            };
            for (pod, claim) in &mut hold.claims {
                if claim.state != ClaimState::Wanted || self.busy.contains_key(pod) {
                    continue;
                }
                self.busy.insert(*pod, Patching::of(Some(claim.kind)));
                claim.state = ClaimState::Sent;
                let pods = match claim.kind {
                    ClaimKind::Adopt => &mut round.adopt,
                    ClaimKind::Release => &mut round.release,
                };
                pods.push(Claimed::new(*pod, &claim.name));
            }
            if !(round.adopt.is_empty() && round.release.is_empty()) {
                hold.under_way = true;
                return Some(round);
            }
        }
        None
    }

    /// Returns the next Pod that must lose our finalizer. Call it after [`Claims::poll_round`], because a Pod that a
    /// Job claims is adopted with its finalizer on. A Pod that may already be adopted keeps it: it may have to be
    /// counted.
    pub fn poll_free(&mut self) -> Option<Orphan> {
        while let Some(pod) = self.free_next.pop_front() {
            let free = self.frees.get(&pod);
            if let Some(free) = free.filter(|free| free.retry_at.is_none())
                && !self.busy.contains_key(&pod)
                && !self.may_be_adopted(pod)
            {
                self.busy.insert(pod, Patching::of(None));
                return Some(free.orphan.clone());
            }
        }
        None
    }

    /// Returns true if an adoption of the Pod may have been applied although no response arrived.
    fn may_be_adopted(&self, pod: Uid) -> bool {
        let mut jobs = self.claimants.get(&pod).into_iter().flatten();
        jobs.any(|job| {
            let hold = self.holds.get(job);
            let claim = hold.and_then(|hold| hold.claims.get(&pod));
            claim.is_some_and(|claim| claim.is_doubted)
        })
    }

    /// Returns the next Job that is no longer on hold and must run.
    pub fn poll_resumed(&mut self) -> Option<JobId> {
        self.resumed.pop_front()
    }

    /// Returns when to call [`Claims::handle_timeout`].
    pub fn poll_timeout(&mut self) -> Option<Monotonic> {
        while let Some((at, retry)) = self.timers.first().cloned() {
            if self.retry_at(&retry).is_some_and(|due| *due == Some(at)) {
                return Some(at);
            }
            // The subject of the retry no longer exists.
            self.timers.pop_first();
        }
        None
    }

    /// Returns true if no state of any Pod or Job is kept.
    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
            && self.holds.is_empty()
            && self.claimants.is_empty()
            && self.frees.is_empty()
            && self.busy.is_empty()
            && self.adopted.is_empty()
    }

    fn namespace(&mut self, name: &CompactString) -> &mut Namespace {
        self.namespaces.entry(name.clone()).or_default()
    }

    /// Returns true if this version of the Pod is older than its adoption.
    fn is_reported_late(&mut self, pod: Uid, version: u64) -> bool {
        let adopted = self.adopted.get(&pod);
        let late = adopted.is_some_and(|adopted| version < adopted.version);
        if !late {
            self.adopted.remove(&pod);
        }
        late
    }

    /// Keeps a Pod without an owner. All Jobs with a matching selector claim it. The first patch wins: the server
    /// accepts no second controller.
    fn ownerless(&mut self, pod: &DecodedPod<'_>) -> Told {
        let record = &pod.record;
        let uid = record.uid;
        let adoptable = !record.has(PodFlags::DELETING) && !pod.labels.is_empty();
        let namespace = self.namespace(&pod.namespace);
        let meaning = match adoptable {
            true => namespace.jobs_that_mean(pod),
            false => BTreeSet::new(),
        };
        if adoptable {
            let ownerless = Ownerless {
                name: pod.name.clone(),
                labels: pod.labels.to_labels(),
                version: record.resource_version,
                is_over: is_over(record),
            };
            namespace.ownerless.insert(uid, ownerless);
        } else {
            namespace.ownerless.remove(&uid);
            self.tidy(&pod.namespace);
        }
        let told = self.keep_claims(uid, |job, kind| {
            kind == ClaimKind::Adopt && meaning.contains(job)
        });
        for job in &meaning {
            let claimed = Claimed::new(uid, &pod.name);
            self.open(job, claimed, record.resource_version, ClaimKind::Adopt);
        }
        match self.frees.entry(uid) {
            Entry::Occupied(known) if !record.has(PodFlags::FINALIZER) => drop(known.remove()),
            Entry::Vacant(new) if record.has(PodFlags::FINALIZER) => {
                new.insert(Freeing::of(pod));
                self.free_next.push_back(uid);
            }
            Entry::Occupied(_) | Entry::Vacant(_) => {}
        }
        told
    }

    /// Returns true if the Job that owns a Pod no longer selects it.
    fn strays(&self, pod: &DecodedPod<'_>, job: &JobId) -> bool {
        let namespace = self.namespaces.get(&job.key.namespace);
        namespace.is_some_and(|namespace| namespace.strays(pod, job))
    }

    /// Opens a claim for a version of a Pod. Reopens it if that version shows its patch undone.
    fn open(&mut self, job: &JobId, pod: Claimed, version: u64, kind: ClaimKind) {
        let hold = self.holds.entry(job.clone()).or_default();
        let claim = hold.claims.entry(pod.pod).or_insert_with(|| Claim {
            kind,
            name: pod.name,
            state: ClaimState::Wanted,
            is_doubted: false,
        });
        match claim.state {
            ClaimState::Done(at) if at <= version => claim.state = ClaimState::Wanted,
            ClaimState::Withdrawn => claim.state = ClaimState::Sent,
            ClaimState::Wanted | ClaimState::Sent | ClaimState::Done(_) => {}
        }
        let claimants = self.claimants.entry(pod.pod).or_default();
        claimants.insert(job.clone());
        self.ready.insert(job.clone());
    }

    /// Ends the claims on a Pod for which `keep` returns false. An adoption in flight keeps its Job waiting: a Job that
    /// counted the Pod now would count it again after the adoption.
    fn keep_claims(&mut self, pod: Uid, keep: impl Fn(&JobId, ClaimKind) -> bool) -> Told {
        let mut told = Told::default();
        let mut ended = Vec::new();
        for job in self.claimants.get(&pod).into_iter().flatten() {
            let hold = self.holds.get_mut(job);
            let Some(claim) = hold.and_then(|hold| hold.claims.get_mut(&pod)) else {
                continue;
            };
            match (claim.kind, claim.state) {
                _ if keep(job, claim.kind) => {}
                (ClaimKind::Adopt, ClaimState::Sent | ClaimState::Withdrawn) => {
                    claim.state = ClaimState::Withdrawn;
                }
                _ => ended.push(job.clone()),
            }
        }
        for job in &ended {
            self.close(job, pod, &mut told);
        }
        told
    }

    /// Ends a claim because of an event that the store does not have yet.
    fn close(&mut self, job: &JobId, pod: Uid, told: &mut Told) {
        self.drop_claim(job, pod);
        if let Some(hold) = self.holds.get_mut(job) {
            hold.unsettled += 1;
            told.0.push(job.clone());
        }
    }

    fn drop_claim(&mut self, job: &JobId, pod: Uid) {
        if let Some(hold) = self.holds.get_mut(job) {
            hold.claims.remove(&pod);
        }
        if let Some(jobs) = self.claimants.get_mut(&pod) {
            jobs.remove(job);
            if jobs.is_empty() {
                self.claimants.remove(&pod);
                self.free_next
                    .extend(self.frees.contains_key(&pod).then_some(pod));
            }
        }
    }

    /// Resumes a Job that is no longer on hold.
    fn resume(&mut self, job: &JobId) {
        if let Some(hold) = self.holds.get(job)
            && hold.is_over()
        {
            self.resumed.push_back(job.clone());
            if !hold.under_way {
                self.holds.remove(job);
            }
        }
    }

    fn no_longer_busy(&mut self, pod: Uid) {
        self.busy.remove(&pod);
        let jobs = self.claimants.get(&pod).into_iter().flatten();
        self.ready.extend(jobs.cloned());
        if self.frees.contains_key(&pod) {
            self.free_next.push_back(pod);
        }
    }

    fn forget_ownerless(&mut self, pod: Uid, namespace: &str) {
        self.frees.remove(&pod);
        if let Some(found) = self.namespaces.get_mut(namespace)
            && found.ownerless.remove(&pod).is_some()
        {
            self.tidy(namespace);
        }
    }

    /// Drops an empty namespace.
    fn tidy(&mut self, namespace: &str) {
        let known = self.namespaces.get(namespace);
        if known.is_some_and(Namespace::is_empty) {
            self.namespaces.remove(namespace);
        }
    }
}

#[cfg(test)]
mod tests;
