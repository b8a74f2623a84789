//! Runs all lists and watches of a controller, and orders the first lists.
//!
//! A Pod is matched against its Job's selector as it arrives, so Jobs are listed before all other kinds of their
//! namespace. No kind waits for another but Jobs: a kind that may not be listed blocks only the features that need it.
//!
//! A restore of the server from a backup starts a new history of the cluster's objects. Known resourceVersions then
//! mean something else, and nothing in the cache can be trusted. Each reflector forgets its objects and lists anew, in
//! the same order. A controller does nothing until the kinds that it needs are listed, as if it had just started. It
//! also pauses while it is in doubt whether the history is the same. After a connection broke, nothing irreversible is
//! done until the server's data have been compared with the last event.
//!
//! Must not: know shards, or how they use the events.

use std::{collections::VecDeque, sync::Arc};

use lakh_model::{Monotonic, Now, Timeout};
use lakh_wire::{PodDecoder, SchedulingApi, paths};

use crate::{
    machine::{CallId, Input, Request},
    metrics::Metrics,
    rate_limiter::{Allowance, Limiter},
};

use super::{
    asked::AskedJobs,
    contact::Contact,
    news::{Extent, Kind, Kinds, Notice},
    outside::Outside,
    page_size::PageBounds,
    read_ranges::ReadRanges,
    reflector::{Reflector, Tell},
};

/// Bit that is set in the ids of informers' requests and clear in those of shards.
const OWN: CallId = 1 << 63;

/// Returns true if a request is an informer's.
pub fn is_informers(id: CallId) -> bool {
    id & OWN != 0
}

/// Configuration of the lists and watches.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The kinds; Jobs come first and are listed first.
    pub kinds: Vec<Kind>,
    /// The namespaces; empty for all.
    pub namespaces: Vec<String>,
    /// The finalizer that marks tracked Pods.
    pub finalizer: &'static str,
    /// API of the gang objects, if gangs are enabled.
    pub api: Option<SchedulingApi>,
    /// The failure summary is on for all Jobs, not only for those that ask for it.
    pub summarizes_all: bool,
    /// The bounds of the pages of lists.
    pub pages: PageBounds,
}

impl Watched {
    fn path(&self, extent: &Extent) -> String {
        let namespace = extent.namespace.as_deref();
        let api = self.api.as_ref();
        match extent.kind {
            Kind::Job => paths::jobs(namespace),
            Kind::Pod => paths::pods(namespace),
            Kind::CronJob => paths::cron_jobs(namespace),
            Kind::Workload => api.map_or_else(String::new, |api| api.workloads(namespace)),
            Kind::PodGroup => api.map_or_else(String::new, |api| api.pod_groups(namespace)),
        }
    }
}

/// All reflectors of a controller, in order of namespaces; Jobs come first in each namespace. Objects leave through
/// [`handle`](Self::handle), notices through [`poll_notice`](Self::poll_notice).
#[derive(Debug)]
pub struct Informers {
    reflectors: Vec<Reflector>,
    /// Number of kinds, and so of consecutive reflectors of one namespace.
    kinds: usize,
    outside: Outside,
    /// The last [`Notice::History`] that was sent.
    told: Option<Notice>,
    limiter: Allowance,
    next_id: CallId,
    /// Time until which the rate limiter delays all requests.
    limited_until: Timeout,
}

impl Informers {
    /// Starts without any object; the first requests list the Jobs.
    pub fn new(watched: &Watched, limiter: &Arc<Limiter>, metrics: Arc<Metrics>) -> Self {
        let namespaces: Vec<Option<Arc<str>>> = match watched.namespaces.as_slice() {
            [] => vec![None],
            some => some.iter().map(|name| Some(name.as_str().into())).collect(),
        };
        let decoder = PodDecoder {
            finalizer: watched.finalizer,
        };
        let mut reflectors = Vec::new();
        for namespace in namespaces {
            for kind in &watched.kinds {
                let extent = Extent {
                    kind: *kind,
                    namespace: namespace.clone(),
                };
                let path = watched.path(&extent);
                let contact = Contact::new(metrics.watch(kind.plural(), namespace.clone()));
                reflectors.push(Reflector::new(
                    extent,
                    path,
                    decoder.clone(),
                    watched.pages,
                    contact,
                ));
            }
        }
        Self {
            outside: Outside {
                history: 0,
                round: 0,
                notices: VecDeque::new(),
                abandoned: VecDeque::new(),
                ranges: None,
                asked: AskedJobs::new(watched.summarizes_all),
                metrics,
                now: Monotonic::default(),
            },
            reflectors,
            kinds: watched.kinds.len(),
            told: None,
            limiter: Allowance::of(limiter),
            next_id: OWN,
            limited_until: Timeout::default(),
        }
    }

    /// Handles the result of a request, and calls `tell` with each object in it.
    pub fn handle(&mut self, input: Input, now: Now, tell: Tell<'_>) {
        let id = input.id();
        let mut waiting = self.reflectors.iter_mut();
        let Some(reflector) = waiting.find(|reflector| reflector.waits_for(id)) else {
            return;
        };
        self.outside.now = now.monotonic;
        reflector.handle(input, &mut self.outside, tell);
        self.tell_history();
    }

