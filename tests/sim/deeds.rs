//! Applies the actions of users, nodes, networks and clocks to a cluster.
//!
//! Must not: choose their times, or judge their outcome.

use lakh::embedded::apiserver::{Kind, Stored};
use serde_json::{Value, json};
use std::sync::Arc;

use super::{
    casting::{BUSY, HOSTILE},
    server::{Denial, Webhook},
    third_parties::ThirdParty,
    wider::MANAGER,
    world::World,
};

/// A temporary fault of the server or of the connection to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    Slow,
    Down,
    LosesRequests,
    LosesAnswers,
    SendsTwice,
    Busy,
    Failing,
    Unavailable,
    Unauthorized,
    Forbidden,
    Conflicting,
    Invalid,
    LateEvents,
    DoublesEvents,
    SwapsEvents,
    StaleLists,
    LosesStatusAnswers,
    LateAnswers,
}

/// The propagation policy of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// An action. Jobs of the busy namespace are named by number, Pods by their position in the server's list.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    CreateJob(&'static str, u64, Box<Value>),
    Suspend(u64, bool),
    Scale(u64, u64),
    /// Sets completions and parallelism, as an elastic indexed Job allows it.
    Resize(u64, u64),
    SetDeadline(u64, u64),
    DeleteJob(u64, Propagation),
    CreateCronJob(&'static str, Box<Value>),
    SuspendCronJob(bool),
    DeletePod(u16),
    DeletePodByForce(u16),
    /// Its node reports it as failed.
    FailPod(u16),
    StripFinalizer(u16),
    /// Removes its owner references.
    TakeOwner(u16),
    LoseNode(u64),
    AddNode(u64),
    Kill(usize),
    /// A crash after this many steps of the whole world, so between any two.
    KillAfter(usize, u64),
    Start(usize),
    Stop(usize),
    Stall(usize, u64),
    SetClock(usize, i64),
    Trouble(Trouble, u64),
    CutStreams,
    MuteStreams,
    ForgetEvents,
    BackUp,
    Restore,
    Flood(u64),
    SetWebhook(Option<Webhook>),
    /// A policy refuses one kind of write in the hostile namespace.
    Deny(Option<Denial>),
    SetQuota(u64),
    RemoveQuota,
    /// Creates a Pod with a controller reference to a Job of another namespace, or with a wrong name.
    ForeignOwner(u16),
    EditIndex(u16),
    TakeLabels(u16),
    /// Another client writes a Job's status without authority.
    WriteStatus(u64),
    /// A forged Pod: only its own metadata claims that it is the Job's.
    ForgedPod(u16),
    /// A third party writes to a Job.
    ThirdParty(ThirdParty, u64),
    /// The judges compare a Job's Pods with its spec. Nothing goes wrong, so they must agree.
    LookAtPods(u64),
}

impl Deed {
    /// Returns true if it may delay Jobs other than its target.
    pub(crate) fn concerns_all(&self) -> bool {
        matches!(
            self,
            Self::Kill(_)
                | Self::KillAfter(..)
                | Self::Start(_)
                | Self::Stop(_)
                | Self::Stall(..)
                | Self::SetClock(..)
                | Self::Trouble(..)
                | Self::CutStreams
                | Self::MuteStreams
                | Self::ForgetEvents
                | Self::Restore
                | Self::LoseNode(_)
                | Self::DeletePod(_)
                | Self::DeletePodByForce(_)
                | Self::FailPod(_)
                | Self::StripFinalizer(_)
        )
    }
}

/// Returns the path of the Job of this number.
pub(crate) fn job_path(number: u64) -> String {
    format!("/apis/batch/v1/namespaces/{BUSY}/jobs/job-{number}")
}

fn pod_path(pod: &Stored) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name)
}

