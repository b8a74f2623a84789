//! Drives a machine through one step of a golden case, as the shell would, until nothing is left to do. It waits only
//! for status writes that the throttle holds back.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use lakh::{
    decide::{CreateError, CreationId, Effect, JobMachine, NewPod, Outcome, Severity},
    model::{
        CompactIndex, FailureFacts, JobStatus, Limits, Now, PodFlags, PodName, PodPhase, PodRecord,
        PodTable, Slot, Time, Timeout, Uid,
    },
};

use super::{
    policies,
    print::{self, Labels, some_of},
    server::{Pod, Server, seconds},
    verdict_law::unannounced,
    words::{START, change_job, millis, offset, plain_job, set_record, set_status},
};

/// The faults of the fake server.
#[derive(Default)]
struct Faults {
    creates: Answer,
    accepted: Option<u32>,
    taken: u32,
    deletes_fail: bool,
    finalizers_fail: bool,
    statuses_fail: bool,
    statuses_late: bool,
    job_news_late: bool,
    /// A word that changes the Pod before the next patch that removes its finalizer only if the Pod is unchanged.
    patch_meets: Option<String>,
    /// A Pod's label and a word that changes it before the next status is refused.
    status_meets: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Answer {
    #[default]
    Yes,
    No(CreateError),
    /// The creation happens; the response is lost.
    Lost,
    /// No response yet.
    Withheld,
}

/// Drives the machine of a golden case against a fake server. `take_in` applies one input line; `run` runs the machine
/// and returns the trace.
pub(crate) struct Driver {
    server: Server,
    machine: JobMachine,
    limits: Limits,
    seen_version: u64,
    table: PodTable,
    slots: BTreeMap<Uid, Slot>,
    uids: HashMap<Slot, Uid>,
    labels: Labels,
    /// Creations with an outcome that this controller does not know.
    unconfirmed: BTreeSet<CreationId>,
    faults: Faults,
    outcomes: VecDeque<Outcome>,
    withheld: Vec<NewPod>,
    now: Now,
    writes: u32,
    status_failed: bool,
    late_status: bool,
    trace: Vec<String>,
}

impl Driver {
    /// Creates the world that the first step of a case describes.
    pub(crate) fn new(inputs: &[(String, String)]) -> Self {
        let job = plain_job();
        let mut driver = Self {
            machine: JobMachine::new(&job, Limits::default()),
            server: Server::new(job),
            limits: Limits::default(),
            seen_version: 0,
            table: PodTable::default(),
            slots: BTreeMap::new(),
            uids: HashMap::new(),
            labels: Labels::default(),
            unconfirmed: BTreeSet::new(),
            faults: Faults::default(),
            outcomes: VecDeque::new(),
            withheld: Vec::new(),
            now: Now::at(START),
            writes: 0,
            status_failed: false,
            late_status: false,
            trace: Vec::new(),
        };
        // Pods first: a stored status may name them.
        for wanted in [true, false] {
            for (key, rest) in inputs.iter().filter(|(key, _)| (key == "pods") == wanted) {
                driver.take_in(key, rest);
            }
        }
        driver.restart();
        driver
    }

    /// Applies one line of a step.
    pub(crate) fn take_in(&mut self, key: &str, rest: &str) {
        match key {
            "job" => self.server.change_job(|job| change_job(job, rest)),
            "status" => {
                let mut status = self.server.job.status.clone();
                let words = rest.split(' ');
                words.for_each(|word| set_status(&mut status, word, &mut self.labels));
                self.server.change_job(|job| job.status = status);
            }
            "pods" => rest.split(',').for_each(|item| self.put_pods(item.trim())),
            "pod" => self.change_pod(rest),
            "fake" => self.fake(rest),
            "limits" => {
                let (name, value) = rest.split_once('=').expect("limits name=number");
                let value = value.parse().expect("a number");
                match name {
                    "max_uncounted_pods" => self.limits.max_uncounted_pods = value,
                    "max_pod_writes" => self.limits.max_pod_writes = value,
                    other => panic!("limits {other}"),
                }
            }
            "at" => self.now = Now::at(offset(rest)),
            "clock" => {
                let wall = self.now.wall.as_millis() + millis(rest);
                self.now.wall = Time::from_millis(wall);
            }
            "restart" => self.restart(),
            "gone" => self.machine.handle_job_gone(),
            "again" => self.make_again(),
            other => panic!("unknown line {other} {rest}"),
        }
    }