    /// Ends a history: a shard has found that the server's data are from another one.
    pub fn history_ends(&mut self, number: u64) {
        self.outside.end_history(number);
        self.tell_history();
    }

    /// Forgets everything and lists anew: the cache may be older than another controller's writes.
    pub fn start_over(&mut self) {
        self.history_ends(self.outside.history);
    }

    /// Lists everything anew and keeps the cache, for a caller that needs data no older than this moment. Returns the
    /// round; [`Notice::History`] carries it with the kinds that have been listed since.
    pub fn list_anew(&mut self) -> u64 {
        self.outside.round += 1;
        self.outside.round
    }

    /// Restricts lists and watches to these ranges; watches continue from their versions. Objects of added ranges are
    /// missing until everything has been listed anew.
    pub fn read_only(&mut self, ranges: ReadRanges) {
        let before = self.outside.query().to_owned();
        self.outside.ranges = Some(ranges);
        if self.outside.query() != before {
            for reflector in &mut self.reflectors {
                reflector.watch_anew(&mut self.outside);
            }
        }
    }

    /// Returns the round of the last [`list_anew`](Self::list_anew).
    pub fn round(&self) -> u64 {
        self.outside.round
    }

    /// Returns the extent of each list and watch.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.reflectors.iter().map(|one| &one.extent)
    }

    /// Returns the last [`Notice::History`], if one was sent.
    pub fn told_history(&self) -> Option<&Notice> {
        self.told.as_ref()
    }

    /// Queues a notice for all shards, behind those already queued.
    pub fn tell(&mut self, notice: Notice) {
        self.outside.notices.push_back(notice);
    }

    fn tell_history(&mut self) {
        let (number, round) = (self.outside.history, self.outside.round);
        let all = self.reflectors.iter();
        let without = |kinds: Kinds, one: &Reflector| kinds.without(one.extent.kind);
        let now = Notice::History {
            number,
            known: all
                .clone()
                .filter(|one| !one.knows(number))
                .fold(Kinds::ALL, without),
            is_heard: !all.clone().any(|one| one.has_lost(number)),
            round,
            listed: all
                .filter(|one| !one.knows(number) || one.listed != Some(round))
                .fold(Kinds::ALL, without),
        };
        if self.told.as_ref() != Some(&now) {
            self.told = Some(now.clone());
            self.outside.notices.push_back(now);
        }
    }

    /// Returns the next request.
    pub fn poll_request(&mut self, now: Now) -> Option<Request> {
        self.limited_until = Timeout::default();
        self.outside.now = now.monotonic;
        for at in 0..self.reflectors.len() {
            let jobs = at - at % self.kinds;
            let waited_for = (at != jobs).then(|| &self.reflectors[jobs]);
            let (history, round) = (Some(self.outside.history), Some(self.outside.round));
            let waits = waited_for.is_some_and(|jobs| jobs.synced < history);
            // Its watch goes on until the Jobs are listed.
            let may_list_anew = waited_for.is_none_or(|jobs| jobs.listed >= round);
            let reflector = &mut self.reflectors[at];
            // Before the check below: a pause left from the previous history would expire, and be due again and again.
            reflector.follow(may_list_anew, &mut self.outside);
            if reflector.begins() && waits {
                continue;
            }
            reflector.give_up_silent(&mut self.outside);
            if !reflector.is_due(now.monotonic) {
                continue;
            }
            if let Some(due) = self.limiter.due_at(now.monotonic) {
                self.limited_until = due.into();
                break;
            }
            self.limiter.spend();
            self.next_id += 1;
            let (call, is_watch) = reflector.request(self.next_id, &self.outside);
            return Some(Request {
                id: self.next_id,
                call,
                is_watch,
            });
        }
        self.tell_history();
        None
    }

    /// Returns true if answers of this request may be batched: Pod events are many, and no Job starts with one.
    pub fn gathers(&self, id: CallId) -> bool {
        let mut waiting = self.reflectors.iter();
        let found = waiting.find(|reflector| reflector.waits_for(id));
        found.is_some_and(|found| found.extent.kind == Kind::Pod)
    }

    /// Returns the time at which to poll for requests again if no input arrives.
    pub fn poll_timeout(&self) -> Timeout {
        if self.limited_until != Timeout::default() {
            return self.limited_until;
        }
        let due = self.reflectors.iter().filter_map(Reflector::due_at);
        due.min().into()
    }

    /// Returns a stream that is no longer needed.
    pub fn poll_abandoned(&mut self) -> Option<CallId> {
        self.outside.abandoned.pop_front()
    }

    /// Returns the next notice for all shards; it comes after the objects before it.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.outside.notices.pop_front()
    }

    /// Returns the kinds of which at least one namespace was never listed in full.
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = self.reflectors.iter().filter(|one| one.synced.is_none());
        let mut kinds: Vec<_> = missing.map(|one| one.extent.kind.plural()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}
