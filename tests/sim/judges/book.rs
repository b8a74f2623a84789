//! What judges remember of Jobs and Pods.
//!
//! Must not: judge.

use std::collections::{BTreeMap, BTreeSet};

use lakh::embedded::apiserver::Stored;

use super::views::{JobView, PodView};
use crate::world::By;

/// How late a controller may hear of what people change.
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
    /// Values of `parallelism`, and until when each held.
    parallelisms: Vec<(u64, u64)>,
    /// Whether counters may be wrong, as somebody has written what he should not.
    pub(super) is_meddled_with: bool,
    /// UIDs that were listed as uncounted and then counted.
    pub(super) counted: BTreeSet<String>,
    /// The values of `completions`, and until when each held last.
    pub(super) sizes: BTreeMap<u64, u64>,
    /// When a Pod was made for it last.
    pub(super) busy_at: u64,
    /// When somebody else than a controller has changed it last.
    pub(super) edited_at: u64,
    /// Its deadline had passed before somebody changed it: who was refused to say so before may say so yet.
    pub(super) was_overdue: bool,
    /// Resumptions so far, by its status.
    pub(super) run: u64,
    /// When suspension or size were changed last.
    pub(super) spec_changed_at: u64,
    /// When somebody else wrote its counts last.
    pub(super) foreign_status_at: Option<u64>,
    /// This happened twice so soon that it looks like another Job controller.
    pub(super) is_contested: bool,
    /// A Pod was made for it by a write that its controller knows nothing of, or cannot know to be wrong.
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
            // No status may have told yet when it was begun.
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

    /// Whether it was made smaller, and scaled before any status could tell of that: then its counter may not fall any
    /// more, and nobody can write a status, as upstream.
    pub(super) fn may_be_beyond_telling(&self) -> bool {
        let spec = &self.view.spec;
        self.sizes.len() > 1 && spec.parallelism != spec.completions
    }

    /// The least size that it had.
    pub(super) fn least_size(&self) -> Option<u64> {
        self.sizes.first_key_value().map(|(size, _)| *size)
    }

    /// Whether an index was beyond its size at some time since then.
    pub(super) fn was_beyond(&self, index: u64, since: u64) -> bool {
        let mut sizes = self.sizes.iter();
        sizes.any(|(size, until)| index >= *size && *until > since)
    }

    /// The greatest number of Pods at once that a controller may believe to be wanted.
    pub(super) fn parallelism(&self, at: u64) -> u64 {
        let now = self.view.spec.parallelism.unwrap_or(1);
        let heard = self.parallelisms.iter();
        let heard = heard.filter(|(_, until)| until + HEARSAY > at);
        heard
            .map(|(parallelism, _)| *parallelism)
            .fold(now, u64::max)
    }
}

/// The size that a Job has, and until when.
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
    /// The UID of the Job that it was made for.
    pub(super) job: Option<String>,
    pub(super) made_at: u64,
    /// In which run of its Job.
    pub(super) run: u64,
    pub(super) is_gone: bool,
    /// When it failed, if its container did while it was held.
    pub(super) failed_at: Option<u64>,
    /// When a status named it as failed.
    pub(super) named_at: Option<u64>,
    /// When it ended.
    pub(super) ended_at: Option<u64>,
    /// When the server refused to take its finalizer off, as it had changed and had not ended.
    pub(super) refused_at: Option<u64>,
    /// It had ended so while it was held.
    pub(super) ended_as: Option<String>,
    /// Its deletion was asked for before its end.
    pub(super) was_stopped: bool,
    /// It had succeeded, and whoever gives up Pods of lost nodes had not heard of that and said that it failed.
    pub(super) failed_after_all: bool,
    pub(super) is_meddled_with: bool,
    /// A controller took the finalizer off.
    pub(super) was_freed: bool,
    /// It did so before the Pod's end, to stop it.
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
        // One that was freed before its end counts for nobody.
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

    /// Whether it is a Pod of this Job: made for it, and not set free.
    pub(super) fn belongs_to(&self, job: &str) -> bool {
        let owner = self.view.job.as_ref();
        self.job.as_deref() == Some(job) && owner.is_some_and(|(owner, _)| owner == job)
    }

    /// Whether it is at work, or may yet be.
    pub(super) fn is_active(&self) -> bool {
        !self.is_gone && !self.view.has_ended() && !self.view.is_deleting
    }
}
