//! Decodes the few fields of a Pod that a hollow kubelet needs.
//!
//! Responsible for: reading them from the Pod's JSON, borrowed where possible.
//! Must not: validate them; `shape` and `settings` do.

use std::{
    borrow::{Borrow, Cow},
    collections::BTreeMap,
};

use serde::Deserialize;

use super::{life::Exit, stages::ExitReason};
use crate::model::{COMPLETION_INDEX, Time};

/// A Pod that cannot be decoded. Nothing has changed, and a retry does not help.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the Pod: {0}")]
pub struct DecodeError(#[from] serde_json::Error);

/// The fields of a Pod that the kubelet needs.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct RawPod<'a> {
    pub(super) metadata: RawPodMetadata<'a>,
    #[serde(default)]
    pub(super) spec: RawPodSpec<'a>,
    #[serde(default)]
    pub(super) status: RawPodStatus<'a>,
}

impl RawPod<'_> {
    /// Returns true if the Pod is in a phase that it never leaves.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// Returns true if the API shows that its containers have started.
    pub(super) fn is_running(&self) -> bool {
        self.status.phase.as_deref() == Some("Running")
    }

    /// Returns true if its kubelet has already reported container statuses.
    pub(super) fn runs(&self) -> bool {
        self.status.container_statuses.is_some()
    }

    /// Returns the restarts that the API shows; the count must never go back.
    pub(super) fn restarts(&self) -> u32 {
        let statuses = self.status.container_statuses.iter().flatten();
        let restarts = statuses.map(|status| status.restart_count);
        restarts.max().unwrap_or(0)
    }

    /// Returns the UID of the Job that owns the Pod.
    pub(super) fn job_uid(&self) -> Option<&str> {
        let mut owners = self.metadata.owner_references.iter().flatten();
        let job = owners.find(|owner| &*owner.kind == "Job")?;
        Some(&job.uid)
    }

    /// Returns the completion index of a Pod of an Indexed Job.
    pub(super) fn completion_index(&self) -> Option<u32> {
        let annotations = self.metadata.annotations.as_ref();
        let index = annotations.and_then(|it| it.get(COMPLETION_INDEX));
        let index = index.map(|index| &**index);
        index.or(self.label(COMPLETION_INDEX))?.parse().ok()
    }

    /// Returns the value of a label.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        Some(self.metadata.labels.as_ref()?.get(key)?)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct RawPodMetadata<'a> {
    pub(super) name: BorrowedText<'a>,
    pub(super) namespace: BorrowedText<'a>,
    pub(super) uid: BorrowedText<'a>,
    #[serde(default)]
    pub(super) generation: i64,
    pub(super) annotations: Option<Texts<'a>>,
    labels: Option<Texts<'a>>,
    pub(super) owner_references: Option<Vec<RawOwnerReference<'a>>>,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) deletion_grace_period_seconds: Option<i64>,
}

/// Labels or annotations.
pub(super) type Texts<'a> = BTreeMap<BorrowedText<'a>, BorrowedText<'a>>;

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct RawOwnerReference<'a> {
    kind: BorrowedText<'a>,
    uid: BorrowedText<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct RawPodSpec<'a> {
    pub(super) node_name: Option<BorrowedText<'a>>,
    pub(super) restart_policy: Option<BorrowedText<'a>>,
    pub(super) scheduling_gates: Option<Vec<serde::de::IgnoredAny>>,
    pub(super) containers: Option<Vec<RawContainer<'a>>>,
    pub(super) init_containers: Option<Vec<RawContainer<'a>>>,
    pub(super) termination_grace_period_seconds: Option<i64>,
    pub(super) active_deadline_seconds: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct RawContainer<'a> {
    pub(super) name: BorrowedText<'a>,
    pub(super) image: Option<BorrowedText<'a>>,
    pub(super) restart_policy: Option<BorrowedText<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct RawPodStatus<'a> {
    pub(super) phase: Option<BorrowedText<'a>>,
    pub(super) container_statuses: Option<Vec<RawContainerStatus<'a>>>,
    pub(super) init_container_statuses: Option<Vec<RawContainerStatus<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct RawContainerStatus<'a> {
    pub(super) name: Option<BorrowedText<'a>>,
    #[serde(default)]
    pub(super) restart_count: u32,
    #[serde(default)]
    state: RawContainerState<'a>,
}

impl RawContainerStatus<'_> {
    /// Returns the exit that the API shows, if the container does not run.
    pub(super) fn exit(&self) -> Option<Exit> {
        let terminated = self.state.terminated.as_ref()?;
        let time = |text: &Option<BorrowedText<'_>>| {
            let text = text.as_deref().unwrap_or_default();
            Time::parse_rfc3339(text).unwrap_or_default()
        };
        Some(Exit {
            code: terminated.exit_code,
            reason: terminated.reason.as_deref().and_then(ExitReason::of_text),
            started_at: time(&terminated.started_at),
            finished_at: time(&terminated.finished_at),
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct RawContainerState<'a> {
    terminated: Option<RawTerminated<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct RawTerminated<'a> {
    #[serde(default)]
    exit_code: i32,
    reason: Option<BorrowedText<'a>>,
    started_at: Option<BorrowedText<'a>>,
    finished_at: Option<BorrowedText<'a>>,
}

/// A text that borrows even inside an `Option` or a `Vec`, where serde copies a bare `Cow`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub(super) struct BorrowedText<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl std::ops::Deref for BorrowedText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for BorrowedText<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}
