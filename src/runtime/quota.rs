//! Which Jobs a ResourceQuota keeps from making Pods, to say how soon they try again.
//!
//! Nobody tells when a quota has room again. So some Job of the namespace tries every few seconds: the more
//! of them wait, the more rarely each, so that together they ask no more often than they would without this.
//!
//! Must not: ask the server anything.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use compact_str::CompactString;
use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::{clock::instant, model::Uid, wire::ApiError};

/// Some Job of a namespace tries this often, so that room is used as soon.
const PERIOD: Duration = Duration::from_secs(4);

/// A Job that has not tried for so long waits no more: twice the longest wait after a refusal.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(120);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct QuotaWaits {
    /// When each Job was refused last.
    refused: Mutex<HashMap<CompactString, HashMap<Uid, Instant>>>,
    /// Whether there is any.
    any: AtomicBool,
}

impl QuotaWaits {
    /// How long a Job waits at most whose Pod was refused with this error; none if it was for another reason
    /// than a quota.
    pub(super) fn refused(
        &self,
        namespace: &CompactString,
        job: Uid,
        error: &ApiError,
    ) -> Option<Duration> {
        // Quota admission has no reason of its own for the Status.
        if error.code != 403 || !error.message.contains("exceeded quota: ") {
            return None;
        }
        let now = instant();
        let mut refused = self.refused.lock();
        let jobs = refused.entry(namespace.clone()).or_default();
        jobs.insert(job, now);
        jobs.retain(|_, at| now.saturating_duration_since(*at) < FORGOTTEN_AFTER);
        self.any.store(true, Ordering::Relaxed);
        let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        Some(PERIOD.saturating_mul(count))
    }

    /// A Job's Pod was created.
    pub(super) fn created(&self, namespace: &CompactString, job: Uid) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut refused = self.refused.lock();
        if let Some(jobs) = refused.get_mut(namespace) {
            jobs.remove(&job);
            if jobs.is_empty() {
                refused.remove(namespace);
            }
        }
        self.any.store(!refused.is_empty(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_wait_the_more_rarely_each_tries() {
        let waits = QuotaWaits::default();
        let refusal =
            br#"{"message":"pods \"j-1\" is forbidden: exceeded quota: q, requested: pods=1"}"#;
        let refusal = ApiError::from_response(403, refusal, None);
        let refused =
            |namespace: &str, job| waits.refused(&namespace.into(), Uid::from_u128(job), &refusal);
        assert_eq!(refused("a", 1), Some(PERIOD));
        assert_eq!(refused("a", 1), Some(PERIOD));
        assert_eq!(refused("a", 2), Some(PERIOD * 2));
        assert_eq!(refused("b", 3), Some(PERIOD));
        waits.created(&"a".into(), Uid::from_u128(1));
        assert_eq!(refused("a", 2), Some(PERIOD));
        waits.created(&"a".into(), Uid::from_u128(2));
        waits.created(&"b".into(), Uid::from_u128(3));
        assert!(waits.refused.lock().is_empty() && !waits.any.load(Ordering::Relaxed));
        let other = ApiError::from_response(403, br#"{"message":"no"}"#, None);
        assert_eq!(waits.refused(&"a".into(), Uid::from_u128(1), &other), None);
    }
}
