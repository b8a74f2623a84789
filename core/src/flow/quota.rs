//! Which Jobs a ResourceQuota keeps from making Pods, to say how soon they try again.
//!
//! Nobody tells when a quota has room again. So some Job of the namespace tries every few seconds: the more
//! of them wait, the more rarely each, so that together they ask no more often than they would without this.
//!
//! Must not: ask the server anything.

use std::{collections::VecDeque, time::Duration};

use compact_str::CompactString;
use hashbrown::HashMap;

use crate::model::{Exponential, Monotonic, Uid};

/// Some Job of a namespace tries this often, so that room is used as soon. Fifteen Jobs that wait then ask as
/// often as fifteen that are refused again and again (once a minute each), so few are helped and many do no
/// harm; docs/flow.md.
const PERIOD: Duration = Duration::from_secs(4);

/// See the module's text.
#[derive(Debug)]
pub struct QuotaWaits {
    /// A Job that has not tried for so long waits no more.
    forgotten_after: Duration,
    /// When each Job was refused last.
    refused: HashMap<CompactString, HashMap<Uid, Monotonic>>,
    /// All refusals of late, the oldest first.
    order: VecDeque<(Monotonic, CompactString, Uid)>,
}

impl QuotaWaits {
    /// Nobody waits. This is the backoff of a Job whose Pods are refused.
    pub fn new(retry: Exponential) -> Self {
        Self {
            forgotten_after: retry.max * 2,
            refused: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// How long a Job waits at most whose Pod was refused by a quota.
    pub fn refused(&mut self, namespace: &CompactString, job: Uid, now: Monotonic) -> Duration {
        self.forget_old(now);
        let jobs = self.refused.entry(namespace.clone()).or_default();
        jobs.insert(job, now);
        self.order.push_back((now, namespace.clone(), job));
        let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        PERIOD.saturating_mul(count)
    }

    /// Forgets Jobs that have not tried for long, of all namespaces.
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

    /// A Job's Pod was created.
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
