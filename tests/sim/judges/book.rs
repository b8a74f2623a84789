//! Records the state and history of Jobs and Pods for the judges.
//!
//! Must not: judge.

use std::collections::{BTreeMap, BTreeSet};

use lakh::embedded::apiserver::Stored;

use super::views::{JobView, PodView};
use crate::world::By;

/// The greatest delay until a controller knows of a user's change, in milliseconds.
const HEARSAY: u64 = 95_000;

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) view: JobView,
    pub(super) created_at: u64,
    pub(super) is_deleting: bool,
    pub(super) gone_at: Option<u64>,
    pub(super) verdict_at: Option<u64>,
    /// Earlier values of `parallelism`, each with its end.
    parallelisms: Vec<(u64, u64)>,
    /// Counters may be wrong because of an illegitimate write.
    pub(super) is_meddled_with: bool,
    /// UIDs that were listed as uncounted and then counted.
    pub(super) counted: BTreeSet<String>,
    /// Values of `completions`, each with the time until which it last held.
    pub(super) sizes: BTreeMap<u64, u64>,
    /// Last creation of a Pod for it.
    pub(super) busy_at: u64,
    /// Last change by a client other than a controller.
    pub(super) edited_at: u64,
    /// Its deadline had passed before another client changed it. If a controller's status was refused because of that
    /// change, the controller may still write it.
    pub(super) was_overdue: bool,
    /// Resumptions so far, by its status.
    pub(super) run: u64,
    /// Last change of suspension or size.
    pub(super) spec_changed_at: u64,
    /// Last write of its counts by another client.
    pub(super) foreign_status_at: Option<u64>,
    /// Two such writes came so soon after one another that they look like another Job controller's.
    pub(super) is_contested: bool,
    /// A Pod was created for it by a write that its controller does not know of, or cannot know to be wrong.
    pub(super) is_haunted: bool,
}

impl Job {
    pub(super) fn new(job: &Stored, view: JobView, at: u64) -> Self {
        Self {
            namespace: job.namespace.to_string(),
            name: job.name.to_string(),
            created_at: at,
            is_deleting: false,
            gone_at: None,
            verdict_at: None,
            parallelisms: Vec::new(),
            is_meddled_with: false,
            counted: BTreeSet::new(),
            is_haunted: false,
            run: 0,
            spec_changed_at: at,
            foreign_status_at: None,
            is_contested: false,
            edited_at: at,
            was_overdue: false,
            sizes: holds(&view).collect(),
            busy_at: at,
            view,
        }
    }

    pub(super) fn changed(&mut self, job: &Stored, view: JobView, by: By, at: u64) {
        if !matches!(by, By::Controller(_)) {
            self.edited_at = at;
            // The status may not have its start time yet.
            let began = self.view.status.started_at().unwrap_or(self.created_at);
            let deadline = self.view.spec.active_deadline_seconds;
            self.was_overdue |= deadline.is_some_and(|secs| began + secs * 1_000 <= at);
        }
        self.note_run(&view, at);
        let before = self.view.spec.parallelism.unwrap_or(1);
        if view.spec.parallelism.unwrap_or(1) != before {
            self.parallelisms.push((before, at));
        }
        if view.status.has_verdict() && self.verdict_at.is_none() {
            self.verdict_at = Some(at);
        }
        self.is_deleting = job.deletion.is_some();
        for until in self.sizes.values_mut() {
            *until = at.min(*until);
        }
        self.sizes.extend(holds(&view));
        self.view = view;
    }

    /// Returns true if the Job may have been resized and scaled before a status could reflect it. Its counter may then
    /// not fall any more, so no status can be written, as upstream.
    pub(super) fn may_be_beyond_telling(&self) -> bool {
        let spec = &self.view.spec;
        self.sizes.len() > 1 && spec.parallelism != spec.completions
    }

    /// Returns its least size so far.
    pub(super) fn least_size(&self) -> Option<u64> {
        self.sizes.first_key_value().map(|(size, _)| *size)
    }

