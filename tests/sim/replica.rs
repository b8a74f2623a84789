//! A controller in a simulation: the real one, and what its loops would do for it.
//!
//! It has one part, maybe with several ranges; or informers and several shards, each of which would have a loop and a
//! thread of its own.
//!
//! Must not: decide anything for the controller, or know what its requests are for.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use lakh::{
    controller::{
        Candidate, Common, Feed, LeaderElection, Message, Part, Recipient, Replica, is_candidates,
        kinds,
    },
    informer::{Informers, PageBounds, Watched},
    machine::{CallId, Input, Request},
    metrics::Metrics,
    model::{JobKey, Limits, Monotonic, Now, Time, Uid},
    ownership::{ManagerName, Mode},
    shard::{
        Controllers, Limiter, Question, Rate, RecordMemory, RecordPage, RecordQuery, Settings,
        Shard, WantedRows,
    },
    wire::{ApiError, SchedulingApi},
};

/// When the world begins: 2026-01-01.
const BEGIN: Time = Time::from_secs(1_767_225_600);

/// The date so long after the world began.
pub(crate) fn date(at: u64) -> Time {
    BEGIN + Duration::from_millis(at)
}

/// What records of indexes may take: those of all Jobs of a scenario.
const RECORD_BYTES: usize = 16 << 20;

/// As the released controller has it.
const ALONE_AFTER: Duration = Duration::from_secs(60);

/// How many writes of a shard may be in flight at once.
const MAX_IN_FLIGHT: usize = 16;

/// What a controller is started with.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Calls a second, if there is a limit.
    pub(crate) qps: u32,
    /// How many shards there are with threads of their own.
    pub(crate) shards: usize,
    /// How many Pods a status may list as uncounted.
    pub(crate) max_uncounted: u32,
    /// By what it is known whether it leads, if there is an election.
    pub(crate) election: Option<LeaderElection>,
    /// It gives way to another Job controller.
    pub(crate) gives_way: bool,
    /// It runs beside the built-in controller.
    pub(crate) is_beside: bool,
    /// Where Workloads and PodGroups are, if Jobs that need all their Pods at once get them.
    pub(crate) scheduling_api: Option<SchedulingApi>,
    /// Bytes that templates may take.
    pub(crate) template_bytes: usize,
    /// The bounds of the pages of lists.
    pub(crate) pages: PageBounds,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Which part made it.
    part: usize,
    /// By which number that part knows it.
    own: CallId,
    /// Which shard made it, as that part would say.
    shard: usize,
    /// Whether it is given up when the lead is lost.
    needs_lead: bool,
}

/// A process that runs.
pub(crate) struct Process {
    /// The only part; or the informers, and then the shards.
    parts: Vec<Box<dyn Part>>,
    /// Messages between parts that have not come yet.
    mail: VecDeque<(Recipient, Message)>,
    /// By the numbers that the world knows.
    requests: BTreeMap<CallId, Asked>,
    next_id: CallId,
    /// How many calls wait for their answers.
    calls: usize,
    /// When it last had so many that a write may have waited for a place in flight.
    crowded_at: Option<u64>,
    /// Tells it from those that ran before under the same number.
    pub(crate) incarnation: u64,
    /// When it was started.
    started: u64,
    /// By how many milliseconds its time of day differs.
    pub(crate) skew: i64,
    /// It does nothing until then.
    pub(crate) stalled_until: u64,
    /// What has come meanwhile, in its order.
    pub(crate) backlog: VecDeque<Input>,
    /// When it is to be woken, as was said last.
    pub(crate) wake_at: Option<u64>,
    /// It was asked to stop.
    pub(crate) is_closed: bool,
    /// Which shards led when it was looked at last.
    led: Vec<bool>,
    /// Whether each shard leads by itself.
    shares: bool,
    /// When it knew nothing last.
    pub(crate) knows_since: u64,
    /// How often it had forgotten all when it was looked at last.
    forgot: u64,
    metrics: Arc<Metrics>,
    /// How long each part has computed, if that is measured.
    pub(crate) measured: Option<Vec<Duration>>,
}

