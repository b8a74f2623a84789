//! Holds everything at one moment: the server, the watch, the writes in flight and the controller. Lists and takes the
//! possible next steps.
//!
//! A step is one event. Time stands still: nothing waits after a refusal, no period separates status writes, and Pods
//! fail without backoff. Only [`Step::Wait`] moves it, for waits that are left when everything else is over.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use lakh::model::{Job, JobSpec, Limits, PodFlags, PodPhase, PodRecord, PodTable, Time, Uid};

use super::{
    judge,
    server::{FATAL, JobVersion, PodNews, Server},
    shared::Shared,
    shell::{Actor, Answer, Cell, Write},
};

/// The Job and its limits, and the trouble that may happen.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) spec: JobSpec,
    pub(super) limits: Limits,
    /// Maximum number of Pods. Histories with more are cut off.
    pub(super) pods: usize,
    pub(super) troubles: Troubles,
    /// Possible exit codes of Pods.
    pub(super) exits: &'static [i32],
    /// Pods are seen running before they end.
    pub(super) running: bool,
}

/// The number of times that each kind of trouble may happen.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Troubles {
    /// The controller crashes.
    pub(super) crashes: u8,
    /// A write fails or has no response, or a user edits the Job meanwhile.
    pub(super) faults: u8,
    /// A user deletes a Pod.
    pub(super) deletions: u8,
    /// A user deletes the Job.
    pub(super) job_deletions: u8,
}

/// One event. Writes and Pods are identified by their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The controller receives the response to a write.
    Answer(u8),
    WatchPod,
    WatchJob,
    /// The controller has a turn.
    Turn,
    /// The server carries out a write, or refuses it because the Job has changed or is gone.
    Serve(u8),
    /// A Pod is seen running.
    Run(u8),
    /// A kubelet ends a Pod with one of the exit codes.
    Exit(u8, u8),
    /// The garbage collector deletes a Pod of a Job that is deleted, or the Job once it has no Pods.
    Collect(u8),
    CollectJob,
    /// So much time passes that earlier writes are not in flight any more.
    Wait,

    /// The server refuses a creation.
    Refuse(u8),
    /// A write has no response in time. The server may still carry it out.
    TimeOut(u8),
    /// The response to a write that was carried out is lost.
    Lose(u8),
    /// A user changes an annotation of the Job.
    Edit,
    DeletePod(u8),
    DeleteJob,
    /// A user deletes the Job, which stays until its Pods are gone.
    DeleteJobLast,
    Crash,
}

/// The controller that sent a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Asker {
    Waits,
    /// It does not wait for the response any more.
    GaveUp,
    Dead,
}

/// A write in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Flight {
    asker: Asker,
    write: Write,
    /// The response, once the write was carried out.
    answer: Option<Answer>,
}

/// Everything at one moment. Two worlds with the same digest are the same situation.
#[derive(Clone, Debug, Hash)]
pub(super) struct World {
    now: Time,
    left: Troubles,
    pub(super) server: Server,
    pod_news: Vec<PodNews>,
    job_news: Vec<Option<JobVersion>>,
    flights: Vec<Flight>,
    pub(super) cell: Cell,
    /// The first input that the controller may still receive before its turn. It receives responses in their order,
    /// then Pod events, then Job events. Earlier inputs wait for a later turn.
    ear: u8,
}

/// The place in [`World::ear`] of Pods and of the Job.
const POD_EAR: u8 = 100;
const JOB_EAR: u8 = 101;

/// The steps that may come next.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// Steps without trouble. The first one is taken if all components take turns.
    pub(super) benign: Vec<Step>,
    pub(super) trouble: Vec<Step>,
    /// One Pod more than allowed would be created.
    pub(super) cut: bool,
}

impl World {
    pub(super) fn new(config: &Config, job: &Job) -> Self {
        let server = Server::new(job.clone());
        Self {
            now: Time::from_secs(1_000_000),
            left: config.troubles,
            cell: Cell::start(0, server.job.clone(), std::iter::empty()),
            server,
            pod_news: Vec::new(),
            job_news: Vec::new(),
            flights: Vec::new(),
            ear: 0,
        }
    }