    /// Runs until nothing is left to do, and returns the trace.
    pub(crate) fn run(&mut self) -> Vec<String> {
        self.trace.clear();
        if self.late_status && !self.faults.statuses_late {
            self.late_status = false;
            self.outcomes.push_back(Outcome::StatusWritten);
        }
        let arrived = self.release_withheld();
        self.outcomes.extend(arrived);
        loop {
            self.turn();
            if !self.outcomes.is_empty() || self.table.is_dirty() || self.has_newer_job() {
                continue;
            }
            match self.machine.poll_timeout() {
                Some((at, "status write"))
                    if !self.status_failed
                        && at.left(self.now) <= Some(self.limits.sync_batch_period) =>
                {
                    self.now = self.now + at.left(self.now).unwrap_or_default();
                    self.trace.push(print::time(Some(self.now.wall), START));
                }
                timeout => {
                    self.print_end(timeout);
                    return std::mem::take(&mut self.trace);
                }
            }
        }
    }

    fn has_newer_job(&self) -> bool {
        self.seen_version != self.server.job.resource_version && !self.faults.job_news_late
    }

    /// Deletes the Job and recreates it under its name: another Job, with another machine. Pods of the old Job do not
    /// belong to it.
    fn make_again(&mut self) {
        self.server.change_job(|job| {
            job.uid = Uid::from_u128(job.uid.as_u128() + 1);
            job.status = JobStatus::default();
        });
        self.server.pods.clear();
        self.restart();
    }

    fn restart(&mut self) {
        self.limits = Limits { ..self.limits };
        self.machine = JobMachine::new(&self.server.job, self.limits);
        self.seen_version = self.server.job.resource_version;
        self.outcomes.clear();
        self.withheld.clear();
        self.unconfirmed.clear();
        self.watch();
        self.table.mark_all();
    }

    /// Runs one turn of the shell.
    fn turn(&mut self) {
        self.watch();
        for outcome in std::mem::take(&mut self.outcomes) {
            self.machine.handle_outcome(outcome, self.now.monotonic);
        }
        if self.has_newer_job() && !self.machine.is_writing_status() {
            self.seen_version = self.server.job.resource_version;
            self.machine.handle_job(&self.server.job);
            if self.machine.is_outdated() {
                self.trace.push("successor".to_owned());
                self.machine = self.machine.successor(&self.server.job);
                self.table.mark_all();
            }
        }
        let mut dirty: Vec<Slot> = Vec::new();
        while let Some((slot, _)) = self.table.take_dirty() {
            dirty.push(slot);
        }
        dirty.sort_unstable();
        for slot in dirty {
            self.machine.handle_pod(slot, self.table.get(slot));
        }
        self.machine.decide(&self.table, self.now);
        self.machine.debug_check(&self.table);
        let effects: Vec<Effect> = std::iter::from_fn(|| self.machine.poll_effect()).collect();
        let timeout = self.machine.poll_timeout();
        self.machine.decide(&self.table, self.now);
        assert_eq!(self.machine.poll_effect(), None, "a second decide");
        assert_eq!(self.machine.poll_timeout(), timeout, "a second decide");
        self.carry_out(&effects);
    }

    /// Updates the cache to the server's state.
    fn watch(&mut self) {
        let gone: Vec<Uid> = self
            .slots
            .keys()
            .filter(|uid| !self.server.pods.contains_key(*uid))
            .copied()
            .collect();
        for uid in gone {
            let slot = self.slots.remove(&uid).expect("just found");
            self.table.remove(slot);
        }
        for (uid, pod) in &self.server.pods {
            match self.slots.get(uid) {
                Some(slot) => self.table.replace(*slot, pod.record.clone()),
                None => {
                    let slot = self.table.insert(pod.record.clone());
                    self.slots.insert(*uid, slot);
                    self.uids.insert(slot, *uid);
                }
            }
        }
    }

