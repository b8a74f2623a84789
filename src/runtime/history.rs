//! Which history of the cluster's objects is known. It becomes another one when the server's data are those
//! of a backup: then versions mean something else, and nothing that was known can be trusted.
//!
//! Whoever keeps a kind up to date then forgets what it knows and lists anew, Jobs before their Pods as at
//! the start. Until all have done so, no Job has its turn: it is as if another controller had started. Nor
//! has one while somebody doubts that the history is still the same.
//!
//! Must not: know what is forgotten, or how one finds out.

use tokio::sync::watch;

/// See the module's text.
#[derive(Debug)]
pub(super) struct History(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    number: u64,
    /// How many keep a kind up to date.
    members: usize,
    /// How many of them have yet to list it in this history.
    left: usize,
    /// How many doubt.
    doubts: usize,
}

impl State {
    fn has_turns(&self) -> bool {
        self.left == 0 && self.doubts == 0
    }
}

impl Default for History {
    fn default() -> Self {
        Self(watch::Sender::new(State::default()))
    }
}

impl History {
    /// Somebody keeps a kind up to date from now on. To be called before anything is listed.
    pub(super) fn join(&self) {
        self.0.send_modify(|state| {
            state.members += 1;
            state.left += 1;
        });
    }

    /// Which one it is.
    pub(super) fn number(&self) -> u64 {
        self.0.borrow().number
    }

    /// The server tells another history than this one. Whoever finds out first begins the next.
    pub(super) fn ends(&self, number: u64) {
        self.0.send_if_modified(|state| {
            let is_news = state.number == number;
            if is_news {
                state.number += 1;
                state.left = state.members;
                state.doubts = 0;
            }
            is_news
        });
    }

    /// A kind was listed in this history for the first time; whether Jobs have turns from now on.
    pub(super) fn listed(&self, number: u64) -> bool {
        self.in_history(number, |state| state.left -= 1)
    }

    /// Somebody was told what is older than what was told before.
    pub(super) fn doubted(&self, number: u64) {
        self.in_history(number, |state| state.doubts += 1);
    }

    /// He doubts no more; whether Jobs have turns from now on.
    pub(super) fn trusted(&self, number: u64) -> bool {
        self.in_history(number, |state| state.doubts -= 1)
    }

    fn in_history(&self, number: u64, change: impl FnOnce(&mut State)) -> bool {
        let mut has_turns = false;
        self.0.send_if_modified(|state| {
            let is_this = state.number == number;
            if is_this {
                change(state);
                has_turns = state.has_turns();
            }
            is_this
        });
        has_turns
    }

    /// Whether Jobs have their turns: all kinds are known in this history, and nobody doubts it.
    pub(super) fn has_turns(&self) -> bool {
        self.0.borrow().has_turns()
    }

    /// Waits until this history has ended.
    pub(super) async fn ended(&self, number: u64) {
        let mut state = self.0.subscribe();
        // It cannot fail: the sender is here.
        let _ = state.wait_for(|state| state.number != number).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_whole_when_all_have_listed_and_ends_once() {
        let history = History::default();
        history.join();
        history.join();
        assert!(!history.has_turns());
        assert_eq!([history.listed(0), history.listed(0)], [false, true]);
        assert!(history.has_turns());
        history.doubted(0);
        assert!(!history.has_turns() && history.trusted(0));
        history.doubted(0);
        // Both find out.
        history.ends(0);
        history.ends(0);
        assert_eq!((history.number(), history.has_turns()), (1, false));
        // One that had begun to list before.
        assert!(!history.listed(0) && !history.trusted(0));
        assert!(!history.listed(1) && history.listed(1));
    }
}