    pub(super) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// The possible next steps.
    ///
    /// Once the controller has received an input, it may receive more, and has its turn before anything happens
    /// elsewhere. This leaves nothing out. The controller's inputs change nothing elsewhere, so events in between may
    /// as well have happened before. The inputs of a controller that crashes before its turn do not matter, either.
    pub(super) fn steps(&self, config: &Config) -> Steps {
        let mut steps = Steps::default();
        self.steps_of_ears(&mut steps);
        if self.cell.stirred {
            steps.benign.push(Step::Turn);
            return steps;
        }
        for (at, flight) in self.flights() {
            if flight.answer.is_some() || self.is_refused(flight) {
                continue;
            }
            let waits = flight.asker == Asker::Waits;
            let creates = matches!(flight.write, Write::Create(_));
            if creates && self.server.pods.len() == config.pods && !self.name_is_taken(flight) {
                steps.cut |= waits;
            } else if waits {
                steps.benign.push(Step::Serve(at));
            } else {
                steps.trouble.push(Step::Serve(at));
            }
        }
        self.steps_of_pods(config, &mut steps);
        self.steps_of_people(&mut steps);
        let others = !steps.benign.is_empty() || steps.cut;
        if self.cell.wake_after.is_some() && !others {
            steps.benign.push(Step::Wait);
        }
        steps
    }

    /// The inputs that the controller may receive.
    fn steps_of_ears(&self, steps: &mut Steps) {
        for (at, flight) in self.flights().filter(|(at, _)| *at >= self.ear) {
            let faults = self.left.faults > 0 && flight.asker == Asker::Waits;
            if flight.answer.is_some() {
                steps.benign.push(Step::Answer(at));
                steps.trouble.extend(faults.then_some(Step::Lose(at)));
            } else if self.is_refused(flight) {
                steps.benign.push(Step::Serve(at));
            } else if faults {
                steps.trouble.push(Step::TimeOut(at));
                let creates = matches!(flight.write, Write::Create(_));
                steps.trouble.extend(creates.then_some(Step::Refuse(at)));
            }
        }
        if !self.pod_news.is_empty() && self.ear <= POD_EAR {
            steps.benign.push(Step::WatchPod);
        }
        if !self.job_news.is_empty() {
            steps.benign.push(Step::WatchJob);
        }
    }

    fn flights(&self) -> impl Iterator<Item = (u8, &Flight)> {
        let flights = self.flights.iter().enumerate();
        flights.map(|(at, flight)| (u8::try_from(at).expect("few"), flight))
    }

    /// Returns true if the server will refuse a status: the Job has changed or is gone.
    fn is_refused(&self, flight: &Flight) -> bool {
        let Write::Status(_, base) = flight.write else {
            return false;
        };
        self.server
            .job
            .as_ref()
            .is_none_or(|job| job.number != base)
    }

    fn name_is_taken(&self, flight: &Flight) -> bool {
        let Write::Create(new) = &flight.write else {
            return false;
        };
        let mut there = self.server.pods.iter().filter(|pod| !pod.gone);
        there.any(|pod| pod.record.name.tail().ends_with(new.suffix.as_str()))
    }

    fn steps_of_pods(&self, config: &Config, steps: &mut Steps) {
        let job_goes = self.server.job.as_ref().is_none_or(|job| job.job.deleting);
        for (at, pod) in self.server.pods.iter().enumerate() {
            let at = u8::try_from(at).expect("few");
            if pod.gone {
                continue;
            }
            if pod.lives() && config.running && pod.record.phase == PodPhase::Pending {
                steps.benign.push(Step::Run(at));
            } else if pod.lives() {
                let codes = 0..u8::try_from(config.exits.len()).expect("few");
                steps.benign.extend(codes.map(|code| Step::Exit(at, code)));
            }
            let deleting = pod.record.has(PodFlags::DELETING);
            if job_goes && !deleting {
                steps.benign.push(Step::Collect(at));
            }
            if self.left.deletions > 0 && !deleting {
                steps.trouble.push(Step::DeletePod(at));
            }
        }
        let pods_are_gone = self.server.pods.iter().all(|pod| pod.gone);
        if self.server.job.is_some() && job_goes && pods_are_gone {
            steps.benign.push(Step::CollectJob);
        }
    }

    fn steps_of_people(&self, steps: &mut Steps) {
        if self.left.crashes > 0 {
            steps.trouble.push(Step::Crash);
        }
        let Some(job) = &self.server.job else { return };
        if self.left.faults > 0 && !job.job.status.is_finished() {
            steps.trouble.push(Step::Edit);
        }
        if self.left.job_deletions > 0 && !job.job.deleting {
            steps.trouble.push(Step::DeleteJob);
            steps.trouble.push(Step::DeleteJobLast);
        }
    }

