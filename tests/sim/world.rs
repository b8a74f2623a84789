//! Simulates the cluster: one queue of events in virtual time, and a handler for each event.
//!
//! Controllers, the API server, nodes, users and garbage collection take turns. There are no threads, sockets or
//! clocks. All randomness comes from the seed, so a seed determines a history.
//!
//! Must not: judge the outcome.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write as _,
    time::Duration,
};

use bytes::Bytes;
use lakh::{
    controller::LeaderElection,
    election::LeaseTimings,
    embedded::apiserver::{ApiServer, Kind, Request as Asked, WatchCursor},
    machine::{CallId, Input, Request},
    shard::RecordPage,
    wire::{ApiError, Call, Encoding},
};
use serde_json::json;

use super::{
    casting::Scenario,
    deeds::{Deed, Trouble},
    dice::Dice,
    judges::{Called, Judges, Written},
    nodes::Nodes,
    replica::{Options, Process, date},
    server::{Answer, Server, refusal},
};

/// Time that a controller's connections wait for a response (`wire/error.rs`), in milliseconds.
const CALL_TIMEOUT: u64 = 30_000;

/// The greatest additional latency of a response to a write under `LateAnswers`, in milliseconds.
const LATEST_ANSWER: u64 = 20_000;

/// Time that a restarting server is down, in milliseconds.
const RESTART: u64 = 700;

/// For this long after a restore only controllers reach the server. Each can read its resourceVersion before other
/// writes raise it past the lost one. After that the restore cannot be detected.
const QUIET: u64 = 3_000;

/// The greatest age of a list's data, in milliseconds. A request for a newer version waits this long for it.
const LAG: u64 = 3_000;

/// Bookmarks come once a minute, as from a real server.
const BOOKMARKS: u64 = 60_000;

/// Interval of node heartbeats. They raise the server's resourceVersion even if nothing else changes.
const HEARTBEATS: u64 = 30_000;

/// Path of the Leases that nodes renew as heartbeats.
const NODE_LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Number and incarnation of a controller.
pub(crate) type Who = (usize, u64);

/// The origin of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Controller(Who),
    Kubelet,
    /// The collectors of Pods and of garbage.
    Collector,
    Person,
}

/// An event of the simulation.
#[derive(Debug)]
enum Event {
    Deed(usize),
    /// A controller's own timeout is due.
    Wake(Who),
    /// A request arrives at the server.
    Arrives(Box<Flight>),
    /// A response, or the failure of a request, arrives at a controller.
    Input(Who, Input),
    /// The next chunk of a stream arrives at its controller, unless the stream was cut.
    Piece(u64, Input),
    /// A stream may have events to send.
    Pump(u64),
    Bookmark(u64),
    Kubelet,
    Collector,
    Garbage,
    Heartbeat,
}

/// A request in flight.
#[derive(Debug)]
struct Flight {
    who: Who,
    id: CallId,
    call: Call,
    is_watch: bool,
    sent: u64,
    /// True if it may have waited for a permit or for its Job's template.
    waited: bool,
    /// Fate of its response.
    answer: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Comes,
    IsLost,
    /// No caller waits for it: it was already reported as lost, or it is a duplicate.
    IsUnwanted,
}

/// An open watch.
#[derive(Debug)]
struct Stream {
    who: Who,
    id: CallId,
    cursor: WatchCursor,
    /// Earliest arrival of its next chunk: chunks keep their order.
    not_before: u64,
    is_pumped: bool,
    /// The stream sends nothing more, and its client sees no error.
    is_mute: bool,
}

/// The failure of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) judge: &'static str,
    pub(crate) text: String,
}

/// The simulated cluster: server, nodes, controllers, pending events and judges. Deterministic for a given
/// [`Scenario`]. Call `run_until` to advance the virtual time.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) at: u64,
    bus: BTreeMap<(u64, u64), Event>,
    number: u64,
    pub(crate) steps: u64,
    dice: Dice,
    pub(crate) scenario: Scenario,
    pub(crate) server: Server,
    /// Time and kind of recent changes, as far back as a list may lag.
    recent: VecDeque<(u64, Kind)>,
    backup: Option<(ApiServer, Judges)>,
    quiet_until: u64,
    pub(crate) nodes: Nodes,
    processes: Vec<Option<Process>>,
    lives: u64,
    /// Step and number of the next planned crash of a controller.
    crash: Option<(u64, usize)>,
    streams: BTreeMap<u64, Stream>,
    /// Incarnation and path of each answered list, since that process last had an empty cache.
    listed: BTreeSet<(u64, String)>,
    /// End of each active fault.
    pub(crate) trouble: BTreeMap<Trouble, u64>,
    pub(crate) judges: Judges,
    kubelet_at: Option<u64>,
    collector_at: Option<u64>,
    garbage_is_due: bool,
    /// Log of the history, one line per event, if it was asked for.
    pub(crate) log: Option<String>,
}

