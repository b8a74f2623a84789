//! Describes the schedules of CronJobs in words.

use serde_json::Value;

use crate::{
    clock::Clock,
    cron::{Schedule, Zone, explain},
};

/// Describes when a CronJob with this spec runs, and its next run; none if its schedule is invalid.
pub(super) fn in_words(spec: &Value) -> Option<String> {
    let zone = spec["timeZone"].as_str().map(Zone::load).transpose().ok()?;
    let schedule = Schedule::of_cron_job(spec["schedule"].as_str()?, zone.as_ref()).ok()?;
    let next = match schedule.next(Clock::default().now().wall) {
        _ if spec["suspend"] == true => "it is suspended".to_owned(),
        Some(time) => format!("next at {}", schedule.zone().to_rfc3339(time)),
        None => "never in the next five years".to_owned(),
    };
    Some(format!("{}; {next}", explain(&schedule)))
}