    /// Takes a step. Returns an error if it violates an invariant.
    pub(super) fn take(
        &mut self,
        step: Step,
        config: &Config,
        actor: &mut Actor,
    ) -> Result<(), String> {
        self.ear = match step {
            Step::Answer(at) | Step::Serve(at) => at,
            Step::Lose(at) | Step::Refuse(at) | Step::TimeOut(at) => at,
            Step::WatchPod => POD_EAR,
            Step::WatchJob => JOB_EAR,
            _ => 0,
        };
        match step {
            Step::Answer(at) => {
                let flight = self.flights.remove(usize::from(at));
                let answer = flight.answer.expect("it was carried out");
                self.cell.answered(actor, answer);
            }
            Step::WatchPod => {
                let news = self.pod_news.remove(0);
                if news.1.is_none() {
                    self.bury(news.0);
                }
                self.cell.watch_pod(actor, news);
            }
            Step::WatchJob => {
                let news = self.job_news.remove(0);
                self.cell.watch_job(news);
            }
            Step::Turn => self.turn(config, actor)?,
            Step::Serve(at) => {
                let flight = self.flights.remove(usize::from(at));
                self.serve(flight, config)?;
            }
            Step::Run(at) => {
                let news = self.server.run(self.uid(at));
                self.pod_news.extend(news);
            }
            Step::Exit(at, code) => {
                let code = config.exits[usize::from(code)];
                let news = self.server.end(self.uid(at), code, self.now);
                self.pod_news.extend(news);
            }
            Step::Collect(at) => self.delete_pod(at),
            Step::CollectJob | Step::DeleteJob => {
                if step == Step::DeleteJob {
                    self.left.job_deletions -= 1;
                }
                self.server.job = None;
                self.job_news.push(None);
            }
            Step::Wait => {
                self.now = self.now + self.cell.wake_after.expect("it is waited for");
                self.cell.stirred = true;
                self.flights.clear();
            }
            Step::Refuse(at) | Step::TimeOut(at) => {
                self.left.faults -= 1;
                let flight = &mut self.flights[usize::from(at)];
                self.cell.failed(&flight.write, step == Step::Refuse(at));
                flight.asker = Asker::GaveUp;
                if step == Step::Refuse(at) {
                    self.flights.remove(usize::from(at));
                }
            }
            Step::Lose(at) => {
                self.left.faults -= 1;
                let flight = self.flights.remove(usize::from(at));
                self.cell.failed(&flight.write, false);
            }
            Step::Edit => {
                self.left.faults -= 1;
                self.change_job(|_| {});
            }
            Step::DeletePod(at) => {
                self.left.deletions -= 1;
                self.delete_pod(at);
            }
            Step::DeleteJobLast => {
                self.left.job_deletions -= 1;
                self.change_job(|job| job.deleting = true);
            }
            Step::Crash => self.crash(),
        }
        self.settle();
        Ok(())
    }

    fn uid(&self, pod: u8) -> Uid {
        self.server.pods[usize::from(pod)].uid
    }

    fn delete_pod(&mut self, at: u8) {
        let news = self.server.delete(self.uid(at), self.now);
        self.pod_news.extend(news);
    }

    fn change_job(&mut self, change: impl FnOnce(&mut Job)) {
        if let Some(job) = &mut self.server.job {
            *job = job.next(change);
            self.job_news.push(Some(job.clone()));
        }
    }

    /// Drops a Pod that is gone from the responses in flight, so that they do not add it to the cache again.
    fn bury(&mut self, uid: Uid) {
        for flight in &mut self.flights {
            if let Some(Answer::Created(_, record)) = &mut flight.answer
                && record.as_ref().is_some_and(|record| record.uid == uid)
            {
                *record = None;
            }
        }
    }

    fn turn(&mut self, config: &Config, actor: &mut Actor) -> Result<(), String> {
        let in_flight = self
            .flights
            .iter()
            .any(|flight| flight.asker == Asker::Waits);
        for write in self.cell.turn(actor, in_flight, self.now)? {
            judge::asked(self, &config.spec, &write)?;
            self.flights.push(Flight {
                asker: Asker::Waits,
                write,
                answer: None,
            });
        }
        Ok(())
    }

    /// Returns true if the removal of a Pod's finalizer was requested and is still in flight.
    pub(super) fn is_being_released(&self, uid: Uid) -> bool {
        let mut writes = self.flights.iter().map(|flight| &flight.write);
        writes.any(|write| matches!(write, Write::Release(_, other) if *other == uid))
    }

