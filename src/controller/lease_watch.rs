//! A standby's watch on the Lease: it hears at once that the Lease was given back, and does not have to wait until it
//! looks the next time. client-go has no such watch.
//!
//! It is a help and no more: a standby looks as often as ever, so a watch that is refused, late or silent costs
//! nothing but the wait.
//!
//! Must not: decide who leads.

use crate::{
    informer::{RETRY, WATCH_SECONDS},
    machine::{CallId, Input},
    model::Monotonic,
    wire::{Call, Object, Splitter, TooLong, WatchEvent, decode_lease, decode_watch_line, paths},
};

/// See the module's text.
#[derive(Debug)]
pub(super) struct LeaseWatch {
    path: String,
    open: Option<Open>,
    /// How many have ended in a row without a word.
    failures: u32,
    not_before: Monotonic,
}

/// A watch that was asked for.
#[derive(Debug)]
struct Open {
    id: CallId,
    events: Option<Splitter>,
}

impl LeaseWatch {
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        Self {
            // From what the Lease is now.
            path: format!(
                "{}?watch=true&fieldSelector=metadata.name%3D{name}&timeoutSeconds={WATCH_SECONDS}",
                paths::leases(namespace)
            ),
            open: None,
            failures: 0,
            not_before: Monotonic::default(),
        }
    }

    /// Gives the call that opens it, if it is not open.
    pub(super) fn poll_call(&mut self, id: CallId, now: Monotonic) -> Option<Call> {
        if self.open.is_some() || self.not_before > now {
            return None;
        }
        self.open = Some(Open { id, events: None });
        Some(Call::get(self.path.clone()))
    }

    /// When it has a call to make, if only time must pass.
    pub(super) fn due_at(&self) -> Option<Monotonic> {
        self.open.is_none().then_some(self.not_before)
    }

    /// Whether what comes is for it.
    pub(super) fn waits_for(&self, id: CallId) -> bool {
        self.open.as_ref().is_some_and(|open| open.id == id)
    }

    /// Takes in what the watch brings; gives whether the Lease is nobody's.
    pub(super) fn handle(&mut self, input: Input, now: Monotonic) -> bool {
        match input {
            Input::Opened(_, encoding) => {
                if let Some(open) = &mut self.open {
                    open.events = Some(Splitter::new(encoding));
                }
                false
            }
            Input::Piece(_, piece) => self.piece(&piece),
            Input::Answer(..) | Input::Ended(..) => {
                self.open = None;
                self.failures += 1;
                self.not_before = now + RETRY.delay(self.failures);
                false
            }
        }
    }

    fn piece(&mut self, piece: &[u8]) -> bool {
        let events = self.open.as_mut().and_then(|open| open.events.as_mut());
        let Some(events) = events else {
            return false;
        };
        let mut is_free = false;
        // Of more than one the last counts.
        let taken_in = events.push(piece, |event| {
            is_free = is_of_nobody(event).unwrap_or(is_free);
            Ok::<_, TooLong>(())
        });
        if taken_in.is_ok() {
            self.failures = 0;
        }
        is_free
    }

    /// Gives up the watch: nobody waits for the Lease any more.
    pub(super) fn close(&mut self) -> Option<CallId> {
        self.open.take().map(|open| open.id)
    }
}

/// Whether an event says that nobody holds the Lease; none if it says nothing of that.
fn is_of_nobody(event: &[u8]) -> Option<bool> {
    match decode_watch_line(event).ok()? {
        WatchEvent::Applied(Object::Json(lease)) => {
            let lease = decode_lease(lease.as_bytes()).ok()?;
            Some(lease.record.holder.is_empty())
        }
        WatchEvent::Deleted(_) => Some(true),
        WatchEvent::Applied(Object::Protobuf(_))
        | WatchEvent::Bookmark(_)
        | WatchEvent::Error(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::{ApiError, Encoding};

    fn open() -> LeaseWatch {
        let mut watch = LeaseWatch::new("kube-system", "lakh-replace");
        let call = watch.poll_call(7, Monotonic::default());
        let path = call.map(|call| call.path).unwrap_or_default();
        assert!(
            path.contains("fieldSelector=metadata.name%3Dlakh-replace"),
            "{path}"
        );
        watch.handle(Input::Opened(7, Encoding::Json), Monotonic::default());
        watch
    }

    fn event(kind: &str, holder: &str) -> Input {
        let line = format!(
            r#"{{"type":"{kind}","object":{{"metadata":{{"resourceVersion":"5"}},"spec":{{"holderIdentity":"{holder}"}}}}}}"#
        );
        Input::Piece(7, Bytes::from(format!("{line}\n")))
    }

    #[test]
    fn it_hears_when_the_lease_is_given_back_or_gone() {
        let mut watch = open();
        let now = Monotonic::default();
        assert!(!watch.handle(event("ADDED", "one"), now));
        assert!(!watch.handle(event("MODIFIED", "one"), now));
        assert!(watch.handle(event("MODIFIED", ""), now));
        assert!(watch.handle(event("DELETED", "one"), now));
    }

    #[test]
    fn one_that_is_refused_is_tried_again_less_and_less_often() {
        let (mut watch, mut now) = (open(), Monotonic::default());
        let mut waits = Vec::new();
        for _ in 0..12 {
            let refused = ApiError::from_response(403, b"{}", None);
            watch.handle(Input::Ended(7, Some(refused)), now);
            let due = watch.due_at().expect("it is closed");
            waits.push(due.since(now));
            assert!(watch.poll_call(7, now).is_none());
            now = due;
            assert!(watch.poll_call(7, now).is_some() && watch.due_at().is_none());
        }
        assert!(
            waits.is_sorted() && waits.last() == Some(&RETRY.max),
            "{waits:?}"
        );
    }
}