    fn carry_out(&mut self, effects: &[Effect]) {
        let mut said: Vec<(String, Vec<String>)> = Vec::new();
        for effect in effects {
            let (kind, word) = self.carry_out_one(effect);
            match said
                .last_mut()
                .filter(|(before, _)| kind != "report" && *before == kind)
            {
                Some((_, words)) => words.push(word),
                None => said.push((kind, vec![word])),
            }
        }
        for (kind, mut words) in said {
            let (verb, suffix) = kind.split_once('/').unwrap_or((&kind, ""));
            if matches!(verb, "delete" | "fin") {
                words.sort_by_key(|label| (label.len(), label.clone()));
            }
            let what = match words.iter().all(|word| word == "-") {
                true => format!("x{}", words.len()),
                false => some_of(&words),
            };
            self.trace
                .push(format!("{verb} {what} {suffix}").trim().to_owned());
        }
    }

    /// Carries out an effect. Returns the kind of action and its object.
    fn carry_out_one(&mut self, effect: &Effect) -> (String, String) {
        match effect {
            Effect::CreatePod(new) => self.create(new),
            Effect::DeletePod(slot) => {
                let uid = self.uids[slot];
                let refused = self.faults.deletes_fail;
                self.outcomes.push_back(match refused {
                    true => Outcome::PodNotDeleted(*slot),
                    false => Outcome::PodDeleted(*slot),
                });
                if !refused {
                    self.server.delete(uid, self.now.wall);
                }
                (kind("delete", refused), self.labels.label(uid))
            }
            Effect::RemoveFinalizer(slot) | Effect::RemoveFinalizerIfUnchanged(slot) => {
                let uid = self.uids[slot];
                let is_versioned = matches!(effect, Effect::RemoveFinalizerIfUnchanged(_));
                if let Some(word) = self.faults.patch_meets.take_if(|_| is_versioned) {
                    self.set_pod(uid, &word);
                    self.outcomes.push_back(Outcome::PodChanged(*slot));
                    return ("fin/changed".to_owned(), self.labels.label(uid));
                }
                let refused = self.faults.finalizers_fail;
                self.outcomes.push_back(match refused {
                    true => Outcome::FinalizerNotRemoved(*slot),
                    false => Outcome::FinalizerRemoved(*slot),
                });
                if !refused {
                    self.server.remove_finalizer(uid);
                }
                (kind("fin", refused), self.labels.label(uid))
            }
            Effect::WriteStatus(status) => self.write_status(status),
            Effect::PolicyApplied(action) => ("policy".to_owned(), format!("{action:?}")),
            Effect::MakeGangObject(_) => unreachable!("nobody told of gangs"),
            Effect::Report(report) => {
                let severity = match report.severity {
                    Severity::Normal => "Normal",
                    Severity::Warning => "Warning",
                };
                let text = format!("{severity} {}: {}", report.reason, report.message);
                ("report".to_owned(), text)
            }
        }
    }

