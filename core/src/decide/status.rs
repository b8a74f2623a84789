//! Composes the status document, and tells when it is worth a write.
//!
//! Source: docs/rules/jobs.md, 2.7, 2.8 and 3.4. At most one write is under way; it carries all
//! that came meanwhile. A verdict is announced by the first write that is sent after it, so that
//! no status has what led to it without it, and once every Pod is counted and gone becomes the Job's
//! end by another.

use std::time::Duration;

use crate::model::{
    CompactIndex, Condition, ConditionKind, JobStatus, Monotonic, Now, PodTable, Slot, Time, Uid,
    Uncounted,
};

use super::{
    Effect, JobMachine, Report,
    backoff::Failures,
    tracked::{End, Ruling, Stage},
};

/// For each so many Pods that run or are to run at once, a little progress may wait one more period: a status
/// of so many tells of a few kilobytes of indexes. docs/flow.md.
const CROWD: u32 = 1000;

/// How many periods it waits at most: ten seconds by default, which is as long as people look at a Job before
/// they take it for stuck. docs/flow.md.
const MOST_PERIODS: u32 = 10;

/// A status write under way, and what its success means.
#[derive(Clone, Debug)]
pub(super) struct Writing {
    status: JobStatus,
    /// Pods that it names by their UID for the first time.
    named: Vec<Named>,
    /// Pods that it names by their index for the first time.
    indexed: Vec<Slot>,
    /// Pods that it moves from the list into the counters.
    counted: Vec<Uid>,
    /// How many of those it names are gone by now, by how they ended.
    pub(super) orphans: [u32; 2],
    failures: Failures,
}

/// A Pod that a status names by its UID.
#[derive(Clone, Copy, Debug)]
struct Named {
    uid: Uid,
    end: End,
    slot: Slot,
    ruling: Ruling,
}

impl JobMachine {
    /// Sends a status write if one is due.
    pub(super) fn write_status_if_due(&mut self, pods: &PodTable, now: Now) {
        let due = self.status_due_at(now.monotonic);
        if due.is_none_or(|due| due > now.monotonic) {
            return;
        }
        self.status_is_stale = false;
        self.stale_since = None;
        self.announce_verdict(pods);
        let writing = self.compose(pods, now.wall);
        let only_start_time = JobStatus {
            start_time: self.status.start_time,
            ..writing.status.clone()
        };
        if only_start_time == self.status {
            return;
        }
        self.effects
            .push_back(Effect::WriteStatus(Box::new(writing.status.clone())));
        self.writing = Some(writing);
        self.written_at = Some(now.monotonic);
    }

    /// When the next status write is due, if there is something to write.
    pub(super) fn status_due_at(&self, now: Monotonic) -> Option<Monotonic> {
        if self.writing.is_some() || !self.status_is_stale || self.lets_go_of_everything() {
            return None;
        }
        let due = if self.is_urgent() {
            now
        } else {
            let throttled = self.written_at.filter(|_| !self.flips_suspension());
            let held = self.stale_since.filter(|_| self.is_moving());
            let after = throttled.max(held);
            after.map_or(now, |at| (at + self.patience(now)).max(now))
        };
        Some(
            self.status_gate
                .opens_at(now)
                .map_or(due, |open| due.max(open)),
        )
    }

    /// How far apart writes are that only tell progress. In a big Job on a slow server one period
    /// brings little news, and each write is long: without patience every write for a few Pods would
    /// tell the indexes of all. Of many Jobs at once each makes little progress in a period: without
    /// patience their statuses would take the place of their Pods. So a status may wait for as long as
    /// the Job's writes to Pods do.
    fn patience(&self, now: Monotonic) -> Duration {
        let period = self.limits.sync_batch_period;
        // The end of a Job is waited for.
        let ends = self.deleting || self.ending.is_some();
        let crowd = self.crowd();
        // In a big Job more than the root of them is worth a write: so it writes few statuses for its size,
        // however long it takes. Many small ones may share a server: their statuses wait for their Pods.
        let is_much = crowd >= CROWD && self.progress() > crowd.isqrt();
        if is_much || ends {
            return period;
        }
        let crowd = (crowd / CROWD).max(1);
        let line = self.errands.take(now);
        (period * crowd).max(line).min(period * MOST_PERIODS)
    }

    /// How many Pods run or are to run at once.
    fn crowd(&self) -> u32 {
        let left = self.spec.completions.map_or(u32::MAX, |completions| {
            completions.saturating_sub(self.status.succeeded)
        });
        let wanted = if self.spec.suspend {
            0
        } else {
            self.spec.parallelism.min(left)
        };
        self.tally.active.max(wanted)
    }

