//! Reads the open Job as `lakh status` and `lakh why` do, and its running indexes.
//!
//! Must not: keep a Pod, or judge.

use std::time::Duration;

use lakh_client::Result;
use lakh_clock::instant;
use lakh_model::{IndexSet, JobKey};

use crate::{
    ask::{Asker, Unseen},
    one_job::{Depth, JobSight, lists_running, look, running_indexes},
};

/// Result of a read.
#[derive(Debug)]
pub(super) struct PageLook {
    pub(super) sight: JobSight,
    pub(super) depth: Depth,
    /// Indexes with a running Pod.
    pub(super) running: IndexSet,
    /// Milliseconds by which the server's clock is ahead of ours.
    pub(super) ahead: i64,
}

/// Reads the Job; returns the result and the duration.
pub(super) async fn look_at(
    asker: &Asker,
    key: &JobKey,
    depth: Depth,
) -> (Result<PageLook>, Duration) {
    let begun = instant();
    let seen = see(asker, key, depth).await;
    (seen, begun.elapsed())
}

async fn see(asker: &Asker, key: &JobKey, depth: Depth) -> Result<PageLook> {
    let mut sight = look(asker, key, depth).await?;
    let ahead = sight.now.as_millis() - asker.now().as_millis();
    let job = &sight.job;
    let has_running = job.job.spec.is_indexed() && job.status().active > 0;
    let mut running = sight.pods.live_indexes.clone();
    running.subtract(&sight.pods.pending_indexes);
    // If no Pods can be read, that was reported.
    if has_running && !lists_running(job) && sight.pods_unseen.is_empty() {
        match running_indexes(asker, job).await {
            Ok(indexes) => running.extend(&indexes),
            Err(error) => {
                let what = format!("running Pods of namespace {}", key.namespace);
                sight.pods_unseen.push(Unseen::new(&what, &error));
            }
        }
    }
    Ok(PageLook {
        sight,
        depth,
        running,
        ahead,
    })
}
