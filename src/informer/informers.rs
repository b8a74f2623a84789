//! All lists and watches of a controller, and the order in which they begin.
//!
//! A Pod is compared with its Job's selector as it comes, so Jobs are listed before all else of their namespace. No
//! kind waits for another but Jobs: one that may not be listed holds up nobody who does not need it.
//!
//! The history of the cluster's objects becomes another one when the server's data are those of a backup: then
//! versions mean something else, and nothing that was known can be trusted. Each reflector then forgets what it knows
//! and lists anew, in the same order. Until those have done so that a controller needs, it does nothing: it is as if
//! another had started. Nor does it while somebody doubts that the history is still the same. And while a connection
//! broke and nobody has compared yet what the server has with what it told, nothing is done that could not be made
//! good.
//!
//! Must not: know shards, or what becomes of the news.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    machine::{CallId, Input, Request},
    metrics::Metrics,
    model::{Monotonic, Now, Timeout},
    rate_limiter::{Allowance, Limiter},
    wire::{PodDecoder, SchedulingApi, paths},
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

/// By this bit the requests of informers are told from those of shards.
const OWN: CallId = 1 << 63;

/// Whether a request is one of the informers'.
pub fn is_informers(id: CallId) -> bool {
    id & OWN != 0
}

/// What is listed and watched.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The kinds; Jobs are the first, and listed first.
    pub kinds: Vec<Kind>,
    /// The namespaces; none for all.
    pub namespaces: Vec<String>,
    /// By which Pods are known to be held.
    pub finalizer: &'static str,
    /// Where the objects of gangs are, where those are asked for.
    pub api: Option<SchedulingApi>,
    /// Whether it is read of all Jobs how their Pods fail, and not only of those that ask for it.
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

/// See the module's text.
#[derive(Debug)]
pub struct Informers {
    reflectors: Vec<Reflector>,
    /// How many kinds there are; so many reflectors in a row are of one namespace.
    kinds: usize,
    outside: Outside,
    /// What was told of the history last.
    told: Option<Notice>,
    limiter: Allowance,
    next_id: CallId,
    /// Until when the limit on calls a second holds everything up.
    limited_until: Timeout,
}

impl Informers {
    /// Nothing is known yet.
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

    /// Takes in what became of a request; tells each object that it shows.
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

    /// The server tells another history than this one: a shard has found out.
    pub fn history_ends(&mut self, number: u64) {
        self.outside.end_history(number);
        self.tell_history();
    }

    /// All is to be listed anew: what is known may be older than what another controller did.
    pub fn start_over(&mut self) {
        self.history_ends(self.outside.history);
    }

    /// All is to be listed anew, and what is known stays: somebody needs what is no older than this moment. Gives the
    /// number by which it is told what has been listed since.
    pub fn list_anew(&mut self) -> u64 {
        self.outside.round += 1;
        self.outside.round
    }

    /// What is asked for from now on is just this; watches go on with it where they are. What was not read before is
    /// missing until all has been listed anew.
    pub fn read_only(&mut self, ranges: ReadRanges) {
        let before = self.outside.query().to_owned();
        self.outside.ranges = Some(ranges);
        if self.outside.query() != before {
            for reflector in &mut self.reflectors {
                reflector.watch_anew(&mut self.outside);
            }
        }
    }

    /// By which number it is told what has been listed since that was asked last.
    pub fn round(&self) -> u64 {
        self.outside.round
    }

    /// What each list and watch covers.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.reflectors.iter().map(|one| &one.extent)
    }

    /// What was told of the history last, if anything.
    pub fn told_history(&self) -> Option<&Notice> {
        self.told.as_ref()
    }

    /// Something else is to be told to all shards, after what is to be told already.
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

    /// Gives the next request.
    pub fn poll_request(&mut self, now: Now) -> Option<Request> {
        self.limited_until = Timeout::default();
        self.outside.now = now.monotonic;
        for at in 0..self.reflectors.len() {
            let jobs = at - at % self.kinds;
            let waited_for = (at != jobs).then(|| &self.reflectors[jobs]);
            let (history, round) = (Some(self.outside.history), Some(self.outside.round));
            let waits = waited_for.is_some_and(|jobs| jobs.synced < history);
            // Until then its watch goes on.
            let may_list_anew = waited_for.is_none_or(|jobs| jobs.listed >= round);
            let reflector = &mut self.reflectors[at];
            // It follows before it waits: a pause of the history before would be over, and due again and again.
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

    /// Whether what a request brings may gather: news of Pods are many, and no Job begins by them.
    pub fn gathers(&self, id: CallId) -> bool {
        let mut waiting = self.reflectors.iter();
        let found = waiting.find(|reflector| reflector.waits_for(id));
        found.is_some_and(|found| found.extent.kind == Kind::Pod)
    }

    /// Gives when to ask for requests again though nothing was heard.
    pub fn poll_timeout(&self) -> Timeout {
        if self.limited_until != Timeout::default() {
            return self.limited_until;
        }
        let due = self.reflectors.iter().filter_map(Reflector::due_at);
        due.min().into()
    }

    /// Gives a stream that nobody waits for any more.
    pub fn poll_abandoned(&mut self) -> Option<CallId> {
        self.outside.abandoned.pop_front()
    }

    /// Gives what is to be told to all shards, after the news that came before.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.outside.notices.pop_front()
    }

    /// The kinds of which some namespace was never listed in full.
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = self.reflectors.iter().filter(|one| one.synced.is_none());
        let mut kinds: Vec<_> = missing.map(|one| one.extent.kind.plural()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}
