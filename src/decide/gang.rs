//! Which PodGroup a Job's Pods are put into, if the scheduler is to start all of them or none.
//!
//! Source: job-controller rules 8. A Job that is a gang gets a Workload and a PodGroup before its
//! first Pod; while one of them is being made, or was refused, nothing else is done for the Job.
//! What somebody else made is used only where it is clear that it is meant, and never changed: in
//! doubt the Pods are scheduled one by one, as ever.

use std::{fmt, sync::Arc, time::Duration};

use compact_str::format_compact;

use crate::model::{
    ConditionKind, GangFacts, GangObject, Job, JobKey, JobStatus, Limits, NewPodGroup, NewWorkload,
    PodTable, Time, Uid, names,
};

use super::{CreateError, JobMachine, Report, gate::Gate};

/// How often it is looked whether the object whose name is taken is the one that is wanted:
/// upstream's default for conflicts.
const ATTEMPTS: u32 = 5;

/// How long to wait before looking again.
const PAUSE: Duration = Duration::from_millis(10);

/// Why a gang's Pods are scheduled one by one after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The Job had begun before it could have a Workload.
    NotNew,
    /// More than one Workload refers to it.
    SeveralWorkloads,
    /// The Workload is not controlled by the Job.
    ForeignWorkload,
    /// The Workload has no template, or several.
    OddTemplates,
    /// More than one PodGroup refers to the Workload.
    SeveralPodGroups,
    /// The PodGroup is not controlled by the Job.
    ForeignPodGroup,
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotNew => "the Job has begun without a Workload",
            Self::SeveralWorkloads => "several Workloads refer to the Job",
            Self::ForeignWorkload => "the Workload is not controlled by the Job",
            Self::OddTemplates => "the Workload has not exactly one template",
            Self::SeveralPodGroups => "several PodGroups refer to the Workload",
            Self::ForeignPodGroup => "the PodGroup is not controlled by the Job",
        })
    }
}

/// How far a Job's gang has come.
#[derive(Clone, Debug)]
pub(super) struct Gang {
    job: Uid,
    /// None until it is told: where gangs are not asked for, it never is.
    facts: Option<GangFacts>,
    group: Option<Arc<str>>,
    fallback: Option<Fallback>,
    /// The fallback, if nobody has heard of it.
    news: Option<Fallback>,
    making: Option<GangObject>,
    /// How often in a row a name was taken.
    taken: u32,
    look_again: Option<Time>,
    gate: Gate,
    /// Everything else waits.
    waits: bool,
}

impl Gang {
    pub(super) fn new(job: &Job, limits: &Limits) -> Self {
        Self {
            job: job.uid,
            facts: None,
            group: None,
            fallback: None,
            news: None,
            making: None,
            taken: 0,
            look_again: None,
            gate: Gate::new(limits.retry_backoff),
            waits: false,
        }
    }

    /// Whether the Job waits for its Workload or PodGroup.
    pub(super) fn waits(&self) -> bool {
        self.waits
    }

    /// When to look again, if it is not yet time.
    pub(super) fn due_at(&self, now: Time) -> Option<Time> {
        let again = self.look_again.filter(|at| *at > now);
        again.max(self.gate.opens_at(now)).filter(|_| self.waits)
    }

    fn fall_back(&mut self, why: Fallback) {
        self.group = None;
        if self.fallback.replace(why) != Some(why) {
            self.news = Some(why);
        }
    }
}

impl JobMachine {
    /// Whether it is to be told of Workloads and PodGroups before each [`JobMachine::decide`].
    pub fn is_gang(&self) -> bool {
        self.spec.is_gang()
    }

    /// Takes in which Workloads and PodGroups there are.
    pub fn handle_gang(&mut self, facts: GangFacts) {
        self.gang.facts = Some(facts);
    }

    /// The PodGroup that new Pods are put into.
    pub fn pod_group(&self) -> Option<&Arc<str>> {
        self.gang.group.as_ref()
    }

