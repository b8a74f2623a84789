//! Which history of the cluster's objects is known. It becomes another one when the server's data are those
//! of a backup: then versions mean something else, and nothing that was known can be trusted.
//!
//! Whoever keeps a kind up to date then forgets what it knows and lists anew, Jobs before their Pods as at
//! the start. Until all have done so, no Job has its turn: it is as if another controller had started. Nor
//! has one while somebody doubts that the history is still the same. And while a connection broke and nobody has
//! compared yet what the server has with what it told, nothing is done that could not be made good.
//!
//! Must not: know what is forgotten, or how one finds out.

/// See the module's text.
#[derive(Debug)]
pub(super) struct History {
    number: u64,
    /// How many keep a kind up to date.
    members: usize,
    /// How many of them have yet to list it in this history.
    left: usize,
    /// How many doubt.
    doubts: usize,
    /// How many have lost the server and have not compared yet.
    lost: usize,
}

impl History {
    /// One that so many are to tell.
    pub(super) fn new(members: usize) -> Self {
        Self {
            number: 0,
            members,
            left: members,
            doubts: 0,
            lost: 0,
        }
    }

    /// Which one it is.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The server tells another history than this one. Whoever finds out first begins the next.
    pub(super) fn ends(&mut self, number: u64) {
        if self.number == number {
            self.number += 1;
            self.left = self.members;
            (self.doubts, self.lost) = (0, 0);
        }
    }

    /// A kind was listed in this history for the first time.
    pub(super) fn listed(&mut self, number: u64) {
        if self.number == number {
            self.left -= 1;
        }
    }

    /// Somebody was told what is older than what was told before.
    pub(super) fn doubted(&mut self, number: u64) {
        if self.number == number {
            self.doubts += 1;
        }
    }

    /// He doubts no more.
    pub(super) fn trusted(&mut self, number: u64) {
        if self.number == number {
            self.doubts -= 1;
        }
    }

    /// The connection to the server broke: it may have been set back meanwhile.
    pub(super) fn lost(&mut self, number: u64) {
        if self.number == number {
            self.lost += 1;
        }
    }

    /// It is heard again, and has what it had.
    pub(super) fn found(&mut self, number: u64) {
        if self.number == number {
            self.lost -= 1;
        }
    }

    /// Whether nobody has lost the server.
    pub(super) fn is_heard(&self) -> bool {
        self.lost == 0
    }

    /// Whether all kinds are known in this history, and nobody doubts it.
    pub(super) fn is_whole(&self) -> bool {
        self.left == 0 && self.doubts == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_whole_when_all_have_listed_and_ends_once() {
        let mut history = History::new(2);
        assert!(!history.is_whole());
        history.listed(0);
        assert!(!history.is_whole());
        history.listed(0);
        assert!(history.is_whole());
        history.doubted(0);
        assert!(!history.is_whole());
        history.trusted(0);
        assert!(history.is_whole());
        history.lost(0);
        assert!(!history.is_heard() && history.is_whole());
        history.doubted(0);
        // Both find out.
        history.ends(0);
        history.ends(0);
        assert_eq!((history.number(), history.is_whole()), (1, false));
        assert!(history.is_heard());
        // One that had begun to list before.
        history.listed(0);
        history.trusted(0);
        history.listed(1);
        assert!(!history.is_whole());
        history.listed(1);
        assert!(history.is_whole());
    }
}
