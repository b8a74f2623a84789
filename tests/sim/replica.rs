//! Runs a real controller in a simulation and does the work of its event loops.
//!
//! It has either one part, perhaps with several ranges, or informers and several shards. In the binary each of these
//! has a loop and a thread of its own.
//!
//! Must not: decide anything for the controller, or know the purpose of its requests.

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

/// Begin of the world: 2026-01-01.
const BEGIN: Time = Time::from_secs(1_767_225_600);

/// Returns the date `at` milliseconds after the world began.
pub(crate) fn date(at: u64) -> Time {
    BEGIN + Duration::from_millis(at)
}

/// Memory for index records: enough for all Jobs of a scenario.
const RECORD_BYTES: usize = 16 << 20;

/// The released controller's value.
const ALONE_AFTER: Duration = Duration::from_secs(60);

/// Writes of a shard that may be in flight at once.
const MAX_IN_FLIGHT: usize = 16;

/// Options of a controller.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Calls a second; 0 for no limit.
    pub(crate) qps: u32,
    /// Number of shards with threads of their own.
    pub(crate) shards: usize,
    /// Most Pods that a status may list as uncounted.
    pub(crate) max_uncounted: u32,
    /// Leader election, if there is one.
    pub(crate) election: Option<LeaderElection>,
    /// It gives way to another Job controller.
    pub(crate) gives_way: bool,
    /// It runs beside the built-in controller.
    pub(crate) is_beside: bool,
    /// The API of Workloads and PodGroups, if Jobs that need all their Pods at once get them.
    pub(crate) scheduling_api: Option<SchedulingApi>,
    /// Bytes that templates may take.
    pub(crate) template_bytes: usize,
    /// Bounds of the pages of lists.
    pub(crate) pages: PageBounds,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// The part that made it.
    part: usize,
    /// Its number within that part.
    own: CallId,
    /// The shard that made it, as numbered by that part.
    shard: usize,
    /// It is aborted when the lead is lost.
    needs_lead: bool,
    /// It reads a Job, perhaps for the template of Pods whose creation was decided before.
    reads_job: bool,
}

/// A running controller process.
pub(crate) struct Process {
    /// The only part; or the informers, and then the shards.
    parts: Vec<Box<dyn Part>>,
    /// Messages between parts that were not delivered yet.
    mail: VecDeque<(Recipient, Message)>,
    /// Requests by the world's numbers.
    requests: BTreeMap<CallId, Asked>,
    next_id: CallId,
    /// Number of calls in flight.
    calls: usize,
    /// Last time when a write that was sent may have waited for a permit or for its Job's template.
    waited_at: Option<u64>,
    /// Distinguishes it from earlier processes of the same number.
    pub(crate) incarnation: u64,
    /// Start time.
    started: u64,
    /// Offset of its wall clock in milliseconds.
    pub(crate) skew: i64,
    /// End of its stall.
    pub(crate) stalled_until: u64,
    /// Input that arrived during the stall, in order.
    pub(crate) backlog: VecDeque<Input>,
    /// Time of its next wake-up, as last requested.
    pub(crate) wake_at: Option<u64>,
    /// It was asked to stop.
    pub(crate) is_closed: bool,
    /// The lead of each shard at the last check.
    led: Vec<bool>,
    /// Each shard has a lead of its own.
    shares: bool,
    /// Last time when its cache was empty.
    pub(crate) knows_since: u64,
    /// Number of cache resets at the last check.
    forgot: u64,
    metrics: Arc<Metrics>,
    /// Computing time of each part, if that is measured.
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
            waited_at: None,
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

    /// Returns the readings of its clocks.
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

    /// Handles a response, or the failure of a request.
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
            if asked.reads_job {
                self.waited_at = Some(at);
            }
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

    /// Returns true if a shard may write, by the rule of its event loop.
    fn leads(&self, shard: usize, now: Now) -> bool {
        let until = self.parts[0].leads_until(shard);
        until.is_none_or(|until| now.monotonic < until)
    }

    /// Returns true if the process, or a shard of it, has gained the lead since the last call. Its cache is then empty,
    /// as after a start.
    pub(crate) fn leads_anew(&mut self, at: u64) -> bool {
        let now = self.now(at);
        let mut is_new = false;
        for shard in 0..self.led.len() {
            let leads = self.leads(shard, now);
            is_new |= !std::mem::replace(&mut self.led[shard], leads) && leads;
        }
        if is_new && self.shares {
            // Lists from now on are as recent as after a start.
            self.knows_since = at;
        }
        is_new
    }

    /// Returns the bytes of templates that it keeps.
    pub(crate) fn template_bytes(&self) -> usize {
        self.metrics.template_bytes()
    }

    /// Returns true if it has reset its cache since the last call and lists again. It does so when it gains the lead
    /// and when it detects a restore.
    pub(crate) fn has_forgotten(&mut self, at: u64) -> bool {
        let times = self.metrics.cache_resets();
        let is_new = std::mem::replace(&mut self.forgot, times) < times;
        if is_new {
            self.knows_since = at;
        }
        is_new
    }

    /// Notes the time if a write may have to wait for a permit. Under congestion there may be at most twelve permits,
    /// and one Job alone has eight of them.
    fn watch_crowd(&mut self, at: u64) {
        if self.calls * 2 >= MAX_IN_FLIGHT {
            self.waited_at = Some(at);
        }
    }

    /// Returns true if a write that is sent now may have waited for a permit or for its Job's template.
    pub(crate) fn has_waited(&self, at: u64) -> bool {
        self.waited_at == Some(at)
    }

    /// Runs a function on a part and measures its time if asked to.
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

    /// Delivers the next message to its part. Returns false if there was none.
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

    /// Returns its new requests and the streams that it has abandoned.
    pub(crate) fn poll(&mut self, at: u64) -> (Vec<Request>, Vec<CallId>) {
        let now = self.now(at);
        let (mut requests, mut abandoned) = (Vec::new(), Vec::new());
        // The part that all shards share stops last.
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
                reads_job: request.call.method == "GET" && request.call.path.contains("/jobs/"),
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

    /// Returns its next timeout.
    pub(crate) fn timeout(&self, at: u64) -> Option<u64> {
        let now = self.now(at);
        let parts = self.parts.iter();
        let left = parts
            .filter_map(|part| part.poll_timeout().left(now))
            .min()?;
        // A timeout of zero takes one iteration of the event loop.
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).max(1);
        Some(at.saturating_add(left))
    }

    /// Returns its index records.
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