    /// Returns true if an index was beyond the Job's size at some time after `since`.
    pub(super) fn was_beyond(&self, index: u64, since: u64) -> bool {
        let mut sizes = self.sizes.iter();
        sizes.any(|(size, until)| index >= *size && *until > since)
    }

    /// Returns the greatest parallelism that a controller may still believe to be valid.
    pub(super) fn parallelism(&self, at: u64) -> u64 {
        let now = self.view.spec.parallelism.unwrap_or(1);
        let heard = self.parallelisms.iter();
        let heard = heard.filter(|(_, until)| until + HEARSAY > at);
        heard
            .map(|(parallelism, _)| *parallelism)
            .fold(now, u64::max)
    }
}

/// Returns the Job's present size with an open end.
fn holds(job: &JobView) -> impl Iterator<Item = (u64, u64)> {
    job.spec
        .completions
        .map(|size| (size, u64::MAX))
        .into_iter()
}

#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) view: PodView,
    /// UID of the Job that it was created for.
    pub(super) job: Option<String>,
    pub(super) made_at: u64,
    /// Run of its Job in which it was created.
    pub(super) run: u64,
    pub(super) is_gone: bool,
    /// Time of its failure, if its container failed while it had its finalizer.
    pub(super) failed_at: Option<u64>,
    /// Time when a status listed it as failed.
    pub(super) named_at: Option<u64>,
    /// Time of its end.
    pub(super) ended_at: Option<u64>,
    /// Time when the server refused to remove its finalizer, as the Pod had changed and had not ended.
    pub(super) refused_at: Option<u64>,
    /// Its final phase, if it ended while it had its finalizer.
    pub(super) ended_as: Option<String>,
    /// Its deletion was requested before its end.
    pub(super) was_stopped: bool,
    /// It had succeeded, and then the collector of Pods of lost nodes marked it as failed, unaware of the success.
    pub(super) failed_after_all: bool,
    pub(super) is_meddled_with: bool,
    /// A controller removed the finalizer.
    pub(super) was_freed: bool,
    /// A controller removed the finalizer before the Pod's end, to stop it.
    pub(super) was_given_up: bool,
}

impl Pod {
    pub(super) fn new(
        pod: &Stored,
        view: PodView,
        (job, run): (Option<String>, u64),
        at: u64,
    ) -> Self {
        Self {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            job,
            made_at: at,
            run,
            is_gone: false,
            failed_at: None,
            named_at: None,
            ended_at: None,
            refused_at: None,
            ended_as: None,
            was_stopped: false,
            failed_after_all: false,
            is_meddled_with: false,
            was_freed: false,
            was_given_up: false,
            view,
        }
    }

    pub(super) fn changed(&mut self, view: PodView, is_gone: bool, by: By, at: u64) {
        self.is_gone = is_gone;
        // A Pod that lost its finalizer before its end is not counted.
        let is_new =
            view.has_ended() && !self.view.has_ended() && !view.is_deleting && view.is_held;
        if is_new && view.phase == "Failed" && view.exit_code.is_some_and(|code| code != 0) {
            self.failed_at = Some(at);
        }
        if view.has_ended() {
            self.ended_at.get_or_insert(at);
        }
        self.was_stopped |= view.is_deleting && !self.view.has_ended();
        self.failed_after_all |= self.view.phase == "Succeeded" && view.phase == "Failed";
        if view.has_ended() && (view.is_held || self.view.is_held) && self.ended_as.is_none() {
            self.ended_as = Some(view.phase.clone());
        }
        if self.view.is_held && !view.is_held && matches!(by, By::Controller(_)) {
            self.was_freed = true;
            self.was_given_up |= !view.has_ended();
        }
        self.view = view;
    }

    /// Returns true if the Pod was created for this Job and still has it as its owner.
    pub(super) fn belongs_to(&self, job: &str) -> bool {
        let owner = self.view.job.as_ref();
        self.job.as_deref() == Some(job) && owner.is_some_and(|(owner, _)| owner == job)
    }

    /// Returns true if it runs, or may yet run.
    pub(super) fn is_active(&self) -> bool {
        !self.is_gone && !self.view.has_ended() && !self.view.is_deleting
    }
}
