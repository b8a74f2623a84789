//! Finds an API server that cannot write to its store: then no Job goes on, and no Event can say so.

use crate::cli::{
    objects::{STUCK_CAUSE, STUCK_REMEDY},
    one_job::JobSight,
};

use super::{super::reason::Reason, refused::whole};

/// The API server answers reads and takes no writes.
pub(super) fn judge(sight: &JobSight) -> Option<Reason> {
    let lease = sight.stuck_server.as_ref()?;
    Some(Reason::new(
        "store-stuck",
        whole(&format!("{}: {STUCK_CAUSE}", lease.stuck())),
        whole(STUCK_REMEDY),
    ))
}