impl Process {
    pub(crate) fn new(options: Options, incarnation: u64, at: u64) -> Self {
        let controllers = Controllers::default();
        let mode = match options.is_beside {
            true => Mode::ManagedBy(ManagerName::parse(super::wider::MANAGER).expect("a name")),
            false => Mode::Replace,
        };
        let api = options.scheduling_api;
        let watched = Watched {
            kinds: kinds(controllers, api.is_some()),
            namespaces: Vec::new(),
            finalizer: mode.finalizer(),
            api: api.clone(),
            summarizes_all: false,
            pages: options.pages,
        };
        let settings = Settings {
            controllers,
            mode,
            limits: Limits {
                max_uncounted_pods: options.max_uncounted,
                alone_after: options.gives_way.then_some(ALONE_AFTER),
                ..Limits::default()
            },
            namespaces: Vec::new(),
            max_in_flight: MAX_IN_FLIGHT,
            concurrent_cron_job_syncs: 5,
            concurrent_ttl_syncs: 5,
            scheduling_api: api,
            is_elected: options.election.is_some(),
            summarizes_all: false,
            record_memory: RecordMemory::new(RECORD_BYTES),
            template_bytes: options.template_bytes,
        };
        let limiter = Arc::new(Limiter::new(Rate {
            qps: options.qps,
            burst: options.qps,
        }));
        let metrics = Arc::new(Metrics::default());
        let partition = options.election.as_ref().and_then(|it| it.partition);
        let shares = partition.is_some();
        let parts: Vec<Box<dyn Part>> = match options.shards {
            1 => {
                let replica =
                    Replica::new(&watched, &settings, options.election, &limiter, &metrics);
                vec![Box::new(replica)]
            }
            shards => {
                let informers = Informers::new(&watched, &limiter, Arc::clone(&metrics));
                let candidate = options.election;
                let candidate = candidate.map(|of| Candidate::new(of, Arc::clone(&metrics)));
                let common = Common::new(informers, candidate);
                let feed: Box<dyn Part> = Box::new(Feed::new(common, shards));
                let shards = (0..shards).map(|_| -> Box<dyn Part> {
                    let shard = Shard::new(settings.clone(), &limiter, Arc::clone(&metrics));
                    Box::new(shard)
                });
                std::iter::once(feed).chain(shards).collect()
            }
        };
        Self {
            led: vec![false; partition.map_or(1, |it| it.ranges as usize)],
            parts,
            mail: VecDeque::new(),
            requests: BTreeMap::new(),
            next_id: 0,
            calls: 0,
            crowded_at: None,
            incarnation,
            started: at,
            skew: 0,
            stalled_until: at,
            backlog: VecDeque::new(),
            wake_at: None,
            is_closed: false,
            shares,
            knows_since: at,
            forgot: 0,
            metrics,
            measured: None,
        }
    }

    /// What its clocks show.
    fn now(&self, at: u64) -> Now {
        let skew = Duration::from_millis(self.skew.unsigned_abs());
        let wall = match self.skew {
            0.. => date(at) + skew,
            _ => Time::from_millis(date(at).as_millis() + self.skew),
        };
        Now {
            wall,
            monotonic: Monotonic::from_millis(at - self.started),
        }
    }

    /// Takes in what became of a request.
    pub(crate) fn handle(&mut self, input: Input, at: u64) {
        let now = self.now(at);
        let id = input.id();
        let is_over = matches!(input, Input::Answer(..) | Input::Ended(..));
        let Some(asked) = self.requests.get(&id).copied() else {
            return;
        };
        let Asked {
            part, own, shard, ..
        } = asked;
        if is_over {
            self.requests.remove(&id);
        }
        if matches!(input, Input::Answer(..)) {
            self.watch_crowd(at);
            self.calls -= 1;
        }
        let is_given_up = asked.needs_lead && !self.leads(shard, now);
        let input = match input {
            Input::Answer(..) if is_given_up => {
                Input::Answer(own, Err(ApiError::no_answer("given up")))
            }
            input => input.with_id(own),
        };
        self.compute(part, |part| part.handle(input, now));
        self.collect_mail(part);
    }

    /// Whether a shard may write, as its loop would know.
    fn leads(&self, shard: usize, now: Now) -> bool {
        let until = self.parts[0].leads_until(shard);
        until.is_none_or(|until| now.monotonic < until)
    }

    /// Whether it leads, or a shard of it does, that did not when this was asked last: that has forgotten all, as if it
    /// had been started.
    pub(crate) fn leads_anew(&mut self, at: u64) -> bool {
        let now = self.now(at);
        let mut is_new = false;
        for shard in 0..self.led.len() {
            let leads = self.leads(shard, now);
            is_new |= !std::mem::replace(&mut self.led[shard], leads) && leads;
        }
        if is_new && self.shares {
            // What it lists now is as new as if it knew nothing.
            self.knows_since = at;
        }
        is_new
    }

    /// The bytes of templates that it keeps.
    pub(crate) fn template_bytes(&self) -> usize {
        self.metrics.template_bytes()
    }

    /// Whether it has forgotten all since this was asked last, and lists all anew: as it leads, or as it believes that
    /// the server was restored.
    pub(crate) fn has_forgotten(&mut self, at: u64) -> bool {
        let times = self.metrics.cache_resets();
        let is_new = std::mem::replace(&mut self.forgot, times) < times;
        if is_new {
            self.knows_since = at;
        }
        is_new
    }