    /// Why the Job's Pods are scheduled one by one, once each time that it is news.
    pub fn new_fallback(&mut self) -> Option<Fallback> {
        self.gang.news.take()
    }

    /// Takes in that a Workload or PodGroup was made; it is among the facts by now.
    pub(super) fn gang_object_made(&mut self, now: Time) {
        self.gang.taken = 0;
        self.gang.gate.succeed(now);
        if let Some(GangObject::Workload(made)) = self.gang.making.take() {
            let message = format!("Created Workload {} for Job {}", made.name, self.key.name);
            self.report(Report::normal("WorkloadCreated", &message));
        }
    }

    /// Takes in that a Workload or PodGroup was not made, or that nobody knows.
    pub(super) fn gang_object_not_made(&mut self, error: CreateError, now: Time) {
        let gang = &mut self.gang;
        gang.making = None;
        gang.taken += 1;
        if error == CreateError::NameTaken && gang.taken < ATTEMPTS {
            gang.look_again = Some(now + PAUSE);
        } else {
            gang.taken = 0;
            gang.gate.fail(now);
        }
    }

    /// Sees to it that new Pods have their PodGroup; whether everything else may go on.
    pub(super) fn settle_gang(&mut self, pods: &PodTable, now: Time) -> bool {
        self.gang.waits = false;
        let wanted = self.spec.is_gang() && !self.deleting;
        let Some(facts) = self.gang.facts.as_ref().filter(|_| wanted) else {
            self.gang.group = None;
            return true;
        };
        self.gang.waits = true;
        if self.gang.making.is_some() || self.gang.due_at(now).is_some() {
            return false;
        }
        let is_new = pods.is_empty() && has_not_begun(&self.status);
        match next(
            &self.key,
            self.gang.job,
            self.spec.parallelism,
            is_new,
            facts,
        ) {
            Ok(Step::Join(group)) => {
                self.gang.fallback = None;
                if self.gang.group.as_ref() != Some(&group) {
                    self.gang.group = Some(group);
                }
            }
            Ok(Step::Make(object)) => {
                self.gang.making = Some(object.clone());
                self.effects
                    .push_back(super::Effect::MakeGangObject(object));
                return false;
            }
            Err(why) => self.gang.fall_back(why),
        }
        self.gang.waits = false;
        true
    }
}

/// What is to be done for a gang.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// This is its PodGroup.
    Join(Arc<str>),
    /// This is missing.
    Make(GangObject),
}

/// What is to be done for a gang by what there is, or why it is scheduled as any other Job.
fn next(
    job: &JobKey,
    uid: Uid,
    parallelism: u32,
    is_new: bool,
    facts: &GangFacts,
) -> Result<Step, Fallback> {
    let workload = match facts.workloads.as_slice() {
        [] if is_new => {
            return Ok(Step::Make(GangObject::Workload(NewWorkload {
                name: names::workload_name(&job.name, uid),
                template: format_compact!("{}-pgt-0", job.name),
                min_count: parallelism,
            })));
        }
        [] => return Err(Fallback::NotNew),
        [workload] if workload.controller == Some(uid) => workload,
        [_] => return Err(Fallback::ForeignWorkload),
        _ => return Err(Fallback::SeveralWorkloads),
    };
    let [template] = workload.templates.as_slice() else {
        return Err(Fallback::OddTemplates);
    };
    match facts.groups.as_slice() {
        [] => Ok(Step::Make(GangObject::PodGroup(NewPodGroup {
            name: names::pod_group_name(&workload.name, &template.name),
            workload: workload.name.clone(),
            workload_uid: workload.uid,
            template: template.clone(),
        }))),
        [group] if group.controller == Some(uid) => Ok(Step::Join(group.name.as_str().into())),
        [_] => Err(Fallback::ForeignPodGroup),
        _ => Err(Fallback::SeveralPodGroups),
    }
}