    /// How many Pods came or ended that the server's status does not tell of.
    fn progress(&self) -> u32 {
        let ended = self.ended_pods.by_index.len() + self.ended_pods.by_uid.len();
        let ended = u32::try_from(ended).unwrap_or(u32::MAX);
        ended.max(self.tally.active.abs_diff(self.status.active))
    }

    /// Whether Pods are about to come or go by this machine's own writes. A status write waits for
    /// them, no longer than one period, and has them all.
    fn is_moving(&self) -> bool {
        self.tally.condemned > 0 || self.creations_under_way() > 0
    }

    fn flips_suspension(&self) -> bool {
        self.suspended != self.stored_suspension()
    }

    /// Whether the next status write is waited for by the Job's next step.
    fn is_urgent(&self) -> bool {
        let announces = self.must_announce();
        announces || (self.ending.is_some() && self.may_end()) || self.has_backlog()
    }

    /// Whether more Pods wait to be named than one status may name, or the last ones of a Job that
    /// ends, and it can name some more.
    fn has_backlog(&self) -> bool {
        let most = self.limits.max_uncounted_pods as usize;
        let held = self.uncounted.held_total();
        let none_comes = self.tally.active == 0 && self.creations.is_empty();
        let enough = if self.ending.is_some() && none_comes {
            1
        } else {
            most
        };
        self.ended_pods.by_uid.len() >= enough && held <= most / 2
    }

    pub(super) fn stored_suspension(&self) -> Option<bool> {
        let condition = self
            .status
            .conditions
            .iter()
            .find(|found| found.is(ConditionKind::Suspended))?;
        Some(condition.is_true())
    }

    /// Whether nothing keeps an announced verdict from being the Job's end.
    pub(super) fn may_end(&self) -> bool {
        self.tally.active == 0
            && self.tally.terminating == 0
            && self.tally.with_finalizer == 0
            && self.creations.is_empty()
            && self.uncounted.held_total() == 0
            && self.tally.unlisted(End::Success) + self.tally.unlisted(End::Failure) == 0
    }

    fn compose(&mut self, pods: &PodTable, now: Time) -> Writing {
        let mut next = self.status.clone();
        next.active = self.tally.active + self.void_creations();
        next.ready = Some(self.tally.ready);
        next.terminating = Some(self.tally.terminating);
        next.start_time = self.start_time;
        let counted = self.count_released(&mut next);
        let named = self.name_ended(pods);
        let indexed = self.name_indexed(&mut next);
        next.failed_indexes = self.indexes.failed_text();
        let list = |end| {
            let new = named.iter().filter(move |pod| pod.end == end);
            let new = new.map(|pod| pod.uid);
            self.uncounted.held(end).chain(new).collect()
        };
        next.uncounted = Some(Uncounted {
            succeeded: list(End::Success),
            failed: list(End::Failure),
            ..Uncounted::default()
        });
        self.compose_conditions(&mut next, now.whole_secs());
        Writing {
            status: next,
            named,
            indexed,
            counted,
            orphans: [0, 0],
            failures: self.failures,
        }
    }

    /// Moves Pods whose finalizer is off from the list into the counters.
    fn count_released(&self, next: &mut JobStatus) -> Vec<Uid> {
        let by_pod = !self.spec.is_indexed();
        let mut add = |end, count| match end {
            End::Success if by_pod => next.succeeded += count,
            End::Success => {}
            End::Failure => next.failed += count,
        };
        for end in [End::Success, End::Failure] {
            add(end, self.uncounted.strange(end));
        }
        let released = self.uncounted.released();
        released
            .map(|(uid, end)| {
                add(end, 1);
                uid
            })
            .collect()
    }

    /// Chooses the Pods that this write names by UID, as many as one status may name.
    fn name_ended(&mut self, pods: &PodTable) -> Vec<Named> {
        let most = self.limits.max_uncounted_pods as usize;
        let mut named = Vec::new();
        while self.uncounted.held_total() + named.len() < most {
            let Some(slot) = self.ended_pods.by_uid.pop_front() else {
                break;
            };
            let Stage::Ended(end) = self.tracked[slot.at()].stage else {
                continue;
            };
            if self.spec.is_indexed() && end == End::Success {
                continue;
            }
            let Some(pod) = pods.get(slot) else { continue };
            named.push(Named {
                uid: pod.uid,
                end,
                slot,
                ruling: self.tracked[slot.at()].ruling,
            });
            self.restage(slot, |_| Stage::Listing(end));
        }
        named
    }