impl World {
    pub(crate) fn new(scenario: Scenario) -> Self {
        let mut dice = Dice::new(scenario.seed);
        let mut server = Server::new(dice.next(), date(0));
        let nodes = Nodes::new(dice.next(), scenario.fail_permille, &mut server);
        let mut world = Self {
            at: 0,
            bus: BTreeMap::new(),
            number: 0,
            steps: 0,
            dice,
            server,
            backup: None,
            nodes,
            processes: vec![None, None, None],
            lives: 0,
            crash: None,
            streams: BTreeMap::new(),
            listed: BTreeSet::new(),
            trouble: BTreeMap::new(),
            judges: Judges::new(&scenario),
            recent: VecDeque::new(),
            quiet_until: 0,
            kubelet_at: None,
            collector_at: None,
            garbage_is_due: false,
            log: None,
            scenario,
        };
        for number in 0..world.scenario.deeds.len() {
            let at = world.scenario.deeds[number].0;
            world.push(at, Event::Deed(number));
        }
        let lease = json!({"metadata": {"name": "hollow-1"}});
        world.ask("POST", NODE_LEASES, &lease.to_string());
        world.push(HEARTBEATS, Event::Heartbeat);
        world.start(0);
        world
    }

    fn push(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.bus.insert((at.max(self.at), self.number), event);
    }

    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            writeln!(log, "{:>9.3} {}", self.at as f64 / 1000.0, line()).expect("a string");
        }
    }

    pub(crate) fn has(&self, trouble: Trouble) -> bool {
        self.trouble.get(&trouble).is_some_and(|end| *end > self.at)
    }

    /// Runs until `end`, or until no event is left.
    pub(crate) fn run_until(&mut self, end: u64) -> Result<(), Finding> {
        while let Some(entry) = self.bus.first_entry()
            && entry.key().0 <= end
        {
            let ((at, _), event) = entry.remove_entry();
            self.at = at;
            self.steps += 1;
            if self.steps > self.scenario.max_steps {
                return Err(Finding {
                    judge: "steps",
                    text: format!("no rest after {} steps", self.steps),
                });
            }
            self.happens(event);
            if let Some((_, number)) = self.crash.take_if(|(step, _)| *step <= self.steps) {
                self.kill(number);
            }
            self.judges.found()?;
        }
        self.at = end;
        Ok(())
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Deed(_) | Event::Kubelet | Event::Collector | Event::Heartbeat
                if self.at < self.quiet_until =>
            {
                self.push(self.quiet_until, event);
            }
            Event::Deed(number) => {
                let deed = self.scenario.deeds[number].1.clone();
                self.say(|| format!("deed {deed:?}"));
                self.carry_out(&deed);
            }
            Event::Wake(who) => {
                if let Some(process) = self.process(who)
                    && process.wake_at.is_some_and(|at| at <= self.at)
                {
                    self.run(who);
                }
            }
            Event::Arrives(flight) => self.arrives(*flight),
            Event::Input(who, input) => self.input(who, input),
            Event::Piece(stream, input) => self.piece(stream, input),
            Event::Pump(stream) => self.pump(stream),
            Event::Bookmark(stream) => self.bookmark(stream),
            // A turn that was moved to an earlier time has already been taken.
            Event::Kubelet if self.kubelet_at.is_some_and(|at| at <= self.at) => {
                self.kubelet_at = None;
                self.kubelet();
            }
            Event::Kubelet => {}
            Event::Collector => {
                self.collector_at = None;
                if self.nodes.collect(self.at, &mut self.server) {
                    self.changed(By::Collector, self.at);
                    self.collector_at = Some(self.at + 1);
                    self.push(self.at + 1, Event::Collector);
                }
                self.plan_nodes(false);
            }
            Event::Heartbeat => {
                self.push(self.at + HEARTBEATS, Event::Heartbeat);
                let renewed = json!({"spec": {"renewTime": date(self.at).to_rfc3339_micros()}});
                let path = format!("{NODE_LEASES}/hollow-1");
                let (code, _) = self.ask("PATCH", &path, &renewed.to_string());
                assert_eq!(code, 200, "a node renews its Lease");
            }
            Event::Garbage => {
                self.garbage_is_due = false;
                self.server.api.collect_garbage(date(self.at), 8);
                self.changed(By::Collector, self.at);
            }
        }
    }

    // Controllers.

    fn process(&mut self, who: Who) -> Option<&mut Process> {
        let process = self.processes[who.0].as_mut()?;
        (process.incarnation == who.1).then_some(process)
    }

    /// Returns true if this incarnation still runs.
    pub(crate) fn is_alive(&self, who: Who) -> bool {
        let process = self.processes[who.0].as_ref();
        process.is_some_and(|process| process.incarnation == who.1)
    }

    /// Returns the controllers' index records, each with the time since which its process has kept its cache.
    pub(crate) fn records(&self) -> Vec<(u64, RecordPage)> {
        let processes = self.processes.iter().flatten();
        let records = processes.flat_map(|process| {
            let pages = process.records(self.at).into_iter();
            pages.map(|page| (process.knows_since, page))
        });
        records.collect()
    }

    /// Starts a controller unless it runs.
    pub(crate) fn start(&mut self, number: usize) {
        if self.processes[number].is_some() {
            return;
        }
        self.lives += 1;
        let options = Options {
            qps: self.scenario.qps,
            shards: self.scenario.shards,
            max_uncounted: self.scenario.max_uncounted,
            election: self.scenario.is_elected.then(|| LeaderElection {
                namespace: "kube-system".to_owned(),
                name: "lakh".to_owned(),
                identity: self.lives.to_string(),
                timings: LeaseTimings::default(),
                partition: self.scenario.partition,
            }),
            gives_way: self.scenario.gives_way,
            is_beside: self.scenario.is_beside,
            scheduling_api: self.scenario.gangs.then(|| self.server.scheduling_api()),
            pages: self.scenario.pages,
            template_bytes: self.scenario.template_bytes,
        };
        self.processes[number] = Some(Process::new(options, self.lives, self.at));
        self.judges.started(self.at);
        self.run((number, self.lives));
    }

    /// Starts to measure the computing time of the first controller's parts.
    pub(crate) fn measure(&mut self) {
        let process = self.processes[0].as_mut().expect("it runs");
        process.measured = Some(Vec::new());
    }

    /// Returns the computing time of each part.
    pub(crate) fn measured(&mut self) -> Vec<Duration> {
        let process = self.processes[0].as_mut().expect("it runs");
        process.measured.take().expect("it is measured")
    }

    /// Kills a controller. Its memory is lost, and so are some of its requests.
    pub(crate) fn kill(&mut self, number: usize) {
        let Some(process) = self.processes[number].take() else {
            return;
        };
        self.streams
            .retain(|_, stream| stream.who.1 != process.incarnation);
        self.judges.killed(self.at);
        let dice = &mut self.dice;
        self.bus.retain(|_, event| match event {
            Event::Arrives(flight) if flight.who.1 == process.incarnation => dice.permille(500),
            _ => true,
        });
    }

    /// Kills a controller after this many steps of the whole world.
    pub(crate) fn kill_after(&mut self, number: usize, steps: u64) {
        self.crash = Some((self.steps + steps, number));
    }

    /// Asks a controller to stop. It is killed a little later.
    pub(crate) fn close(&mut self, number: usize) {
        let at = self.at;
        if let Some(process) = &mut self.processes[number] {
            process.close(at);
            let who = (number, process.incarnation);
            self.run(who);
        }
    }

    /// Stalls a controller for this long.
    pub(crate) fn stall(&mut self, number: usize, millis: u64) {
        let until = self.at + millis;
        if let Some(process) = &mut self.processes[number] {
            process.stalled_until = process.stalled_until.max(until);
        }
    }

    /// Sets the offset of a controller's wall clock.
    pub(crate) fn set_clock(&mut self, number: usize, skew: i64) {
        if let Some(process) = &mut self.processes[number] {
            process.skew = skew;
            let who = (number, process.incarnation);
            self.run(who);
        }
    }

    fn input(&mut self, who: Who, input: Input) {
        let Some(process) = self.process(who) else {
            return;
        };
        // The backlog is handled before later input: a connection keeps the order.
        process.backlog.push_back(input);
        self.run(who);
    }

    /// Lets a controller do its pending work.
    fn run(&mut self, who: Who) {
        let at = self.at;
        let Some(process) = self.process(who) else {
            return;
        };
        if process.stalled_until > at {
            let until = process.stalled_until;
            process.wake_at = Some(until);
            self.push(until, Event::Wake(who));
            return;
        }
        while let Some(input) = process.backlog.pop_front() {
            process.handle(input, at);
        }
        let (requests, abandoned) = process.poll(at);
        let (leads_anew, has_forgotten) = (process.leads_anew(at), process.has_forgotten(at));
        let due = process.timeout(at);
        let template_bytes = process.template_bytes();
        let planned = process.wake_at.filter(|planned| *planned > at);
        // An early wake-up is harmless. A wake-up that is already planned is not planned again.
        process.wake_at = planned;
        if let Some(due) = due
            && planned.is_none_or(|planned| planned > due)
        {
            process.wake_at = Some(due);
            self.push(due, Event::Wake(who));
        }
        let most = self.scenario.template_bytes * self.scenario.parts();
        self.judges.judge_memory(template_bytes, most);
        if leads_anew {
            self.judges.started(at);
        }
        if has_forgotten || (leads_anew && self.scenario.partition.is_some()) {
            self.listed.retain(|(of, _)| *of != who.1);
        }
        for id in abandoned {
            self.streams
                .retain(|_, stream| stream.who != who || stream.id != id);
        }
        for request in requests {
            self.send(who, request);
        }
    }

    // The way to the server and back.

    fn latency(&mut self) -> u64 {
        let most = if self.has(Trouble::Slow) { 2_000 } else { 12 };
        self.dice.between(1, most)
    }

    fn send(&mut self, who: Who, request: Request) {
        let Request { id, call, is_watch } = request;
        self.say(|| format!("{who:?} sends {} {}", call.method, call.path));
        let is_write = call.method != "GET";
        if is_write && call.path.contains("/leases") {
            self.judges.judge_lease(who, self.at);
        } else if is_write && self.scenario.is_elected {
            let holder = self.holder(&call.path);
            self.judges
                .judge_lead(who, &holder, call.method.as_str(), &call.path);
        }
        let fail = |error| match is_watch {
            true => Input::Ended(id, Some(error)),
            false => Input::Answer(id, Err(error)),
        };
        let latency = self.latency() + self.server.pause(call.method.as_str(), &call.path);
        if self.has(Trouble::Down) {
            let error = ApiError::not_sent("connection refused");
            self.push(self.at + latency, Event::Input(who, fail(error)));
            return;
        }
        let is_broken = |world: &mut Self, trouble, permille| {
            world.has(trouble) && world.dice.permille(permille)
        };
        let at = self.at;
        let process = self.process(who);
        let waited = process.is_some_and(|process| process.has_waited(at));
        let mut flight = Flight {
            who,
            id,
            is_watch,
            sent: self.at,
            waited,
            answer: Fate::Comes,
            call,
        };
        if is_broken(self, Trouble::LosesRequests, 300) {
            let after = self.dice.pick(&[latency, CALL_TIMEOUT]);
            let error = ApiError::no_answer("connection reset");
            self.push(self.at + after, Event::Input(who, fail(error)));
            if self.dice.permille(300) && !is_watch {
                // It arrives long after its caller has given up.
                flight.answer = Fate::IsUnwanted;
                let late = after + self.dice.between(1, 40_000);
                self.push(self.at + late, Event::Arrives(Box::new(flight)));
            }
            return;
        }
        let is_status = flight.call.path.ends_with("/status");
        let is_lost = is_broken(self, Trouble::LosesAnswers, 300)
            || (is_status && is_broken(self, Trouble::LosesStatusAnswers, 700));
        if is_lost && !is_watch {
            flight.answer = Fate::IsLost;
        }
        if is_broken(self, Trouble::SendsTwice, 300) && !is_watch {
            let copy = Flight {
                answer: Fate::IsUnwanted,
                call: flight.call.clone(),
                ..flight
            };
            let later = latency + self.latency();
            self.push(self.at + later, Event::Arrives(Box::new(copy)));
        }
        self.push(self.at + latency, Event::Arrives(Box::new(flight)));
    }

    /// Returns the leader according to the server. Where ranges are shared, returns the owner of the range of the
    /// path's namespace.
    fn holder(&mut self, path: &str) -> String {
        let asked = Asked {
            method: "GET",
            path: "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/lakh",
            ..Asked::default()
        };
        let Answer::Whole(_, body) = self.server.handle(asked, 0, date(self.at)) else {
            unreachable!("a Lease is no watch");
        };
        let lease: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let Some(partition) = self.scenario.partition else {
            let holder = &lease["spec"]["holderIdentity"];
            return holder.as_str().unwrap_or_default().to_owned();
        };
        let rest = path.split_once("/namespaces/").map(|(_, rest)| rest);
        let namespace = rest.and_then(|rest| rest.split('/').next());
        let range = partition.range_of(namespace.unwrap_or_default());
        let roster = lease["metadata"]["annotations"]["lakh.dev/replicas"].as_str();
        let roster = roster.map(|text| serde_json::from_str(text).expect("JSON"));
        let roster: serde_json::Map<String, serde_json::Value> = roster.unwrap_or_default();
        let has = |entry: &serde_json::Value| {
            let ranges = entry["ranges"].as_array().into_iter().flatten();
            ranges
                .filter_map(serde_json::Value::as_u64)
                .any(|it| it as usize == range)
        };
        let found = roster.into_iter().find(|(_, entry)| has(entry));
        found.map(|(name, _)| name).unwrap_or_default()
    }

    /// Returns the code with which an active fault refuses a call, whatever the call contains.
    fn refuses(&mut self, flight: &Flight) -> Option<u16> {
        let refusing = [
            (Trouble::Busy, 429),
            (Trouble::Failing, 500),
            (Trouble::Unavailable, 503),
            (Trouble::Unauthorized, 401),
            (Trouble::Forbidden, 403),
            (Trouble::Conflicting, 409),
            (Trouble::Invalid, 422),
        ];
        let is_write = flight.call.method != "GET";
        for (trouble, code) in refusing {
            let concerns = is_write || matches!(code, 429 | 500 | 503 | 401);
            let is_status = flight.call.path.ends_with("/status");
            let concerns = concerns && (code != 409 || is_status) && (code != 422 || is_status);
            if concerns && self.has(trouble) && self.dice.permille(400) {
                return Some(code);
            }
        }
        None
    }

    fn arrives(&mut self, flight: Flight) {
        let refused = self.refuses(&flight);
        let (path, query) = match flight.call.path.split_once('?') {
            Some((path, query)) => (path, query),
            None => (flight.call.path.as_str(), ""),
        };
        let query = match query.split_once("&shardSelector=") {
            Some((rest, _)) if !self.scenario.selects_shards => rest,
            _ => query,
        };
        let answer = match refused {
            Some(code) => Answer::Whole(code, refusal(code, "trouble")),
            None => {
                let asked = Asked {
                    method: flight.call.method.as_str(),
                    path,
                    query,
                    accept: flight.call.accept,
                    content_type: flight.call.content_type.unwrap_or_default(),
                    user_agent: "lakh",
                    body: &flight.call.body,
                    ..Asked::default()
                };
                self.server.squat(&asked, date(self.at));
                self.changed(By::Person, self.at);
                // A process without a list asks for the most recent data and could not detect older data.
                let is_first = !self.listed.contains(&(flight.who.1, path.to_owned()));
                // A read of one object is never stale.
                let collections = [
                    ("/jobs", Kind::Job),
                    ("/pods", Kind::Pod),
                    ("/cronjobs", Kind::CronJob),
                    ("/workloads", Kind::Workload),
                    ("/podgroups", Kind::PodGroup),
                ];
                let listed = collections.iter().find(|(end, _)| path.ends_with(end));
                // A later page has the version of its continue token.
                let is_later_page = query.contains("&continue=")
                    && !query.contains("&continue=&")
                    && !query.ends_with("&continue=");
                let may_be_stale = !is_first && !is_later_page;
                let stale = match listed {
                    Some((_, kind)) if self.has(Trouble::StaleLists) && may_be_stale => {
                        self.staleness(*kind)
                    }
                    _ => 0,
                };
                self.server.handle(asked, stale, date(self.at))
            }
        };
        if let Answer::Whole(code, body) = &answer {
            let called = Called {
                at: self.at,
                method: flight.call.method.as_str(),
                path,
                body: &flight.call.body,
                code: *code,
                answer: body,
                by_trouble: refused.is_some(),
            };
            self.judges.called(&called);
            if let Some(log) = &mut self.log {
                let at = self.at as f64 / 1000.0;
                let body = String::from_utf8_lossy(if flight.call.method == "GET" {
                    b""
                } else {
                    &flight.call.body
                });
                let said = if *code < 300 {
                    String::new()
                } else {
                    String::from_utf8_lossy(body_start(called.answer)).into_owned()
                };
                writeln!(
                    log,
                    "{at:>9.3}   {:?} {} {path}?{query} {body} -> {code} {said}",
                    flight.who, flight.call.method
                )
                .expect("a string");
            }
        }
        let is_unwanted = flight.answer == Fate::IsUnwanted;
        let (by, waited) = (By::Controller(flight.who), flight.waited);
        self.changed_by_call(by, flight.sent, is_unwanted, waited);
        match answer {
            Answer::Watch(cursor) => self.open(&flight, *cursor),
            Answer::Whole(code, body) => self.answer(&flight, code, body),
        }
    }

    fn answer(&mut self, flight: &Flight, code: u16, body: Vec<u8>) {
        let mut latency = self.latency();
        let is_write = flight.call.method != "GET";
        if is_write && self.has(Trouble::LateAnswers) && self.dice.permille(400) {
            latency += self.dice.between(1, LATEST_ANSWER);
        }
        let (after, result) = match flight.answer {
            Fate::IsUnwanted => return,
            Fate::IsLost => {
                let after = self.dice.pick(&[latency, CALL_TIMEOUT]);
                (after, Err(ApiError::no_answer("connection reset")))
            }
            Fate::Comes if code < 300 && body.len() > flight.call.answer_max => {
                (latency, Err(ApiError::too_long(flight.call.answer_max)))
            }
            Fate::Comes if code < 300 => {
                self.note_list(flight);
                (latency, Ok(Bytes::from(body)))
            }
            Fate::Comes => (latency, Err(ApiError::from_response(code, &body, None))),
        };
        let input = match (flight.is_watch, result) {
            (true, result) => Input::Ended(flight.id, result.err()),
            (false, result) => Input::Answer(flight.id, result),
        };
        self.push(self.at + after, Event::Input(flight.who, input));
    }

    /// Notes that a process received a response to a list. A process that has reset its cache ignores responses to
    /// earlier requests.
    fn note_list(&mut self, flight: &Flight) {
        let process = self.process(flight.who);
        let counts = process.is_some_and(|process| process.knows_since <= flight.sent);
        if counts && flight.call.method == "GET" && !flight.is_watch {
            let path = flight.call.path.split('?').next().unwrap_or_default();
            self.listed.insert((flight.who.1, path.to_owned()));
        }
    }

    // Streams.

    fn open(&mut self, flight: &Flight, cursor: WatchCursor) {
        let Flight { who, id, .. } = *flight;
        if !self.is_alive(who) {
            return;
        }
        let opens = self.at + self.latency();
        let number = self.number;
        let ends = cursor.timeout().map_or(u64::MAX, |timeout| {
            self.at + u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)
        });
        self.streams.insert(
            number,
            Stream {
                who,
                id,
                cursor,
                not_before: opens,
                is_pumped: true,
                is_mute: false,
            },
        );
        self.push(
            opens,
            Event::Piece(number, Input::Opened(id, Encoding::Json)),
        );
        self.push(opens + 1, Event::Pump(number));
        self.push(self.at + BOOKMARKS, Event::Bookmark(number));
        self.push(ends, Event::Piece(number, Input::Ended(id, None)));
    }

    fn piece(&mut self, number: u64, input: Input) {
        let Some(stream) = self.streams.get(&number) else {
            return;
        };
        let who = stream.who;
        if stream.is_mute {
            return;
        }
        if matches!(input, Input::Ended(..)) {
            self.streams.remove(&number);
        }
        self.input(who, input);
    }

    fn pump(&mut self, number: u64) {
        let most = self.dice.pick(&[1, 3, 50]);
        let (doubles, swaps) = (
            self.has(Trouble::DoublesEvents),
            self.has(Trouble::SwapsEvents),
        );
        let (doubles, swaps) = (
            doubles && self.dice.permille(400),
            swaps && self.dice.permille(400),
        );
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        stream.is_pumped = false;
        if stream.is_mute {
            return;
        }
        let pulled = self.server.api.pull(&mut stream.cursor, most);
        if pulled.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        stream.cursor.encode(pulled, date(self.at), &mut bytes);
        let is_over = stream.cursor.ended();
        let bytes = if is_over {
            bytes
        } else {
            damage(bytes, doubles, swaps)
        };
        self.deliver(number, bytes);
        if is_over {
            let stream = &self.streams[&number];
            let (id, at) = (stream.id, stream.not_before + 1);
            self.push(at, Event::Piece(number, Input::Ended(id, None)));
        } else {
            self.plan_pump(number);
        }
    }

    /// Sends bytes on a stream, cut at arbitrary places.
    fn deliver(&mut self, number: u64, bytes: Vec<u8>) {
        let late = if self.has(Trouble::LateEvents) {
            3_000
        } else {
            10
        };
        let latency = self.dice.between(1, late);
        let cut = match self.dice.permille(200) {
            true => self.dice.below(bytes.len() as u64 + 1) as usize,
            false => bytes.len(),
        };
        let mut first = Bytes::from(bytes);
        let second = first.split_off(cut);
        for piece in [first, second] {
            let Some(stream) = self.streams.get_mut(&number) else {
                return;
            };
            if !piece.is_empty() {
                stream.not_before = stream.not_before.max(self.at + latency);
                let (id, at) = (stream.id, stream.not_before);
                self.push(at, Event::Piece(number, Input::Piece(id, piece)));
            }
        }
    }

    fn bookmark(&mut self, number: u64) {
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        if stream.is_mute {
            return;
        }
        let mut bytes = Vec::new();
        if !stream.is_pumped {
            stream.cursor.encode_bookmark(&mut bytes);
        }
        if !bytes.is_empty() {
            self.deliver(number, bytes);
        }
        self.push(self.at + BOOKMARKS, Event::Bookmark(number));
    }

    fn plan_pump(&mut self, number: u64) {
        let after = self.dice.between(1, 4);
        if let Some(stream) = self.streams.get_mut(&number)
            && !stream.is_pumped
        {
            stream.is_pumped = true;
            self.push(self.at + after, Event::Pump(number));
        }
    }

    /// Breaks streams of all controllers. If `is_told` is false they fall silent without an error.
    pub(crate) fn cut_streams(&mut self, is_told: bool) {
        let numbers: Vec<u64> = self.streams.keys().copied().collect();
        for number in numbers {
            if !self.dice.permille(600) {
                continue;
            }
            if !is_told {
                self.streams.get_mut(&number).expect("it is there").is_mute = true;
                continue;
            }
            let stream = self.streams.remove(&number).expect("it is there");
            let latency = self.latency();
            let error = ApiError::no_answer("connection reset");
            let input = Input::Ended(stream.id, Some(error));
            self.push(self.at + latency, Event::Input(stream.who, input));
        }
    }

    // The server.

    /// Passes the server's new changes on to nodes, judges and streams.
    pub(crate) fn changed(&mut self, by: By, sent: u64) {
        self.changed_by_call(by, sent, false, false);
    }

    fn changed_by_call(&mut self, by: By, sent: u64, is_unwanted: bool, waited: bool) {
        let changes = self.server.changes();
        for change in &changes {
            self.recent.push_back((self.at, change.new.kind));
            self.nodes.hear(change, self.at);
            let is_current = match by {
                By::Controller(who) => self.is_alive(who),
                _ => true,
            };
            let written = Written {
                by,
                is_current,
                is_unwanted,
                waited,
                sent,
                at: self.at,
            };
            self.judges.changed(change, written);
            if self.log.is_some() {
                let (what, new) = (change.what, change.new.clone());
                self.say(|| {
                    let (kind, space, name) = (new.kind, &new.namespace, &new.name);
                    let phase = if kind == Kind::Pod { &*new.phase } else { "" };
                    format!(
                        "    {by:?}: {what:?} {kind:?} {space}/{name} @{} {phase} {}{:?}",
                        new.version,
                        if new.deletion.is_some() {
                            "deleting "
                        } else {
                            ""
                        },
                        new.finalizers
                    )
                });
            }
        }
        if !changes.is_empty() {
            let kinds: Vec<Kind> = changes.iter().map(|change| change.new.kind).collect();
            let concerned = self.streams.iter();
            let concerned = concerned.filter(|(_, stream)| kinds.contains(&stream.cursor.kind()));
            let concerned: Vec<u64> = concerned.map(|(number, _)| *number).collect();
            concerned
                .into_iter()
                .for_each(|number| self.plan_pump(number));
            let hears = |kind: &Kind| matches!(kind, Kind::Pod | Kind::Node);
            self.plan_nodes(kinds.iter().any(hears));
        }
        if !self.garbage_is_due && self.server.api.garbage_pending() {
            self.garbage_is_due = true;
            let after = self.dice.pick(&[1, 5, 700]);
            self.push(self.at + after, Event::Garbage);
        }
    }

    fn kubelet(&mut self) {
        let write = self.nodes.poll_write(self.at);
        if let Some(write) = &write {
            self.nodes.write(write, self.at, &mut self.server);
            self.changed(By::Kubelet, self.at);
        }
        self.plan_nodes(write.is_some());
    }

    /// Plans the next turns of nodes and collector: at once if they may have something to write.
    fn plan_nodes(&mut self, is_pressed: bool) {
        let (kubelet, collector) = self.nodes.timeouts();
        let kubelet = if is_pressed { Some(0) } else { kubelet };
        if let Some(due) = kubelet.map(|due| due.max(self.at + 1))
            && self.kubelet_at.is_none_or(|at| at > due)
        {
            self.kubelet_at = Some(due);
            self.push(due, Event::Kubelet);
        }
        if let Some(due) = collector.map(|due| due.max(self.at + 1))
            && self.collector_at.is_none()
        {
            self.collector_at = Some(due);
            self.push(due, Event::Collector);
        }
    }

    /// Returns the number of changes that a list of this kind lags this time.
    fn staleness(&mut self, kind: Kind) -> u64 {
        let oldest = self.at.saturating_sub(LAG);
        while self.recent.pop_front_if(|(at, _)| *at < oldest).is_some() {}
        let most = self.recent.iter().filter(|(_, of)| *of == kind).count() as u64;
        match self.dice.permille(500) {
            true => self.dice.between(1, 20).min(most),
            false => 0,
        }
    }

    /// Keeps a copy of the server's state and of the judges' knowledge of it.
    pub(crate) fn back_up(&mut self) {
        self.backup = Some((self.server.api.clone(), self.judges.clone()));
    }

    /// Restores the server from the backup and breaks all connections to it.
    pub(crate) fn restore(&mut self) {
        let Some((server, judges)) = self.backup.take() else {
            return;
        };
        let seed = self.dice.next();
        self.server.restore(server, seed);
        self.judges.restored(judges, self.at);
        self.recent.clear();
        // The server has to start first.
        self.trouble.insert(Trouble::Down, self.at + RESTART);
        self.quiet_until = self.at + QUIET;
        for process in self.processes.iter_mut().flatten() {
            process.stalled_until = self.at;
        }
        self.nodes.restart(self.at, &self.server);
        let flights = self
            .bus
            .extract_if(.., |_, event| matches!(event, Event::Arrives(_)));
        let lost: Vec<Event> = flights.map(|(_, event)| event).collect();
        for event in lost {
            if let Event::Arrives(flight) = event
                && flight.answer != Fate::IsUnwanted
            {
                let error = ApiError::no_answer("connection reset");
                let input = match flight.is_watch {
                    true => Input::Ended(flight.id, Some(error)),
                    false => Input::Answer(flight.id, Err(error)),
                };
                self.push(self.at + 1, Event::Input(flight.who, input));
            }
        }
        let numbers: Vec<u64> = self.streams.keys().copied().collect();
        for number in numbers {
            let stream = self.streams.remove(&number).expect("it is there");
            let error = ApiError::no_answer("connection reset");
            let input = Input::Ended(stream.id, Some(error));
            self.push(self.at + 1, Event::Input(stream.who, input));
        }
        self.garbage_is_due = false;
        self.plan_nodes(true);
    }

    /// Sends a request as `kubectl` would. Returns the response's code and body.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> (u16, Vec<u8>) {
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let asked = Asked {
            method,
            path,
            content_type,
            user_agent: "kubectl",
            body: body.as_bytes(),
            ..Asked::default()
        };
        let answer = self.server.handle(asked, 0, date(self.at));
        self.changed(By::Person, self.at);
        match answer {
            Answer::Whole(code, body) => (code, body),
            Answer::Watch(_) => (200, Vec::new()),
        }
    }

    /// Ends all faults and lets the first controller run alone, with CronJobs resumed.
    pub(crate) fn calm_down(&mut self) {
        self.trouble.clear();
        self.crash = None;
        self.kill(1);
        self.kill(2);
        if self.processes[0].as_ref().is_some_and(|it| it.is_closed) {
            self.kill(0);
        }
        self.start(0);
        let at = self.at;
        if let Some(process) = &mut self.processes[0] {
            process.stalled_until = at;
            process.skew = 0;
            let who = (0, process.incarnation);
            self.run(who);
        }
        for node in 0..super::nodes::NODES {
            self.nodes.add_node(node, at, &mut self.server);
            self.changed(By::Person, at);
        }
        if !self.scenario.obstacles_stay {
            self.server.webhook = None;
            self.server.denial = None;
            self.carry_out(&Deed::RemoveQuota);
        }
        self.carry_out(&Deed::SuspendCronJob(false));
    }
}

/// Duplicates or swaps frames of a stream, as an intermediary might.
fn damage(bytes: Vec<u8>, doubles: bool, swaps: bool) -> Vec<u8> {
    if !doubles && !swaps {
        return bytes;
    }
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    if swaps && lines.len() > 1 {
        lines.swap(0, 1);
    }
    if let (true, Some(first)) = (doubles, lines.first().copied()) {
        lines.push(first);
    }
    lines.concat()
}

fn body_start(body: &[u8]) -> &[u8] {
    &body[..body.len().min(300)]
}
