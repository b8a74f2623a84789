//! Holds the part of a Pod's spec that all Pods of a template share.
//!
//! Responsible for: the owned, checked form of a Pod's spec, shared between equal Pods.
//! Must not: hold anything that differs between Pods, or the sharing is lost.

use std::{sync::Arc, time::Duration};

use compact_str::CompactString;

use super::{
    decode::{RawContainer, RawPod, Texts},
    settings::Settings,
};

/// The part of a Pod's spec that the kubelet needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) containers: Box<[Named]>,
    pub(super) inits: Box<[Named]>,
    pub(super) restart: Restart,
    pub(super) grace: Duration,
    pub(super) deadline: Option<Duration>,
    /// The Pod's settings, or the error in its annotations.
    pub(super) settings: Result<Settings, String>,
}

/// A container by name and image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: CompactString,
    pub(super) image: CompactString,
    pub(super) sidecar: bool,
}

/// Restart policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Shape {
    pub(super) fn read(view: &RawPod<'_>) -> Self {
        let spec = &view.spec;
        let none = Texts::new();
        let annotations = view.metadata.annotations.as_ref().unwrap_or(&none);
        Self {
            containers: named(spec.containers.as_deref()),
            inits: named(spec.init_containers.as_deref()),
            restart: match spec.restart_policy.as_deref() {
                Some("Never") => Restart::Never,
                Some("OnFailure") => Restart::OnFailure,
                _ => Restart::Always,
            },
            grace: secs(
                spec.termination_grace_period_seconds
                    .unwrap_or(DEFAULT_GRACE_SECS),
            ),
            deadline: spec.active_deadline_seconds.map(secs),
            settings: Settings::read(annotations, view.completion_index().is_some()),
        }
    }

    /// Returns true if a container that exited with this code is restarted.
    pub(super) fn restarts_after(&self, exit_code: i32) -> bool {
        match self.restart {
            Restart::Always => true,
            Restart::OnFailure => exit_code != 0,
            Restart::Never => false,
        }
    }
}

/// Shares equal values between Pods. Only the latest value is kept: Pods of a Job arrive in a row.
#[derive(Debug)]
pub(super) struct Latest<T>(Option<Arc<T>>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: PartialEq> Latest<T> {
    pub(super) fn share(&mut self, value: T) -> Arc<T> {
        match &self.0 {
            Some(latest) if **latest == value => Arc::clone(latest),
            _ => Arc::clone(self.0.insert(Arc::new(value))),
        }
    }
}

fn named(containers: Option<&[RawContainer<'_>]>) -> Box<[Named]> {
    let containers = containers.unwrap_or_default().iter();
    containers
        .map(|container| Named {
            name: CompactString::new(&*container.name),
            image: CompactString::new(container.image.as_deref().unwrap_or_default()),
            sidecar: container.restart_policy.as_deref() == Some("Always"),
        })
        .collect()
}

fn secs(secs: i64) -> Duration {
    Duration::from_secs(u64::try_from(secs).unwrap_or(0))
}

/// The API server's default; used only if the field is missing.
const DEFAULT_GRACE_SECS: i64 = 30;
