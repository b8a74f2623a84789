//! Detects an API server that cannot write to its store. Then no Job makes progress, and no Event can report it.

use crate::{
    objects::{STUCK_CAUSE, STUCK_REMEDY},
    one_job::JobSight,
};

use super::{super::reason::Reason, refused::whole};

/// Reports an API server that answers reads and accepts no writes.
pub(super) fn judge(sight: &JobSight) -> Option<Reason> {
    let lease = sight.stuck_server.as_ref()?;
    Some(Reason::new(
        "store-stuck",
        whole(&format!("{}: {STUCK_CAUSE}", lease.stuck())),
        whole(STUCK_REMEDY),
    ))
}
