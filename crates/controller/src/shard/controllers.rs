//! Selects the controllers that run.

/// The controllers of this process that are enabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// Runs Jobs.
    pub job: bool,
    /// Runs CronJobs.
    pub cronjob: bool,
    /// Deletes finished Jobs when their `ttlSecondsAfterFinished` is over.
    pub ttl: bool,
}

impl Default for Controllers {
    fn default() -> Self {
        Self {
            job: true,
            cronjob: true,
            ttl: true,
        }
    }
}
