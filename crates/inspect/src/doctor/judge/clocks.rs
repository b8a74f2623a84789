//! Checks that the clocks of the API server, of this machine and of leaders agree. Deadlines, TTLs, schedules and
//! backoffs depend on wall time.

use std::time::Duration;

use lakh_model::Time;

use crate::doctor::{
    facts::{Facts, LeaseFacts, Unseen},
    patient::Patient,
    report::{Diagnosis, Level},
};

use crate::words::span;

/// Clocks with time synchronization differ by less than this, in milliseconds.
const TOLERABLE: i64 = 5_000;

const REMEDY: &str =
    "set the clock by a time server (chrony, systemd-timesyncd), and look whether it is reached";

pub(super) fn judge(_: &Patient, facts: &Facts) -> Diagnosis {
    let mut diagnosis = Diagnosis::new("clocks");
    match facts.server.clock {
        None => diagnosis.unseen.push(Unseen {
            what: "the server's clock".to_owned(),
            why: "its answers have no Date".to_owned(),
        }),
        Some(clock) => {
            let is_off = clock.ahead.abs() > TOLERABLE + clock.precision;
            let side = if clock.ahead < 0 {
                "behind"
            } else {
                "ahead of"
            };
            let differ = span(millis(clock.ahead));
            diagnosis.summary = match is_off {
                true => format!("the server's clock is {differ} {side} this machine's"),
                false => "the server's clock and this machine's agree".to_owned(),
            };
            if is_off {
                diagnosis.find(
                    Level::Warning,
                    format!("the API server's clock is {differ} {side} this machine's"),
                    "one of the two is wrong. A controller on a machine with a wrong clock ends deadlines, TTLs and \
                     backoffs early or late, and starts CronJobs at the wrong time",
                    REMEDY,
                );
            }
        }
    }
    for lease in &facts.leases.found {
        if let Some((off, side)) = off(lease) {
            diagnosis.find(
                Level::Warning,
                format!(
                    "the clock of {} is {} {side} the API server's",
                    lease.holder,
                    span(off)
                ),
                format!("it renews Lease {} with such times", lease.key()),
                REMEDY,
            );
        }
    }
    diagnosis
}

/// Returns the error of a leader's clock, as far as its Lease shows it.
fn off(lease: &LeaseFacts) -> Option<(Duration, &'static str)> {
    let renewed = lease.renewed.map_or(0, Time::as_millis);
    let ahead = renewed - lease.seen.as_millis();
    if lease.holder.is_empty() {
        None
    } else if ahead > TOLERABLE {
        Some((millis(ahead), "ahead of"))
    } else if lease.is_moving && lease.is_over() {
        // It was renewed a moment ago, with a time that has expired.
        Some((millis(ahead), "behind"))
    } else {
        None
    }
}

fn millis(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}