    /// Names the Pods of an Indexed Job that succeeded, by their indexes.
    fn name_indexed(&mut self, next: &mut JobStatus) -> Vec<Slot> {
        if !self.spec.is_indexed() {
            return Vec::new();
        }
        next.completed_indexes = self.indexes.completed_text();
        self.indexes.begin_store();
        next.succeeded = self.indexes.completed_len();
        let mut indexed = std::mem::take(&mut self.ended_pods.by_index);
        indexed.retain(|slot| self.tracked[slot.at()].stage == Stage::Ended(End::Success));
        indexed.sort_unstable();
        indexed.dedup();
        indexed.retain(|slot| {
            let index = self.tracked[slot.at()].index.map(CompactIndex::get);
            // Another Pod of the index may have brought it into the server's status meanwhile.
            let stored = index.is_some_and(|index| self.indexes.is_stored(index));
            self.restage(*slot, |_| match stored {
                true => Stage::Listed(End::Success),
                false => Stage::Listing(End::Success),
            });
            !stored
        });
        indexed
    }

    fn compose_conditions(&self, next: &mut JobStatus, now: Time) {
        if let Some(suspended) = self.suspended {
            set_suspended(&mut next.conditions, suspended, now);
        }
        let Some(verdict) = &self.ending else {
            return;
        };
        if next.true_condition(verdict.interim()).is_none() {
            next.conditions.push(Condition::new_true(
                verdict.interim(),
                &verdict.reason,
                &verdict.message,
                now,
            ));
            return;
        }
        let nothing_listed = next.uncounted.as_ref().is_none_or(Uncounted::is_empty);
        if !self.may_end() || !nothing_listed {
            return;
        }
        let end = Condition::new_true(verdict.terminal(), &verdict.reason, &verdict.message, now);
        match next
            .conditions
            .iter_mut()
            .find(|found| found.is(verdict.terminal()))
        {
            Some(found) => *found = end,
            None => next.conditions.push(end),
        }
        // The server wants to know when a Job started that has ended, even if it never ran.
        let never_ran = self.spec.suspend && self.spec.completions == Some(0);
        if next.start_time.is_none() && !never_ran {
            next.start_time = Some(now);
        }
        if verdict.success {
            // It refuses an end before the start, as where the clock was set back in between.
            next.completion_time = next.start_time.max(Some(now));
        }
    }

    /// The server has the status: finalizers of the Pods that it names may go.
    pub(super) fn status_written(&mut self, now: Monotonic) {
        self.status_gate.succeed(now);
        let Some(writing) = self.writing.take() else {
            return;
        };
        self.status = writing.status;
        self.failures_stored = writing.failures;
        self.uncounted.counted(&writing.counted);
        for pod in writing.named {
            let Named { uid, end, slot, .. } = pod;
            let action = pod.ruling.action().filter(|_| end == End::Failure);
            self.effects.extend(action.map(Effect::PolicyApplied));
            let held = self.tracked[slot.at()].stage == Stage::Listing(end);
            self.uncounted.add(uid, end, held.then_some(slot));
            if held {
                self.restage(slot, |_| Stage::Listed(end));
            } else {
                self.status_is_stale = true;
            }
        }
        for slot in writing.indexed {
            let tracked = &self.tracked[slot.at()];
            if tracked.stage == Stage::Listing(End::Success) {
                self.restage(slot, |_| Stage::Listed(End::Success));
            }
        }
        self.indexes.end_store(true);
        self.status_is_stale |= self.ending.is_some() || !self.ended_pods.by_uid.is_empty();
        if self.status.is_finished() && self.tally.with_finalizer > 0 {
            // They came while the Job's end was under way.
            self.let_go_of_all();
        }
        self.report_end();
    }

    /// Nobody knows whether the server has the status; the next write says it all again.
    pub(super) fn status_not_written(&mut self, now: Monotonic) {
        self.status_gate.fail(now);
        self.status_is_stale = true;
        self.indexes.end_store(false);
        let Some(writing) = self.writing.take() else {
            return;
        };
        for Named { end, slot, .. } in writing.named {
            if self.tracked[slot.at()].stage == Stage::Listing(end) {
                self.restage(slot, |_| Stage::Ended(end));
                self.ended_pods.by_uid.push_front(slot);
            }
        }
        for slot in writing.indexed {
            if self.tracked[slot.at()].stage == Stage::Listing(End::Success) {
                self.restage(slot, |_| Stage::Ended(End::Success));
                self.ended_pods.by_index.push(slot);
            }
        }
    }

    /// Tells people how the Job ended, once the server knows.
    fn report_end(&mut self) {
        let Some(verdict) = self.ending.clone().filter(|_| self.status.is_finished()) else {
            return;
        };
        if !verdict.success {
            self.report(Report::warning(&verdict.reason, &verdict.message));
            return;
        }
        if self
            .spec
            .completions
            .is_some_and(|wanted| self.status.succeeded > wanted)
        {
            self.report(Report::warning(
                "TooManySucceededPods",
                "Too many succeeded pods running after completion count reached",
            ));
        }
        self.report(Report::normal("Completed", "Job completed"));
    }
}

