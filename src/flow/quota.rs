//! Which Jobs a ResourceQuota keeps from making Pods, to say how soon they try again.
//!
//! Nobody tells when a quota has room again. So some Job of the namespace tries every few seconds: the more
//! of them wait, the more rarely each, so that together they ask no more often than they would without this.
//!
//! Must not: ask the server anything.

use std::time::Duration;

use compact_str::CompactString;
use hashbrown::HashMap;

use crate::{
    model::{Monotonic, Uid},
    wire::ApiError,
};

/// Some Job of a namespace tries this often, so that room is used as soon.
const PERIOD: Duration = Duration::from_secs(4);

/// A Job that has not tried for so long waits no more: twice the longest wait after a refusal.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(120);

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct QuotaWaits {
    /// When each Job was refused last.
    refused: HashMap<CompactString, HashMap<Uid, Monotonic>>,
}

impl QuotaWaits {
    /// How long a Job waits at most whose Pod was refused with this error; none if it was for another reason
    /// than a quota.
    pub(crate) fn refused(
        &mut self,
        namespace: &CompactString,
        job: Uid,
        error: &ApiError,
        now: Monotonic,
    ) -> Option<Duration> {
        // Quota admission has no reason of its own for the Status.
        if error.code != 403 || !error.message.contains("exceeded quota: ") {
            return None;
        }
        let jobs = self.refused.entry(namespace.clone()).or_default();
        jobs.insert(job, now);
        jobs.retain(|_, at| now.since(*at) < FORGOTTEN_AFTER);
        let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        Some(PERIOD.saturating_mul(count))
    }

    /// A Job's Pod was created.
    pub(crate) fn created(&mut self, namespace: &CompactString, job: Uid) {
        if self.refused.is_empty() {
            return;
        }
        if let Some(jobs) = self.refused.get_mut(namespace) {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.refused.remove(namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_wait_the_more_rarely_each_tries() {
        let mut waits = QuotaWaits::default();
        let refusal =
            br#"{"message":"pods \"j-1\" is forbidden: exceeded quota: q, requested: pods=1"}"#;
        let refusal = ApiError::from_response(403, refusal, None);
        let now = Monotonic::default();
        let refused = |waits: &mut QuotaWaits, namespace: &str, job| {
            waits.refused(&namespace.into(), Uid::from_u128(job), &refusal, now)
        };
        assert_eq!(refused(&mut waits, "a", 1), Some(PERIOD));
        assert_eq!(refused(&mut waits, "a", 1), Some(PERIOD));
        assert_eq!(refused(&mut waits, "a", 2), Some(PERIOD * 2));
        assert_eq!(refused(&mut waits, "b", 3), Some(PERIOD));
        waits.created(&"a".into(), Uid::from_u128(1));
        assert_eq!(refused(&mut waits, "a", 2), Some(PERIOD));
        waits.created(&"a".into(), Uid::from_u128(2));
        waits.created(&"b".into(), Uid::from_u128(3));
        assert!(waits.refused.is_empty());
        let other = ApiError::from_response(403, br#"{"message":"no"}"#, None);
        assert_eq!(
            waits.refused(&"a".into(), Uid::from_u128(1), &other, now),
            None
        );
    }
}