    fn serve(&mut self, mut flight: Flight, config: &Config) -> Result<(), String> {
        let answer = match &flight.write {
            Write::Create(new) => {
                let stray = flight.asker == Asker::Dead;
                let (uid, news) = self.server.create("job", new, stray, self.now);
                if news.is_some() {
                    judge::created(self, &config.spec, uid)?;
                }
                self.pod_news.extend(news);
                let pod = &self.server.pod(uid).expect("it was made").record;
                let deleting = pod.has(PodFlags::DELETING);
                let told = PodRecord {
                    uid,
                    name: pod.name.clone(),
                    resource_version: pod.resource_version,
                    index: pod.index,
                    flags: PodFlags::default()
                        .with(PodFlags::FINALIZER, true)
                        .with(PodFlags::DELETING, deleting),
                    ..PodRecord::default()
                };
                Answer::Created(new.id(), Some(Shared::new(told)))
            }
            Write::Delete(slot, uid) => {
                let there = self.server.pod(*uid).is_some();
                self.pod_news.extend(self.server.delete(*uid, self.now));
                Answer::Deleted(*slot, *uid, self.version(*uid).filter(|_| there))
            }
            Write::Release(slot, uid) => {
                let there = self.server.pod(*uid).is_some();
                self.pod_news.extend(self.server.remove_finalizer(*uid));
                Answer::Released(*slot, *uid, self.version(*uid).filter(|_| there))
            }
            Write::Status(status, base) => {
                let Some(job) = self.server.job.clone().filter(|job| job.number == *base) else {
                    // Only awaited writes get here: others are dropped once they are outdated.
                    self.cell.failed(&flight.write, true);
                    return Ok(());
                };
                let status = status.clone();
                self.change_job(|job| job.status.clone_from(&status));
                judge::status(&mut self.server, &config.spec, &job.job.status)?;
                let written = self.server.job.clone().expect("it was changed");
                Answer::Status(written)
            }
        };
        if flight.asker == Asker::Waits {
            flight.answer = Some(answer);
            self.flights.push(flight);
        }
        Ok(())
    }

    /// The version of a Pod, also the last one of a Pod that is gone.
    fn version(&self, uid: Uid) -> Option<u64> {
        let mut pods = self.server.pods.iter();
        let pod = pods.find(|pod| pod.uid == uid)?;
        Some(pod.record.resource_version)
    }

    /// Crashes the controller. Another one starts from the server's state. Writes in flight may still arrive.
    fn crash(&mut self) {
        self.left.crashes -= 1;
        self.flights.retain(|flight| flight.answer.is_none());
        for flight in &mut self.flights {
            flight.asker = Asker::Dead;
        }
        self.pod_news.clear();
        self.job_news.clear();
        let pods = self.server.pods.iter().filter(|pod| !pod.gone);
        self.cell = Cell::start(
            self.cell.life + 1,
            self.server.job.clone(),
            pods.map(|pod| pod.record.clone()),
        );
    }

    /// Drops everything without further effect and sorts the rest, so that equivalent situations are equal.
    fn settle(&mut self) {
        let server = &self.server;
        self.flights.retain(|flight| {
            flight.asker == Asker::Waits
                || match &flight.write {
                    Write::Create(_) => true,
                    Write::Delete(_, uid) => server
                        .pod(*uid)
                        .is_some_and(|pod| !pod.record.has(PodFlags::DELETING)),
                    Write::Release(_, uid) => server
                        .pod(*uid)
                        .is_some_and(|pod| pod.record.has(PodFlags::FINALIZER)),
                    Write::Status(_, base) => {
                        server.job.as_ref().is_some_and(|job| job.number == *base)
                    }
                }
        });
        if !self.cell.stirred {
            self.ear = 0;
        }
        self.flights.sort_unstable();
        let cell = &self.cell;
        let stale = self.pod_news.iter().take_while(|news| cell.knows_pod(news));
        self.pod_news.drain(..stale.count());
        let known = |news: &&Option<JobVersion>| cell.knows_job(news.as_ref());
        let stale = self.job_news.iter().take_while(known).count();
        self.job_news.drain(..stale);
        self.number_versions();
    }

    /// Renumbers the versions of the Job from 1, since only their order counts.
    fn number_versions(&mut self) {
        let mut numbers: Vec<&mut u16> = Vec::with_capacity(8);
        let versions = [&mut self.server.job, &mut self.cell.job];
        let versions = versions.into_iter().flatten();
        let news = self.job_news.iter_mut().flatten();
        numbers.extend(versions.chain(news).map(|version| &mut version.number));
        for flight in &mut self.flights {
            if let Write::Status(_, base) = &mut flight.write {
                numbers.push(base);
            }
            if let Some(Answer::Status(version)) = &mut flight.answer {
                numbers.push(&mut version.number);
            }
        }
        numbers.sort_unstable();
        let mut rank = 0;
        let mut last = None;
        for number in numbers {
            rank += u16::from(last != Some(*number));
            last = Some(*number);
            *number = rank;
        }
    }