    fn create(&mut self, new: &NewPod) -> (String, String) {
        let word = policies::creation(new);
        let verb = match self.unconfirmed.contains(&new.id()) {
            true => "repeat",
            false => "create",
        };
        let mut answer = self.faults.creates;
        if let Some(left) = &mut self.faults.accepted {
            match left.checked_sub(1) {
                Some(less) => *left = less,
                None => answer = Answer::No(CreateError::Refused),
            }
        }
        if self.faults.taken > 0 {
            self.faults.taken -= 1;
            answer = Answer::No(CreateError::NameTaken);
        }
        if matches!(answer, Answer::Lost | Answer::No(CreateError::Unknown)) {
            self.unconfirmed.insert(new.id());
        }
        if answer == Answer::Yes {
            self.unconfirmed.remove(&new.id());
        }
        let suffix = match answer {
            Answer::Yes | Answer::Lost => match self.server.create(new, self.now.wall) {
                Ok(uid) => {
                    self.labels.created(uid);
                    if answer == Answer::Yes {
                        self.outcomes.push_back(Outcome::PodCreated(new.id()));
                        ""
                    } else {
                        let lost = Outcome::PodNotCreated(new.id(), CreateError::Unknown);
                        self.outcomes.push_back(lost);
                        "/answer lost"
                    }
                }
                Err(error) => panic!("{error:?}"),
            },
            Answer::No(error) => {
                let no = Outcome::PodNotCreated(new.id(), error);
                self.outcomes.push_back(no);
                match error {
                    CreateError::Refused | CreateError::RefusedFor(_) => "/refused",
                    CreateError::NameTaken => "/name taken",
                    CreateError::Unknown => "/no answer",
                    CreateError::NamespaceTerminating => "/namespace terminating",
                    CreateError::NotSent => "/not sent",
                }
            }
            Answer::Withheld => {
                self.withheld.push(*new);
                "/under way"
            }
        };
        (format!("{verb}{suffix}"), word)
    }

    fn release_withheld(&mut self) -> Vec<Outcome> {
        if self.faults.creates == Answer::Withheld {
            return Vec::new();
        }
        let mut outcomes = Vec::new();
        for new in std::mem::take(&mut self.withheld) {
            let uid = self.server.create(&new, self.now.wall).expect("a new name");
            self.labels.created(uid);
            outcomes.push(Outcome::PodCreated(new.id()));
        }
        outcomes
    }

    fn write_status(&mut self, status: &JobStatus) -> (String, String) {
        self.writes += 1;
        let before = &self.server.job.status;
        let text = print::difference(before, status, &self.labels, START);
        let met = self.faults.status_meets.take();
        self.status_failed = self.faults.statuses_fail || met.is_some();
        if let Some(change) = met {
            self.change_pod(&change);
        }
        if self.status_failed {
            self.outcomes.push_back(Outcome::StatusNotWritten);
        } else {
            let base = self.seen_version;
            if let Err(refusal) = self.server.write_status(status, base) {
                panic!("the server refuses {text}: {refusal}");
            }
            self.seen_version = self.server.job.resource_version;
            let unannounced = unannounced(&self.server.job, |_| false);
            assert_eq!(unannounced, None, "{text}: a verdict may be lost");
            if self.faults.statuses_late {
                self.late_status = true;
                return (format!("W{}/unanswered", self.writes), text);
            }
            self.outcomes.push_back(Outcome::StatusWritten);
            if !self.faults.job_news_late {
                // The watch delivers the write.
                self.seen_version -= 1;
            }
        }
        (kind(&format!("W{}", self.writes), self.status_failed), text)
    }