impl World {
    /// Applies a deed.
    pub(crate) fn carry_out(&mut self, deed: &Deed) {
        match deed {
            Deed::CreateJob(namespace, number, spec) => {
                self.create_job(namespace, &format!("job-{number}"), spec);
            }
            Deed::Suspend(job, suspend) => {
                self.patch(&job_path(*job), &json!({"spec": {"suspend": suspend}}));
            }
            Deed::Scale(job, parallelism) => {
                let patch = json!({"spec": {"parallelism": parallelism}});
                self.patch(&job_path(*job), &patch);
            }
            Deed::Resize(job, size) => {
                let patch = json!({"spec": {"completions": size, "parallelism": size}});
                self.patch(&job_path(*job), &patch);
            }
            Deed::SetDeadline(job, seconds) => {
                let patch = json!({"spec": {"activeDeadlineSeconds": seconds}});
                self.patch(&job_path(*job), &patch);
            }
            Deed::DeleteJob(job, propagation) => {
                let body = json!({"propagationPolicy": format!("{propagation:?}")});
                self.ask("DELETE", &job_path(*job), &body.to_string());
            }
            Deed::CreateCronJob(name, spec) => {
                self.ensure_namespace(BUSY);
                let body = json!({
                    "apiVersion": "batch/v1", "kind": "CronJob",
                    "metadata": {"name": name}, "spec": spec,
                });
                let path = format!("/apis/batch/v1/namespaces/{BUSY}/cronjobs");
                self.ask("POST", &path, &body.to_string());
            }
            Deed::SuspendCronJob(suspend) => {
                for name in ["cron", "cron-2"] {
                    let path = format!("/apis/batch/v1/namespaces/{BUSY}/cronjobs/{name}");
                    self.patch(&path, &json!({"spec": {"suspend": suspend}}));
                }
            }
            Deed::DeletePod(_)
            | Deed::DeletePodByForce(_)
            | Deed::FailPod(_)
            | Deed::StripFinalizer(_)
            | Deed::TakeOwner(_)
            | Deed::ForeignOwner(_)
            | Deed::EditIndex(_)
            | Deed::TakeLabels(_)
            | Deed::ForgedPod(_) => self.do_to_pod(deed),
            Deed::LoseNode(node) => {
                self.ask("DELETE", &format!("/api/v1/nodes/hollow-{node}"), "");
            }
            Deed::AddNode(node) => {
                let at = self.at;
                self.nodes.add_node(*node, at, &mut self.server);
                self.changed(super::world::By::Person, at);
            }
            Deed::Kill(number) => self.kill(*number),
            Deed::KillAfter(number, steps) => self.kill_after(*number, *steps),
            Deed::Start(number) => self.start(*number),
            Deed::Stop(number) => self.close(*number),
            Deed::Stall(number, millis) => self.stall(*number, *millis),
            Deed::SetClock(number, skew) => self.set_clock(*number, *skew),
            Deed::Trouble(trouble, millis) => {
                let end = self.at + millis;
                let ends = self.trouble.entry(*trouble).or_default();
                *ends = end.max(*ends);
            }
            Deed::CutStreams => self.cut_streams(true),
            Deed::MuteStreams => self.cut_streams(false),
            Deed::ForgetEvents => self.server.forget_events(),
            Deed::BackUp => self.back_up(),
            Deed::Restore => self.restore(),
            Deed::Flood(count) => {
                let spec = json!({
                    "parallelism": 4, "completions": 4,
                    "template": {"spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "main", "image": "busybox"}],
                    }},
                });
                for number in 0..*count {
                    self.create_job(HOSTILE, &format!("flood-{number}"), &spec);
                }
            }
            Deed::SetWebhook(webhook) => {
                self.server.webhook = webhook.map(|webhook| (HOSTILE, webhook));
            }
            Deed::Deny(denial) => self.server.denial = denial.map(|denial| (HOSTILE, denial)),
            Deed::SetQuota(pods) => {
                self.ensure_namespace(HOSTILE);
                let body = json!({
                    "apiVersion": "v1", "kind": "ResourceQuota",
                    "metadata": {"name": "quota"}, "spec": {"hard": {"pods": pods.to_string()}},
                });
                let path = format!("/api/v1/namespaces/{HOSTILE}/resourcequotas");
                self.ask("POST", &path, &body.to_string());
            }
            Deed::RemoveQuota => {
                let path = format!("/api/v1/namespaces/{HOSTILE}/resourcequotas/quota");
                self.ask("DELETE", &path, "");
            }
            Deed::WriteStatus(number) => self.write_status(*number),
            Deed::ThirdParty(what, job) => self.write_as_third_party(*what, *job),
            Deed::LookAtPods(job) => {
                let at = self.at;
                self.judges.judge_promptness(&format!("job-{job}"), at);
            }
        }
    }

    fn do_to_pod(&mut self, deed: &Deed) {
        match deed {
            Deed::DeletePod(number) => {
                if let Some(pod) = self.pod(BUSY, *number) {
                    self.ask("DELETE", &pod_path(&pod), "");
                }
            }
            Deed::DeletePodByForce(number) => {
                if let Some(pod) = self.pod(BUSY, *number) {
                    let body = r#"{"gracePeriodSeconds":0}"#;
                    self.ask("DELETE", &pod_path(&pod), body);
                }
            }
            Deed::FailPod(number) => {
                if let Some(pod) = self.pod(BUSY, *number).filter(|pod| !has_ended(pod)) {
                    let path = format!("{}/status", pod_path(&pod));
                    self.patch(&path, &json!({"status": {"phase": "Failed"}}));
                }
            }
            Deed::StripFinalizer(number) => {
                if let Some(pod) = self.pod(BUSY, *number) {
                    self.judges.meddled(&pod);
                    let patch = json!({"metadata": {"finalizers": null}});
                    self.patch(&pod_path(&pod), &patch);
                }
            }
            Deed::TakeOwner(number) => {
                // A Pod that is being deleted is never adopted.
                let stays = |pod: &Arc<Stored>| pod.deletion.is_none();
                if let Some(pod) = self.pod(BUSY, *number).filter(stays) {
                    let patch = json!({"metadata": {"ownerReferences": null}});
                    self.patch(&pod_path(&pod), &patch);
                }
            }
            Deed::EditIndex(number) => {
                if let Some(pod) = self.pod(HOSTILE, *number) {
                    self.judges.meddled(&pod);
                    let index = "batch.kubernetes.io/job-completion-index";
                    let patch = json!({"metadata": {"annotations": {index: "2"}}});
                    self.patch(&pod_path(&pod), &patch);
                }
            }
            Deed::TakeLabels(number) => {
                if let Some(pod) = self.pod(HOSTILE, *number) {
                    self.judges.meddled(&pod);
                    let patch = json!({"metadata": {"labels": null}});
                    self.patch(&pod_path(&pod), &patch);
                }
            }
            Deed::ForeignOwner(number) | Deed::ForgedPod(number) => {
                let is_foreign = matches!(deed, Deed::ForeignOwner(_));
                self.forge(*number, is_foreign);
            }
            _ => {}
        }
    }

    fn patch(&mut self, path: &str, patch: &Value) {
        self.ask("PATCH", path, &patch.to_string());
    }

    fn ensure_namespace(&mut self, namespace: &str) {
        if self
            .server
            .api
            .get(Kind::Namespace, "", namespace)
            .is_none()
        {
            let body =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            self.ask("POST", "/api/v1/namespaces", &body.to_string());
        }
    }

    fn create_job(&mut self, namespace: &str, name: &str, spec: &Value) {
        self.ensure_namespace(namespace);
        // Every other Job asks for all optional features.
        let asks = name.ends_with(['0', '2', '4', '6', '8']);
        let annotations = match asks {
            true => json!({
                "lakh.dev/index-record": "true", "lakh.dev/failure-summary": "true", "lakh.dev/job-metrics": "true",
            }),
            false => json!({}),
        };
        let body = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": name, "annotations": annotations}, "spec": spec,
        });
        let path = format!("/apis/batch/v1/namespaces/{namespace}/jobs");
        let (code, answer) = self.ask("POST", &path, &body.to_string());
        let is_known = code == 201 || code == 409 || code == 403;
        assert!(is_known, "{code}: {}", String::from_utf8_lossy(&answer));
    }

    /// Returns a Pod of a namespace, if there is one.
    fn pod(&self, namespace: &str, number: u16) -> Option<Arc<Stored>> {
        let pods = self.server.api.objects(Kind::Pod);
        let pods: Vec<_> = pods.filter(|pod| pod.namespace == namespace).collect();
        let at = usize::from(number).checked_rem(pods.len())?;
        Some(Arc::clone(pods[at]))
    }

    /// Creates a Pod that claims a Job as its controller. If `is_foreign`, the Job is of another namespace, or the
    /// claim has a wrong name.
    fn forge(&mut self, number: u16, is_foreign: bool) {
        // Only the name is wrong: the Job's own namespace, but not its name.
        let is_misnamed = is_foreign && number % 2 == 1;
        let from = if is_foreign { BUSY } else { HOSTILE };
        let jobs = self.server.api.objects(Kind::Job);
        let jobs: Vec<_> = jobs.filter(|job| job.namespace == from).cloned().collect();
        let Some(job) = usize::from(number).checked_rem(jobs.len()) else {
            return;
        };
        let job = &jobs[job];
        self.ensure_namespace(HOSTILE);
        let name = if is_misnamed { "another" } else { &*job.name };
        let finalizer = match self.scenario.is_beside {
            true => MANAGER.replace("job-controller", "job-tracking"),
            false => "batch.kubernetes.io/job-tracking".to_owned(),
        };
        let body = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("forged-{number}"),
                "finalizers": [finalizer],
                "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
                "labels": {"batch.kubernetes.io/controller-uid": &*job.uid},
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": &*job.uid,
                    "controller": true,
                }],
            },
            "spec": {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"},
        });
        let namespace = if is_misnamed { from } else { HOSTILE };
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        if !is_foreign {
            self.judges.meddled_with_job(&job.uid);
        }
        self.ask("POST", &path, &body.to_string());
    }

    /// Writes counters into the status of a Job of the hostile namespace.
    fn write_status(&mut self, number: u64) {
        let Some(job) = self.server.api.get(Kind::Job, HOSTILE, "job-0") else {
            return;
        };
        self.judges.meddled_with_job(&job.uid);
        let path = format!("/apis/batch/v1/namespaces/{HOSTILE}/jobs/job-0/status");
        let status = match number {
            0 => json!({"failed": 3}),
            1 => json!({"active": 77}),
            _ => json!({"uncountedTerminatedPods": {"succeeded": ["nobody"], "failed": []}}),
        };
        self.patch(&path, &json!({"status": status}));
    }
}

fn has_ended(pod: &Stored) -> bool {
    matches!(&*pod.phase, "Succeeded" | "Failed")
}