    /// Formats a step.
    pub(super) fn describe(&self, step: Step, config: &Config) -> String {
        let write = |at: u8| Told(&self.flights[usize::from(at)]).to_string();
        let pod = |at: u8| name(&self.server.pods[usize::from(at)].record);
        match step {
            Step::Answer(at) => format!("answer: {}", write(at)),
            Step::WatchPod => match &self.pod_news[0] {
                (_, Some(record)) => format!("watch: Pod {}", seen(record)),
                (uid, None) => format!("watch: Pod {uid} is gone"),
            },
            Step::WatchJob => match &self.job_news[0] {
                Some(version) => format!("watch: Job {}", status(&version.job.status)),
                None => "watch: the Job is gone".to_owned(),
            },
            Step::Turn => "turn".to_owned(),
            Step::Serve(at) => format!("server: {}", write(at)),
            Step::Run(at) => format!("kubelet: Pod {} runs", pod(at)),
            Step::Exit(at, code) => {
                let code = config.exits[usize::from(code)];
                let fatal = if code == FATAL {
                    ", which fails the Job"
                } else {
                    ""
                };
                format!("kubelet: Pod {} exits with {code}{fatal}", pod(at))
            }
            Step::Collect(at) => format!("collector: deletes Pod {}", pod(at)),
            Step::CollectJob => "collector: the Job goes".to_owned(),
            Step::Wait => "much time passes".to_owned(),
            Step::Refuse(at) => format!("FAULT: refused: {}", write(at)),
            Step::TimeOut(at) => format!("FAULT: no answer in time: {}", write(at)),
            Step::Lose(at) => format!("FAULT: answer lost: {}", write(at)),
            Step::Edit => "FAULT: somebody edits the Job".to_owned(),
            Step::DeletePod(at) => format!("user: deletes Pod {}", pod(at)),
            Step::DeleteJob => "user: deletes the Job".to_owned(),
            Step::DeleteJobLast => "user: deletes the Job, its Pods first".to_owned(),
            Step::Crash => "CRASH".to_owned(),
        }
    }

    /// Formats the writes in flight.
    pub(super) fn told_flights(&self) -> impl Iterator<Item = String> {
        self.flights.iter().map(|flight| Told(flight).to_string())
    }
}

/// Formats a write.
struct Told<'a>(&'a Flight);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.asker {
            Asker::Waits => {}
            Asker::GaveUp => f.write_str("(given up) ")?,
            Asker::Dead => f.write_str("(of the dead) ")?,
        }
        match &self.0.write {
            Write::Create(new) => {
                let index = new.index.map_or("-".to_owned(), |index| index.to_string());
                write!(f, "create {index}-{}", new.suffix.as_str())
            }
            Write::Delete(slot, _) => write!(f, "delete Pod in slot {}", slot.0),
            Write::Release(slot, _) => write!(f, "remove finalizer of Pod in slot {}", slot.0),
            Write::Status(written, _) => write!(f, "write status {}", status(written)),
        }
    }
}

fn name(record: &PodRecord) -> String {
    record.name.tail().trim_start_matches('-').to_owned()
}

fn seen(record: &PodRecord) -> String {
    let mut text = format!("{} {:?}", name(record), record.phase);
    for (flag, word) in [
        (PodFlags::FINALIZER, "finalizer"),
        (PodFlags::DELETING, "deleting"),
    ] {
        if record.has(flag) {
            text = format!("{text} {word}");
        }
    }
    text
}

fn status(status: &lakh::model::JobStatus) -> String {
    let listed = status.uncounted.clone().unwrap_or_default();
    let conditions: Vec<&str> = status.conditions.iter().map(|one| &*one.kind).collect();
    format!(
        "active={} succeeded={} failed={} completed=[{}] uncounted={}+{} {}",
        status.active,
        status.succeeded,
        status.failed,
        status.completed_indexes,
        listed.succeeded.len(),
        listed.failed.len(),
        conditions.join(",")
    )
}

/// The cached Pods, for the judge.
pub(super) fn known_pods(pods: &PodTable) -> impl Iterator<Item = &PodRecord> {
    pods.iter().map(|(_, pod)| pod)
}
