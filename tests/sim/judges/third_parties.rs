//! Checks that a Job follows its spec at once, whatever third parties write, and that no Pod gets the name of one of an
//! earlier run.

use super::{Job, Judges, Pod, Written};
use crate::casting::BUSY;

const JUDGE: &str = "third_parties";

/// Two statuses of another Job controller within this time are a contest.
const IN_A_ROW: u64 = 30_000;

impl Judges {
    /// Notes a write of a third party to a status, as only a Job controller should make it: of counts, or of the start
    /// time.
    pub(crate) fn wrote_as_job_controller(&mut self, name: &str, counts: bool, at: u64) {
        let Some(uid) = self.job_named(BUSY, name) else {
            return;
        };
        self.meddled_with_job(&uid);
        if let Some(job) = self.jobs.get_mut(&uid).filter(|_| counts) {
            let last = job.foreign_status_at.replace(at);
            job.is_contested |= last.is_some_and(|last| at - last <= IN_A_ROW);
        }
    }

    /// Judges that the Job's Pods match its spec. Only valid while nothing else goes wrong.
    pub(crate) fn judge_promptness(&mut self, name: &str, at: u64) {
        let Some(uid) = self.job_named(BUSY, name) else {
            return;
        };
        let job = &self.jobs[&uid];
        let (spec, status) = (&job.view.spec, &job.view.status);
        if job.spec_changed_at + 1_000 > at || status.has_verdict() || job.is_deleting {
            return;
        }
        let pods = self.pods.values();
        let active = pods.filter(|pod| pod.belongs_to(&uid) && pod.is_active());
        let active = active.count() as u64;
        let parallelism = spec.parallelism.unwrap_or(1);
        let left = spec
            .completions
            .map_or(u64::MAX, |most| most - status.succeeded.min(most));
        let wanted = if spec.suspend {
            0
        } else {
            parallelism.min(left)
        };
        let is_late = match job.is_contested {
            true => active > wanted,
            false => active != wanted,
        };
        if is_late {
            let since = job.spec_changed_at;
            let text =
                format!("{name}: {active} Pods are active, and {wanted} are wanted since {since}");
            self.find(JUDGE, text);
        }
        let job = &self.jobs[&uid];
        let is_told = job.view.status.condition("Suspended").is_some();
        if is_told != job.view.spec.suspend {
            let since = job.spec_changed_at;
            let text = format!("{name}: Suspended is {is_told}, and should not be since {since}");
            self.find(JUDGE, text);
        }
    }

    /// Returns the fault if a new Pod has the name of a Pod of an earlier run, which is gone. A creation with a lost
    /// response is retried under its name, in whatever run.
    pub(super) fn repeated_name(&self, uid: &str, name: &str, written: Written) -> Option<String> {
        let run = self.jobs[uid].run;
        let mut pods = self.pods.values();
        let is_old = |pod: &&Pod| {
            let is_its = pod.job.as_deref() == Some(uid) && pod.name == name;
            is_its && pod.is_gone && pod.run < run
        };
        let old = pods.find(is_old).filter(|_| !self.are_writes_lost)?;
        let (was, at) = (old.run, written.at);
        Some(format!(
            "{name} was made at {at} in run {run}, and was the name of a Pod of run {was}"
        ))
    }

    /// Returns the name of a Pod of an earlier run that is gone.
    pub(crate) fn pod_of_an_earlier_run(&self, number: u16) -> Option<String> {
        let run_of = |pod: &Pod| Some(self.jobs.get(pod.job.as_ref()?)?.run);
        let pods = self.pods.values().filter(|pod| {
            let is_old = run_of(pod).is_some_and(|run| pod.run < run);
            pod.is_gone && is_old && pod.namespace == BUSY
        });
        let names: Vec<&str> = pods.map(|pod| pod.name.as_str()).collect();
        let at = usize::from(number).checked_rem(names.len())?;
        Some(names[at].to_owned())
    }

    /// Judges a kubelet's status by name for a Pod that is gone.
    pub(crate) fn reported_late(&mut self, name: &str, code: u16) {
        if code < 300 && !self.are_writes_lost {
            self.find(
                JUDGE,
                format!("a late status of {name} has hit another Pod"),
            );
        }
    }
}

impl Job {
    /// Notes the runs in its status, and changes of its spec.
    pub(super) fn note_run(&mut self, next: &super::views::JobView, at: u64) {
        let suspended = |view: &super::views::JobView| view.status.condition("Suspended").is_some();
        self.run += u64::from(suspended(&self.view) && !suspended(next));
        let (old, new) = (&self.view.spec, &next.spec);
        let is_changed = old.suspend != new.suspend
            || old.parallelism != new.parallelism
            || old.completions != new.completions;
        if is_changed {
            self.spec_changed_at = at;
        }
    }
}
