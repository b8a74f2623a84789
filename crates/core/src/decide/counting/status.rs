//! Composes the Pod fields of a status, and handles the result of the status write.
//!
//! Must not: decide when a status is written, or compose conditions.

use crate::model::{CompactIndex, FailureAction, JobStatus, PodTable, Slot, Uid, Uncounted};

use super::{
    super::job::JobContext,
    Counting,
    naming::{Named, UnderWay},
    pod::Ruling,
    stage::{End, Input, Stage},
};

impl Counting {
    /// Writes the Pod fields into the next status, on top of the stored one.
    pub(in crate::decide) fn write_into(
        &mut self,
        context: &JobContext<'_>,
        pods: &PodTable,
        next: &mut JobStatus,
    ) {
        next.active = self.tally.active;
        next.ready = Some(self.tally.ready);
        next.terminating = Some(self.tally.terminating);
        let counted = self.count_released(context, next);
        let named = self.name_ended(context, pods);
        let indexed = self.name_indexed(context, next);
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
        self.naming.under_way = Some(UnderWay {
            named,
            indexed,
            counted,
            orphans: [0, 0],
            failures: self.failures.in_a_row,
        });
    }

    /// Moves Pods whose finalizer is off from the list into the counters.
    fn count_released(&self, context: &JobContext<'_>, next: &mut JobStatus) -> Vec<Uid> {
        let by_pod = !context.spec.is_indexed();
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

    /// Chooses the Pods that this write records by UID, as many as one status may hold.
    fn name_ended(&mut self, context: &JobContext<'_>, pods: &PodTable) -> Vec<Named> {
        let most = context.limits.max_uncounted_pods as usize;
        let mut named = Vec::new();
        while self.uncounted.held_total() + named.len() < most {
            let Some(slot) = self.naming.by_uid.pop_front() else {
                break;
            };
            let Stage::Ended(end) = self.pods[slot].stage else {
                continue;
            };
            if context.spec.is_indexed() && end == End::Success {
                continue;
            }
            let Some(pod) = pods.get(slot) else { continue };
            named.push(Named {
                uid: pod.uid,
                end,
                slot,
                is_orphan: false,
                ruling: self.pods[slot].ruling,
            });
            self.happens(context, slot, Input::Named);
        }
        named
    }

    /// Records the succeeded Pods of an Indexed Job, by their indexes.
    fn name_indexed(&mut self, context: &JobContext<'_>, next: &mut JobStatus) -> Vec<Slot> {
        if !context.spec.is_indexed() {
            return Vec::new();
        }
        next.completed_indexes = self.indexes.completed_text();
        self.indexes.begin_store();
        next.succeeded = self.indexes.completed_len();
        let mut indexed = std::mem::take(&mut self.naming.by_index);
        indexed.retain(|slot| self.pods[*slot].stage == Stage::Ended(End::Success));
        indexed.sort_unstable();
        indexed.dedup();
        indexed.retain(|slot| {
            let index = self.pods[*slot].number.map(CompactIndex::get);
            // Another Pod of the index may have brought it into the stored status since.
            let stored = index.is_some_and(|index| self.indexes.is_stored(index));
            let input = match stored {
                true => Input::IndexStored,
                false => Input::Named,
            };
            self.happens(context, *slot, input);
            !stored
        });
        indexed
    }

    /// Drops a composed status that is not worth a write. It records no Pods.
    pub(in crate::decide) fn forget_write(&mut self) {
        self.naming.under_way = None;
    }

    /// Handles a stored status: finalizers of the Pods that it records may be removed. Returns the podFailurePolicy
    /// actions that are now final.
    pub(in crate::decide) fn status_written(
        &mut self,
        context: &JobContext<'_>,
    ) -> Vec<FailureAction> {
        let Some(write) = self.naming.under_way.take() else {
            return Vec::new();
        };
        self.failures.stored = write.failures;
        self.uncounted.counted(&write.counted);
        let mut applied = Vec::new();
        for Named {
            uid,
            end,
            slot,
            is_orphan: _,
            ruling,
        } in write.named
        {
            if let (Ruling::By(action), End::Failure) = (ruling, end) {
                applied.push(action);
            }
            let held = self.pods[slot].stage == Stage::Listing(end);
            self.uncounted.add(uid, end, held.then_some(slot));
            if held {
                self.happens(context, slot, Input::StatusWritten);
            } else {
                self.changed = true;
            }
        }
        for slot in write.indexed {
            if self.pods[slot].stage == Stage::Listing(End::Success) {
                self.happens(context, slot, Input::StatusWritten);
            }
        }
        self.indexes.end_store(true);
        self.changed |= !self.naming.by_uid.is_empty();
        applied
    }

    /// Handles a failed status write or an unknown result. The next write carries everything again.
    pub(in crate::decide) fn status_not_written(&mut self, context: &JobContext<'_>) {
        self.changed = true;
        self.indexes.end_store(false);
        let Some(write) = self.naming.under_way.take() else {
            return;
        };
        for Named { end, slot, .. } in write.named {
            if self.pods[slot].stage == Stage::Listing(end) {
                self.happens(context, slot, Input::StatusNotWritten);
                self.naming.by_uid.push_front(slot);
                // It may have succeeded since, or a policy may ignore it by now.
                self.revisit.push(slot);
            }
        }
        for slot in write.indexed {
            if self.pods[slot].stage == Stage::Listing(End::Success) {
                self.happens(context, slot, Input::StatusNotWritten);
                self.naming.by_index.push(slot);
            }
        }
    }
}
