//! Decodes objects of each kind.
//!
//! Must not: know whether an object came from a list or a watch.

use std::fmt::Display;

use lakh_wire::{
    ApiError, Object, OddAnswer, PodDecoder, decode_cron_job, decode_job, decode_pod_group,
    decode_workload,
};

use super::{
    news::{Change, Kind, News, Observed},
    reflector::Tell,
};

/// Decodes an object of a kind.
pub(super) fn read<'a>(
    kind: Kind,
    pods: &PodDecoder,
    object: Object<'a>,
) -> Result<Observed<'a>, OddAnswer> {
    Ok(match kind {
        Kind::Pod => Observed::Pod(pods.decode(object)?),
        Kind::Job => Observed::Job(Box::new(decode_job(object.json()?)?)),
        Kind::CronJob => Observed::CronJob(Box::new(decode_cron_job(object.json()?)?)),
        Kind::Workload => Observed::Workload(Box::new(decode_workload(object.json()?)?)),
        Kind::PodGroup => Observed::PodGroup(Box::new(decode_pod_group(object.json()?)?)),
    })
}

/// Returns the error for an event that cannot be decoded.
pub(super) fn odd_event(error: impl Display) -> ApiError {
    ApiError::no_answer(format!("odd event: {error}"))
}

/// Passes an object to `tell`; returns its version.
pub(super) fn tell_of(change: Change, object: Observed<'_>, tell: Tell<'_>) -> u64 {
    let (_, _, version) = object.identity();
    tell(News { change, object });
    version
}
