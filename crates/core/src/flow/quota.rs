//! Tracks which Jobs exceed their ResourceQuota and schedules their next attempt.
//!
//! No event announces that a quota has room again, so some Job of the namespace retries every few seconds. The more
//! Jobs wait, the more rarely each retries: together they send at most as many requests as without this.
//!
//! Must not: send requests.

use std::{collections::VecDeque, time::Duration};

use compact_str::CompactString;
use hashbrown::HashMap;

use crate::model::{Exponential, Monotonic, Uid};

/// The interval at which some Job of a namespace retries, so that free quota is used this soon. Fifteen waiting Jobs
/// then retry as often as fifteen under the ordinary backoff (once a minute each). So few Jobs gain, and many do no
/// harm; docs/flow.md.
const PERIOD: Duration = Duration::from_secs(4);

/// The recent refusals of Pods by quotas, by namespace and Job.
#[derive(Debug)]
pub struct QuotaWaits {
    /// A Job that has not retried for this long does not wait any more.
    forgotten_after: Duration,
    /// The last refusal of each Job.
    refused: HashMap<CompactString, HashMap<Uid, Monotonic>>,
    /// All recent refusals, the oldest first.
    order: VecDeque<(Monotonic, CompactString, Uid)>,
}

impl QuotaWaits {
    /// Creates an empty set. `retry` is the backoff of a Job after a refused Pod.
    pub fn new(retry: Exponential) -> Self {
        Self {
            forgotten_after: retry.max * 2,
            refused: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Records a Pod refused by a quota. Returns the maximum wait of its Job.
    pub fn refused(&mut self, namespace: &CompactString, job: Uid, now: Monotonic) -> Duration {
        self.forget_old(now);
        let jobs = self.refused.entry(namespace.clone()).or_default();
        jobs.insert(job, now);
        self.order.push_back((now, namespace.clone(), job));
        let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        PERIOD.saturating_mul(count)
    }

    /// Forgets Jobs of all namespaces that have not retried for long.
    fn forget_old(&mut self, now: Monotonic) {
        while let Some((at, ..)) = self.order.front()
            && now.since(*at) >= self.forgotten_after
            && let Some((at, namespace, job)) = self.order.pop_front()
        {
            let of_namespace = self.refused.get(&namespace);
            if of_namespace.and_then(|jobs| jobs.get(&job)) == Some(&at) {
                self.created(&namespace, job);
            }
        }
    }

    /// Records that a Job's Pod was created.
    pub fn created(&mut self, namespace: &CompactString, job: Uid) {
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
        let mut waits = QuotaWaits::new(Exponential {
            base: Duration::from_secs(1),
            max: Duration::from_secs(60),
        });
        let refused = |waits: &mut QuotaWaits, namespace: &str, job, secs| {
            let now = Monotonic::from_secs(secs);
            waits.refused(&namespace.into(), Uid::from_u128(job), now)
        };
        assert_eq!(refused(&mut waits, "a", 1, 0), PERIOD);
        assert_eq!(refused(&mut waits, "a", 1, 0), PERIOD);
        assert_eq!(refused(&mut waits, "a", 2, 0), PERIOD * 2);
        assert_eq!(refused(&mut waits, "b", 3, 0), PERIOD);
        waits.created(&"a".into(), Uid::from_u128(1));
        assert_eq!(refused(&mut waits, "a", 2, 0), PERIOD);
        assert_eq!(refused(&mut waits, "a", 4, 119), PERIOD * 2);
        assert_eq!(refused(&mut waits, "a", 4, 120), PERIOD, "one has given up");
        waits.created(&"a".into(), Uid::from_u128(4));
        waits.created(&"b".into(), Uid::from_u128(3));
        assert!(waits.refused.is_empty());
    }

    #[test]
    fn a_job_is_forgotten_by_its_last_refusal_and_not_by_its_first() {
        let mut waits = QuotaWaits::new(Exponential {
            base: Duration::from_secs(1),
            max: Duration::from_secs(60),
        });
        let mut refused = |job, secs| {
            let now = Monotonic::from_secs(secs);
            waits.refused(&"a".into(), Uid::from_u128(job), now)
        };
        assert_eq!(refused(1, 0), PERIOD);
        assert_eq!(refused(1, 60), PERIOD);
        assert_eq!(refused(2, 120), PERIOD * 2, "both wait");
        assert_eq!(refused(2, 180), PERIOD, "the first has given up");
    }

    #[test]
    fn namespaces_that_are_gone_are_forgotten() {
        let mut waits = QuotaWaits::new(Exponential {
            base: Duration::from_secs(1),
            max: Duration::from_secs(60),
        });
        for number in 0..1_000 {
            let now = Monotonic::from_secs(number);
            let namespace = format!("pull-request-{number}");
            waits.refused(&namespace.as_str().into(), Uid::from_u128(1), now);
        }
        assert_eq!((waits.refused.len(), waits.order.len()), (120, 120));
    }
}
