//! The server's clock beside ours, by the time that an answer has.
//!
//! Must not: read a clock.

use std::time::Duration;

use crate::model::Time;

use super::asker::Reply;

/// The server's clock beside ours.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct ClockFacts {
    /// How far it is ahead of ours, in milliseconds; behind, below zero.
    pub(in crate::cli) ahead: i64,
    /// By so much that may be wrong: the answer's time has whole seconds, and it was under way.
    pub(in crate::cli) precision: i64,
}

/// The server's clock by the `Date` of an answer, which has whole seconds, the rest cut off.
pub(in crate::cli) fn clock(reply: &Reply) -> Option<ClockFacts> {
    let date = reply.headers.get(http::header::DATE)?.to_str().ok()?;
    let date = httpdate::parse_http_date(date).ok()?;
    let date = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(beside(date, reply.came, reply.took))
}

fn beside(date: Duration, came: Time, took: Duration) -> ClockFacts {
    /// Half a second: the part that is cut off is in between.
    const CUT: i64 = 500;
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let theirs = millis(date).saturating_add(CUT);
    let half_way = millis(took) / 2;
    let ours = came.as_millis().saturating_sub(half_way);
    ClockFacts {
        ahead: theirs.saturating_sub(ours),
        precision: CUT + half_way,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_clock_is_told_as_exactly_as_it_can_be() {
        let facts = beside(
            Duration::from_secs(1_000),
            Time::from_millis(1_000_700),
            Duration::from_millis(400),
        );
        // It showed something from 1000.0 to 1001.0 when ours showed something from 1000.3 to 1000.7.
        assert_eq!((facts.ahead, facts.precision), (0, 700));
    }
}