    /// While there is congestion there may be no more than twelve places, and one Job alone has eight of them.
    fn watch_crowd(&mut self, at: u64) {
        if self.calls * 2 >= MAX_IN_FLIGHT {
            self.crowded_at = Some(at);
        }
    }

    /// Whether a write that is sent now may have waited for its place.
    pub(crate) fn is_crowded(&self, at: u64) -> bool {
        self.crowded_at == Some(at)
    }

    /// Lets a part do something.
    fn compute<T>(&mut self, part: usize, does: impl FnOnce(&mut dyn Part) -> T) -> T {
        let began = self.measured.is_some().then(Instant::now);
        let result = does(&mut *self.parts[part]);
        if let (Some(times), Some(began)) = (&mut self.measured, began) {
            times.resize(self.parts.len(), Duration::ZERO);
            times[part] += began.elapsed();
        }
        result
    }

    fn collect_mail(&mut self, part: usize) {
        while let Some(message) = self.parts[part].poll_message() {
            self.mail.push_back(message);
        }
    }

    /// Brings a message to the part that it is for; whether there was one.
    fn deliver(&mut self, now: Now) -> bool {
        let Some((recipient, message)) = self.mail.pop_front() else {
            return false;
        };
        let part = match recipient {
            Recipient::Feed => 0,
            Recipient::Shard(number) => number + 1,
        };
        self.compute(part, |part| part.receive(message, now));
        self.collect_mail(part);
        true
    }

    /// What it asks for now, and the streams that it has no use for any more.
    pub(crate) fn poll(&mut self, at: u64) -> (Vec<Request>, Vec<CallId>) {
        let now = self.now(at);
        let (mut requests, mut abandoned) = (Vec::new(), Vec::new());
        // What the shards have in common stops last.
        let is_last = self.is_closed && self.parts.len() > 1;
        if is_last && self.parts[1..].iter().all(|part| part.is_idle()) {
            self.parts[0].close(now);
        }
        while {
            for part in 0..self.parts.len() {
                self.poll_part(part, now, &mut requests, &mut abandoned);
            }
            self.deliver(now)
        } {}
        (requests, abandoned)
    }

    fn poll_part(
        &mut self,
        part: usize,
        now: Now,
        requests: &mut Vec<Request>,
        abandoned: &mut Vec<CallId>,
    ) {
        while let Some(request) = self.compute(part, |part| part.poll_request(now)) {
            self.next_id += 1;
            self.calls += usize::from(!request.is_watch);
            let asked = Asked {
                part,
                own: request.id,
                shard: self.parts[part].shard_of_call(request.id),
                needs_lead: request.call.method != "GET" && !is_candidates(request.id),
            };
            self.requests.insert(self.next_id, asked);
            requests.push(Request {
                id: self.next_id,
                ..request
            });
        }
        self.collect_mail(part);
        while let Some(own) = self.parts[part].poll_abandoned() {
            let mut all = self.requests.iter();
            let id = all.find(|(_, asked)| (asked.part, asked.own) == (part, own));
            if let Some(id) = id.map(|(id, _)| *id) {
                self.requests.remove(&id);
                abandoned.push(id);
            }
        }
    }

    /// When it wants to be asked again, though nothing happens.
    pub(crate) fn timeout(&self, at: u64) -> Option<u64> {
        let now = self.now(at);
        let parts = self.parts.iter();
        let left = parts
            .filter_map(|part| part.poll_timeout().left(now))
            .min()?;
        // A pause of no length is one round of the loop.
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
        Some(at.saturating_add(left))
    }

    /// What it has recorded of the indexes of its Jobs.
    pub(crate) fn records(&self, at: u64) -> Vec<RecordPage> {
        let now = self.now(at);
        let told = |part: &dyn Part| {
            let jobs = part.answer_question(&Question::Jobs, now);
            let pages = jobs.iter().filter_map(|told| {
                let text = |of: &str| told.job[of].as_str().unwrap_or_default();
                let query = RecordQuery {
                    key: JobKey {
                        namespace: text("namespace").into(),
                        name: text("name").into(),
                    },
                    uid: Uid::parse(text("uid")),
                    from: 0,
                    limit: u32::MAX,
                    rows: WantedRows::All,
                };
                let told = part.answer_question(&Question::Records(query), now);
                told.into_iter().find_map(|told| told.records)
            });
            pages.collect::<Vec<_>>()
        };
        let parts = self.parts.iter();
        parts.flat_map(|part| told(&**part)).collect()
    }

    /// Asks it to stop.
    pub(crate) fn close(&mut self, at: u64) {
        let now = self.now(at);
        self.is_closed = true;
        let last = usize::from(self.parts.len() > 1);
        for part in &mut self.parts[last..] {
            part.close(now);
        }
    }
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process")
            .field("incarnation", &self.incarnation)
            .finish_non_exhaustive()
    }
}
