//! Logs finished Jobs and refused writes at the default level, rate limited. A huge Job or an outage does not flood the
//! log: suppressed lines are counted in the next one. Each write is logged at debug level.
//!
//! Must not: be where anything is decided.

use std::time::Duration;

use hashbrown::HashMap;

use lakh_model::{JobId, Monotonic};
use lakh_wire::{ApiError, ErrorKind};

/// Lines about finished Jobs per second: as many as a person can follow, and enough for every Job of most clusters.
const ENDED: u32 = 10;

/// The interval between lines about the same kind of refused write: an outage is six lines a minute.
const REFUSED_EVERY: Duration = Duration::from_secs(10);

/// Rate limits of a shard's log lines.
#[derive(Debug, Default)]
pub(super) struct Journal {
    ended: LineLimit,
    /// By verb, resource and code.
    refused: HashMap<(&'static str, &'static str, u16), LineLimit>,
}

/// The rate limit of one kind of line.
#[derive(Debug, Default)]
struct LineLimit {
    /// Start of the period, and the lines since then.
    began: Option<Monotonic>,
    told: u32,
    left_out: u64,
}

impl LineLimit {
    /// Returns the number of suppressed lines if one more is allowed, with at most `most` in a period.
    fn admit(&mut self, most: u32, period: Duration, now: Monotonic) -> Option<u64> {
        if self.began.is_none_or(|began| now.since(began) >= period) {
            self.began = Some(now);
            self.told = 0;
        }
        if self.told == most {
            self.left_out += 1;
            return None;
        }
        self.told += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

impl Journal {
    /// Logs the end of a Job after its status was written.
    pub(super) fn ended(&mut self, job: &JobId, result: &str, reason: &str, now: Monotonic) {
        let admitted = self.ended.admit(ENDED, Duration::from_secs(1), now);
        if let Some(left_out) = admitted {
            let (job, uid) = (&job.key, job.uid);
            tracing::info!(controller = "job", %job, %uid, result, reason, left_out, "Job finished");
        }
    }

    /// Logs a write that was refused or got no response.
    pub(super) fn refused(
        &mut self,
        (verb, resource): (&'static str, &'static str),
        namespace: &str,
        error: &ApiError,
        now: Monotonic,
    ) {
        let is_usual = matches!(
            error.kind,
            ErrorKind::NotFound
                | ErrorKind::AlreadyExists
                | ErrorKind::Conflict
                | ErrorKind::NamespaceTerminating
                | ErrorKind::GivenUp
        );
        if is_usual || verb == "get" {
            return;
        }
        let code = error.code;
        let lines = self.refused.entry((verb, resource, code)).or_default();
        if let Some(left_out) = lines.admit(1, REFUSED_EVERY, now) {
            tracing::warn!(verb, resource, namespace, code, left_out, %error, "write failed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_lines_in_a_period_and_the_next_counts_the_others() {
        let mut lines = LineLimit::default();
        let at = Monotonic::from_millis;
        let mut admit = |millis| lines.admit(2, Duration::from_secs(1), at(millis));
        assert_eq!(
            [0, 1, 2, 999].map(&mut admit),
            [Some(0), Some(0), None, None]
        );
        assert_eq!(
            [1_000, 1_001, 1_002].map(&mut admit),
            [Some(2), Some(0), None]
        );
        assert_eq!(admit(9_000), Some(1));
    }
}
