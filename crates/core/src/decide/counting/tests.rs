//! Walks the table of docs/design/pod-stages.md, "After a refused write".

use crate::model::{
    CompletionMode, Job, JobSpec, Limits, Now, PodFlags, PodPhase, PodRecord, PodReplacement,
    PodTable, Slot, Time, Uid,
};

use super::{
    super::job::{JobContext, KnownJob},
    Counting, End, Stage,
};

const NOW: Now = Now::at(Time::from_secs(1_000));

/// Counts one Pod as a machine does.
struct Walk {
    job: KnownJob,
    limits: Limits,
    counting: Counting,
    pods: PodTable,
    slot: Slot,
}

impl Walk {
    /// Brings a Pod into a stage in which the refused write is in flight.
    fn new(stage: Stage) -> Self {
        // Without a valid index a Pod is skipped once it has ended.
        let is_skipped = stage == Stage::Skipped;
        let mode = match is_skipped {
            true => CompletionMode::Indexed,
            false => CompletionMode::NonIndexed,
        };
        let job = Job {
            spec: JobSpec {
                mode,
                parallelism: 1,
                completions: Some(1),
                pod_replacement: PodReplacement::Failed,
                ..JobSpec::default()
            },
            ..Job::default()
        };
        let limits = Limits::default();
        let mut pods = PodTable::default();
        let slot = pods.insert(PodRecord {
            uid: Uid::from_u128(1),
            phase: PodPhase::Running,
            flags: PodFlags::default().with(PodFlags::FINALIZER, true),
            ..PodRecord::default()
        });
        let counting = Counting::new(&job, &limits);
        let job = KnownJob::new(&job);
        let mut walk = Self {
            job,
            limits,
            counting,
            pods,
            slot,
        };
        walk.handle();
        let ends_as = match stage {
            Stage::Listing(End::Success) | Stage::Listed(End::Success) => PodPhase::Succeeded,
            _ => PodPhase::Failed,
        };
        if stage == Stage::Stopped {
            walk.with(|counting, context, slot, _| counting.delete_uncounted(context, slot));
        } else {
            walk.pods.update(slot, |pod| pod.phase = ends_as);
            walk.handle();
        }
        if matches!(stage, Stage::Listing(_) | Stage::Listed(_)) {
            walk.with(|counting, context, _, pods| {
                counting.write_into(context, pods, &mut context.job.status.clone());
            });
        }
        if matches!(stage, Stage::Listed(_)) {
            walk.with(|counting, context, _, _| drop(counting.status_written(context)));
        }
        if !matches!(stage, Stage::Listing(_)) {
            let sent = walk.counting.next_removal(&walk.limits, NOW.monotonic);
            assert!(sent.is_some(), "{stage:?}");
        }
        assert_eq!(walk.stage(), stage);
        walk
    }

    fn with(&mut self, f: impl FnOnce(&mut Counting, &JobContext<'_>, Slot, &PodTable)) {
        let context = JobContext::new(&self.job, &self.limits, false);
        f(&mut self.counting, &context, self.slot, &self.pods);
    }

    fn handle(&mut self) {
        let context = JobContext::new(&self.job, &self.limits, false);
        while let Some((slot, pod)) = self.pods.take_dirty() {
            self.counting.handle_pod(&context, slot, pod);
        }
    }

    fn stage(&self) -> Stage {
        self.counting.pods[self.slot].stage
    }

    /// Refuses the write; the Pod then has this state.
    fn refuse(&mut self, write: &str, shown: &str) {
        let slot = self.slot;
        match write {
            "status" => self.with(|counting, context, _, _| counting.status_not_written(context)),
            _ => self.with(|counting, context, slot, _| {
                counting.finalizer_not_removed(context, slot, false, NOW.monotonic);
            }),
        }
        match shown {
            "gone" => self.pods.remove(slot),
            _ => self.pods.update(slot, |pod| match shown {
                "active" => pod.phase = PodPhase::Running,
                "terminating" => {
                    pod.phase = PodPhase::Running;
                    pod.flags.set(PodFlags::DELETING, true);
                }
                "succeeded" => pod.phase = PodPhase::Succeeded,
                "failed" => pod.phase = PodPhase::Failed,
                "without finalizer" => pod.flags.set(PodFlags::FINALIZER, false),
                other => panic!("{other}"),
            }),
        }
        self.handle();
        for slot in self.counting.take_revisits() {
            self.with(|counting, context, _, pods| {
                counting.end_refused_write(context, slot);
                counting.handle_pod(context, slot, pods.get(slot));
            });
        }
    }
}

fn stage_named(name: &str) -> Stage {
    let (stage, end) = name.split_once(' ').unwrap_or((name, ""));
    let end = match end {
        "Success" => End::Success,
        _ => End::Failure,
    };
    match stage {
        "Live" => Stage::Live,
        "Ended" => Stage::Ended(end),
        "Listing" => Stage::Listing(end),
        "Listed" => Stage::Listed(end),
        "Stopped" => Stage::Stopped,
        "Skipped" => Stage::Skipped,
        "Settled" => Stage::Settled,
        other => panic!("{other} is no stage"),
    }
}

#[test]
fn the_printed_table_of_refusals_holds() {
    let text = include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/design/pod-stages.md"
    ));
    let (_, table) = text.split_once("| Refused | Stage |").expect("the table");
    let mut lines = table.lines();
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches(['|', ' ']).split(" | ");
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    let shown = cells(lines.next().expect("a head"));
    let mut walked = 0;
    for row in lines.skip(1).take_while(|line| line.starts_with('|')) {
        let row = cells(row);
        for (shown, next) in shown.iter().zip(&row[2..]).filter(|(_, next)| *next != "–") {
            let mut walk = Walk::new(stage_named(&row[1]));
            walk.refuse(&row[0], shown);
            let next = stage_named(next);
            assert_eq!(walk.stage(), next, "{row:?}: the Pod is {shown}");
            let has_finalizer = !matches!(next, Stage::Live | Stage::Settled);
            if next.may_be_freed() && has_finalizer {
                let again = walk.counting.next_removal(&walk.limits, NOW.monotonic);
                assert!(
                    again.is_some(),
                    "{row:?}: not asked again of one that is {shown}"
                );
            }
            walked += 1;
        }
    }
    assert_eq!(walked, 32);
}

#[test]
fn a_successor_releases_terminating_pods_that_were_stopped() {
    for (shown, stage) in [("terminating", Stage::Stopped), ("active", Stage::Live)] {
        let mut walk = Walk::new(Stage::Stopped);
        let mut next = Counting::new(&Job::default(), &walk.limits);
        next.succeed_to(&walk.counting);
        walk.counting = next;
        walk.pods.mark_all();
        let slot = walk.slot;
        walk.pods.update(slot, |pod| {
            pod.flags.set(PodFlags::DELETING, shown == "terminating");
        });
        walk.handle();
        walk.counting.end_batch();
        assert_eq!(walk.stage(), stage, "{shown}");
        // Another Pod in the same slot starts anew.
        walk.pods.remove(slot);
        walk.handle();
        let flags = PodFlags::default().with(PodFlags::FINALIZER, true);
        walk.pods.insert(PodRecord {
            uid: Uid::from_u128(2),
            phase: PodPhase::Running,
            flags: flags.with(PodFlags::DELETING, true),
            ..PodRecord::default()
        });
        walk.handle();
        assert_eq!(walk.stage(), Stage::Live, "{shown}");
    }
}
