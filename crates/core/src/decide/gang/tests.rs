//! Tests of gangs: each rule, each fallback, and each wait.

use super::*;
use crate::{
    decide::{Effect, JobMachine, Outcome},
    model::{
        CompletionMode, Condition, JobSpec, Now, PodGroup, PodGroupTemplate, PodRecord, PodTable,
        Time, Workload,
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
        created: None,
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

fn step(is_new: bool, facts: &GangFacts) -> Result<GangStep, Fallback> {
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
    let Ok(GangStep::Make(GangObject::Workload(made))) = step(true, &facts) else {
        panic!("no Workload");
    };
    assert_eq!(made.name, names::workload_name("train", JOB));
    assert_eq!((made.template.as_str(), made.min_count), ("train-pgt-0", 3));

    facts.workloads.push(workload(Some(JOB), 1));
    let Ok(GangStep::Make(GangObject::PodGroup(made))) = step(false, &facts) else {
        panic!("no PodGroup, which needs no new Job");
    };
    assert_eq!(made.name, names::pod_group_name("w", "t"));
    assert_eq!(
        (made.workload.as_str(), made.workload_uid),
        ("w", Uid::from_u128(2))
    );
    assert_eq!(made.template, facts.workloads[0].templates[0]);

    facts.groups.push(group(Some(JOB)));
    assert_eq!(step(false, &facts), Ok(GangStep::Join(group(Some(JOB)))));
    assert_eq!(step(true, &facts), Ok(GangStep::Join(group(Some(JOB)))));
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
    now: Now,
}

impl Play {
    fn of(job: &Job) -> Self {
        Self {
            machine: JobMachine::new(job, Limits::default()),
            pods: PodTable::default(),
            now: Now::at(Time::from_secs(100)),
        }
    }

    /// Runs one pass. Returns its effects.
    fn turn(&mut self, facts: GangFacts) -> Vec<Effect> {
        self.machine.handle_gang(facts);
        self.machine.decide(&self.pods, self.now);
        std::iter::from_fn(|| self.machine.poll_effect()).collect()
    }

    /// Runs a pass that may only request a Workload. Returns true if it does.
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
        self.machine.handle_outcome(outcome, self.now.monotonic);
    }

    fn refused(&mut self, error: CreateError) {
        self.hear(Outcome::GangObjectNotMade(error));
    }

    fn wait(&self) -> Option<Duration> {
        let (due, why) = self.machine.poll_timeout()?;
        assert_eq!(why, "gang");
        due.left(self.now)
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
    assert_eq!(
        play.machine.pod_group().map(|group| group.name.as_str()),
        Some("g")
    );
}

#[test]
fn a_suspended_job_gets_its_gang_before_its_suspended_condition() {
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
        play.now = Now::at(Time::from_secs(101));
        assert!(play.asks());
    }
}

#[test]
fn a_job_with_pods_is_not_new() {
    let mut play = Play::of(&job());
    play.pods.insert(PodRecord::default());
    let (slot, pod) = play.pods.take_dirty().expect("it is new");
    play.machine.handle_pod(slot, pod);
    play.turn(GangFacts::default());
    assert_eq!(play.machine.pod_group(), None);
    assert_eq!(play.machine.new_fallback(), Some(Fallback::NotNew));
    play.turn(GangFacts::default());
    assert_eq!(play.machine.new_fallback(), None, "it was told");
}

#[test]
fn a_gang_that_is_not_requested_is_not_created() {
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
fn a_gang_ends_when_its_parallelism_changes() {
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