    fn print_end(&mut self, timeout: Option<(Timeout, &'static str)>) {
        let status = print::whole(&self.server.job.status, &self.labels, START);
        self.trace.push(format!("status {status}"));
        let held: Vec<Uid> = self
            .server
            .pods
            .values()
            .filter(|pod| pod.record.has(PodFlags::FINALIZER))
            .filter(|pod| !pod.record.is_active())
            .map(|pod| pod.record.uid)
            .collect();
        if !held.is_empty() {
            let held = self.labels.list(&held);
            self.trace.push(format!("held {held}"));
        }
        if let Some((at, why)) = timeout {
            let at = at.left(self.now).map(|left| self.now.wall + left);
            let at = print::time(at, START);
            self.trace.push(format!("wake {at} {why}"));
        }
    }

    fn put_pods(&mut self, item: &str) {
        let (count, item) = match item.split_once('*') {
            Some((count, item)) => (count.parse().expect("a number"), item),
            None => (1, item),
        };
        for _ in 0..count {
            let (label, rest) = match item.split_once('=') {
                Some((label, rest)) if !label.contains(':') => (label.to_owned(), rest),
                Some(_) | None => (self.labels.fresh(), item),
            };
            let uid = self.labels.uid(&label);
            let mut words = rest.split(' ');
            let place = words.next().expect("index:phase");
            let (index, phase) = place.split_once(':').expect("index:phase");
            let record = PodRecord {
                uid,
                name: PodName::new("job", &format!("job-{label}-given")),
                index: index.parse().ok().and_then(CompactIndex::new),
                created: seconds(START) - 60,
                finished: seconds(START) - 60,
                flags: PodFlags::default().with(PodFlags::FINALIZER, true),
                ..PodRecord::default()
            };
            self.server.put(Pod {
                record,
                name: format!("job-{label}-given"),
                facts: FailureFacts::default(),
                grace_over: false,
            });
            self.set_pod(uid, phase);
            words.for_each(|word| self.set_pod(uid, word));
            if !phase.contains('@') {
                self.server
                    .change(uid, |pod| pod.record.finished = seconds(START) - 60);
            }
        }
    }

    /// Applies a change of Pods: `a Running ready`, `a gone`.
    fn change_pod(&mut self, rest: &str) {
        let mut words = rest.split(' ');
        let labels = words.next().expect("a label").split(',');
        let words: Vec<&str> = words.collect();
        for label in labels {
            let uid = self.labels.uid(label);
            words.iter().for_each(|word| self.set_pod(uid, word));
        }
    }

    fn set_pod(&mut self, uid: Uid, word: &str) {
        let (word, finished) = word.split_once('@').unwrap_or((word, ""));
        let now = self.now.wall;
        let at = (!finished.is_empty()).then(|| seconds(offset(finished)));
        let end = |server: &mut Server, phase| {
            server.end(uid, phase, now);
            let finished = at.unwrap_or(seconds(now));
            server.change(uid, |pod| pod.record.finished = finished);
        };
        match word {
            "Pending" => {}
            "Succeeded" => end(&mut self.server, PodPhase::Succeeded),
            "Failed" => end(&mut self.server, PodPhase::Failed),
            "gone" => {
                self.server.pods.remove(&uid);
            }
            "deleted" => self.server.delete(uid, now),
            other => self.server.change(uid, |pod| set_record(pod, other)),
        }
        if word == "T" && at.is_some() {
            let at = at.unwrap_or_default();
            self.server.change(uid, |pod| pod.record.finished = at);
        }
    }

    fn fake(&mut self, rest: &str) {
        let faults = &mut self.faults;
        match rest {
            "well" => {
                if std::mem::take(faults).job_news_late {
                    self.seen_version -= 1;
                }
            }
            "pod writes fail" => {
                faults.creates = Answer::No(CreateError::Refused);
                faults.deletes_fail = true;
                faults.finalizers_fail = true;
            }
            "deletes fail" => faults.deletes_fail = true,
            "finalizer patches fail" => faults.finalizers_fail = true,
            "status writes fail" => faults.statuses_fail = true,
            "status answers late" => {
                *faults = Faults::default();
                faults.statuses_late = true;
            }
            "job news late" => faults.job_news_late = true,
            _ if rest.starts_with("the patch meets ") => {
                faults.patch_meets = rest.rsplit(' ').next().map(str::to_owned);
            }
            _ if rest.starts_with("the status meets ") => {
                faults.status_meets = Some(rest["the status meets ".len()..].to_owned());
            }
            "creates fail" => faults.creates = Answer::No(CreateError::Refused),
            "names taken 1" => faults.taken = 1,
            "no answer to creates" => faults.creates = Answer::No(CreateError::Unknown),
            "answers to creates lost" => faults.creates = Answer::Lost,
            "namespace terminating" => {
                faults.creates = Answer::No(CreateError::NamespaceTerminating);
            }
            "creations under way" => faults.creates = Answer::Withheld,
            other => {
                let number = other
                    .strip_prefix("accept ")
                    .and_then(|rest| rest.strip_suffix(" creates"));
                faults.accepted = Some(number.expect(other).parse().expect(other));
            }
        }
    }
}

fn kind(verb: &str, refused: bool) -> String {
    match refused {
        true => format!("{verb}/refused"),
        false => verb.to_owned(),
    }
}
