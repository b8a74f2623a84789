//! Limits how many creations may be in flight at once (slow start).
//!
//! Source: docs/rules/jobs.md, 4.7. Rounds of 1, 2, 4, 8 ... as long as a whole round is accepted; a refusal starts
//! again at 1. Upstream starts at 1 in each sync. Here a Job that has reached the full width keeps it until a refusal,
//! and creations then follow each other without rounds.

/// The width of the current round. `room` returns how many more creations may be sent; each is reported by `sent`, each
/// refusal by `refused`.
#[doc(alias = "slowStartBatch")]
#[derive(Clone, Debug)]
pub(super) struct SlowStart {
    width: u32,
    width_max: u32,
    sent_in_round: u32,
}

impl SlowStart {
    pub(super) fn new(width_max: u32) -> Self {
        Self {
            width: 1,
            width_max: width_max.max(1),
            sent_in_round: 0,
        }
    }

    /// Returns how many more creations may be sent while `in_flight` are in flight.
    pub(super) fn room(&mut self, in_flight: u32) -> u32 {
        if self.width >= self.width_max {
            return self.width_max.saturating_sub(in_flight);
        }
        if in_flight == 0 {
            if self.sent_in_round == self.width {
                self.width = self.width.saturating_mul(2).min(self.width_max);
            }
            self.sent_in_round = 0;
        }
        self.width - self.sent_in_round
    }

    pub(super) fn sent(&mut self, count: u32) {
        self.sent_in_round = (self.sent_in_round + count).min(self.width);
    }

    pub(super) fn refused(&mut self) {
        self.width = 1;
        self.sent_in_round = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_double_then_slide() {
        let mut start = SlowStart::new(8);
        for round in [1, 2, 4] {
            assert_eq!(start.room(0), round);
            start.sent(round);
            assert_eq!(start.room(1), 0, "the round is not over");
        }
        assert_eq!(start.room(0), 8);
        assert_eq!(start.room(5), 3, "no rounds any more");
        start.refused();
        assert_eq!(start.room(0), 1);
    }
}
