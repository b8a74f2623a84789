//! Compares the server's clock with ours, by the `Date` header of an answer.
//!
//! Must not: read a clock.

use std::time::Duration;

use lakh_model::Time;

use super::asker::Reply;

/// Offset of the server's clock from ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockFacts {
    /// Milliseconds by which it is ahead of ours; negative if behind.
    pub(crate) ahead: i64,
    /// Maximum error in milliseconds: the header has whole seconds, and the answer took time.
    pub(crate) precision: i64,
}

/// Returns the offset by an answer's `Date`, which is cut to whole seconds.
pub(crate) fn clock(reply: &Reply) -> Option<ClockFacts> {
    let date = reply.headers.get(http::header::DATE)?.to_str().ok()?;
    let date = httpdate::parse_http_date(date).ok()?;
    let date = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(beside(date, reply.came, reply.took))
}

fn beside(date: Duration, came: Time, took: Duration) -> ClockFacts {
    /// Half a second: the mean of the part that is cut off.
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
    fn the_servers_clock_is_estimated_as_precisely_as_possible() {
        let facts = beside(
            Duration::from_secs(1_000),
            Time::from_millis(1_000_700),
            Duration::from_millis(400),
        );
        // The server's time is in 1000.0 to 1001.0, and ours in 1000.3 to 1000.7.
        assert_eq!((facts.ahead, facts.precision), (0, 700));
    }
}