/// Makes the Suspended condition so, and leaves it alone if it is.
fn set_suspended(conditions: &mut Vec<Condition>, suspended: bool, now: Time) {
    let (reason, message) = if suspended {
        ("JobSuspended", "Job suspended")
    } else {
        ("JobResumed", "Job resumed")
    };
    let mut condition = Condition::new_true(ConditionKind::Suspended, reason, message, now);
    if !suspended {
        condition.status = "False".into();
    }
    match conditions
        .iter_mut()
        .find(|found| found.is(ConditionKind::Suspended))
    {
        Some(found) if found.status == condition.status => {}
        Some(found) => *found = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CompletionMode, Job, JobKey, JobSpec, Limits};

    fn machine(parallelism: u32, completions: u32) -> JobMachine {
        let job = Job {
            key: JobKey::default(),
            uid: Uid::from_u128(1),
            resource_version: 1,
            generation: 1,
            deleting: false,
            spec: JobSpec {
                mode: CompletionMode::Indexed,
                parallelism,
                completions: Some(completions),
                ..JobSpec::default()
            },
            status: JobStatus::default(),
        };
        JobMachine::new(&job, Limits::default(), 1)
    }

    fn patience(machine: &JobMachine) -> u64 {
        machine.patience(Monotonic::from_secs(1000)).as_secs()
    }

    #[test]
    fn the_longer_pod_writes_take_the_longer_a_little_progress_waits() {
        let mut small = machine(100, 100);
        let mut took = |seconds: u64| {
            small.errands.ask(Monotonic::from_secs(1000 - seconds));
            small.errands.answer(Monotonic::from_secs(1000));
            patience(&small)
        };
        assert_eq!([0, 1, 2, 8, 60].map(&mut took), [1, 1, 2, 8, 10]);
        small.deleting = true;
        assert_eq!(patience(&small), 1);
        small.deleting = false;
        assert_eq!(patience(&small), 10);
        small.tally.active = 100;
        assert_eq!(patience(&small), 10, "its Pods go first");
    }

    #[test]
    fn the_more_pods_the_longer_a_little_progress_waits() {
        let seconds = |machine: JobMachine| patience(&machine);
        assert_eq!(seconds(machine(1, 1)), 1);
        assert_eq!(seconds(machine(1_999, 100_000)), 1);
        assert_eq!(seconds(machine(5_000, 20_000)), 5);
        assert_eq!(seconds(machine(100_000, 100_000)), 10);
        // What is left is few.
        let mut late = machine(100_000, 100_000);
        late.status.succeeded = 98_000;
        assert_eq!(seconds(late), 2);
        let mut suspended = machine(100_000, 100_000);
        suspended.spec.suspend = true;
        assert_eq!(seconds(suspended), 1);
    }

    #[test]
    fn the_time_of_day_neither_holds_up_nor_hurries_a_status() {
        let (mut machine, pods) = (machine(5, 20), PodTable::default());
        let start = Now::at(Time::from_secs(100_000));
        machine.decide(&pods, start);
        while machine.poll_effect().is_some() {}
        let soon = start + Duration::from_millis(400);
        for wall in [soon.wall, Time::from_secs(92_800), Time::from_secs(107_200)] {
            let now = Now { wall, ..soon };
            machine.decide(&pods, now);
            let (due, why) = machine.poll_timeout().expect("Pods are being made");
            assert_eq!(why, "status write");
            assert_eq!(due.left(now), Some(Duration::from_millis(600)), "{wall:?}");
        }
        assert_eq!(machine.poll_effect(), None);
        let set_back = Now {
            wall: Time::from_secs(92_800),
            ..start + Duration::from_secs(1)
        };
        machine.decide(&pods, set_back);
        let status = machine.poll_effect();
        assert!(matches!(status, Some(Effect::WriteStatus(_))), "{status:?}");
    }

    #[test]
    fn much_progress_does_not_wait() {
        let mut machine = machine(100_000, 100_000);
        machine.tally.active = 316;
        assert_eq!(patience(&machine), 10);
        machine.tally.active = 317;
        assert_eq!(patience(&machine), 1);
        machine.status.active = 317;
        machine.ended_pods.by_index = vec![Slot(0); 316];
        assert_eq!(patience(&machine), 10);
        machine.ended_pods.by_uid.push_back(Slot(1));
        assert_eq!(patience(&machine), 1);
    }
}