/// Whether a status tells of nothing done yet. One that was suspended early has no other trace.
fn has_not_begun(status: &JobStatus) -> bool {
    let mut conditions = status.conditions.iter();
    status.start_time.is_none()
        && status.succeeded == 0
        && status.failed == 0
        && !conditions.any(|condition| condition.is(ConditionKind::Suspended))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        decide::{Effect, Outcome},
        model::{
            CompletionMode, Condition, JobSpec, PodGroup, PodGroupTemplate, PodRecord, Workload,
        },
    };

    const JOB: Uid = Uid::from_u128(1);
    const OTHER: Option<Uid> = Some(Uid::from_u128(9));

    fn job() -> Job {
        Job {
            key: JobKey {
                namespace: "ml".into(),
                name: "train".into(),
            },
            uid: JOB,
            resource_version: 5,
            generation: 1,
            deleting: false,
            spec: JobSpec {
                parallelism: 3,
                completions: Some(3),
                mode: CompletionMode::Indexed,
                ..JobSpec::default()
            },
            status: JobStatus::default(),
        }
    }

    fn workload(controller: Option<Uid>, templates: usize) -> Arc<Workload> {
        let template = PodGroupTemplate {
            name: "t".into(),
            policy: r#"{"gang":{"minCount":3}}"#.into(),
        };
        Arc::new(Workload {
            name: "w".into(),
            uid: Uid::from_u128(2),
            controller,
            templates: vec![template; templates],
        })
    }

    fn group(controller: Option<Uid>) -> Arc<PodGroup> {
        let name = "g".into();
        Arc::new(PodGroup { name, controller })
    }

    fn good() -> GangFacts {
        GangFacts {
            workloads: vec![workload(Some(JOB), 1)],
            groups: vec![group(Some(JOB))],
        }
    }

    fn step(is_new: bool, facts: &GangFacts) -> Result<Step, Fallback> {
        next(&job().key, JOB, 3, is_new, facts)
    }

    #[test]
    fn eligible_are_indexed_jobs_that_run_all_pods_at_once() {
        let eligible = |change: fn(&mut JobSpec)| {
            let mut spec = job().spec;
            change(&mut spec);
            spec.is_gang()
        };
        assert!(eligible(|_| {}));
        assert!(eligible(|spec| spec.suspend = true));
        assert!(!eligible(|spec| spec.mode = CompletionMode::NonIndexed));
        assert!(!eligible(|spec| spec.mode = CompletionMode::Unrecognized));
        assert!(!eligible(|spec| spec.completions = Some(4)));
        assert!(!eligible(|spec| spec.completions = None));
        assert!(!eligible(
            |spec| (spec.completions, spec.parallelism) = (Some(1), 1)
        ));
        assert!(!eligible(
            |spec| (spec.completions, spec.parallelism) = (Some(0), 0)
        ));
        assert!(!eligible(|spec| spec.own_scheduling_group = true));
    }

    #[test]
    fn first_the_workload_then_the_pod_group_then_the_pods() {
        let mut facts = GangFacts::default();
        let Ok(Step::Make(GangObject::Workload(made))) = step(true, &facts) else {
            panic!("no Workload");
        };
        assert_eq!(made.name, names::workload_name("train", JOB));
        assert_eq!((made.template.as_str(), made.min_count), ("train-pgt-0", 3));

        facts.workloads.push(workload(Some(JOB), 1));
        let Ok(Step::Make(GangObject::PodGroup(made))) = step(false, &facts) else {
            panic!("no PodGroup, which needs no new Job");
        };
        assert_eq!(made.name, names::pod_group_name("w", "t"));
        assert_eq!(
            (made.workload.as_str(), made.workload_uid),
            ("w", Uid::from_u128(2))
        );
        assert_eq!(made.template, facts.workloads[0].templates[0]);

        facts.groups.push(group(Some(JOB)));
        assert_eq!(step(false, &facts), Ok(Step::Join("g".into())));
        assert_eq!(step(true, &facts), Ok(Step::Join("g".into())));
    }

    #[test]
    fn in_doubt_pods_are_scheduled_one_by_one() {
        let falls_back = |change: fn(&mut GangFacts), why| {
            let mut facts = good();
            change(&mut facts);
            assert_eq!(step(false, &facts), Err(why));
        };
        falls_back(|facts| *facts = GangFacts::default(), Fallback::NotNew);
        falls_back(
            |facts| facts.workloads.push(workload(Some(JOB), 1)),
            Fallback::SeveralWorkloads,
        );
        for owner in [None, OTHER] {
            let mut facts = good();
            facts.workloads = vec![workload(owner, 1)];
            assert_eq!(step(true, &facts), Err(Fallback::ForeignWorkload));
            let mut facts = good();
            facts.groups = vec![group(owner)];
            assert_eq!(step(true, &facts), Err(Fallback::ForeignPodGroup));
        }
        falls_back(
            |facts| facts.workloads = vec![workload(Some(JOB), 2)],
            Fallback::OddTemplates,
        );
        falls_back(
            |facts| facts.workloads = vec![workload(Some(JOB), 0)],
            Fallback::OddTemplates,
        );
        falls_back(
            |facts| facts.groups.push(group(Some(JOB))),
            Fallback::SeveralPodGroups,
        );
    }

    #[test]
    fn whatever_was_done_before_makes_a_job_old() {
        let is_new = |change: fn(&mut JobStatus)| {
            let mut status = JobStatus::default();
            change(&mut status);
            has_not_begun(&status)
        };
        assert!(is_new(|_| {}));
        assert!(!is_new(
            |status| status.start_time = Some(Time::from_secs(1))
        ));
        assert!(!is_new(|status| status.succeeded = 1));
        assert!(!is_new(|status| status.failed = 1));
        for word in ["True", "False", "Unknown"] {
            let mut status = JobStatus::default();
            let now = Time::from_secs(1);
            let mut suspended = Condition::new_true(ConditionKind::Suspended, "", "", now);
            suspended.status = word.into();
            status.conditions.push(suspended);
            assert!(!has_not_begun(&status), "{word}");
        }
    }

    /// A machine, its Pods, and a clock.
    struct Play {
        machine: JobMachine,
        pods: PodTable,
        now: Time,
    }

    impl Play {
        fn of(job: &Job) -> Self {
            Self {
                machine: JobMachine::new(job, Limits::default(), 1),
                pods: PodTable::default(),
                now: Time::from_secs(100),
            }
        }

        /// A turn; gives its effects.
        fn turn(&mut self, facts: GangFacts) -> Vec<Effect> {
            self.machine.handle_gang(facts);
            self.machine.decide(&self.pods, self.now);
            std::iter::from_fn(|| self.machine.poll_effect()).collect()
        }

        /// A turn in which all that is done is to ask for a Workload.
        fn asks(&mut self) -> bool {
            let effects = self.turn(GangFacts::default());
            assert!(
                effects
                    .iter()
                    .all(|effect| matches!(effect, Effect::MakeGangObject(_))),
                "{effects:?}"
            );
            !effects.is_empty()
        }

        fn hear(&mut self, outcome: Outcome) {
            self.machine.handle_outcome(outcome, self.now);
        }

        fn refused(&mut self, error: CreateError) {
            self.hear(Outcome::GangObjectNotMade(error));
        }

        fn wait(&self) -> Option<Duration> {
            let (due, why) = self.machine.poll_timeout()?;
            assert_eq!(why, "gang");
            Some(due.since(self.now))
        }
    }

    #[test]
    fn nothing_else_happens_until_the_group_is_there() {
        let mut play = Play::of(&job());
        assert!(play.asks());
        assert!(!play.asks(), "once");
        assert_eq!(play.wait(), None, "the answer will wake it");
        play.hear(Outcome::GangObjectMade);
        let facts = GangFacts {
            groups: vec![],
            ..good()
        };
        let effects = play.turn(facts);
        let [
            Effect::Report(report),
            Effect::MakeGangObject(GangObject::PodGroup(_)),
        ] = effects.as_slice()
        else {
            panic!("{effects:?}");
        };
        let name = names::workload_name("train", JOB);
        assert_eq!(report.reason, "WorkloadCreated");
        assert_eq!(
            report.message,
            format!("Created Workload {name} for Job train")
        );
        assert_eq!(play.machine.pod_group(), None);
        play.hear(Outcome::GangObjectMade);
        let effects = play.turn(good());
        assert!(
            matches!(effects.as_slice(), [Effect::CreatePod(_), ..]),
            "{effects:?}"
        );
        assert_eq!(play.machine.pod_group().map(|group| &**group), Some("g"));
    }

    #[test]
    fn a_suspended_job_has_its_gang_before_it_is_told_of_its_suspension() {
        let mut job = job();
        job.spec.suspend = true;
        let mut play = Play::of(&job);
        assert!(play.asks());
        play.hear(Outcome::GangObjectMade);
        let effects = play.turn(good());
        assert!(
            effects
                .iter()
                .any(|effect| matches!(effect, Effect::WriteStatus(_)))
        );
    }

    #[test]
    fn a_taken_name_is_looked_up_five_times_then_the_job_waits_longer_each_time() {
        let mut play = Play::of(&job());
        for seconds in [1, 2, 4] {
            for _ in 1..ATTEMPTS {
                assert!(play.asks());
                play.refused(CreateError::NameTaken);
                assert!(!play.asks());
                assert_eq!(play.wait(), Some(PAUSE));
                play.now = play.now + PAUSE;
            }
            assert!(play.asks());
            play.refused(CreateError::NameTaken);
            assert!(!play.asks());
            assert_eq!(play.wait(), Some(Duration::from_secs(seconds)));
            play.now = play.now + Duration::from_secs(seconds);
        }
        let effects = play.turn(good());
        assert!(
            matches!(effects.as_slice(), [Effect::CreatePod(_), ..]),
            "it is there now"
        );
    }

    #[test]
    fn a_refusal_is_waited_out_at_once() {
        for error in [
            CreateError::Refused,
            CreateError::Unknown,
            CreateError::NamespaceTerminating,
        ] {
            let mut play = Play::of(&job());
            assert!(play.asks());
            play.refused(error);
            assert!(!play.asks());
            assert_eq!(play.wait(), Some(Duration::from_secs(1)));
            play.now = Time::from_secs(101);
            assert!(play.asks());
        }
    }

    #[test]
    fn a_job_with_pods_is_not_new() {
        let mut play = Play::of(&job());
        let slot = play.pods.insert(PodRecord::default());
        play.machine.handle_pod(slot, play.pods.get(slot));
        play.turn(GangFacts::default());
        assert_eq!(play.machine.pod_group(), None);
        assert_eq!(play.machine.new_fallback(), Some(Fallback::NotNew));
        play.turn(GangFacts::default());
        assert_eq!(play.machine.new_fallback(), None, "it was told");
    }

    #[test]
    fn what_is_not_asked_for_is_not_made() {
        let mut deleting = job();
        deleting.deleting = true;
        let mut finished = job();
        let now = Time::from_secs(1);
        let complete = Condition::new_true(ConditionKind::Complete, "", "", now);
        finished.status.conditions.push(complete);
        let mut opted_out = job();
        opted_out.spec.own_scheduling_group = true;
        for job in [deleting, finished, opted_out] {
            let mut play = Play::of(&job);
            let effects = play.turn(GangFacts::default());
            let made = |effect: &Effect| matches!(effect, Effect::MakeGangObject(_));
            assert!(!effects.iter().any(made), "{effects:?}");
        }
        let mut off = Play::of(&job());
        off.machine.decide(&off.pods, off.now);
        assert!(matches!(
            off.machine.poll_effect(),
            Some(Effect::CreatePod(_))
        ));
    }

    #[test]
    fn a_gang_whose_parallelism_changes_is_none_any_more() {
        let mut job = job();
        let mut play = Play::of(&job);
        play.turn(good());
        assert!(play.machine.pod_group().is_some());
        play.hear(Outcome::StatusNotWritten);
        job.spec.parallelism = 2;
        play.machine.handle_job(&job);
        play.turn(good());
        assert_eq!(play.machine.pod_group(), None);
    }
}
